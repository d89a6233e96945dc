"""What ``envhub episodes`` shows. Text that agents wrote reaches the terminal without its control characters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import IO, Final

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from envhub.core.errors import SessionNotFoundError
from envhub.core.types import JSON
from envhub.store.episodes import EpisodeFilter, EpisodeStore, EpisodeSummary
from envhub.wire import EpisodeRecord, loads_json

MAX_SHOWN_CHARS: Final = 4000
COLUMNS: Final = ("session", "task", "identity", "return", "end", "turns", "ended (UTC)", "took", "tags")
NARROW_COLUMNS: Final = ("session", "task", "return", "end")
WIDE: Final = 140
"""Terminal columns from which every column of the table is shown."""


def list_episodes(
    store: EpisodeStore, filters: EpisodeFilter, console: Console, *, limit: int = 50, after: int | None = None
) -> None:
    """A table of the newest episodes, then one of returns per environment and identity."""
    page = store.find(filters, limit=limit, after=after)
    table = Table(title=f"Episodes of {store.url}", title_justify="left", box=None, padding=(0, 2, 0, 0))
    shown = COLUMNS if console.width >= WIDE else NARROW_COLUMNS
    for heading in shown:
        table.add_column(heading, justify="right" if heading in ("return", "turns", "took") else "left", no_wrap=True)
    for each in page.episodes:
        cells = dict(zip(COLUMNS, _cells(each), strict=True))
        table.add_row(*(_plain(cells[heading]) for heading in shown))
    console.print(table)
    if page.next is not None:
        console.print(f"More: --after {page.next}", markup=False, highlight=False)
    console.print(_groups(store, filters))


def show_episode(store: EpisodeStore, session_id: str, console: Console) -> None:
    """One episode with its conversation. Raises SessionNotFoundError."""
    record = store.get(session_id)
    if record is None:
        raise SessionNotFoundError(f"no episode of session {session_id!r} is stored in {store.url}")
    facts = Table.grid(padding=(0, 2))
    for name, value in _facts(record).items():
        facts.add_row(name, _plain(value))
    console.print(facts)
    for message in _conversation(loads_json(record.trace)):
        console.print(Text(f"\n[{_clean(str(message.get('role')))}]", style="bold"))
        console.print(_plain(_said(message)))


def export_episodes(store: EpisodeStore, filters: EpisodeFilter, stream: IO[bytes]) -> int:
    """JSON lines of whole records, traces included, oldest first. Returns how many."""
    return store.export(stream, filters)


def _groups(store: EpisodeStore, filters: EpisodeFilter) -> Table:
    table = Table(title="Returns per environment and identity", title_justify="left")
    for heading in ("environment", "identity", "returns", "mean return", "errors", "cancelled"):
        table.add_column(heading, justify="left" if heading in ("environment", "identity") else "right")
    for group in store.summary(filters):
        mean = "-" if group.mean_return is None else f"{group.mean_return:.4f}"
        names = group.environment, group.identity_digest or "unknown"
        table.add_row(*map(_plain, names), str(group.n), mean, str(group.errors), str(group.cancelled))
    return table


def _cells(episode: EpisodeSummary) -> tuple[str, ...]:
    return (
        episode.session_id,
        f"{episode.environment}/{episode.split}/{episode.task}",
        episode.identity_digest or "unknown",
        "-" if episode.episode_return is None else f"{episode.episode_return:g}",
        _end(episode.stop_reason, episode.error),
        str(episode.turns),
        _when(episode.ended_at),
        f"{episode.ended_at - episode.started_at:.1f} s",
        _tags(episode.tags),
    )


def _facts(record: EpisodeRecord) -> dict[str, str]:
    return {
        "session": record.session_id,
        "task": f"{record.environment}/{record.split}/{record.task}",
        "seed": str(record.seed),
        "worker": record.worker,
        "identity": msgspec.json.encode(record.identity).decode(),
        "return": "-" if record.episode_return is None else f"{record.episode_return:g}",
        "end": _end(record.stop_reason, record.error),
        "reason": record.reason or "-",
        "error": "-" if record.error is None else str(record.error.get("message", "")),
        "turns": str(record.turns),
        "started (UTC)": _when(record.started_at),
        "took": f"{record.ended_at - record.started_at:.1f} s",
        "tags": _tags(record.tags),
    }


def _end(stop_reason: str | None, error: Mapping[str, JSON] | None) -> str:
    return f"error: {error.get('code', 'unknown')}" if error is not None else stop_reason or "-"


def _tags(tags: Mapping[str, str]) -> str:
    return " ".join(f"{tag}={value}" for tag, value in sorted(tags.items()))


def _when(unix_s: float) -> str:
    try:
        return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"{unix_s:g}"


def _conversation(trace: Mapping[str, JSON]) -> Iterator[Mapping[str, JSON]]:
    """The first messages, then each step's message and what answered it."""
    yield from trace.get("messages", ())
    for step in trace.get("steps", ()):
        if "omitted_bytes" in step:
            yield {"role": "omitted", "content": f"{step['omitted_bytes']} bytes of a long trace were not kept"}
        else:
            yield step["message"]
            yield from step["answer"].get("messages", ())


def _said(message: Mapping[str, JSON]) -> str:
    lines = [str(message["content"])] if message.get("content") else []
    for call in message.get("tool_calls") or ():
        function = call.get("function", {})
        lines.append(f"-> {function.get('name')}({function.get('arguments')})")
    text = "\n".join(lines)
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}... ({len(text)} characters)"


def _plain(text: str) -> Text:
    """Neither markup nor terminal control."""
    return Text(_clean(text), overflow="fold")


def _clean(text: str) -> str:
    return "".join(
        each if each.isprintable() or each == "\n" else each.encode("unicode_escape").decode() for each in text
    )
