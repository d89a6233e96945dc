from __future__ import annotations

import json
import random
from typing import Annotated, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envhub.bench.agents import ScriptAgent
from envhub.bench.sampling import sample
from envhub.core.protocols import Script
from envhub.core.types import Identity, Message, Observation, TaskRef, ToolCall, ToolSpec
from envhub.envs.db.exploits import EXPLOITS
from envhub.envs.toolkit import ToolEpisode, tool, toolset_of

TASK = TaskRef("db", "test", 0)
IDENTITY = Identity("db", "1", "x")
SQL = (ToolSpec("execute_sql", "", {}), ToolSpec("commit_final_answer", "", {}))


class Point(msgspec.Struct, forbid_unknown_fields=True):
    x: int
    y: float | None = None


class Everything(ToolEpisode):
    @tool
    async def all_kinds(
        self,
        text: Annotated[str, msgspec.Meta(min_length=2, max_length=5)],
        whole: Annotated[int, msgspec.Meta(ge=3, lt=9)],
        real: float,
        flag: bool,
        word: Literal["a", "b"],
        nothing: None,
        point: Point,
        points: Annotated[list[Point], msgspec.Meta(min_length=1, max_length=2)],
        either: int | str = 1,
    ) -> str:
        """All kinds."""
        return ""


@given(st.integers())
def test_random_arguments_conform_to_the_schema(seed: int) -> None:
    toolset = toolset_of(Everything)
    arguments = json.dumps(sample(toolset.specs[0].parameters, random.Random(seed)))
    toolset.parse(ToolCall("c", "all_kinds", arguments))


def test_the_same_seed_gives_the_same_arguments() -> None:
    schema = toolset_of(Everything).specs[0].parameters
    assert sample(schema, random.Random(1)) == sample(schema, random.Random(1))


async def test_a_script_is_sent_what_answers_it_and_then_says_nothing() -> None:
    seen: list[tuple[Message, ...]] = []

    def script(observation: Observation) -> Script:
        seen.append(observation.messages)
        seen.append((yield Message.assistant("one")))
        seen.append((yield Message.assistant("two")))

    player = ScriptAgent("s", script).player(TASK, seed=0, identity=IDENTITY)
    history = [Message.user("q")]
    for answer in ("a", "b", "c"):
        history += [await player.act(history, ()), Message.user(answer)]
    assert [message.content for message in history if message.role == "assistant"] == ["one", "two", ""]
    assert seen == [(Message.user("q"),), (Message.user("a"),), (Message.user("b"),)]


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("empty_answer", []),
        ("zero", ["0"]),
        ("echo", ["How many?"]),
        ("first_cell", ["it's"]),
        ("all_rows", ["it's", "2", "NULL", "2.50", "NULL", 'say "x"']),
    ],
)
async def test_exploits_commit_answers_that_cost_no_thought(name: str, answers: list[str]) -> None:
    printed = {
        "SHOW TABLES": "[('t',)]",
        "SELECT * FROM `t` LIMIT 1": '[("it\'s", 2, None)]',
        "SELECT * FROM `t`": "[(\"it's\", 2, None), (Decimal('2.50'), NULL, 'say \"x\"')]",
    }
    player = ScriptAgent(name, EXPLOITS[name]).player(TASK, seed=0, identity=IDENTITY)
    history = [Message.system("Help."), Message.user("Evidence.\nQuestion: How many?")]
    while True:
        (call,) = (message := await player.act(history, SQL)).tool_calls
        arguments = json.loads(call.arguments)
        if call.name == "commit_final_answer":
            break
        history += [message, Message.tool(call.id, printed[arguments["query"]])]
    assert arguments == {"answers": answers}
