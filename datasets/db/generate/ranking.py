"""Ranking questions. Invariant: the asked place is unique and the asked order strict."""

from __future__ import annotations

from decimal import Decimal

from drafts import (
    NUMBER_WORDS,
    ORDINALS,
    Draft,
    alphabetical,
    clear_best,
    extremes,
    grouped,
    listing,
    mean,
    numbers,
    single,
    template,
)
from model import Entity, Field, Row, Value
from selection import Scope, Selection, named


def ranked_field(scope: Scope, entity: Entity) -> Field | None:
    return scope.field(entity, lambda f: f.role in {"measure", "ordinal", "date", "moment"})


def strict_order(rows: list[Row], name: str, *, highest: bool) -> list[Row] | None:
    """Rows with a value, in order; None when two share one."""
    valued = [r for r in rows if r[name] is not None]
    if len({r[name] for r in valued}) < len(valued):
        return None
    return sorted(valued, key=lambda r: r[name], reverse=highest)  # type: ignore[arg-type, return-value]


def superlative(f: Field, *, highest: bool) -> str:
    return f"the {extremes(f)[0 if highest else 1]} {f.noun}"


def _top(scope: Scope, n_clauses: int, places: int) -> tuple[Entity, Field, Selection, list[Row], bool] | None:
    """``places`` rows at the top of a selection, each clearly apart from the next."""
    entity = scope.entity(lambda e: e.having("measure", "ordinal", "date", "moment"))
    f = entity and ranked_field(scope, entity)
    if not entity or not f:
        return None
    sel = scope.select(entity, n_clauses, avoid=(f.name,), at_least=places + 2)
    if not sel:
        return None
    highest = scope.rng.random() < 0.6
    valued = [r for r in sel.rows if r[f.name] is not None]
    order = sorted(valued, key=lambda r: r[f.name], reverse=highest)  # type: ignore[arg-type, return-value]
    if len(order) <= places:
        return None
    values = [r[f.name] for r in order[: places + 1]]
    return (entity, f, sel, order, highest) if len(set(values)) == len(values) else None


def _top_sql(entity: Entity, f: Field, sel: Selection, highest: bool, limit: str) -> str:
    null = f"{entity.name}.{f.name} IS NOT NULL" if f.blank else ""
    where = sel.where(null) if null else sel.where()
    return (
        f"SELECT {entity.name}.{entity.label.name} {sel.source.sql}{where} "
        f"ORDER BY {entity.name}.{f.name} {'DESC' if highest else 'ASC'} LIMIT {limit}"
    )


def _best(scope: Scope, n_clauses: int) -> Draft | None:
    found = _top(scope, n_clauses, 1)
    if not found:
        return None
    entity, f, sel, order, highest = found
    most, noun = superlative(f, highest=highest), entity.label.noun
    forms = [
        f"Of all {sel.many}, which one has {most}? Give the {noun}.",
        f"Among the {sel.many}, find the one with {most} and answer with the {noun}.",
        f"What is the {noun} of the {entity.one} with {most} among all {sel.many}?",
    ]
    adjective = f.top if highest else f.low
    if adjective:
        forms += [
            f"What is the {noun} of the {adjective} {sel.one}?",
            f"Which is the {adjective} {sel.one}? Answer with the {noun}.",
        ]
    return single(scope.pick(*forms), _top_sql(entity, f, sel, highest, "1"), order[0][entity.label.name], sel.tags)


@template("ranking", "easy", 8)
def best_of_all(scope: Scope) -> Draft | None:
    return _best(scope, 0)


@template("ranking", "medium", 4)
def best_of_selection(scope: Scope) -> Draft | None:
    return _best(scope, scope.rng.choice((1, 1, 2)))


@template("ranking", "medium", 3)
def nth_of_selection(scope: Scope) -> Draft | None:
    n = scope.rng.choice((2, 3, 4))
    found = _top(scope, scope.rng.choice((0, 1)), n)
    if not found:
        return None
    entity, f, sel, order, highest = found
    most = superlative(f, highest=highest).replace("the ", f"the {ORDINALS[n]}-", 1)
    noun = entity.label.noun
    question = scope.pick(
        f"Which of the {sel.many} has {most}? Give the {noun}.",
        f"What is the {noun} of the {entity.one} with {most} among all {sel.many}?",
        f"Sort all {sel.many} by {f.noun} from {_direction(f, highest)}. Which {noun} stands in {ORDINALS[n]} place?",
    )
    if f.blank:
        question += f" Leave out {entity.many} without a recorded {f.noun}."
    sql = _top_sql(entity, f, sel, highest, f"1 OFFSET {n - 1}")
    return single(question, sql, order[n - 1][entity.label.name], sel.tags)


def _direction(f: Field, highest: bool) -> str:
    high, low = extremes(f)
    return f"{high} to {low}" if highest else f"{low} to {high}"


@template("ranking", "medium", 3)
def top_list(scope: Scope) -> Draft | None:
    n = scope.rng.choice((2, 3, 3, 4))
    found = _top(scope, scope.rng.choice((0, 1)), n)
    if not found:
        return None
    entity, f, sel, order, highest = found
    most = superlative(f, highest=highest)
    question = scope.pick(
        f"List the {entity.label.nouns} of the {NUMBER_WORDS[n]} {sel.many} with {most}, from "
        f"{_direction(f, highest)}.",
        f"Which {NUMBER_WORDS[n]} {sel.many} have {most}? Give their {entity.label.nouns} in order from "
        f"{_direction(f, highest)}.",
    )
    answers = [r[entity.label.name] for r in order[:n]]
    return listing(question, _top_sql(entity, f, sel, highest, str(n)), answers, sel.tags, ordered=True)


@template("ranking", "hard", 4)
def parent_with_most_children(scope: Scope) -> Draft | None:
    link = scope.relation()
    if not link:
        return None
    parent, child, ref = link
    sel = scope.select(child, scope.rng.choice((0, 1)), avoid=(ref.name,), at_least=6, share=0.95)
    if not sel:
        return None
    groups = grouped(sel.rows, ref.name)
    best = clear_best([(Decimal(len(g)), k) for k, g in groups.items()], highest=True)
    row = _by_key(scope, parent, best)
    if row is None:
        return None
    joined = sel.source.join(child.name, ref, parent)
    question = scope.pick(
        f"Which {parent.one} {ref.has} the most {sel.many}? Give the {parent.label.noun}.",
        f"Find the {parent.one} that {ref.has} the largest number of {sel.many} and answer with the "
        f"{parent.label.noun}.",
    )
    sql = (
        f"SELECT {joined}.{parent.label.name} {sel.source.sql}{sel.where()} "
        f"GROUP BY {joined}.{parent.key.name}, {joined}.{parent.label.name} ORDER BY COUNT(*) DESC LIMIT 1"
        if not parent.label.primary
        else f"SELECT {child.name}.{ref.name} {sel.source.sql}{sel.where()} "
        f"GROUP BY {child.name}.{ref.name} ORDER BY COUNT(*) DESC LIMIT 1"
    )
    return single(question, sql, row[parent.label.name], {"group", *sel.tags})


def _by_key(scope: Scope, parent: Entity, key: Value) -> Row | None:
    return next((r for r in scope.rows(parent) if key is not None and r[parent.key.name] == key), None)


@template("ranking", "hard", 4)
def parent_with_highest_total(scope: Scope) -> Draft | None:
    link = scope.relation(lambda p, c: any(f.summable for f in c.fields))
    if not link:
        return None
    parent, child, ref = link
    f = scope.field(child, lambda f: f.summable)
    if not f:
        return None
    sel = scope.select(child, scope.rng.choice((0, 1)), avoid=(ref.name, f.name), at_least=6, share=0.95)
    if not sel:
        return None
    totals = [
        (sum(numbers(g, f.name), Decimal(0)), k) for k, g in grouped(sel.rows, ref.name).items() if numbers(g, f.name)
    ]
    highest = scope.rng.random() < 0.65 or bool(f.blank)
    row = _by_key(scope, parent, clear_best(totals, highest=highest))
    if row is None:
        return None
    joined = sel.source.join(child.name, ref, parent)
    side = "highest" if highest else "lowest"
    counted = f"if only {sel.many} are counted" if sel.clauses else f"over all {sel.many} linked to it"
    only = "" if highest else f" Consider only {parent.many} that {ref.have} at least one such {child.one}."
    question = scope.pick(
        f"Add up the {f.noun} of all {sel.many} for each {parent.one}. Which {parent.one} comes out {side}? "
        f"Give the {parent.label.noun}.",
        f"Which {parent.one} has the {side} total {f.noun} {counted}? Answer with the {parent.label.noun}.",
    )
    sql = (
        f"SELECT {joined}.{parent.label.name} {sel.source.sql}{sel.where()} GROUP BY {joined}.{parent.key.name}"
        + ("" if parent.label.primary else f", {joined}.{parent.label.name}")
        + f" ORDER BY SUM({child.name}.{f.name}) {'DESC' if highest else 'ASC'} LIMIT 1"
    )
    return single(question + only, sql, row[parent.label.name], {"group", *sel.tags})


@template("ranking", "medium", 3)
def group_with_best_average(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("category") and e.having("measure"))
    if not entity:
        return None
    by, f = scope.field(entity, lambda f: f.role == "category"), scope.field(entity, lambda f: f.role == "measure")
    if not by or not f:
        return None
    sel = scope.select(entity, scope.rng.choice((0, 0, 1)), avoid=(by.name, f.name), at_least=8)
    if not sel:
        return None
    groups = grouped(sel.rows, by.name)
    means = [(mean(numbers(g, f.name)), k) for k, g in groups.items() if numbers(g, f.name)]
    highest = scope.rng.random() < 0.5
    best = clear_best(means, highest=highest, gap=Decimal("0.01"))
    if best is None:
        return None
    side = "highest" if highest else "lowest"
    question = scope.pick(
        f"Group all {sel.many} by {by.noun}. Which {by.noun} has the {side} average {f.noun}?",
        f"Which {by.noun} shows the {side} average {f.noun} among the {sel.many}?",
    )
    if by.blank or f.blank:
        question += " Ignore missing values."
    conditions = [f"{entity.name}.{x.name} IS NOT NULL" for x in (by, f) if x.blank]
    sql = (
        f"SELECT {entity.name}.{by.name} {sel.source.sql}{sel.where(*conditions)} GROUP BY {entity.name}.{by.name} "
        f"ORDER BY AVG({entity.name}.{f.name}) {'DESC' if highest else 'ASC'} LIMIT 1"
    )
    return single(question, sql, best, {"group", *sel.tags})


@template("ranking", "hard", 5)
def rank_within_group(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("category") and e.having("measure", "date"))
    if not entity:
        return None
    by, f = (
        scope.field(entity, lambda f: f.role == "category"),
        scope.field(entity, lambda f: f.role in {"measure", "date"}),
    )
    row = scope.rng.choice(scope.rows(entity))
    if not by or not f or row[by.name] is None or row[f.name] is None:
        return None
    order = strict_order([r for r in scope.rows(entity) if r[by.name] == row[by.name]], f.name, highest=True)
    if not order or len(order) < 4:
        return None
    place = order.index(row) + 1
    if place < 2:
        return None
    side = extremes(f)[0]
    this = named(entity, row)
    question = scope.pick(
        f"Rank the {entity.many} of the same {by.noun} as {this} by {f.noun}, with rank 1 for the {side}. "
        f"Which rank does {this} take?",
        f"Among all {entity.many} that share {entity.its} {by.noun}, what rank does {this} hold by {f.noun} "
        f"(rank 1 is the {side})?",
    )
    inner = (
        f"SELECT t.{entity.label.name} AS label, RANK() OVER (PARTITION BY t.{by.name} ORDER BY t.{f.name} "
        f"DESC) AS place "
        f"FROM {entity.name} AS t WHERE t.{f.name} IS NOT NULL"
    )
    sql = f"SELECT ranked.place FROM ({inner}) AS ranked WHERE ranked.label = '{row[entity.label.name]}'"
    return single(question, sql, place, {"window", "subquery"})


@template("ranking", "hard", 4)
def best_of_each_group(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("category") and e.having("measure"))
    if not entity:
        return None
    by, f = (
        scope.field(entity, lambda f: f.role == "category" and not f.blank),
        scope.field(entity, lambda f: f.role == "measure"),
    )
    if not by or not f:
        return None
    groups = {k: [r for r in g if r[f.name] is not None] for k, g in grouped(scope.rows(entity), by.name).items()}
    order = alphabetical(groups)
    if not order:
        return None
    winners: list[Row] = []
    for group in (groups[value] for value in order):
        best = clear_best([(Decimal(str(r[f.name])), r[entity.label.name]) for r in group], highest=True)
        if best is None:
            return None
        winners.append(next(r for r in group if r[entity.label.name] == best))
    if not 3 <= len(winners) <= 7:
        return None
    question = scope.pick(
        f"For every {by.noun}, find the {entity.one} with the highest {f.noun}. List the {entity.label.nouns} "
        f"of these {entity.many}, "
        f"ordered alphabetically by {by.noun}.",
        f"Which {entity.one} has the highest {f.noun} within each {by.noun}? Give one {entity.label.noun} per "
        f"{by.noun}, "
        f"in alphabetical order of the {by.noun}.",
    )
    inner = (
        f"SELECT t.{entity.label.name} AS label, t.{by.name} AS grp, ROW_NUMBER() OVER (PARTITION BY t.{by.name} "
        f"ORDER BY t.{f.name} DESC) AS place FROM {entity.name} AS t WHERE t.{f.name} IS NOT NULL"
    )
    sql = f"SELECT ranked.label FROM ({inner}) AS ranked WHERE ranked.place = 1 ORDER BY ranked.grp"
    return listing(
        question, sql, [r[entity.label.name] for r in winners], {"window", "group", "subquery"}, ordered=True
    )
