"""Questions of type "other" about rows in order. Invariant: the order is total, or ties are settled in the question."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

from drafts import Draft, clear_best, extremes, numbers, single, template
from model import Value, literal, text
from selection import MONTHS, Scope, named


@template("other", "hard", 5)
def neighbour_in_order(scope: Scope) -> Draft | None:
    """The row right before or after one, by date or measure."""
    entity = scope.entity(lambda e: e.having("measure", "ordinal", "date", "moment"))
    f = entity and scope.field(entity, lambda f: f.role in {"measure", "ordinal", "date", "moment"})
    if not entity or not f:
        return None
    rows = [r for r in scope.rows(entity) if r[f.name] is not None]
    if len({r[f.name] for r in rows}) < len(rows) or len(rows) < 5:
        return None
    rows.sort(key=lambda r: r[f.name])  # type: ignore[arg-type, return-value]
    at = scope.rng.randrange(1, len(rows) - 1)
    after = scope.rng.random() < 0.5
    label = entity.label
    high, low = extremes(f)
    question = (
        f"Sort all {entity.many} by {f.noun} from {low} to {high}. Which {entity.one} comes directly "
        f"{'after' if after else 'before'} "
        f"{named(entity, rows[at])}? Give the {label.noun}."
    )
    fn = "LEAD" if after else "LAG"
    null = f" WHERE t.{f.name} IS NOT NULL" if f.blank else ""
    if f.blank:
        question += f" Leave out {entity.many} without a recorded {f.noun}."
    inner = (
        f"SELECT t.{label.name} AS label, {fn}(t.{label.name}) OVER (ORDER BY t.{f.name}) AS next_label FROM "
        f"{entity.name} AS t{null}"
    )
    sql = f"SELECT s.next_label FROM ({inner}) AS s WHERE s.label = {literal(rows[at][label.name])}"
    return single(question, sql, rows[at + 1 if after else at - 1][label.name], {"window", "subquery"})


@template("other", "hard", 4)
def running_total_passes(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("date", "moment") and any(f.summable for f in e.fields))
    if not entity:
        return None
    when = scope.field(entity, lambda f: f.role in {"date", "moment"} and not f.blank)
    f = scope.field(entity, lambda f: f.summable and not f.blank)
    if not when or not f:
        return None
    label = entity.label.name
    rows = sorted(scope.rows(entity), key=lambda r: (text(r[when.name]), text(r[label]).casefold()))
    total = sum(numbers(rows, f.name), Decimal(0))
    limit = (total * scope.rng.choice((2, 3, 4, 5, 6)) / 10).quantize(Decimal(1))
    running = Decimal(0)
    for row in rows:
        running += numbers([row], f.name)[0]
        if abs(running - limit) < 1:
            return None
        if running > limit:
            break
    question = (
        f"Go through the {entity.many} in order of {when.noun}, earliest first and by {entity.label.noun} "
        f"where it is equal, and keep a running total of the {f.noun}. "
        f"What is the {entity.label.noun} of the {entity.one} at which the running total first exceeds {limit}?"
    )
    inner = (
        f"SELECT t.{label} AS label, t.{when.name} AS moment_of, SUM(t.{f.name}) OVER (ORDER BY "
        f"t.{when.name}, t.{label}) AS running FROM {entity.name} AS t"
    )
    sql = f"SELECT s.label FROM ({inner}) AS s WHERE s.running > {limit} ORDER BY s.moment_of, s.label LIMIT 1"
    return single(question, sql, row[label], {"window", "subquery", "date"})


@template("other", "medium", 3)
def busiest_month(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("date", "moment"))
    f = entity and scope.field(entity, lambda f: f.role in {"date", "moment"} and f.name != "licence_until")
    sel = entity and f and scope.select(entity, scope.rng.choice((0, 1)), avoid=(f.name,), at_least=8)
    if not entity or not f or not sel:
        return None
    by_year = scope.rng.random() < 0.5
    column = f"{entity.name}.{f.name}"
    counts: dict[Value, int] = {}
    for row in sel.rows:
        cell = row[f.name]
        if isinstance(cell, date | datetime):
            period = cell.year if by_year else cell.month
            counts[period] = counts.get(period, 0) + 1
    best = clear_best([(Decimal(n), k) for k, n in counts.items()], highest=True)
    if not isinstance(best, int):
        return None
    unit = "year" if by_year else "calendar month"
    example = scope.rng.choice([m for i, m in enumerate(MONTHS, 1) if i != best])
    hint = (
        "" if by_year else f" Taking all years together, answer with the English name of the month, such as {example}."
    )
    question = f"Going by the {f.noun}, which {unit} has the most {sel.many}?{hint}"
    null = (f"{column} IS NOT NULL",) if f.blank else ()
    if by_year:
        sql = (
            f"SELECT YEAR({column}) {sel.source.sql}{sel.where(*null)} GROUP BY YEAR({column}) ORDER BY COUNT(*) "
            f"DESC LIMIT 1"
        )
        return single(question, sql, best, {"date", "group", *sel.tags})
    shown = f"MONTHNAME({column})"
    sql = f"SELECT {shown} {sel.source.sql}{sel.where(*null)} GROUP BY {shown} ORDER BY COUNT(*) DESC LIMIT 1"
    return single(question, sql, MONTHS[best - 1], {"date", "group", *sel.tags})
