"""The numbers of a summary as text, the same in a terminal and on a page. What is not known reads "n/a", never 0."""

from __future__ import annotations

from collections.abc import Mapping

from envhub.bench.summary import Interval, Summary

HEADINGS = (
    *("agent", "environment", "n", "graded", "passed", "pass/n", "pass/graded", "reward", "pass@k", "turns"),
    *("tokens in/out", "stop reasons", "errors"),
)
CAPTION = (
    "Below the environment, the identity it was measured on; below pass/graded, its 95% Wilson interval. "
    "Reward: mean ± sample standard deviation over episodes; in brackets, the deviation of the means of the repeats. "
    "pass@k: unbiased estimate over the tasks with at least k graded repeats. Errors and cancelled episodes are not graded."
)


def cells(summary: Summary) -> tuple[str, ...]:
    """One text per heading."""
    cell = summary.cell
    return (
        cell.agent,
        f"{cell.environment}/{cell.split}\n{cell.identity or 'unknown'}",
        str(summary.n),
        str(summary.graded),
        str(summary.passed),
        percent(summary.pass_of_all),
        f"{percent(summary.pass_of_graded)}\n{interval_text(summary.interval)}" if summary.graded else "n/a",
        reward_text(summary),
        pass_at_text(summary),
        number(summary.turns_mean, 1),
        tokens_text(summary),
        counts_text(summary.stop_reasons),
        counts_text({**summary.errors, **({"cancelled": summary.cancelled} if summary.cancelled else {})}),
    )


def percent(share: float | None) -> str:
    return "n/a" if share is None else f"{100 * share:.1f}%"


def number(value: float | None, digits: int) -> str:
    return "n/a" if value is None else f"{value:.{digits}f}"


def interval_text(interval: Interval | None) -> str:
    return "n/a" if interval is None else f"{100 * interval.low:.1f}-{100 * interval.high:.1f}%"


def reward_text(summary: Summary) -> str:
    if summary.return_mean is None:
        return "n/a"
    text = f"{summary.return_mean:.3f}"
    if summary.return_std is not None:
        text += f" ± {summary.return_std:.3f}"
    return text if summary.repeat_std is None else f"{text}\n({summary.repeat_std:.3f})"


def pass_at_text(summary: Summary) -> str:
    texts = []
    for each in summary.pass_at:
        partial = "" if each.n_tasks == each.n_all_tasks else f"\n{each.n_tasks}/{each.n_all_tasks} tasks"
        texts.append(f"@{each.k} {100 * each.value:.1f}%{partial}")
    return "\n".join(texts) or "n/a"


def tokens_text(summary: Summary) -> str:
    return f"{number(summary.prompt_tokens_mean, 0)}/{number(summary.completion_tokens_mean, 0)}"


def counts_text(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return "\n".join(f"{name} {count}" for name, count in ordered)
