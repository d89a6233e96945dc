"""One HTML file of a run that needs nothing else: no scripts, no requests. All text in it is escaped, for agents write much of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from statistics import median

from envhub import __version__
from envhub.bench.plan import Plan
from envhub.bench.plots import Bar, Span, Stack, bars, histogram, spans, stacks
from envhub.bench.results import Row, Status
from envhub.bench.summary import Cell, Summary, by_cell, mixed_identities, summarize
from envhub.bench.wording import CAPTION, HEADINGS, cells, percent
from envhub.core.types import Identity

_MAX_ERRORS = 200
_MAX_EPISODES = 2000


def render(title: str, plan: Plan, rows: Sequence[Row], identities: Mapping[str, Identity]) -> str:
    """The page, as UTF-8 text."""
    summaries = summarize(rows)
    sections = [
        _headline(title, plan, rows, summaries),
        "".join(f'<p class="warning" role="alert">{escape(text)}</p>' for text in mixed_identities(summaries)),
        _section("Results", _table(HEADINGS, [_unbroken(cells(each)) for each in summaries]), CAPTION),
        _section(
            "Success", _success(summaries), "Share of graded episodes that passed, with its 95 % Wilson interval."
        ),
        _section("How episodes ended", _endings(summaries), "Graded episodes only."),
        _section("Turns", _turns(rows), "Graded episodes by number of turns."),
        _section("Time per turn", _latency(rows), "Median, and a line to the 95th percentile, over graded episodes."),
        _section("Errors", _errors(rows), "Failures of the hub, an endpoint or the playing code; they have no reward."),
        _section("Measured on", _identities(identities), "Results of different identities are not comparable."),
        _section("Episodes", _episodes(rows), ""),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"{''.join(sections)}</main>\n<footer>envhub {escape(__version__)}</footer>\n</body>\n</html>\n"
    )


def _headline(title: str, plan: Plan, rows: Sequence[Row], summaries: Sequence[Summary]) -> str:
    graded, passed = sum(each.graded for each in summaries), sum(each.passed for each in summaries)
    n_errors, cancelled = sum(each.n_errors for each in summaries), sum(each.cancelled for each in summaries)
    figures = (
        ("episodes", f"{len(rows)} of {plan.n_episodes}"),
        ("graded", str(graded)),
        ("passed", str(passed)),
        ("errors", str(n_errors)),
        ("cancelled", str(cancelled)),
    )
    cards = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in figures)
    played = (
        f"seed {plan.seed}, {plan.repeats} repeat{'s' if plan.repeats != 1 else ''}; agents: {', '.join(plan.agents)}"
    )
    return f'<header><h1>{escape(title)}</h1><p>{escape(played)}</p><dl class="figures">{cards}</dl></header>'


def _section(heading: str, body: str, note: str) -> str:
    if not body:
        return ""
    said = f'<p class="note">{escape(note)}</p>' if note else ""
    return f"<section><h2>{escape(heading)}</h2>{said}{body}</section>\n"


def _unbroken(texts: Sequence[str]) -> tuple[str, ...]:
    """Only the agent's name, which comes first, is broken at its blanks."""
    return (texts[0], *(text.replace(" ", "\u00a0") for text in texts[1:]))


def _success(summaries: Sequence[Summary]) -> str:
    rows = [
        Bar(
            _label(each.cell, [other.cell for other in summaries]),
            each.pass_of_graded,
            each.interval.low if each.interval else None,
            each.interval.high if each.interval else None,
            f"{percent(each.pass_of_graded)} of {each.graded}" if each.graded else "n/a",
        )
        for each in summaries
    ]
    return bars("Success by agent and environment", rows) if rows else ""


def _endings(summaries: Sequence[Summary]) -> str:
    graded = [each for each in summaries if each.stop_reasons]
    reasons = sorted({reason for each in graded for reason in each.stop_reasons})
    rows = [
        Stack(
            _label(each.cell, [other.cell for other in summaries]),
            tuple(each.stop_reasons.get(reason, 0) for reason in reasons),
        )
        for each in graded
    ]
    return stacks("Stop reasons", reasons, rows) if rows else ""


def _turns(rows: Sequence[Row]) -> str:
    figures = [
        f"<figure><figcaption>{escape(name)}</figcaption>{histogram(f'Turns of {name}', [row.turns for row in group])}</figure>"
        for name, group in _graded_groups(rows).items()
    ]
    return f'<div class="multiples">{"".join(figures)}</div>' if figures else ""


def _latency(rows: Sequence[Row]) -> str:
    hub, model = [], []
    for name, group in _graded_groups(rows).items():
        played = [row for row in group if row.turns]
        if not played:
            continue
        hub.append(_span(name, [1000 * row.hub_s / row.turns for row in played], "ms"))
        if any(row.completion_tokens for row in played):
            model.append(_span(name, [row.model_s / row.turns for row in played], "s"))
    parts = []
    if hub:
        parts.append(f"<h3>Hub and environment</h3>{spans('Hub and environment time per turn', 'ms', hub)}")
    if model:
        parts.append(f"<h3>Model</h3>{spans('Model time per turn', 's', model)}")
    return "".join(parts)


def _span(name: str, values: Sequence[float], unit: str) -> Span:
    ordered = sorted(values)
    middle, high = median(ordered), ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return Span(name, middle, high, f"{middle:.3g} / {high:.3g} {unit}")


def _graded_groups(rows: Sequence[Row]) -> dict[str, list[Row]]:
    groups = by_cell(rows)
    named = {
        _label(cell, groups): [row for row in group if row.status is Status.GRADED] for cell, group in groups.items()
    }
    return {name: group for name, group in named.items() if group}


def _label(cell: Cell, others: Iterable[Cell]) -> str:
    """Names the identity only where another cell would have the same name."""
    name = f"{cell.agent} · {cell.environment}/{cell.split}"
    twins = [
        each
        for each in others
        if each != cell and (each.agent, each.environment, each.split) == (cell.agent, cell.environment, cell.split)
    ]
    return f"{name} · {cell.identity or 'unknown'}" if twins else name


def _errors(rows: Sequence[Row]) -> str:
    failed = [row for row in rows if row.status is not Status.GRADED]
    lines = [
        (
            row.agent,
            _task(row),
            f"{row.error.source}: {row.error.code}" if row.error else str(row.status),
            row.error.message[:500] if row.error else "",
            str(row.attempts),
        )
        for row in failed[:_MAX_ERRORS]
    ]
    left = f"<p>{len(failed) - _MAX_ERRORS} more are in results.jsonl.</p>" if len(failed) > _MAX_ERRORS else ""
    return _table(("agent", "task", "error", "message", "attempts"), lines) + left if lines else ""


def _identities(identities: Mapping[str, Identity]) -> str:
    lines = [
        (
            digest,
            each.environment,
            each.version,
            each.dataset_hash,
            each.grading,
            ", ".join(f"{name}={value}" for name, value in sorted(each.options.items())) or "none",
            each.image_digest or "none",
        )
        for digest, each in identities.items()
    ]
    headings = ("identity", "environment", "version", "dataset", "grading", "options", "image")
    return _table(headings, lines) if lines else ""


def _episodes(rows: Sequence[Row]) -> str:
    lines = [
        (
            row.agent,
            _task(row),
            "n/a" if row.episode_return is None else f"{row.episode_return:g}",
            str(row.turns),
            str(row.stop_reason or row.status),
            f"{row.hub_s + row.model_s:.2f}",
            row.session_id or "",
        )
        for row in sorted(rows, key=lambda row: (row.agent, row.key.task, row.repeat))[:_MAX_EPISODES]
    ]
    headings = ("agent", "task", "reward", "turns", "ended", "seconds", "session")
    shown = f"{len(lines)} of {len(rows)}" if len(rows) > len(lines) else str(len(rows))
    return f"<details><summary>{shown} episodes</summary>{_table(headings, lines)}</details>" if lines else ""


def _task(row: Row) -> str:
    return f"{row.key.task} #{row.repeat}"


def _table(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(each)}</th>' for each in headings)
    body = "".join(f"<tr>{''.join(f'<td>{escape(each)}</td>' for each in line)}</tr>" for line in lines)
    return f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


_STYLE = """
:root{color-scheme:light dark;--bg:#f6f7f9;--card:#fff;--ink:#1b2330;--dim:#5b6675;--line:#dfe3e9;--warn-bg:#fff4d6;--warn:#6b4a00;
--c0:#2f6fde;--c1:#e08a1e;--c2:#2a9d6f;--c3:#c2417c;--c4:#7a5bd0;--c5:#4a9fb5;--c6:#8a8f98;--on:#fff}
@media(prefers-color-scheme:dark){:root{--bg:#11151b;--card:#1a2029;--ink:#e6eaf0;--dim:#9aa6b5;--line:#2c3541;--warn-bg:#3a2f10;
--warn:#ffdf8f;--c0:#6ea3ff;--c1:#f2ad57;--c2:#5cc79a;--c3:#ec82b0;--c4:#ab94f0;--c5:#7cc6d9;--c6:#a7adb7;--on:#11151b}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1240px;margin:0 auto;padding:28px 20px 8px}
h1{font-size:26px;margin:0 0 2px;overflow-wrap:anywhere}h2{font-size:18px;margin:0 0 4px}h3{font-size:14px;margin:14px 0 4px}
header p,.note,footer{color:var(--dim);margin:0 0 12px;overflow-wrap:anywhere}
footer{max-width:1240px;margin:0 auto;padding:0 20px 24px;font-size:13px}
section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:18px 20px;margin:16px 0}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:12px;margin:14px 0 0}
.figures div{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:12px 16px}
dt{color:var(--dim);font-size:13px}dd{margin:0;font-size:24px;font-weight:600;font-variant-numeric:tabular-nums}
.warning{background:var(--warn-bg);color:var(--warn);border-radius:10px;padding:10px 14px;margin:14px 0 0}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
th{text-align:left;color:var(--dim);font-weight:600;white-space:nowrap}
th,td{padding:7px 10px 7px 0;border-bottom:1px solid var(--line);vertical-align:top}
td{white-space:pre-line;overflow-wrap:break-word;max-width:340px}tbody tr:last-child td{border-bottom:0}
svg{display:block;width:100%;max-width:900px;height:auto}
svg text{font-size:13px;fill:var(--ink);font-family:inherit}svg .tick{font-size:11px;fill:var(--dim)}
svg .on{fill:var(--on);font-weight:600}svg .value{font-variant-numeric:tabular-nums}
.grid{stroke:var(--line)}.axis{stroke:var(--dim)}.whisker{stroke:var(--ink);stroke-width:1.5;fill:none}
.span{stroke:var(--c0);stroke-width:3;stroke-linecap:round;fill:none}
.c0{fill:var(--c0)}.c1{fill:var(--c1)}.c2{fill:var(--c2)}.c3{fill:var(--c3)}.c4{fill:var(--c4)}.c5{fill:var(--c5)}.c6{fill:var(--c6)}
.b0{background:var(--c0)}.b1{background:var(--c1)}.b2{background:var(--c2)}.b3{background:var(--c3)}.b4{background:var(--c4)}
.b5{background:var(--c5)}.b6{background:var(--c6)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:6px 18px;margin:4px 0 10px;padding:0;font-size:13px}
.key{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:6px}
.multiples{display:grid;grid-template-columns:repeat(auto-fill,minmax(300px,1fr));gap:18px}
figure{margin:0}figcaption{font-size:13px;color:var(--dim);overflow-wrap:anywhere}
summary{cursor:pointer}
"""
