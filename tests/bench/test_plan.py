from __future__ import annotations

from typing import Any

import pytest

from envhub.bench.plan import (
    EpisodeKey,
    Plan,
    PlanError,
    Target,
    TargetSpec,
    differences,
    parse_target,
    parse_tasks,
    plan_from_json,
)
from envhub.core.types import TaskRef

PLAN = Plan((Target("db", "test", (0, 2)),), {"a": {"kind": "null"}, "b": {"kind": "oracle"}}, repeats=2, seed=5)


@pytest.mark.parametrize(
    ("text", "tasks"),
    [(None, (0, 1, 2, 3)), ("2", (2,)), ("0-2", (0, 1, 2)), ("3,0-1, 1", (0, 1, 3)), ("1 - 2", (1, 2))],
)
def test_tasks_are_selected_by_index_and_range(text: str | None, tasks: tuple[int, ...]) -> None:
    assert parse_tasks(text, 4) == tasks


@pytest.mark.parametrize(
    ("text", "words"), [("4", "valid: 0-3"), ("2-1", "backwards"), ("", "selection"), ("a", "selection")]
)
def test_a_wrong_selection_says_what_is_valid(text: str, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        parse_tasks(text, 4)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("db", TargetSpec("db")),
        ("db/dev", TargetSpec("db", "dev")),
        ("db:0-9,12", TargetSpec("db", None, "0-9,12")),
        ("my-env.v2/train:3", TargetSpec("my-env.v2", "train", "3")),
    ],
)
def test_targets_are_read(text: str, spec: TargetSpec) -> None:
    assert parse_target(text) == spec


@pytest.mark.parametrize("text", ["", "/dev", "db:", "db:x", "a/b/c"])
def test_a_wrong_target_says_how_to_write_one(text: str) -> None:
    with pytest.raises(PlanError, match="ENV"):
        parse_target(text)


def test_order_is_repeat_then_task_then_agent() -> None:
    played = list(PLAN.episodes())
    assert len(played) == PLAN.n_episodes == 8
    assert played[:3] == [
        EpisodeKey("a", TaskRef("db", "test", 0), 0),
        EpisodeKey("b", TaskRef("db", "test", 0), 0),
        EpisodeKey("a", TaskRef("db", "test", 2), 0),
    ]
    assert played == list(PLAN.episodes())


def test_agents_meet_the_same_seeds_and_episodes_differ() -> None:
    seeds: dict[Any, set[int]] = {}
    for key in PLAN.episodes():
        seeds.setdefault((key.task, key.repeat), set()).add(PLAN.seed_of(key))
    assert all(len(found) == 1 for found in seeds.values())
    assert len(set.union(*seeds.values())) == 4


def test_a_plan_read_back_is_the_same_and_a_change_is_named() -> None:
    again = plan_from_json(PLAN.to_json())
    assert differences(PLAN, again) == ()
    changed = Plan(PLAN.targets, PLAN.agents, repeats=3, seed=5, options={"grading": "agentbench"})
    assert differences(PLAN, changed) == ("repeats: was 2, now 3", 'options: was {}, now {"grading":"agentbench"}')
