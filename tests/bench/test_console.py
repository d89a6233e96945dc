from __future__ import annotations

import io

import pytest
from result_rows import cancelled, failed, graded
from rich.console import Console

from envhub.bench.console import counter_on, progress_on, results_table
from envhub.bench.summary import summarize
from envhub.testing.clock import FakeClock


async def test_lines_come_every_few_seconds_and_at_the_end() -> None:
    out, clock = io.StringIO(), FakeClock()
    with progress_on(Console(file=out, width=100), total=4, finished=[graded(0, 1.0)], clock=clock) as progress:
        progress.row(graded(1, 0.0))
        await clock.advance(6)
        progress.row(failed(2))
        progress.row(cancelled(3))
    assert out.getvalue().splitlines() == [
        "3/4  success 50.0%  errors 1  cancelled 0",
        "4/4  success 50.0%  errors 1  cancelled 1",
    ]


def test_a_terminal_gets_a_bar() -> None:
    out = io.StringIO()
    console = Console(file=out, width=120, force_terminal=True)
    with progress_on(console, total=2, finished=[], clock=FakeClock()) as progress:
        progress.row(failed(0))
    with counter_on(console, "[db]") as count:
        count(1, 2)
    assert "1/2" in out.getvalue()
    assert "success n/a" in out.getvalue()


@pytest.mark.parametrize("width", [115, 160])
def test_the_table_fits_and_shows_names_as_they_are(width: int) -> None:
    out = io.StringIO()
    rows = [graded(0, 1.0, agent="[red]m[/red]"), failed(1, agent="[red]m[/red]", code="episode_failed")]
    Console(file=out, width=width).print(results_table(summarize(rows)))
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= width
    assert "[red]m[/" in text
    assert "2 played" in text and "1 graded" in text and "50.0% of n" in text and "100.0% of graded" in text
    assert "episode_failed" in text
