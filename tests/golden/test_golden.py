"""Golden files: the bytes of the wire and of the link, and the prompts and tools of three tasks per environment.

``make golden`` (ENVHUB_UPDATE_GOLDEN=1) writes them anew; what changed in them is then part of the review.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from envhub import wire
from envhub.core import errors
from envhub.core.types import (
    EnvironmentInfo,
    Identity,
    Message,
    Observation,
    StepResult,
    StopReason,
    TaskRef,
    ToolCall,
    ToolSpec,
)
from envhub.envs import registry
from envhub.link import frames

HERE = Path(__file__).parent
TASKS = {
    "alfworld": [("train", 0), ("valid_seen", 7), ("valid_unseen", 42)],
    "calculator": [("train", 0), ("test", 0), ("test", 99)],
    "db": [("train", 0), ("dev", 7), ("test", 42)],
    "kg": [("train", 0), ("dev", 7), ("test", 42)],
    "os": [("train", 0), ("dev", 7), ("test", 42)],
    "webshop": [("train", 0), ("dev", 7), ("test", 42)],
}

CALL = ToolCall("call_1", "submit", '{"answer": 5}')
TOOL = ToolSpec("submit", "Submit.", {"type": "object", "properties": {"answer": {"type": "number"}}})
OBSERVATION = Observation((Message.system("Be brief."), Message.user("2 + 3 — 漢字?")), (TOOL,), {"level": 1})
IDENTITY = Identity("calculator", "1", "cafe", "strict", {"max_observation_chars": 800}, None)
INFO = EnvironmentInfo("calculator", "1", "Sums.", {"test": 2}, "cafe", {"grading": "strict"})
NOTE = frames.SessionNote("wa1b2.0123456789abcdef", "calculator", "test", 1, 1700000000.5, "key", {"run": "r"})
RECORD = wire.EpisodeRecord(
    session_id=NOTE.session_id,
    environment="calculator",
    split="test",
    task=1,
    seed=7,
    worker="wa1b2",
    identity=wire.identity_to_json(IDENTITY),
    tags={"run": "r"},
    started_at=1700000000.5,
    ended_at=1700000001.5,
    turns=2,
    episode_return=1.0,
    terminated=True,
    truncated=False,
    stop_reason=StopReason.COMPLETED,
    error=None,
    reason="completed",
    info={"correct": True},
    trace=b'{"messages":[],"tools":[],"steps":[]}',
)


def golden(name: str, value: Any) -> None:
    """Compare with the golden file, byte for byte; or write it."""
    file = HERE / f"{name}.json"
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("ENVHUB_UPDATE_GOLDEN") == "1":
        file.write_text(text, encoding="utf-8")
    assert file.is_file(), f"{file.name} is missing; run `make golden`"
    assert file.read_bytes() == text.encode(), f"{file.name} differs; if that is wanted, run `make golden`"


def started() -> wire.Started:
    messages, tools = wire.observation_to_json(OBSERVATION)
    identity = wire.identity_to_json(IDENTITY)
    return wire.Started(
        NOTE.session_id, "calculator", "test", 1, 7, 0, messages, tools, 20, 300.0, identity, dict(OBSERVATION.info)
    )


def test_bodies_of_the_public_api() -> None:
    full = wire.StartRequest(
        "calculator", "train", 1, 7, 60.0, {"grading": "strict", "max_turns": 5}, {"run": "r"}, "key", 10.0
    )
    said = Message.assistant("Five, I think.", CALL)
    ended = StepResult((Message.tool("call_1", "Correct."),), 1.0, True, False, StopReason.COMPLETED, {"correct": True})
    state = wire.SessionState(NOTE.session_id, "live", "calculator", "test", 1, "wa1b2", started_at=1700000000.5)
    bodies = {
        "start": wire.dumps(wire.StartRequest("calculator")),
        "start, everything given": wire.dumps(full),
        "started": wire.dumps(started()),
        "interact": wire.dumps({"turn": 0, "message": wire.message_to_json(said)}),
        "interact, text alone": wire.dumps(wire.InteractRequest(1, wire.message_to_json(Message.assistant("Hm.")))),
        "stepped": wire.dumps(wire.step_to_wire(StepResult((Message.user("Call a tool."),)), 1)),
        "stepped, ended": wire.dumps(wire.step_to_wire(ended, 2)),
        "renew": wire.dumps(wire.RenewRequest(60.0)),
        "cancel": wire.dumps(wire.CancelRequest()),
        "state": wire.dumps(state),
        "environment": wire.dumps(wire.info_to_json(INFO)),
        "record": wire.dumps(RECORD),
    }
    golden("wire", {name: body.decode() for name, body in bodies.items()})


def test_errors() -> None:
    raised = [
        errors.InvalidRequestError("Object missing required field `environment`"),
        errors.AuthenticationError("a client key is needed"),
        errors.EnvironmentNotFoundError("no environment is named 'chess'; valid: calculator"),
        errors.TaskNotFoundError("calculator/test has no task 100; valid: 0..99"),
        errors.TaskUnusableError("a broken task"),
        errors.SessionNotFoundError("no session is named 'x'"),
        errors.TurnConflictError("expected turn 2, got 5", current_turn=2),
        errors.SessionEndedError("the session is over: idle", reason="idle", stop_reason=StopReason.CANCELLED),
        errors.BodyTooLargeError("the body is larger than 8388608 bytes", limit_bytes=8388608),
        errors.MissingExtraError("environment 'db' needs the package 'sqlglot'", package="sqlglot", extra="db"),
        errors.UnavailableError("not now"),
        errors.NoCapacityError("every worker is full", retry_after_s=2.0),
        errors.ShuttingDownError("the controller is shutting down"),
        errors.WorkerUnreachableError("worker wa1b2 is gone"),
        errors.EpisodeFailedError("KeyError: 'x'"),
        errors.GraderError("no verdict"),
        errors.EpisodeTimeoutError("one step took more than 330 s"),
        errors.SessionLostError("worker wa1b2 is gone"),
        errors.InternalError("a bug"),
    ]
    golden("errors", {type(each).__name__: [each.status, wire.error_body(each).decode()] for each in raised})


def test_frames_of_the_link() -> None:
    infos = [wire.info_to_json(INFO)]
    sent: list[frames.Frame] = [
        frames.Hello(frames.PROTOCOL_VERSION, "wa1b2", "0.1.0", 256, infos, [NOTE], False, {"zone": "a"}, []),
        frames.Welcome(frames.PROTOCOL_VERSION, "0123456789abcdef", 2.0, ["wa1b2.fedcba9876543210"]),
        frames.Call(7, "interact", NOTE.session_id, b'{"turn":0}'),
        frames.Reply(7, 200, b'{"turn":1}'),
        frames.Opened(NOTE),
        frames.Closed(NOTE.session_id),
        frames.Finished(RECORD),
        frames.Stored(NOTE.session_id),
        frames.Draining(True),
        frames.Failed(["reaper: KeyError: 'x'"]),
        frames.Bye("it was stopped"),
    ]
    golden("frames", {type(frame).__name__: frames.encode([frame]).hex() for frame in sent})


@pytest.mark.parametrize("name", sorted(TASKS))
async def test_prompts_and_tools_of_three_tasks(name: str) -> None:
    environment = registry.create(name)
    info = environment.info()
    shown: dict[str, Any] = {}
    try:
        for split, index in TASKS[name]:
            task = TaskRef(name, split, index)
            episode = await environment.open(task, seed=1, options=dict(info.options))
            try:
                observation = await episode.reset()
            finally:
                await episode.close()
            shown[str(task)] = [wire.message_to_json(message) for message in observation.messages]
            shown["tools"] = [wire.tool_to_json(tool) for tool in observation.tools]
    finally:
        await environment.close()
    golden(f"prompts_{name}", shown)
