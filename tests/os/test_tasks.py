"""The file format of OS tasks."""

from __future__ import annotations

import pytest

from envhub.envs.os.tasks import (
    Answer,
    Check,
    OSTask,
    Published,
    Script,
    decode_task,
    encode_task,
    load_split,
    write_dataset,
)

TASKS = (
    OSTask(
        "a", "How many?", Answer("integer", ("5", "5.0")), solution=("ls | wc -l",), family="files", difficulty="easy"
    ),
    OSTask(
        "b",
        "Write a program.",
        checks=(Check(Script("./prog 1", params=("x",)), "session"), Check(Script("assert 1", "python"))),
        image="packages",
        init=(Script("mkdir x"), Script("print()", "python", ("p", "q")), Script("int main(){}", "c")),
        start="sleep 100 &",
        tags=("t",),
    ),
    OSTask("c", "漢字 \n", Answer("string", ("x",)), checks=(Check(Script("exit 0")),)),
)


def test_what_is_written_is_read_back(tmp_path):
    write_dataset(tmp_path, {"train": TASKS, "test": TASKS[:1]}, name="os", version="1", generator={})
    assert tuple(load_split(tmp_path, "train")) == TASKS
    assert tuple(load_split(tmp_path, "test")) == TASKS[:1]
    with pytest.raises(KeyError, match="train, test"):
        load_split(tmp_path, "dev")


def test_equal_tasks_give_equal_bytes(tmp_path):
    for folder in ("a", "b"):
        write_dataset(tmp_path / folder, {"train": TASKS}, name="os", version="1", generator={"seed": 1})
    assert (tmp_path / "a/train.jsonl.gz").read_bytes() == (tmp_path / "b/train.jsonl.gz").read_bytes()


def test_a_task_defaults_are_left_out():
    assert encode_task(TASKS[2]) == {
        "id": "c",
        "description": "漢字 \n",
        "evaluation": {"answer": {"kind": "string", "gold": ["x"]}, "checks": ["exit 0"]},
        "solution": [],
    }


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"evaluation": {}}, "an answer, or checks"),
        ({"evaluation": {"checks": [{"code": "true", "view": "session"}]}}, "end with one of the judge"),
        ({"evaluation": {"checks": [{"code": "true", "view": "agent"}]}}, "view 'agent'"),
        ({"evaluation": {"checks": [{"code": "true", "language": "c"}]}}, "language 'c' of a check"),
        ({"evaluation": {"answer": {"kind": "float", "gold": ["1"]}}}, "answer kind 'float'"),
        ({"evaluation": {"answer": {"kind": "string", "gold": [" "]}}}, "not blank"),
        ({"evaluation": {"answer": {"kind": "string", "gold": []}}}, "not blank"),
        ({"init": [{"language": "ruby", "code": "1"}]}, "language 'ruby'"),
    ],
)
def test_a_task_that_nothing_could_grade_is_refused(changes, problem):
    with pytest.raises(ValueError, match=problem):
        decode_task({**encode_task(TASKS[0]), **changes})


@pytest.mark.parametrize(
    "task",
    [
        OSTask("x", "?", Answer("integer", reference=Script("ls | wc -l"))),
        OSTask("x", "?", Answer("integer", ("1",)), published=Published()),
        OSTask("x", "?"),
    ],
)
def test_what_the_format_cannot_hold_is_not_written(task):
    with pytest.raises(ValueError):
        encode_task(task)
