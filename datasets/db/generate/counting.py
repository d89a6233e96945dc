"""Counting questions. Invariant: the count is at least two and never the whole table."""

from __future__ import annotations

from datetime import date

from drafts import NUMBER_WORDS, Draft, grouped, how_many, mean, numbers, single, template
from model import Entity, article, literal
from selection import Scope, named


def _count(scope: Scope, n: int) -> Draft | None:
    entity = scope.entity()
    sel = entity and scope.select(entity, n)
    if not sel:
        return None
    sql = f"SELECT COUNT(*) {sel.source.sql}{sel.where()}"
    return single(how_many(scope, sel.many), sql, len(sel.rows), sel.tags)


@template("counting", "easy", 6)
def count_one_condition(scope: Scope) -> Draft | None:
    return _count(scope, 1)


@template("counting", "medium", 4)
def count_two_conditions(scope: Scope) -> Draft | None:
    return _count(scope, 2)


@template("counting", "hard", 2)
def count_three_conditions(scope: Scope) -> Draft | None:
    return _count(scope, 3)


@template("counting", "medium", 2)
def count_distinct_values(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("category"))
    f = entity and scope.field(entity, lambda f: f.role == "category")
    sel = entity and f and scope.select(entity, 1, avoid=(f.name,), at_least=3)
    if not entity or not f or not sel:
        return None
    found = len(grouped(sel.rows, f.name))
    if found < 2 or found == len(sel.rows):
        return None
    question = scope.pick(
        f"How many different {f.nouns} occur among the {sel.many}?",
        f"Looking only at {sel.many}, how many distinct {f.nouns} are there?",
        f"Count the different {f.nouns} found among the {sel.many}.",
    )
    if f.blank:
        question += f" Leave out {entity.many} without a recorded {f.noun}."
    sql = f"SELECT COUNT(DISTINCT {entity.name}.{f.name}) {sel.source.sql}{sel.where()}"
    return single(question, sql, found, {"distinct", *sel.tags})


@template("counting", "medium", 3)
def count_distinct_parents(scope: Scope) -> Draft | None:
    link = scope.relation()
    if not link:
        return None
    parent, child, ref = link
    sel = scope.select(child, 1, avoid=(ref.name,), at_least=3)
    if not sel:
        return None
    found = len({r[ref.name] for r in sel.rows})
    if found < 2 or found in (len(sel.rows), len(scope.rows(parent))):
        return None
    question = scope.pick(
        f"How many different {parent.many} {ref.have} {sel.many}?",
        f"Count the {parent.many} that {ref.have} at least one {sel.one}.",
        f"What is the number of distinct {parent.many} that {ref.have} {sel.many}?",
    )
    sql = f"SELECT COUNT(DISTINCT {child.name}.{ref.name}) {sel.source.sql}{sel.where()}"
    return single(question, sql, found, {"distinct", *sel.tags})


@template("counting", "hard", 3)
def count_groups_of_a_size(scope: Scope) -> Draft | None:
    link = scope.relation(lambda p, c: len(scope.rows(p)) >= 8)
    if not link:
        return None
    parent, child, ref = link
    sel = scope.select(child, scope.rng.choice((0, 1)), avoid=(ref.name,), at_least=10, share=0.9)
    if not sel:
        return None
    sizes = [len(g) for g in grouped(sel.rows, ref.name).values()]
    n = scope.rng.choice((2, 3, 4))
    found = sum(size >= n for size in sizes)
    if found < 2 or found == len(scope.rows(parent)):
        return None
    question = scope.pick(
        f"How many {parent.many} {ref.have} at least {NUMBER_WORDS[n]} {sel.many}?",
        f"Count the {parent.many} that {ref.have} {NUMBER_WORDS[n]} or more {sel.many}.",
    )
    inner = (
        f"SELECT {child.name}.{ref.name} {sel.source.sql}{sel.where()} GROUP BY {child.name}.{ref.name} "
        f"HAVING COUNT(*) >= {n}"
    )
    sql = f"SELECT COUNT(*) FROM ({inner}) AS grouped_rows"
    return single(question, sql, found, {"having", "subquery", *sel.tags})


@template("counting", "hard", 3)
def count_without_children(scope: Scope) -> Draft | None:
    link = scope.relation()
    if not link:
        return None
    parent, child, ref = link
    sel = scope.select(child, scope.rng.choice((0, 1, 1)), avoid=(ref.name,), flat=True)
    if not sel:
        return None
    used = {r[ref.name] for r in sel.rows}
    found = sum(p[parent.key.name] not in used for p in scope.rows(parent))
    if found < 2 or found == len(scope.rows(parent)):
        return None
    question = scope.pick(
        f"How many {parent.many} {ref.hasnt} {sel.many}?",
        f"Count the {parent.many} that {ref.hasnt} {sel.many}.",
        f"What is the number of {parent.many} that {ref.hasnt} {sel.many}?",
    )
    match = f"{child.name}.{ref.name} = {parent.name}.{parent.key.name}"
    sql = f"SELECT COUNT(*) FROM {parent.name} WHERE NOT EXISTS (SELECT 1 {sel.source.sql}{sel.where(match)})"
    return single(question, sql, found, {"set-difference", "subquery", *sel.tags})


@template("counting", "hard", 3)
def count_above_average(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("measure"))
    f = entity and scope.field(entity, lambda f: f.role == "measure")
    if not entity or not f:
        return None
    sel = scope.select(entity, scope.rng.choice((0, 1)), avoid=(f.name,), at_least=6)
    if not sel:
        return None
    average = mean(numbers(scope.rows(entity), f.name))
    values = numbers(sel.rows, f.name)
    high = scope.rng.random() < 0.5
    found = sum((v > average) if high else (v < average) for v in values)
    if found < 2 or any(abs(v - average) < 1 / 1000 for v in values):
        return None
    side, sign = ("above", ">") if high else ("below", "<")
    question = scope.pick(
        f"How many {sel.many} have {article(f.noun)} {f.noun} {side} the average {f.noun} of all {entity.many}?",
        f"Take the average {f.noun} over all {entity.many}. How many {sel.many} lie {side} it?",
    )
    condition = f"{entity.name}.{f.name} {sign} (SELECT AVG(x.{f.name}) FROM {entity.name} AS x)"
    return single(question, f"SELECT COUNT(*) {sel.source.sql}{sel.where(condition)}", found, {"subquery", *sel.tags})


@template("counting", "medium", 2)
def count_shared_value(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("category"))
    f = entity and scope.field(entity, lambda f: f.role == "category")
    if not entity or not f:
        return None
    row = scope.rng.choice(scope.rows(entity))
    if row[f.name] is None:
        return None
    found = sum(r[f.name] == row[f.name] for r in scope.rows(entity)) - 1
    if found < 2:
        return None
    this = named(entity, row)
    question = scope.pick(
        f"How many other {entity.many} have the same {f.noun} as {this}?",
        f"Apart from {this}, how many {entity.many} have the {f.noun} of {this}?",
    )
    return single(question, _peers_sql(entity, f.name, row[entity.label.name]), found, {"subquery"})


def _peers_sql(entity: Entity, column: str, label: object) -> str:
    name = entity.label.name
    spelled = literal(str(label))
    inner = f"SELECT x.{column} FROM {entity.name} AS x WHERE x.{name} = {spelled}"
    return f"SELECT COUNT(*) FROM {entity.name} AS t WHERE t.{column} = ({inner}) AND t.{name} <> {spelled}"


@template("counting", "hard", 2)
def count_long_spans(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.spans)
    if not entity:
        return None
    first, last, noun = scope.rng.choice(entity.spans)
    sel = scope.select(entity, 1, avoid=(first, last), at_least=5)
    if not sel:
        return None
    days = [(r[last] - r[first]).days for r in sel.rows if r[last] is not None]  # type: ignore[operator, union-attr]
    if len(days) < 4:
        return None
    limit = sorted(days)[scope.rng.randrange(1, len(days) - 1)]
    found = sum(d > limit for d in days)
    if found < 2:
        return None
    a, z = entity.field(first).noun, entity.field(last).noun
    question = scope.pick(
        f"How many {sel.many} had a {noun} of more than {limit} days, counted from the {a} to the {z}?",
        f"For how many {sel.many} do more than {limit} days lie between the {a} and the {z}?",
    )
    if entity.field(last).blank:
        question += f" Ignore {entity.many} without a recorded {z}."
    condition = f"DATEDIFF({entity.name}.{last}, {entity.name}.{first}) > {limit}"
    return single(
        question, f"SELECT COUNT(*) {sel.source.sql}{sel.where(condition)}", found, {"date", "null", *sel.tags}
    )


@template("counting", "hard", 3)
def count_weekdays(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("date", "moment"))
    f = entity and scope.field(entity, lambda f: f.role in {"date", "moment"})
    sel = entity and f and scope.select(entity, scope.rng.choice((0, 1)), avoid=(f.name,), at_least=8)
    if not entity or not f or not sel:
        return None
    column = f"{entity.name}.{f.name}"
    days = [cell for r in sel.rows if isinstance(cell := r[f.name], date)]
    if scope.rng.random() < 0.5:
        when, condition = "on a Saturday or Sunday", f"DAYOFWEEK({column}) IN (1, 7)"
        found = sum(d.isoweekday() > 5 for d in days)
    else:
        quarter = scope.rng.randint(1, 4)
        when = f"in the {('first', 'second', 'third', 'fourth')[quarter - 1]} quarter of a year"
        condition = f"QUARTER({column}) = {quarter}"
        found = sum((d.month - 1) // 3 + 1 == quarter for d in days)
    if not 2 <= found < len(sel.rows):
        return None
    question = scope.pick(
        f"For how many {sel.many} does the {f.noun} fall {when}?",
        f"How many {sel.many} have {article(f.noun)} {f.noun} that falls {when}?",
    )
    return single(question, f"SELECT COUNT(*) {sel.source.sql}{sel.where(condition)}", found, {"date", *sel.tags})


@template("counting", "medium", 2)
def count_cells_on_record(scope: Scope) -> Draft | None:
    """COUNT(column) against COUNT(*)."""
    entity = scope.entity(lambda e: any(f.blank for f in e.fields))
    f = entity and scope.field(entity, lambda f: bool(f.blank))
    sel = entity and f and scope.select(entity, 1, avoid=(f.name,), at_least=5)
    if not entity or not f or not sel:
        return None
    n = sum(r[f.name] is None for r in sel.rows)
    missing = scope.rng.random() < 0.5
    found = n if missing else len(sel.rows) - n
    if found < 2 or n < 1:
        return None
    question = scope.pick(
        f"For how many {sel.many} is {'no' if missing else article(f.noun)} {f.noun} recorded?",
        f"Among the {sel.many}, how many {'lack' if missing else 'have'} a recorded {f.noun}?",
    )
    sql = f"SELECT {'COUNT(*) - ' if missing else ''}COUNT({entity.name}.{f.name}) {sel.source.sql}{sel.where()}"
    return single(question, sql, found, {"null", *sel.tags})


@template("counting", "hard", 6)
def count_across_tables(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("ref"))
    sel = entity and scope.select_deep(entity)
    if not sel:
        return None
    return single(how_many(scope, sel.many), f"SELECT COUNT(*) {sel.source.sql}{sel.where()}", len(sel.rows), sel.tags)
