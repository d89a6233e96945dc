"""The report in a real browser: it stands alone, runs nothing an agent wrote, and shows its numbers in both colour schemes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from result_rows import ONE, failed, graded

from envhub.bench.plan import Plan, Target
from envhub.bench.report import render
from tests.require import lacking

pytestmark = pytest.mark.browser

EVIL = "<script>document.title='owned'</script><img src=http://127.0.0.1:9/x onerror=document.title='owned'>"
QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--window-size=1000,1400",
]


@pytest.fixture(scope="module")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        lacking("browser", "no Chromium is installed")
    return found


def run(chromium: str, folder: Path, *arguments: str) -> str:
    command = [chromium, *QUIET, f"--user-data-dir={folder / 'profile'}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=True).stdout


@pytest.fixture
def page(tmp_path: Path) -> Path:
    plan = Plan((Target("db", "test", tuple(range(4))),), {"a": {}, EVIL: {}})
    rows = [graded(0, 1.0), graded(1, 0.0), graded(2, 1.0), failed(3, message=EVIL)]
    path = tmp_path / "report.html"
    path.write_text(render(f"run {EVIL}", plan, rows, {ONE.digest: ONE}), "utf-8")
    return path


def test_the_report_shows_its_numbers_and_runs_nothing_that_an_agent_wrote(chromium: str, page: Path) -> None:
    shown = run(chromium, page.parent, "--dump-dom", page.as_uri())
    title = shown.partition("<title>")[2].partition("</title>")[0]
    assert title.startswith("run") and title != "owned", "text of an agent ran as a script"
    assert "<svg" in shown and "db" in shown
    assert "<script" not in shown.lower() and "<img" not in shown.lower()
    assert "http://" not in shown.replace("http://www.w3.org", "").replace("http://127.0.0.1:9", "")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_can_be_drawn_in_both_colour_schemes(chromium: str, page: Path, scheme: str) -> None:
    picture = page.parent / f"{scheme}.png"
    dark = ["--force-dark-mode", "--enable-features=WebContentsForceDark"] if scheme == "dark" else []
    run(chromium, page.parent, *dark, f"--screenshot={picture}", page.as_uri())
    assert picture.stat().st_size > 10_000, "the page is empty"
