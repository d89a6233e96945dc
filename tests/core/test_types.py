"""Records: what makes them equal, and what makes identities differ."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from envhub import wire
from envhub.core.types import EnvironmentInfo, Identity, Message, Observation, StepResult, TaskRef, ToolCall, ToolSpec

IDENTITY = Identity("db", "1", "aa", "strict", {"max_turns": 5, "nested": {"b": 1, "a": [1, 2]}}, "sha256:1")
OTHER: dict[str, Any] = {
    "environment": "os",
    "version": "2",
    "dataset_hash": "ab",
    "grading": "agentbench",
    "options": {"max_turns": 6, "nested": {"b": 1, "a": [1, 2]}},
    "image_digest": None,
}


@pytest.mark.parametrize("field", [each.name for each in dataclasses.fields(Identity)])
def test_the_digest_changes_with_every_field(field: str) -> None:
    assert dataclasses.replace(IDENTITY, **{field: OTHER[field]}).digest != IDENTITY.digest


def test_the_digest_is_12_hex_characters_and_does_not_depend_on_the_order_of_options() -> None:
    assert len(IDENTITY.digest) == 12 and int(IDENTITY.digest, 16) >= 0
    turned = {"nested": {"a": [1, 2], "b": 1}, "max_turns": 5}
    assert dataclasses.replace(IDENTITY, options=turned).digest == IDENTITY.digest


def test_the_digest_tells_a_number_from_its_text() -> None:
    assert (
        dataclasses.replace(IDENTITY, options={"n": 1}).digest
        != dataclasses.replace(IDENTITY, options={"n": "1"}).digest
    )


def test_an_identity_survives_the_wire() -> None:
    there = wire.identity_to_json(IDENTITY)
    assert there["digest"] == IDENTITY.digest
    assert wire.identity_from_json(there) == IDENTITY


def test_environment_info_survives_the_wire() -> None:
    info = EnvironmentInfo(
        "db", "1", "d", {"test": 3}, "aa", {"a": None}, 5, 9.0, (-1.0, 1.0), deterministic=False, image_digest="x"
    )
    assert wire.info_from_json(wire.loads_json(wire.dumps(wire.info_to_json(info)))) == info


@pytest.mark.parametrize(
    "record",
    [
        Message.user("x"),
        ToolCall("1", "f", "{}"),
        ToolSpec("f", "d", {}),
        TaskRef("db", "test", 1),
        Observation((), ()),
        StepResult(),
        IDENTITY,
    ],
    ids=lambda record: type(record).__name__,
)
def test_records_cannot_be_changed(record: Any) -> None:
    field = dataclasses.fields(record)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(record, field, "other")
    assert not hasattr(record, "__dict__")


def test_a_result_is_done_when_either_flag_is_set() -> None:
    assert not StepResult().done
    assert StepResult(terminated=True).done and StepResult(truncated=True).done


def test_tasks_are_ordered_and_readable() -> None:
    assert str(TaskRef("db", "test", 3)) == "db/test/3"
    assert sorted([TaskRef("db", "test", 10), TaskRef("db", "test", 9)])[0].index == 9


def test_message_makers_fill_only_what_belongs_to_the_role() -> None:
    call = ToolCall("1", "f", "{}")
    assert Message.system("a") == Message("system", "a")
    assert Message.assistant(None, call) == Message("assistant", None, (call,))
    assert Message.tool("1", "out") == Message("tool", "out", (), "1")
