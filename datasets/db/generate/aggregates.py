"""Questions for a sum, mean, minimum or maximum. Invariant: a rounded result is not near a rounding edge."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from drafts import NUMBER_WORDS, Draft, grouped, mean, numbers, plain, rounded, single, template, what
from model import Entity, Field, Row
from selection import Scope, Selection

ROUND = "Round the result to two decimals."
DATE = "Write the date as YYYY-MM-DD."


def _measured(
    scope: Scope, n: int, fits: Callable[[Field], bool], at_least: int = 3
) -> tuple[Entity, Field, Selection] | None:
    entity = scope.entity(lambda e: any(fits(f) for f in e.fields))
    f = entity and scope.field(entity, fits)
    sel = entity and f and scope.select(entity, n, avoid=(f.name,), at_least=at_least)
    return (entity, f, sel) if entity and f and sel and len(numbers(sel.rows, f.name)) >= at_least else None


def _measure(f: Field) -> bool:
    return f.role == "measure"


def _summable(f: Field) -> bool:
    return f.summable


def _of(f: Field, sel: Selection) -> str:
    unit = f" (in {f.unit})" if f.unit else ""
    return f"{f.noun}{unit} of all {sel.many}"


def _skip(entity: Entity, f: Field) -> str:
    return f"Ignore {entity.many} without a recorded {f.noun}." if f.blank else ""


def _total(scope: Scope, n: int) -> Draft | None:
    found = _measured(scope, n, _summable)
    if not found:
        return None
    entity, f, sel = found
    question = scope.pick(
        what(scope, f"the total {_of(f, sel)}"),
        what(scope, f"the sum of the {_of(f, sel)}"),
        f"Add up the {_of(f, sel)}.",
        f"Taken together, what {f.noun}{f' (in {f.unit})' if f.unit else ''} do all {sel.many} reach?",
    )
    sql = f"SELECT SUM({entity.name}.{f.name}) {sel.source.sql}{sel.where()}"
    return single(question, sql, plain(sum(numbers(sel.rows, f.name), Decimal(0))), sel.tags)


@template("aggregation-SUM", "easy", 8)
def total_one_condition(scope: Scope) -> Draft | None:
    return _total(scope, 1)


@template("aggregation-SUM", "medium", 4)
def total_two_conditions(scope: Scope) -> Draft | None:
    return _total(scope, 2)


@template("aggregation-SUM", "hard", 3)
def total_of_products(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.products)
    if not entity:
        return None
    a, b, noun = scope.rng.choice(entity.products)
    sel = scope.select(entity, 1, avoid=(a, b), at_least=3)
    if not sel:
        return None
    total = sum((Decimal(str(r[a])) * Decimal(str(r[b])) for r in sel.rows), Decimal(0))
    first, second = entity.field(a).noun, entity.field(b).noun
    question = scope.pick(
        what(scope, f"the total {noun} of all {sel.many}", f"The {noun} is the {first} times the {second}."),
        f"Multiply the {first} by the {second} to get the {noun}. What {noun} do all {sel.many} reach together?",
    )
    sql = f"SELECT SUM({entity.name}.{a} * {entity.name}.{b}) {sel.source.sql}{sel.where()}"
    return single(question, sql, total, {"arithmetic", *sel.tags})


@template("aggregation-SUM", "hard", 3)
def total_of_top_rows(scope: Scope) -> Draft | None:
    found = _measured(scope, scope.rng.choice((0, 1)), _summable, 6)
    if not found:
        return None
    entity, f, sel = found
    n = scope.rng.choice((3, 4, 5))
    values = sorted(numbers(sel.rows, f.name), reverse=True)
    if values[n - 1] == values[n]:
        return None
    question = scope.pick(
        f"Add up the {NUMBER_WORDS[n]} highest values of {f.noun} among the {sel.many}. What is the sum?",
        what(scope, f"the combined {f.noun} of the {NUMBER_WORDS[n]} {sel.many} with the highest {f.noun}"),
    )
    column = f"{entity.name}.{f.name}"
    inner = f"SELECT {column} AS v {sel.source.sql}{sel.where()} ORDER BY {column} DESC LIMIT {n}"
    return single(
        question,
        f"SELECT SUM(top_rows.v) FROM ({inner}) AS top_rows",
        plain(sum(values[:n], Decimal(0))),
        {"subquery", *sel.tags},
    )


@template("aggregation-SUM", "hard", 2)
def total_over_busy_parents(scope: Scope) -> Draft | None:
    """The total over children of parents that have enough of them."""
    link = scope.relation(lambda p, c: any(f.summable for f in c.fields))
    if not link:
        return None
    parent, child, ref = link
    f = scope.field(child, _summable)
    if not f:
        return None
    n = scope.rng.choice((2, 3, 4))
    big = [r for g in grouped(scope.rows(child), ref.name).values() if len(g) >= n for r in g]
    if len(big) < 4 or len(big) == len(scope.rows(child)):
        return None
    question = (
        f"Consider only the {parent.many} that {ref.have} at least {NUMBER_WORDS[n]} {child.many}. "
        f"What is the total {f.noun} of all {child.many} linked to these {parent.many}?"
    )
    inner = f"SELECT x.{ref.name} FROM {child.name} AS x GROUP BY x.{ref.name} HAVING COUNT(*) >= {n}"
    sql = f"SELECT SUM(t.{f.name}) FROM {child.name} AS t WHERE t.{ref.name} IN ({inner})"
    return single(question, sql, plain(sum(numbers(big, f.name), Decimal(0))), {"having", "subquery"})


def _average(scope: Scope, n: int) -> Draft | None:
    found = _measured(scope, n, _measure)
    if not found:
        return None
    entity, f, sel = found
    value = rounded(mean(numbers(sel.rows, f.name)))
    if value is None:
        return None
    question = what(
        scope, f"the {scope.pick('average', 'average', 'mean')} {_of(f, sel)}", f"{_skip(entity, f)} {ROUND}".strip()
    )
    sql = f"SELECT ROUND(AVG({entity.name}.{f.name}), 2) {sel.source.sql}{sel.where()}"
    return single(question, sql, value, sel.tags)


@template("aggregation-AVG", "easy", 7)
def average_one_condition(scope: Scope) -> Draft | None:
    return _average(scope, 1)


@template("aggregation-AVG", "medium", 4)
def average_two_conditions(scope: Scope) -> Draft | None:
    return _average(scope, 2)


@template("aggregation-AVG", "hard", 2)
def average_with_missing_as_zero(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: any(f.summable and f.blank for f in e.fields))
    f = entity and scope.field(entity, lambda f: f.summable and bool(f.blank))
    sel = entity and f and scope.select(entity, 1, avoid=(f.name,), at_least=4)
    if not entity or not f or not sel or not any(r[f.name] is None for r in sel.rows):
        return None
    value = rounded(sum(numbers(sel.rows, f.name), Decimal(0)) / len(sel.rows))
    if not value:
        return None
    question = what(scope, f"the average {_of(f, sel)}", f"Count a missing {f.noun} as 0. {ROUND}")
    sql = f"SELECT ROUND(AVG(COALESCE({entity.name}.{f.name}, 0)), 2) {sel.source.sql}{sel.where()}"
    return single(question, sql, value, {"null", *sel.tags})


@template("aggregation-AVG", "medium", 3)
def average_span(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.spans)
    if not entity:
        return None
    first, last, noun = scope.rng.choice(entity.spans)
    sel = scope.select(entity, 1, avoid=(first, last), at_least=4)
    days = [Decimal(d) for d in span_days(sel.rows, first, last)] if sel else []
    value = rounded(mean(days)) if len(days) > 2 else None
    if not sel or value is None:
        return None
    a, z = entity.field(first).noun, entity.field(last).noun
    skip = f"Leave out {entity.many} without a recorded {z}." if entity.field(last).blank else ""
    question = what(
        scope,
        f"the average {noun} in days of all {sel.many}",
        f"Count from the {a} to the {z}. {skip} {ROUND}".replace("  ", " "),
    )
    sql = f"SELECT ROUND(AVG(DATEDIFF({entity.name}.{last}, {entity.name}.{first})), 2) {sel.source.sql}{sel.where()}"
    return single(question, sql, value, {"date", *sel.tags})


def span_days(rows: list[Row], first: str, last: str) -> list[int]:
    return [(r[last] - r[first]).days for r in rows if r[last] is not None]  # type: ignore[operator, union-attr]


@template("aggregation-AVG", "hard", 3)
def average_number_of_children(scope: Scope) -> Draft | None:
    link = scope.relation()
    if not link:
        return None
    parent, child, ref = link
    sel = scope.select(child, scope.rng.choice((0, 1)), avoid=(ref.name,), at_least=8, share=0.95)
    if not sel:
        return None
    groups = grouped(sel.rows, ref.name)
    value = rounded(Decimal(len(sel.rows)) / len(groups))
    if value is None or value == 1:
        return None
    question = (
        f"Take every {parent.one} that {ref.has} at least one {sel.one}. "
        f"How many such {child.many} does each of these {parent.many} account for on average? {ROUND}"
    )
    inner = f"SELECT COUNT(*) AS n {sel.source.sql}{sel.where()} GROUP BY {child.name}.{ref.name}"
    return single(
        question, f"SELECT ROUND(AVG(counted.n), 2) FROM ({inner}) AS counted", value, {"group", "subquery", *sel.tags}
    )


def _extreme(scope: Scope, n: int, highest: bool) -> Draft | None:
    found = _measured(scope, n, _measure)
    if not found:
        return None
    entity, f, sel = found
    values = numbers(sel.rows, f.name)
    value = max(values) if highest else min(values)
    word = scope.pick("highest", "maximum") if highest else scope.pick("lowest", "minimum")
    unit = f" (in {f.unit})" if f.unit else ""
    question = what(scope, f"the {word} {f.noun}{unit} among {scope.pick('the', 'all')} {sel.many}")
    sql = f"SELECT {'MAX' if highest else 'MIN'}({entity.name}.{f.name}) {sel.source.sql}{sel.where()}"
    return single(question, sql, plain(value), sel.tags)


def _extreme_date(scope: Scope, highest: bool) -> Draft | None:
    entity = scope.entity(lambda e: e.having("date"))
    f = entity and scope.field(entity, lambda f: f.role == "date")
    sel = entity and f and scope.select(entity, scope.rng.choice((1, 1, 2)), avoid=(f.name,), at_least=3)
    if not entity or not f or not sel:
        return None
    days = [r[f.name] for r in sel.rows if r[f.name] is not None]
    if len(days) < 2:
        return None
    word = scope.pick("latest", "most recent" if f.name != "licence_until" else "latest") if highest else "earliest"
    question = what(scope, f"the {word} {f.noun} among the {sel.many}", DATE)
    value = max(days) if highest else min(days)  # type: ignore[type-var]
    sql = f"SELECT {'MAX' if highest else 'MIN'}({entity.name}.{f.name}) {sel.source.sql}{sel.where()}"
    return single(question, sql, value, {"date", *sel.tags})


def _extreme_of_totals(scope: Scope, highest: bool) -> Draft | None:
    link = scope.relation(lambda p, c: any(f.summable for f in c.fields))
    if not link:
        return None
    parent, child, ref = link
    f = scope.field(child, _summable)
    sel = f and scope.select(child, scope.rng.choice((0, 1)), avoid=(ref.name, f.name), at_least=6, share=0.95)
    if not f or not sel:
        return None
    totals = [sum(v, Decimal(0)) for g in grouped(sel.rows, ref.name).values() if (v := numbers(g, f.name))]
    if len(totals) < 3:
        return None
    side = "highest" if highest else "lowest"
    question = scope.pick(
        f"Add up the {f.noun} of the {sel.many} separately for each {parent.one}. What is the {side} total?",
        f"What is the {side} total {f.noun} that any {parent.one} reaches over {parent.its} {sel.many}?",
    )
    if not highest:
        question += f" Leave out every {parent.one} without such {child.many}" + (
            f" or without any recorded {f.noun}." if f.blank else "."
        )
    fn = "MAX" if highest else "MIN"
    inner = f"SELECT SUM({child.name}.{f.name}) AS total {sel.source.sql}{sel.where()} GROUP BY {child.name}.{ref.name}"
    value = plain(max(totals) if highest else min(totals))
    return single(
        question, f"SELECT {fn}(totals.total) FROM ({inner}) AS totals", value, {"group", "subquery", *sel.tags}
    )


def _extreme_of_averages(scope: Scope, highest: bool) -> Draft | None:
    entity = scope.entity(lambda e: e.having("category") and e.having("measure"))
    if not entity:
        return None
    by, f = scope.field(entity, lambda f: f.role == "category" and not f.blank), scope.field(entity, _measure)
    if not by or not f:
        return None
    means = [mean(v) for g in grouped(scope.rows(entity), by.name).values() if (v := numbers(g, f.name))]
    value = rounded(max(means) if highest else min(means)) if len(means) > 2 else None
    if value is None:
        return None
    side = "highest" if highest else "lowest"
    question = scope.pick(
        f"Compute the average {f.noun} of the {entity.many} for each {by.noun}. What is the {side} of these averages?",
        f"Grouping the {entity.many} by {by.noun}, what is the {side} average {f.noun} of any group?",
    )
    fn = "MAX" if highest else "MIN"
    inner = f"SELECT AVG({f.name}) AS average FROM {entity.name} GROUP BY {by.name}"
    hint = f"{_skip(entity, f)} {ROUND}".strip()
    return single(
        f"{question} {hint}",
        f"SELECT ROUND({fn}(means.average), 2) FROM ({inner}) AS means",
        value,
        {"group", "subquery"},
    )


def _extreme_span(scope: Scope, highest: bool) -> Draft | None:
    entity = scope.entity(lambda e: e.spans)
    if not entity:
        return None
    first, last, noun = scope.rng.choice(entity.spans)
    sel = scope.select(entity, 1, avoid=(first, last), at_least=4)
    days = span_days(sel.rows, first, last) if sel else []
    if not sel or len(days) < 3:
        return None
    side = "longest" if highest else "shortest"
    a, z = entity.field(first).noun, entity.field(last).noun
    skip = f" Leave out {entity.many} without a recorded {z}." if entity.field(last).blank else ""
    question = what(scope, f"the {side} {noun} in days among the {sel.many}", f"Count from the {a} to the {z}.{skip}")
    fn = "MAX" if highest else "MIN"
    sql = f"SELECT {fn}(DATEDIFF({entity.name}.{last}, {entity.name}.{first})) {sel.source.sql}{sel.where()}"
    return single(question, sql, max(days) if highest else min(days), {"date", *sel.tags})


@template("aggregation-MAX", "easy", 6)
def maximum_one_condition(scope: Scope) -> Draft | None:
    return _extreme(scope, 1, True)


@template("aggregation-MAX", "medium", 3)
def maximum_two_conditions(scope: Scope) -> Draft | None:
    return _extreme(scope, 2, True)


@template("aggregation-MAX", "medium", 2)
def latest_date(scope: Scope) -> Draft | None:
    return _extreme_date(scope, True)


@template("aggregation-MAX", "hard", 3)
def maximum_of_totals(scope: Scope) -> Draft | None:
    return _extreme_of_totals(scope, True)


@template("aggregation-MAX", "hard", 2)
def maximum_of_averages(scope: Scope) -> Draft | None:
    return _extreme_of_averages(scope, True)


@template("aggregation-MAX", "medium", 2)
def longest_span(scope: Scope) -> Draft | None:
    return _extreme_span(scope, True)


@template("aggregation-MAX", "hard", 2)
def most_children_of_any(scope: Scope) -> Draft | None:
    link = scope.relation()
    if not link:
        return None
    parent, child, ref = link
    sel = scope.select(child, 1, avoid=(ref.name,), at_least=6)
    if not sel:
        return None
    found = max(len(g) for g in grouped(sel.rows, ref.name).values())
    if found < 2:
        return None
    question = scope.pick(
        f"Count the {sel.many} for each {parent.one}. What is the highest count?",
        f"What is the largest number of {sel.many} that any single {parent.one} {ref.has}?",
    )
    inner = f"SELECT COUNT(*) AS n {sel.source.sql}{sel.where()} GROUP BY {child.name}.{ref.name}"
    return single(question, f"SELECT MAX(counted.n) FROM ({inner}) AS counted", found, {"group", "subquery", *sel.tags})


@template("aggregation-MIN", "easy", 6)
def minimum_one_condition(scope: Scope) -> Draft | None:
    return _extreme(scope, 1, False)


@template("aggregation-MIN", "medium", 3)
def minimum_two_conditions(scope: Scope) -> Draft | None:
    return _extreme(scope, 2, False)


@template("aggregation-MIN", "medium", 2)
def earliest_date(scope: Scope) -> Draft | None:
    return _extreme_date(scope, False)


@template("aggregation-MIN", "hard", 3)
def minimum_of_totals(scope: Scope) -> Draft | None:
    return _extreme_of_totals(scope, False)


@template("aggregation-MIN", "hard", 2)
def minimum_of_averages(scope: Scope) -> Draft | None:
    return _extreme_of_averages(scope, False)


@template("aggregation-MIN", "medium", 1)
def shortest_span(scope: Scope) -> Draft | None:
    return _extreme_span(scope, False)


@template("aggregation-SUM", "hard", 4)
def total_across_tables(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("ref") and any(f.summable for f in e.fields))
    f = entity and scope.field(entity, _summable)
    sel = entity and scope.select_deep(entity)
    if not entity or not f or not sel or len(numbers(sel.rows, f.name)) < 2:
        return None
    question = what(scope, f"the total {_of(f, sel)}")
    sql = f"SELECT SUM({entity.name}.{f.name}) {sel.source.sql}{sel.where()}"
    return single(question, sql, plain(sum(numbers(sel.rows, f.name), Decimal(0))), sel.tags)


@template("aggregation-AVG", "hard", 4)
def average_across_tables(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("ref") and e.having("measure"))
    f = entity and scope.field(entity, _measure)
    sel = entity and scope.select_deep(entity)
    if not entity or not f or not sel or len(numbers(sel.rows, f.name)) < 2:
        return None
    value = rounded(mean(numbers(sel.rows, f.name)))
    if value is None:
        return None
    question = what(scope, f"the average {_of(f, sel)}", f"{_skip(entity, f)} {ROUND}".strip())
    sql = f"SELECT ROUND(AVG({entity.name}.{f.name}), 2) {sel.source.sql}{sel.where()}"
    return single(question, sql, value, sel.tags)


def _extreme_across_tables(scope: Scope, highest: bool) -> Draft | None:
    entity = scope.entity(lambda e: e.having("ref") and e.having("measure"))
    f = entity and scope.field(entity, _measure)
    sel = entity and scope.select_deep(entity)
    if not entity or not f or not sel or len(values := numbers(sel.rows, f.name)) < 2:
        return None
    question = what(scope, f"the {'highest' if highest else 'lowest'} {_of(f, sel)}")
    sql = f"SELECT {'MAX' if highest else 'MIN'}({entity.name}.{f.name}) {sel.source.sql}{sel.where()}"
    return single(question, sql, plain(max(values) if highest else min(values)), sel.tags)


@template("aggregation-MAX", "hard", 3)
def maximum_across_tables(scope: Scope) -> Draft | None:
    return _extreme_across_tables(scope, True)


@template("aggregation-MIN", "hard", 3)
def minimum_across_tables(scope: Scope) -> Draft | None:
    return _extreme_across_tables(scope, False)
