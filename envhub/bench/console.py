"""What a terminal shows of a run: progress while it plays, tables afterwards. Everything here reads; nothing decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from envhub.bench.results import Row, Status
from envhub.bench.summary import Summary
from envhub.bench.wording import CAPTION, HEADINGS, cells, interval_text, number, percent
from envhub.core.clock import Clock

_LINE_EVERY_S = 5.0


class RunProgress(Protocol):
    def __enter__(self) -> RunProgress: ...

    def __exit__(self, *_: object) -> None: ...

    def row(self, row: Row) -> None: ...


def progress_on(console: Console, *, total: int, finished: Sequence[Row], clock: Clock) -> RunProgress:
    """A moving bar on a terminal, plain lines elsewhere."""
    tally = _Tally(total, finished)
    return _Bar(console, tally) if console.is_terminal else _Lines(console, tally, clock)


class _Tally:
    def __init__(self, total: int, finished: Sequence[Row]) -> None:
        self.total = total
        self.done = 0
        self._statuses: Counter[Status] = Counter()
        self._passed = 0
        for row in finished:
            self.add(row)

    def add(self, row: Row) -> None:
        self.done += 1
        self._statuses[row.status] += 1
        self._passed += row.success is True

    @property
    def text(self) -> str:
        graded = self._statuses[Status.GRADED]
        success = f"{100 * self._passed / graded:.1f}%" if graded else "n/a"
        return f"success {success}  errors {self._statuses[Status.ERROR]}  cancelled {self._statuses[Status.CANCELLED]}"


class _Bar:
    def __init__(self, console: Console, tally: _Tally) -> None:
        self._tally = tally
        self._task: TaskID | None = None
        self._progress = Progress(
            TextColumn("playing"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[tally]}"),
            console=console,
        )

    def __enter__(self) -> _Bar:
        self._progress.__enter__()
        tally = self._tally
        self._task = self._progress.add_task("", total=tally.total, completed=tally.done, tally=tally.text)
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.__exit__(None, None, None)

    def row(self, row: Row) -> None:
        self._tally.add(row)
        if self._task is not None:
            self._progress.update(self._task, completed=self._tally.done, tally=self._tally.text)


class _Lines:
    def __init__(self, console: Console, tally: _Tally, clock: Clock) -> None:
        self._console = console
        self._tally = tally
        self._clock = clock
        self._said_at = clock.now()

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None: ...

    def row(self, row: Row) -> None:
        self._tally.add(row)
        now = self._clock.now()
        if now - self._said_at >= _LINE_EVERY_S or self._tally.done == self._tally.total:
            self._said_at = now
            self._console.print(f"{self._tally.done}/{self._tally.total}  {self._tally.text}", highlight=False)


@contextmanager
def counter_on(console: Console, text: str) -> Iterator[Callable[[int, int], None]]:
    """A bar that is gone when the work is done, or one line where there is no terminal; call it with (done, total)."""
    if not console.is_terminal:
        console.print(f"{text} ...", markup=False, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(escape(text), total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def results_table(summaries: Sequence[Summary]) -> Table:
    """One block of lines per agent, environment, split and identity; "n/a" where nothing was graded."""
    table = Table(caption=CAPTION, caption_justify="left", box=None, leading=1, padding=(0, 2, 0, 0))
    table.add_column("agent", overflow="fold", min_width=8)
    table.add_column("environment", overflow="fold", min_width=12)
    for heading in ("episodes", "success", "reward", "pass@k", "cost"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("ended", overflow="fold", min_width=16)
    for each in summaries:
        table.add_row(*(escape(text) for text in _blocks(each)))
    return table


def _blocks(summary: Summary) -> tuple[str, ...]:
    text = dict(zip(HEADINGS, cells(summary), strict=True))
    return (
        text["agent"],
        text["environment"],
        f"{text['n']} played\n{text['graded']} graded\n{text['passed']} passed",
        f"{text['pass/n']} of n\n{percent(summary.pass_of_graded)} of graded\n{interval_text(summary.interval)}",
        text["reward"],
        text["pass@k"],
        f"{text['turns']} turns\n{number(summary.prompt_tokens_mean, 0)} in\n{number(summary.completion_tokens_mean, 0)} out",
        "\n".join(part for part in (text["stop reasons"], _marked(text["errors"])) if part),
    )


def _marked(errors: str) -> str:
    return "\n".join(f"error: {line}" for line in errors.splitlines())
