"""AgentBench's own OS items: order, script forms, what is refused, what strict grading makes of them. Covers B019."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from envhub.envs.os import lint, official_checks
from envhub.envs.os.official import decode_item, load_official
from envhub.envs.os.tasks import Answer, Check, Script
from tests.require import SHARED, published

FOLDER = SHARED / "data/agentbench/data/os_interaction"


@pytest.fixture(scope="module")
def loaded():
    return load_official(published("data/agentbench/data/os_interaction"))


def test_every_published_item_is_a_task(loaded):
    assert {split: len(tasks) for split, tasks in loaded.items()} == {
        "agentbench-std": 144,
        "agentbench-dev": 26,
        "agentbench-train": 1000,
    }
    kinds = {split: Counter(t.answer.kind if t.answer else "state" for t in tasks) for split, tasks in loaded.items()}
    assert kinds["agentbench-train"] == {"integer": 930, "string": 47, "size": 23}
    assert kinds["agentbench-std"] == {"integer": 113, "string": 18, "size": 1, "state": 12}


def test_order_is_that_of_sorted_paths(loaded):
    files = [task.id.rpartition(":")[0] for task in loaded["agentbench-std"]]
    assert files == sorted(files)
    assert list(Counter(name.split("/")[1] for name in files).values()) == [7, 5, 6, 19, 10, 9, 88]


def test_every_foolable_published_check_is_replaced(loaded):
    kept = [
        task.id
        for tasks in loaded.values()
        for task in tasks
        for step in task.published.steps
        if task.checks and step is not None and official_checks.replacement(step) is None
    ]
    assert set(kept) == {"data/4/Q47.json:0"}


def test_defects_are_listed_with_reasons(loaded):
    def listed(split, installs):
        return list(lint.lint(loaded[split], environment="os", split=split, installs=installs))

    assert all(each.usable for each in listed("agentbench-std", True))
    found = {split: listed(split, False) for split in loaded}
    assert [each.task.index for each in found["agentbench-std"] if not each.usable] == [52, 53, 55]
    assert not [each for split in ("agentbench-dev", "agentbench-train") for each in found[split] if not each.usable]
    said = " ".join(each.problem for defects in found.values() for each in defects)
    for part in (
        "installs packages",
        "size check",
        "random data",
        "counts processes",
        "time at which",
        "without doing the task",
    ):
        assert part in said


@pytest.fixture
def scripts(tmp_path):
    folder = tmp_path / "scripts/1"
    (folder / "check").mkdir(parents=True)
    (folder / "check/integer-match.py").write_text("compare")
    (folder / "init.sh").write_text("set up")
    (tmp_path / "scripts/secret.sh").write_text("not of this split")
    return folder


def item(**changes):
    check = [None, {"language": "python", "file": "check/integer-match.py"}]
    return {"description": "?", "evaluation": {"check": check, "example": {"code": "ls | wc -l"}}, **changes}


def test_every_form_of_a_script_is_read(scripts):
    init = ["a", {"code": "b"}, {"file": "init.sh"}, {"language": "python", "code": "c", "params": [1, "x"]}]
    task = decode_item(item(create={"local": "packages", "init": init}, start={"code": "d"}), "here", scripts)
    assert task.init == (Script("a"), Script("b"), Script("set up"), Script("c", "python", ("1", "x")))
    assert (task.image, task.start) == ("packages", "d")
    assert task.answer == Answer("integer", reference=Script("ls | wc -l"))
    assert task.published.steps == (None, Script("compare", "python"))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"create": {"init": {"language": "ruby", "code": "1"}}},
            "language 'ruby' of a script; valid: bash, python, c, c\\+\\+",
        ),
        ({"create": {"init": {"file": "../secret.sh"}}}, "lies outside"),
        ({"create": {"init": {"file": "/etc/passwd"}}}, "lies outside"),
        ({"create": {"init": {"file": "missing.sh"}}}, "missing.sh"),
        ({"create": {"init": {"language": "bash"}}}, "file"),
        ({"evaluation": {}}, "neither a match nor checks"),
        ({"evaluation": {"check": [None]}}, "neither a match nor checks"),
    ],
)
def test_an_item_that_cannot_be_played_is_refused_by_name(scripts, changes, problem):
    with pytest.raises(ValueError, match=f"^here: .*{problem}"):
        decode_item(item(**changes), "here", scripts)


def test_match_rules_and_other_checks(scripts):
    def strict(**evaluation):
        task = decode_item(item(evaluation=evaluation), "here", scripts)
        return task.answer, task.checks

    assert strict(match="x") == (Answer("string", ("x",)), ())
    assert strict(match={"answer": "x"}) == (Answer("string", ("x",)), ())
    assert strict(match={"regex": "x+"}) == (Answer("regex", ("x+",)), ())
    assert strict(check={"code": "test -e x"}) == (None, (Check(Script("test -e x")),))


@pytest.mark.parametrize(
    ("code", "writes"),
    [
        ("ls 2>/dev/null | wc -l", False),
        ("awk '$1 >= 3' x", False),
        ("ls > list; wc -l list", True),
        ("sort x >> /tmp/y", True),
        ("mkdir -p a/b; ls", True),
        ("sed -i s/a/b/ x; cat x", True),
        ("gunzip *.gz; cat x", True),
    ],
)
def test_examples_that_may_write_are_known(scripts, code, writes):
    evaluation = {**item()["evaluation"], "example": code}
    assert decode_item(item(evaluation=evaluation), "here", scripts).answer.writes is writes


def test_files_are_named_by_their_item(tmp_path, scripts):
    data = tmp_path / "data/1"
    data.mkdir(parents=True)
    (data / "a.json").write_text(json.dumps([item(), {"description": "?"}]))
    with pytest.raises(ValueError, match=r"data/1/a\.json:1: an item needs"):
        load_official(tmp_path)
    (data / "a.json").write_text("[")
    with pytest.raises(ValueError, match=r"data/1/a\.json is not JSON"):
        load_official(tmp_path)
    with pytest.raises(FileNotFoundError, match="holds no file"):
        load_official(tmp_path / "scripts")


def test_the_hash_changes_with_a_script(tmp_path, scripts):
    (tmp_path / "data/1").mkdir(parents=True)
    (tmp_path / "data/1/a.json").write_text(json.dumps(item()))
    before = load_official(tmp_path)["agentbench-std"].dataset_hash
    (scripts / "check/integer-match.py").write_text("another")
    assert load_official(tmp_path)["agentbench-std"].dataset_hash != before


@pytest.mark.parametrize(
    ("expression", "value"),
    [("15 + (27 * 4) - 10", 113), ("20 / (5 + 2) - 1", 20 / 7 - 1), ("-2 * -(3)", 6), ("8-3-2", 3), ("2 * 1", 2)],
)
def test_sums_of_the_published_calculator_check(expression, value):
    assert official_checks.eval_sum(expression) == value


def test_what_is_not_a_sum_is_not_evaluated():
    with pytest.raises(ValueError, match="not a sum"):
        official_checks.eval_sum("__import__('os')")
