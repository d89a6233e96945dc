"""What the episode commands show."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from rich.console import Console

from envhub.core.errors import SessionNotFoundError
from envhub.core.types import StopReason
from envhub.store.commands import export_episodes, list_episodes, show_episode
from envhub.store.episodes import ALL, EpisodeFilter, EpisodeStore
from envhub.wire import dumps


@pytest.fixture
def memory() -> Iterator[EpisodeStore]:
    with closing(EpisodeStore("sqlite://")) as store:
        yield store


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), width=200, force_terminal=False)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_list_shows_returns_errors_and_groups(
    memory: EpisodeStore, console: Console, make_record: Any, make_failure: Any
) -> None:
    memory.put([make_record(1, episode_return=0.75, stop_reason=StopReason.TURN_LIMIT), make_failure(2)])
    list_episodes(memory, ALL, console)
    text = printed(console)
    for expected in ("w1-1", "db/test/1", "0.75", "turn_limit", "error: session_lost", "run=r1", "2023-11-14 22:13:31"):
        assert expected in text
    assert "0.7500" in text
    assert "More:" not in text


def test_list_says_how_to_see_more(memory: EpisodeStore, console: Console, make_record: Any) -> None:
    memory.put([make_record(number, environment="os" if number else "db") for number in range(5)])
    list_episodes(memory, EpisodeFilter(environment="os"), console, limit=2)
    cursor = memory.find(EpisodeFilter(environment="os"), limit=2).next
    assert f"More: --after {cursor}" in printed(console)
    assert "db/test/0" not in printed(console)


def test_list_of_nothing_and_of_strange_times_works(memory: EpisodeStore, console: Console, make_record: Any) -> None:
    list_episodes(memory, ALL, console)
    memory.put([make_record(1, started_at=-1e300, ended_at=1e300, identity={})])
    list_episodes(memory, ALL, console)
    assert "unknown" in printed(console)


def test_text_of_agents_can_neither_control_the_terminal_nor_use_markup(
    memory: EpisodeStore, console: Console, make_record: Any
) -> None:
    hostile = "\x1b]0;owned\x07[bold red]\u202ex[/nope]"
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": hostile}}
    messages = [{"role": "assistant", "content": hostile, "tool_calls": [call]}]
    memory.put([make_record(1, tags={"t": hostile}, reason=hostile, trace=dumps({"messages": messages}))])
    list_episodes(memory, ALL, console)
    show_episode(memory, "w1-1", console)
    text = printed(console)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert text.count("[bold red]") >= 4


def test_show_prints_the_conversation(memory: EpisodeStore, console: Console, make_record: Any) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "submit", "arguments": '{"x": 1}'}}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    step = {"message": said, "answer": {"messages": [{"role": "tool", "content": "well done"}]}, "seconds": 0.1}
    trace = {"messages": [{"role": "user", "content": "你好 😀"}], "steps": [step, {"omitted_bytes": 12345}]}
    long = {"messages": [{"role": "tool", "content": "y" * 9000}]}
    memory.put([make_record(1, trace=dumps(trace)), make_record(2, trace=dumps(long))])
    show_episode(memory, "w1-1", console)
    shown = [
        "[user]",
        "你好 😀",
        "[assistant]",
        '-> submit({"x": 1})',
        "[tool]",
        "well done",
        "[omitted]",
        "12345 bytes",
    ]
    places = [printed(console).index(each) for each in shown]
    assert places == sorted(places)
    show_episode(memory, "w1-2", console)
    assert "(9000 characters)" in printed(console)
    with pytest.raises(SessionNotFoundError, match="nobody"):
        show_episode(memory, "nobody", console)


def test_export_writes_the_filtered_records(memory: EpisodeStore, make_record: Any, make_failure: Any) -> None:
    memory.put([make_record(1), make_failure(2)])
    stream = io.BytesIO()
    assert export_episodes(memory, EpisodeFilter(state="ok"), stream) == 1
    assert json.loads(stream.getvalue())["trace"]["tools"] == []
