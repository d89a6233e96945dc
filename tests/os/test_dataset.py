"""The shipped OS dataset: sizes, reproducibility, fairness, and tasks that real sandboxes show to be solvable and not for free."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from envhub.core.sandbox import Sandbox, SandboxDriver, SandboxSpec
from envhub.envs.os.env import set_up
from envhub.envs.os.judge import GradingLimits, grade
from envhub.envs.os.matching import matches
from envhub.envs.os.tasks import OSTask, load_split

pytestmark = pytest.mark.slow

DATASET = Path(__file__).resolve().parents[2] / "datasets" / "os"
SIZES = {"train": 1000, "dev": 100, "test": 200}
FAMILIES = {
    "accounts", "archives", "configuration", "data", "disk", "duplicates", "environment", "files", "git", "links", "logs", "network",
    "packages", "permissions", "processes", "schedules", "scripts", "services", "text",
}  # fmt: skip
GUESSES = (
    "",
    "0",
    "1",
    "2",
    "3",
    "4",
    "5",
    "10",
    "42",
    "100",
    "yes",
    "no",
    "none",
    "None",
    "root",
    "true",
    "/",
    "unknown",
)
MIB = 1 << 20

Tasks = dict[str, list[OSTask]]


@pytest.fixture(scope="module")
def tasks() -> Tasks:
    return {split: list(load_split(DATASET, split)) for split in SIZES}


def _template(task: OSTask) -> str:
    return next(tag for tag in task.tags if tag.startswith("template:"))


def _generated(out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(DATASET / "generate" / "main.py"), "--out", str(out), *arguments],
        capture_output=True,
        text=True,
        timeout=110,
        env={**os.environ, "PYTHONHASHSEED": "1"},
        check=False,
    )


def test_splits_have_the_promised_sizes(tasks: Tasks) -> None:
    assert {split: len(found) for split, found in tasks.items()} == SIZES
    assert sum((DATASET / f"{split}.jsonl.gz").stat().st_size for split in SIZES) < 2.5 * MIB


def test_generator_reproduces_every_byte(tmp_path: Path) -> None:
    manifest = json.loads((DATASET / "manifest.json").read_text("utf-8"))
    run = _generated(tmp_path, "--seed", str(manifest["generator"]["seed"]))
    assert run.returncode == 0, run.stderr
    again = json.loads((tmp_path / "manifest.json").read_text("utf-8"))
    assert {s: again["splits"][s]["sha256"] for s in SIZES} == {s: manifest["splits"][s]["sha256"] for s in SIZES}


def test_another_seed_gives_other_tasks(tmp_path: Path, tasks: Tasks) -> None:
    run = _generated(tmp_path, "--seed", "7")
    assert run.returncode == 0, run.stderr
    other = {task.description for task in load_split(tmp_path, "dev")}
    assert not other & {task.description for task in tasks["dev"]}


def test_readme_shows_the_hashes_of_the_files() -> None:
    manifest = json.loads((DATASET / "manifest.json").read_text("utf-8"))
    readme = (DATASET.parent / "README.md").read_text("utf-8")
    assert [split for split in SIZES if manifest["splits"][split]["sha256"] not in readme] == []


def test_every_split_has_every_family_and_difficulty(tasks: Tasks) -> None:
    for found in tasks.values():
        families = Counter(task.family for task in found)
        assert set(families) == FAMILIES
        assert min(families.values()) >= 0.6 * len(found) / len(FAMILIES)
        assert {task.difficulty for task in found} == {"easy", "medium", "hard"}
        assert {"answer", "change"} <= {tag for task in found for tag in task.tags}


def test_no_task_comes_twice(tasks: Tasks) -> None:
    everything = [task for found in tasks.values() for task in found]
    assert len({task.id for task in everything}) == len(everything)
    assert len({task.description for task in everything}) == len(everything)
    assert len({(task.init, task.start) for task in everything}) == len(everything)


def test_test_split_has_templates_and_projects_of_its_own(tasks: Tasks) -> None:
    seen = {_template(task) for split in ("train", "dev") for task in tasks[split]}
    unseen = {_template(task) for task in tasks["test"]} - seen
    assert len(unseen) >= 10
    held_out = [task for task in tasks["test"] if "held_out" in task.tags]
    assert {_template(task) for task in held_out} == unseen
    assert len(held_out) == 40
    sources = Path(DATASET / "generate" / "words.py").read_text("utf-8")
    pools = [
        re.findall(r'"(\w+)"', part.partition("(\n")[2].partition("\n)")[0]) for part in sources.split("PROJECTS =")[1:]
    ]
    assert not set(pools[0]) & set(pools[1])
    train = " ".join(task.description for split in ("train", "dev") for task in tasks[split])
    assert [name for name in pools[1] if re.search(rf"/{name}\b", train)] == []


def test_solutions_fit_into_an_episode(tasks: Tasks) -> None:
    assert all(1 <= len(task.solution) <= 5 for found in tasks.values() for task in found)


def test_gold_of_an_answer_is_right_and_guesses_are_not(tasks: Tasks) -> None:
    for split, found in tasks.items():
        paid: Counter[str] = Counter()
        for task in found:
            if task.answer is None:
                continue
            gold = task.answer.golds[0]
            assert matches(task.answer.kind, gold, gold), task.id
            assert not matches(task.answer.kind, gold, task.description), task.id
            paid.update(guess for guess in GUESSES if matches(task.answer.kind, gold, guess))
        assert paid["0"] == paid["1"] == paid["2"] == paid["yes"] == paid[""] == 0
        assert max(paid.values(), default=0) < 0.02 * len(found), (split, paid)


def test_no_constant_answer_is_right_often(tasks: Tasks) -> None:
    for found in tasks.values():
        constant, times = Counter(task.final_answer for task in found if task.final_answer).most_common(1)[0]
        assert times < 0.02 * len(found), constant


def test_long_answers_do_not_stand_in_the_question(tasks: Tasks) -> None:
    told = [
        task.id
        for found in tasks.values()
        for task in found
        if task.answer is not None
        and task.answer.kind == "string"
        and f" {task.answer.golds[0]} " in f" {task.description} "
    ]
    assert told == []


def test_set_up_knows_no_clock_and_no_chance(tasks: Tasks) -> None:
    for found in tasks.values():
        for task in found:
            text = "\n".join([*(script.code for script in task.init), task.start or ""])
            assert not re.search(
                r"\bimport random\b|\$RANDOM|/dev/u?random|time\.time\(|\bdate\b \+|now\(\)|hash\(", text
            ), task.id


def test_descriptions_are_whole_sentences(tasks: Tasks) -> None:
    for found in tasks.values():
        for task in found:
            assert task.description[0].isupper() or task.description[0] in "'/", task.description
            assert task.description[-1] in ".?)'", task.description
            assert not re.search(
                r"\bNone\b|\{\}| [.,?;](?!\w)|\ba [aeio]\w|\.\.(?!\.)",
                task.description.replace(" (.1, .2.gz, ...)", ""),
            ), task.description


def test_checks_do_not_hold_what_they_want(tasks: Tasks) -> None:
    """A program that the judge runs can see the text of the check: wanted outputs stand there as digests."""
    for found in tasks.values():
        for task in found:
            if task.family == "scripts":
                assert re.search(r"CASES = \[\(.*'[0-9a-f]{16}'\)", task.checks[-1].script.code), task.id


def _sample(found: list[OSTask]) -> list[OSTask]:
    """The first task of each template."""
    first: dict[str, OSTask] = {}
    for task in found:
        first.setdefault(_template(task), task)
    return list(first.values())


async def _play(driver: SandboxDriver, task: OSTask, scripts: tuple[str, ...], answer: str | None) -> tuple[bool, str]:
    """Whether the play is paid, and what its last script printed."""
    sandbox: Sandbox = await driver.start(SandboxSpec(image=task.image))
    try:
        await set_up(task, sandbox, seed=0)
        output = ""
        for script in scripts:
            output = (await sandbox.run(script, timeout_s=30, max_bytes=64 << 10)).output
        return (await grade(task, answer, sandbox, mode="strict", limits=GradingLimits())).correct, output
    finally:
        await sandbox.close()


@pytest.mark.timeout(300)
async def test_solutions_earn_the_reward(tasks: Tasks, driver: SandboxDriver) -> None:
    for task in _sample(tasks["test"]):
        paid, output = await _play(driver, task, task.solution, task.final_answer)
        assert paid, (task.id, output)
        if task.answer is not None:
            assert matches(task.answer.kind, task.answer.golds[0], output), (task.id, output, task.answer.golds)


@pytest.mark.timeout(300)
async def test_nothing_and_ruin_earn_nothing(tasks: Tasks, driver: SandboxDriver) -> None:
    ruin = "rm -rf /srv /opt /data /var/lib/* /home /mnt /etc/cron.d /var/log /root/* 2> /dev/null; true"
    for task in _sample(tasks["test"]):
        if task.answer is None:
            for scripts in ((), (ruin,)):
                paid, _ = await _play(driver, task, scripts, None)
                assert not paid, (task.id, scripts)
