"""Comparison questions. Invariant: the two sides differ, and a difference is positive."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from drafts import Draft, extremes, grouped, listing, mean, numbers, plain, rounded, single, template, what
from model import Entity, Field, Row, Value, literal, text
from selection import Scope, named


def _two(scope: Scope, entity: Entity, f: Field) -> tuple[Row, Row] | None:
    """Two rows with different values, the greater one first."""
    rows = [r for r in scope.rows(entity) if r[f.name] is not None]
    if len(rows) < 2:
        return None
    a, b = scope.rng.sample(rows, 2)
    if a[f.name] == b[f.name]:
        return None
    return (a, b) if a[f.name] > b[f.name] else (b, a)  # type: ignore[operator]


def _cell(entity: Entity, column: str, row: Row) -> str:
    return f"(SELECT {column} FROM {entity.name} WHERE {entity.label.name} = {literal(row[entity.label.name])})"


def _unit(f: Field) -> str:
    return f" (in {f.unit})" if f.unit else ""


@template("comparison", "easy", 8)
def difference_of_two(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("measure"))
    f = entity and scope.field(entity, lambda f: f.role == "measure")
    two = entity and f and _two(scope, entity, f)
    if not entity or not f or not two:
        return None
    a, b = two
    gap = plain(Decimal(str(a[f.name])) - Decimal(str(b[f.name])))
    big, small = named(entity, a), named(entity, b)
    question = scope.pick(
        f"By how much does the {f.noun} of {big} exceed that of {small}{_unit(f)}?",
        f"What is the difference in {f.noun}{_unit(f)} between {big} and {small}? Give a positive number.",
        f"Compare {small} with {big}: how much higher is the {f.noun} of the latter{_unit(f)}?",
    )
    return single(question, f"SELECT {_cell(entity, f.name, a)} - {_cell(entity, f.name, b)}", gap)


@template("comparison", "medium", 3)
def days_between_two(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("date"))
    f = entity and scope.field(entity, lambda f: f.role == "date")
    two = entity and f and _two(scope, entity, f)
    if not entity or not f or not two:
        return None
    late, early = two
    days = (late[f.name] - early[f.name]).days  # type: ignore[operator, union-attr]
    question = scope.pick(
        f"How many days lie between the {f.noun} of {named(entity, early)} and the {f.noun} of {named(entity, late)}?",
        f"By how many days is the {f.noun} of {named(entity, late)} later than that of {named(entity, early)}?",
    )
    sql = f"SELECT DATEDIFF({_cell(entity, f.name, late)}, {_cell(entity, f.name, early)})"
    return single(question, sql, days, {"date"})


@template("comparison", "medium", 4)
def attribute_of_the_greater(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("measure", "ordinal", "date") and len(e.fields) > 3)
    f = entity and scope.field(entity, lambda f: f.role in {"measure", "ordinal", "date"})
    asked = (
        entity
        and f
        and scope.field(entity, lambda g: g.role in {"category", "measure", "ordinal", "date"} and g.name != f.name)
    )
    two = entity and f and _two(scope, entity, f)
    if not entity or not f or not asked or not two:
        return None
    greater = scope.rng.random() < 0.5
    row, other = two if greater else two[::-1]
    if row[asked.name] is None or row[asked.name] == other[asked.name]:
        return None
    side = ("higher" if greater else "lower") if extremes(f)[0] == "highest" else ("later" if greater else "earlier")
    shown = [named(entity, r) for r in scope.rng.sample(two, 2)]
    question = scope.pick(
        f"Take {shown[0]} and {shown[1]}. What is the {asked.noun} of the one with the {side} {f.noun}?",
        f"Of {shown[0]} and {shown[1]}, pick the one with the {side} {f.noun} and give {entity.its} {asked.noun}.",
    )
    if asked.role == "date":
        question += " Write the date as YYYY-MM-DD."
    labels = ", ".join(literal(r[entity.label.name]) for r in two)
    sql = (
        f"SELECT {asked.name} FROM {entity.name} WHERE {entity.label.name} IN ({labels}) "
        f"ORDER BY {f.name} {'DESC' if greater else 'ASC'} LIMIT 1"
    )
    return single(question, sql, row[asked.name], {"date"} if "date" in (f.role, asked.role) else ())


@template("comparison", "medium", 3)
def count_beyond_one(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("measure", "date"))
    f = entity and scope.field(entity, lambda f: f.role in {"measure", "date"})
    if not entity or not f:
        return None
    sel = scope.select(entity, scope.rng.choice((0, 1)), avoid=(f.name,), at_least=4, flat=True)
    row = scope.rng.choice(scope.rows(entity))
    limit = row[f.name]
    if not sel or limit is None:
        return None
    high = scope.rng.random() < 0.5
    found = sum(r[f.name] is not None and (r[f.name] > limit if high else r[f.name] < limit) for r in sel.rows)  # type: ignore[operator]
    if found < 2:
        return None
    side = {"measure": ("a higher", "a lower"), "date": ("a later", "an earlier")}[f.role][0 if high else 1]
    question = scope.pick(
        f"How many {sel.many} have {side} {f.noun} than {named(entity, row)}?",
        f"Compared with {named(entity, row)}, how many {sel.many} have {side} {f.noun}?",
    )
    condition = f"{entity.name}.{f.name} {'>' if high else '<'} {_aliased(entity, f.name, row)}"
    return single(question, f"SELECT COUNT(*) {sel.source.sql}{sel.where(condition)}", found, {"subquery", *sel.tags})


def _aliased(entity: Entity, column: str, row: Row) -> str:
    label = entity.label.name
    return f"(SELECT x.{column} FROM {entity.name} AS x WHERE x.{label} = {literal(row[label])})"


@template("comparison", "hard", 3)
def difference_of_group_averages(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("category") and e.having("measure"))
    if not entity:
        return None
    by, f = scope.field(entity, lambda f: f.role == "category"), scope.field(entity, lambda f: f.role == "measure")
    if not by or not f:
        return None
    groups = grouped(scope.rows(entity), by.name)
    means = [(mean(v), k) for k, g in groups.items() if len(v := numbers(g, f.name)) > 1]
    if len(means) < 2:
        return None
    high, low = sorted(scope.rng.sample(means, 2), key=lambda m: m[0], reverse=True)
    gap = rounded(high[0] - low[0])
    if not gap:
        return None
    big, small = (f"{entity.many} {by.phrase.format(v=text(k))}" for _, k in (high, low))
    question = scope.pick(
        f"By how much is the average {f.noun} of {big} higher than that of {small}?",
        f"Compare the average {f.noun} of {big} with that of {small}: what is the difference, as a positive number?",
    )
    if f.blank:
        question += f" Ignore {entity.many} without a recorded {f.noun}."

    def average(value: Value) -> str:
        return f"(SELECT AVG({f.name}) FROM {entity.name} WHERE {by.name} = {literal(value)})"

    sql = f"SELECT ROUND({average(high[1])} - {average(low[1])}, 2)"
    return single(f"{question} Round to two decimals.", sql, gap, {"group", "subquery"})


@template("comparison", "hard", 3)
def difference_of_child_counts(scope: Scope) -> Draft | None:
    link = scope.relation()
    if not link:
        return None
    parent, child, ref = link
    sel = scope.select(child, scope.rng.choice((0, 1)), avoid=(ref.name,), at_least=8, flat=True)
    groups = grouped(sel.rows, ref.name) if sel else {}
    if not sel or len(groups) < 2:
        return None
    more, less = sorted(scope.rng.sample(sorted(groups, key=str), 2), key=lambda k: len(groups[k]), reverse=True)
    gap = len(groups[more]) - len(groups[less])
    if gap < 1:
        return None
    a, b = (next(r for r in scope.rows(parent) if r[parent.key.name] == k) for k in (more, less))
    question = scope.pick(
        f"How many more {sel.many} belong to {named(parent, a)} than to {named(parent, b)}?"
        if not sel.clauses
        else f"Looking at {sel.many} only, how many more belong to {named(parent, a)} than to {named(parent, b)}?",
        f"Count the {sel.many} for {named(parent, a)} and for {named(parent, b)}. By how many does the first "
        f"count exceed the second?",
    )

    def count(row: Row) -> str:
        condition = f"{child.name}.{ref.name} = {literal(row[parent.key.name])}"
        if not parent.label.primary:
            condition = f"{child.name}.{ref.name} = {_aliased(parent, parent.key.name, row)}"
        return f"(SELECT COUNT(*) {sel.source.sql}{sel.where(condition)})"

    return single(question, f"SELECT {count(a)} - {count(b)}", gap, {"subquery", "join-2", *sel.tags})


@template("comparison", "hard", 3)
def peers_beyond_one(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("category") and e.having("measure"))
    if not entity:
        return None
    by, f = scope.field(entity, lambda f: f.role == "category"), scope.field(entity, lambda f: f.role == "measure")
    row = scope.rng.choice(scope.rows(entity))
    if not by or not f or row[by.name] is None or row[f.name] is None:
        return None
    high = scope.rng.random() < 0.5
    peers = [r for r in scope.rows(entity) if r[by.name] == row[by.name] and r[f.name] is not None]
    found = [r for r in peers if (r[f.name] > row[f.name] if high else r[f.name] < row[f.name])]  # type: ignore[operator]
    if not 1 <= len(found) <= 5:
        return None
    label = entity.label.name
    side = "higher" if high else "lower"
    nouns = entity.label.nouns
    question = scope.pick(
        f"Which {entity.many} with the same {by.noun} as {named(entity, row)} have a {side} {f.noun}? Give "
        f"their {nouns}, in any order.",
        f"Among {entity.many} that share the {by.noun} of {named(entity, row)}, list the {nouns} of all with "
        f"a {side} {f.noun} than {named(entity, row)}, "
        "in any order.",
    )
    sql = (
        f"SELECT t.{label} FROM {entity.name} AS t JOIN {entity.name} AS o ON o.{by.name} = t.{by.name} "
        f"WHERE o.{label} = {literal(row[label])} AND t.{f.name} {'>' if high else '<'} o.{f.name}"
    )
    return listing(question, sql, [r[label] for r in found], {"self-join"})


@template("comparison", "medium", 2)
def spread_of_selection(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("measure", "date"))
    f = entity and scope.field(entity, lambda f: f.role in {"measure", "date"})
    sel = entity and f and scope.select(entity, 1, avoid=(f.name,), at_least=4)
    if not entity or not f or not sel:
        return None
    column = f"{entity.name}.{f.name}"
    days = [v for r in sel.rows if isinstance(v := r[f.name], date)]
    if f.role == "date":
        if len(set(days)) < 3:
            return None
        question = what(scope, f"the number of days between the earliest and the latest {f.noun} among the {sel.many}")
        sql = f"SELECT DATEDIFF(MAX({column}), MIN({column})) {sel.source.sql}{sel.where()}"
        return single(question, sql, (max(days) - min(days)).days, {"date", *sel.tags})
    values = numbers(sel.rows, f.name)
    if len(set(values)) < 3:
        return None
    question = what(scope, f"the difference between the highest and the lowest {f.noun}{_unit(f)} among the {sel.many}")
    sql = f"SELECT MAX({column}) - MIN({column}) {sel.source.sql}{sel.where()}"
    return single(question, sql, plain(max(values) - min(values)), sel.tags)


@template("comparison", "hard", 2)
def rows_above_their_group(scope: Scope) -> Draft | None:
    """Rows beyond the average of their own group, counted."""
    entity = scope.entity(lambda e: e.having("category") and e.having("measure"))
    if not entity:
        return None
    by = scope.field(entity, lambda f: f.role == "category" and not f.blank)
    f = scope.field(entity, lambda f: f.role == "measure" and not f.blank)
    if not by or not f:
        return None
    found = 0
    for group in grouped(scope.rows(entity), by.name).values():
        average = mean(numbers(group, f.name))
        if len(group) > 1 and any(abs(v - average) < Decimal("0.001") for v in numbers(group, f.name)):
            return None
        found += sum(v > average for v in numbers(group, f.name)) if len(group) > 1 else 0
    question = scope.pick(
        f"How many {entity.many} have a higher {f.noun} than the average of all {entity.many} with the same {by.noun}?",
        f"Compare the {f.noun} of every {entity.one} with the average {f.noun} over {entity.many} with the "
        f"same {by.noun}. How many {entity.many} lie above it?",
    )
    inner = f"SELECT AVG(x.{f.name}) FROM {entity.name} AS x WHERE x.{by.name} = t.{by.name}"
    sql = f"SELECT COUNT(*) FROM {entity.name} AS t WHERE t.{f.name} > ({inner})"
    return single(question, sql, found, {"subquery", "correlated"})


@template("comparison", "medium", 2)
def share_of_a_value(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("category", "flag"))
    sel = entity and scope.select(entity, 1, flat=True, share=0.6)
    if not entity or not sel:
        return None
    share = rounded(Decimal(100 * len(sel.rows)) / len(scope.rows(entity)))
    if share is None:
        return None
    question = scope.pick(
        f"What percentage of all {entity.many} are {sel.many}? Round to two decimals and leave out the percent sign.",
        f"Out of all {entity.many}, what share is made up of {sel.many}? Give a percentage rounded to two "
        f"decimals, without the sign.",
    )
    sql = f"SELECT ROUND(100.0 * (SELECT COUNT(*) {sel.source.sql}{sel.where()}) / COUNT(*), 2) FROM {entity.name}"
    return single(question, sql, share, {"subquery", *sel.tags})
