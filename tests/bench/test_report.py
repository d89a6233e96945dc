from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

from result_rows import ONE, TWO, cancelled, failed, graded

from envhub.bench.plan import Plan, Target
from envhub.bench.plots import histogram
from envhub.bench.report import render
from envhub.core.types import StopReason

EVIL = "<script>alert('x')</script>\"&<img src=x onerror=alert(1)>"
PLAN = Plan((Target("db", "test", tuple(range(10))),), {"a": {}, EVIL: {}})


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(page: str) -> _Tags:
    tags = _Tags()
    tags.feed(page)
    tags.close()
    assert tags.open == []
    return tags


def test_hostile_text_is_only_ever_text() -> None:
    rows = [
        graded(0, 1.0, agent=EVIL, session_id=EVIL),
        failed(1, agent=EVIL, code=EVIL, message=EVIL),
        graded(2, 0.0, environment=EVIL, split=EVIL, identity=TWO.digest),
    ]
    page = render(EVIL, PLAN, rows, {ONE.digest: ONE})
    tags = parsed(page)
    assert not {"script", "img", "iframe", "link", "object"} & set(tags.tags)
    assert not [name for name in tags.attributes if name.startswith("on") or name in ("src", "href")]
    assert "&lt;script&gt;" in page


def test_the_page_asks_for_nothing() -> None:
    page = render("run", replace(PLAN, agents={"a": {}}), [graded(i, 1.0) for i in range(3)], {ONE.digest: ONE})
    assert not re.search(r"https?://|url\(|@import| src=| href=", page)
    assert "prefers-color-scheme:dark" in page


def test_b052_the_page_shows_all_counts_and_the_errors() -> None:
    rows = [graded(i, 1.0) for i in range(4)] + [graded(i, 0.0, stop_reason=StopReason.TURN_LIMIT) for i in range(4, 7)]
    rows += [failed(7, message="sandbox broke"), failed(8), cancelled(9)]
    page = render("run", PLAN, rows, {ONE.digest: ONE})
    parsed(page)
    assert "<td>10</td><td>7</td><td>4</td><td>40.0%</td><td>57.1%\n" in page
    assert "sandbox broke" in page
    assert "cancelled\u00a01" in page
    assert "turn_limit" in page


def test_a_run_without_a_graded_episode_reads_not_available() -> None:
    page = render("run", PLAN, [failed(0)], {})
    parsed(page)
    assert "n/a" in page
    assert "0.0%" not in page


def test_mixed_identities_are_pointed_out() -> None:
    rows = [graded(0, 1.0), graded(1, 1.0, identity=TWO.digest)]
    page = render("run", PLAN, rows, {each.digest: each for each in (ONE, TWO)})
    assert "are not comparable" in page
    assert page.count("<figcaption>") == 2


def test_histogram_bins_wide_ranges() -> None:
    assert histogram("t", [1, 1, 2]).count("<rect") == 2
    assert histogram("t", list(range(200))).count("<rect") <= 24
