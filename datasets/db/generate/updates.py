"""UPDATE tasks. Invariant: at least one row really changes, and every new value is given or computed as told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal

from drafts import Draft, change, grouped, mean, numbers, pairs_of, template
from model import Build, Entity, Field, Row, Value, literal, text
from selection import Scope, Selection, named, show


def _new_value(scope: Scope, entity: Entity, f: Field, old: Row) -> Value:
    """A plausible other value; None when none is found. Dates and measures are drawn from the table's range."""
    if f.role == "category":
        values = sorted({text(r[f.name]) for r in scope.rows(entity) if r[f.name] is not None} - {text(old[f.name])})
        return scope.rng.choice(values) if values else None
    state = Build(scope.rng)
    state.row = dict(old)
    state.parents = {r.name: p for r in entity.having("ref") if (p := scope.data.parent(old, r))}
    if any(old[n] is None for n in old if isinstance(n, str) and n != f.name and entity.field(n).role == "date"):
        return None
    value = f.make(state)
    return None if value == old[f.name] else value


def _settable(f: Field) -> bool:
    return f.role in {"category", "measure", "ordinal", "date"}


def _apply(
    scope: Scope, entity: Entity, keep: Callable[[Row], bool], new: Callable[[Row], Row]
) -> dict[str, list[Row]] | None:
    """The tables after ``new`` was merged into every row that ``keep`` accepts; None when nothing changes."""
    state = scope.data.copy()
    changed = 0
    for row in state[entity.name]:
        if keep(row):
            values = new(row)
            changed += any(row[k] != v for k, v in values.items())
            row.update(values)
    return state if changed else None


def _draft(
    question: str,
    sql: str | tuple[str, ...],
    state: dict[str, list[Row]] | None,
    sel: Selection | None = None,
    *tags: str,
) -> Draft | None:
    if state is None:
        return None
    more = sel.tags if sel else set()
    return change(question, sql, state, {*tags, *more})


def _where(sel: Selection, *more: str) -> str:
    """Conditions on a single table, or a key list when the selection joins."""
    if sel.source.n_tables == 1:
        return sel.where(*more)
    key = f"{sel.entity.name}.{sel.entity.key.name}"
    inner = f"SELECT k FROM (SELECT {key} AS k {sel.source.sql}{sel.where(*more)}) AS chosen"
    return f" WHERE {sel.entity.key.name} IN ({inner})"


@template("UPDATE", "easy", 9)
def set_one_cell(scope: Scope) -> Draft | None:
    entity = scope.entity()
    f = entity and scope.field(entity, _settable)
    if not entity or not f:
        return None
    row = scope.rng.choice(scope.rows(entity))
    value = _new_value(scope, entity, f, row)
    if value is None:
        return None
    label = entity.label.name
    this = named(entity, row)
    question = scope.pick(
        f"Set the {f.noun} of {this} to {show(f, value)}.",
        f"The {f.noun} of {this} is wrong. Change it to {show(f, value)}.",
        f"Our records are out of date: {this} has {show(f, value)} as {entity.its} {f.noun}.",
        f"In the table {entity.name}, change {f.name} to {show(f, value)} for {this}.",
    )
    sql = f"UPDATE {entity.name} SET {f.name} = {literal(value)} WHERE {label} = {literal(row[label])}"
    return _draft(question, sql, _apply(scope, entity, lambda r: r[label] == row[label], lambda r: {f.name: value}))


@template("UPDATE", "medium", 3)
def set_two_cells(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: sum(map(_settable, e.fields)) > 1)
    if not entity:
        return None
    fields = scope.rng.sample([f for f in entity.fields if _settable(f)], 2)
    row = scope.rng.choice(scope.rows(entity))
    values = {f.name: _new_value(scope, entity, f, row) for f in fields}
    if None in values.values():
        return None
    label = entity.label.name
    said = [f"{entity.its} {f.noun} to {show(f, values[f.name])}" for f in fields]
    question = scope.pick(
        f"Update {named(entity, row)}: set {pairs_of(said)}.",
        f"Two details of {named(entity, row)} have changed. Set {pairs_of(said)}.",
    )
    sets = ", ".join(f"{n} = {literal(v)}" for n, v in values.items())
    sql = f"UPDATE {entity.name} SET {sets} WHERE {label} = {literal(row[label])}"
    return _draft(
        question, sql, _apply(scope, entity, lambda r: r[label] == row[label], lambda r: values), None, "multi-column"
    )


@template("UPDATE", "medium", 4)
def set_for_selection(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("category"))
    f = entity and scope.field(entity, lambda f: f.role in {"category", "flag"})
    sel = entity and f and scope.select(entity, scope.rng.choice((1, 2)), avoid=(f.name,), at_least=2, share=0.5)
    if not entity or not f or not sel:
        return None
    value: Value
    if f.role == "flag":
        value = scope.rng.random() < 0.5
        shown = "true" if value else "false"
        question = f"Set {f.name} to {shown} for all {sel.many}."
    else:
        value = scope.rng.choice(sorted({text(r[f.name]) for r in scope.rows(entity) if r[f.name] is not None}))
        question = scope.pick(
            f"Change the {f.noun} of all {sel.many} to {value}.",
            f"All {sel.many} must get the {f.noun} {value}. Update them.",
            f"Please set {f.name} to {value} for every {sel.one}.",
        )
    sql = f"UPDATE {entity.name} SET {f.name} = {literal(value)}{_where(sel)}"
    return _draft(question, sql, _apply(scope, entity, sel.test, lambda r: {f.name: value}), sel)


@template("UPDATE", "medium", 4)
def shift_measure(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("measure"))
    f = entity and scope.field(entity, lambda f: f.role == "measure")
    sel = entity and f and scope.select(entity, scope.rng.choice((1, 1, 2)), at_least=2, share=0.6)
    if not entity or not f or not sel:
        return None
    low = min(numbers(scope.rows(entity), f.name))
    up = low <= 3 or scope.rng.random() < 0.65
    step = scope.rng.choice((1, 2, 3, 5, 10)) if up else min(scope.rng.choice((1, 2, 3)), int(low) - 1)
    if step < 1:
        return None
    question = scope.pick(
        f"{'Increase' if up else 'Reduce'} the {f.noun} of all {sel.many} by {step}.",
        f"For every {sel.one}, {'raise' if up else 'lower'} the {f.noun} by {step}.",
    )
    if f.blank:
        question += f" A missing {f.noun} stays missing."
    sql = f"UPDATE {entity.name} SET {f.name} = {f.name} {'+' if up else '-'} {step}{_where(sel)}"
    delta = step if up else -step
    state = _apply(scope, entity, sel.test, lambda r: {f.name: None if r[f.name] is None else r[f.name] + delta})  # type: ignore[operator]
    return _draft(question, sql, state, sel, "arithmetic")


@template("UPDATE", "hard", 4)
def scale_measure(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: any(f.type == "DECIMAL(12,2)" for f in e.fields))
    f = entity and scope.field(entity, lambda f: f.type == "DECIMAL(12,2)")
    sel = entity and f and scope.select(entity, scope.rng.choice((1, 1, 2)), at_least=2, share=0.6)
    if not entity or not f or not sel:
        return None
    percent = scope.rng.choice((3, 4, 5, 7, 8, 12, 15, 20, 25))
    up = scope.rng.random() < 0.6
    factor = Decimal(100 + (percent if up else -percent)) / 100

    def scaled(row: Row) -> Value:
        cell = row[f.name]
        return (cell * factor).quantize(Decimal("0.01"), ROUND_HALF_UP) if isinstance(cell, Decimal) else None

    if any(_on_edge(r[f.name], factor) for r in sel.rows):
        return None
    question = scope.pick(
        f"{'Increase' if up else 'Cut'} the {f.noun} of all {sel.many} by {percent} percent, rounded to two decimals.",
        f"For all {sel.many}, {'raise' if up else 'lower'} the {f.noun} by {percent}% and round the result to "
        f"two decimals.",
    )
    sql = f"UPDATE {entity.name} SET {f.name} = ROUND({f.name} * {factor}, 2){_where(sel)}"
    return _draft(question, sql, _apply(scope, entity, sel.test, lambda r: {f.name: scaled(r)}), sel, "arithmetic")


def _on_edge(cell: Value, factor: Decimal) -> bool:
    """Whether the product lies half way between two cents."""
    return isinstance(cell, Decimal) and (cell * factor * 1000) % 10 == 5


@template("UPDATE", "medium", 3)
def fill_missing(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: any(f.blank and f.role in {"category", "measure", "date"} for f in e.fields))
    f = entity and scope.field(entity, lambda f: bool(f.blank) and f.role in {"category", "measure", "date"})
    if not entity or not f:
        return None
    sel = scope.select(entity, scope.rng.choice((0, 1)), avoid=(f.name,), at_least=3)
    if not sel or sum(r[f.name] is None for r in sel.rows) < 2:
        return None
    value = (
        _new_value(scope, entity, f, {**scope.rng.choice(scope.rows(entity)), f.name: None})
        if f.role != "date"
        else None
    )
    if f.role == "date":
        value = max(r[f.name] for r in scope.rows(entity) if r[f.name] is not None)  # type: ignore[type-var]
        value = value + timedelta(days=scope.rng.randint(1, 60)) if isinstance(value, date) else None
    if value is None:
        return None
    question = scope.pick(
        f"Some {sel.many} have no recorded {f.noun}. Set it to {show(f, value)} for all of them.",
        f"Fill in {show(f, value)} as the {f.noun} wherever it is missing among the {sel.many}.",
    )
    sql = f"UPDATE {entity.name} SET {f.name} = {literal(value)}{_where(sel, f'{entity.name}.{f.name} IS NULL')}"
    state = _apply(scope, entity, lambda r: r[f.name] is None and sel.test(r), lambda r: {f.name: value})
    return _draft(question, sql, state, sel, "null")


@template("UPDATE", "medium", 2)
def clear_cells(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: any(f.blank for f in e.fields))
    f = entity and scope.field(entity, lambda f: bool(f.blank))
    sel = entity and f and scope.select(entity, 1, avoid=(f.name,), at_least=2, share=0.5)
    if not entity or not f or not sel:
        return None
    question = scope.pick(
        f"The {f.noun} of all {sel.many} turned out to be unreliable. Set it to NULL.",
        f"Delete the {f.noun} (set {f.name} to NULL) of every {sel.one}, but keep the rows.",
    )
    sql = f"UPDATE {entity.name} SET {f.name} = NULL{_where(sel)}"
    return _draft(question, sql, _apply(scope, entity, sel.test, lambda r: {f.name: None}), sel, "null")


@template("UPDATE", "medium", 3)
def postpone(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("date"))
    f = entity and scope.field(entity, lambda f: f.role == "date" and "birth" not in f.noun)
    sel = entity and f and scope.select(entity, 1, avoid=(f.name,), at_least=2, share=0.5)
    if not entity or not f or not sel:
        return None
    days = scope.rng.randint(2, 45)
    question = scope.pick(
        f"Move the {f.noun} of all {sel.many} {days} days later.",
        f"For every {sel.one}, shift the {f.noun} by {days} days into the future.",
    )
    if f.blank:
        question += f" A missing {f.noun} stays missing."
    sql = f"UPDATE {entity.name} SET {f.name} = DATE_ADD({f.name}, INTERVAL {days} DAY){_where(sel)}"

    def later(row: Row) -> Row:
        cell = row[f.name]
        return {f.name: cell + timedelta(days=days) if isinstance(cell, date) else None}

    return _draft(question, sql, _apply(scope, entity, sel.test, later), sel, "date", "arithmetic")


@template("UPDATE", "medium", 3)
def move_children(scope: Scope) -> Draft | None:
    link = scope.relation()
    if not link:
        return None
    parent, child, ref = link
    a, b = scope.rng.sample(scope.rows(parent), 2)
    old, new = a[parent.key.name], b[parent.key.name]
    where = f"{ref.name} = {literal(old)}"
    value = literal(new)
    if not parent.label.primary:
        label, key = parent.label.name, parent.key.name
        where = f"{ref.name} = (SELECT {key} FROM {parent.name} WHERE {label} = {literal(a[label])})"
        value = f"(SELECT {key} FROM {parent.name} WHERE {label} = {literal(b[label])})"
    question = scope.pick(
        f"All {child.many} that point to {named(parent, a)} as their {ref.noun} should point to "
        f"{named(parent, b)} instead. "
        f"Change {ref.name} accordingly.",
        f"In {child.name}, replace {named(parent, a)} by {named(parent, b)} as the {ref.noun} ({ref.name}) everywhere.",
    )
    sql = f"UPDATE {child.name} SET {ref.name} = {value} WHERE {where}"
    state = _apply(scope, child, lambda r: r[ref.name] == old, lambda r: {ref.name: new})
    return _draft(question, sql, state, None, "subquery", "join-2")


@template("UPDATE", "hard", 3)
def raise_by_case(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("category") and e.having("measure"))
    if not entity:
        return None
    by = scope.field(entity, lambda f: f.role == "category" and not f.blank)
    f = scope.field(entity, lambda f: f.role == "measure" and not f.blank)
    values = sorted({text(r[by.name]) for r in scope.rows(entity)}) if by else []
    if not by or not f or len(values) < 2:
        return None
    special = scope.rng.choice(values)
    high, low = scope.rng.choice(((5, 2), (10, 4), (3, 1), (8, 3)))
    question = scope.pick(
        f"Raise the {f.noun} by {high} for {entity.many} {by.phrase.format(v=special)} and by {low} for all "
        f"other {entity.many}.",
        f"Increase {f.name} in {entity.name}: by {high} where the {by.noun} is {special}, by {low} everywhere else.",
    )
    sql = (
        f"UPDATE {entity.name} SET {f.name} = {f.name} + CASE WHEN {by.name} = {literal(special)} THEN {high} "
        f"ELSE {low} END"
    )

    def raised(row: Row) -> Row:
        return {f.name: row[f.name] + (high if row[by.name] == special else low)}  # type: ignore[operator]

    return _draft(question, sql, _apply(scope, entity, lambda r: True, raised), None, "case", "arithmetic")


@template("UPDATE", "hard", 3)
def set_beyond_average(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("category") and e.having("measure"))
    if not entity:
        return None
    f = scope.field(entity, lambda f: f.role == "measure")
    target = scope.field(entity, lambda f: f.role == "category")
    if not f or not target:
        return None
    average = mean(numbers(scope.rows(entity), f.name))
    if any(abs(v - average) < Decimal("0.01") for v in numbers(scope.rows(entity), f.name)):
        return None
    above = scope.rng.random() < 0.5
    value = scope.rng.choice(sorted({text(r[target.name]) for r in scope.rows(entity) if r[target.name] is not None}))
    side = "above" if above else "below"
    question = scope.pick(
        f"Set the {target.noun} to {value} for every {entity.one} whose {f.noun} lies {side} the average "
        f"{f.noun} of all {entity.many}.",
        f"Work out the average {f.noun} of all {entity.many}, then change the {target.noun} of each "
        f"{entity.one} {side} it to {value}.",
    )
    inner = f"SELECT m.average FROM (SELECT AVG({f.name}) AS average FROM {entity.name}) AS m"
    sql = f"UPDATE {entity.name} SET {target.name} = {literal(value)} WHERE {f.name} {'>' if above else '<'} ({inner})"

    def beyond(row: Row) -> bool:
        return any((v > average) == above for v in numbers([row], f.name))

    return _draft(question, sql, _apply(scope, entity, beyond, lambda r: {target.name: value}), None, "subquery")


@template("UPDATE", "hard", 3)
def mark_busy_parents(scope: Scope) -> Draft | None:
    """Parents chosen by how many children they have."""
    link = scope.relation(lambda p, c: p.having("category", "measure"))
    if not link:
        return None
    parent, child, ref = link
    f = scope.field(parent, lambda f: f.role in {"category", "measure"})
    if f is None:
        return None
    n = scope.rng.choice((2, 3, 4, 5))
    busy = {k for k, g in grouped(scope.rows(child), ref.name).items() if len(g) >= n}
    value = _new_value(scope, parent, f, scope.rng.choice(scope.rows(parent)))
    if value is None or not 1 <= len(busy) < len(scope.rows(parent)):
        return None
    question = scope.pick(
        f"Set the {f.noun} to {show(f, value)} for all {parent.many} that {ref.have} at least {n} {child.many}.",
        f"Find the {parent.many} that {ref.have} {n} or more {child.many} and change their {f.noun} to "
        f"{show(f, value)}.",
    )
    key = parent.key.name
    inner = f"SELECT {ref.name} FROM {child.name} GROUP BY {ref.name} HAVING COUNT(*) >= {n}"
    sql = f"UPDATE {parent.name} SET {f.name} = {literal(value)} WHERE {key} IN ({inner})"
    state = _apply(scope, parent, lambda r: r[key] in busy, lambda r: {f.name: value})
    return _draft(question, sql, state, None, "having", "subquery")


@template("UPDATE", "hard", 3)
def swap_cells(scope: Scope) -> Draft | None:
    entity = scope.entity()
    f = entity and scope.field(entity, _settable)
    if not entity or not f:
        return None
    a, b = scope.rng.sample(scope.rows(entity), 2)
    if a[f.name] == b[f.name] or None in (a[f.name], b[f.name]):
        return None
    label = entity.label.name
    new = {a[label]: b[f.name], b[label]: a[f.name]}
    question = scope.pick(
        f"The {f.noun} of {named(entity, a)} and the {f.noun} of {named(entity, b)} were mixed up. Swap them.",
        f"Exchange the values of {f.name} between {named(entity, a)} and {named(entity, b)}.",
    )

    which = f"WHERE {label} IN ({literal(a[label])}, {literal(b[label])})"
    look = f"SELECT {label}, {f.name} FROM {entity.name} {which}"
    swapped = f"CASE WHEN {label} = {literal(a[label])} THEN {literal(b[f.name])} ELSE {literal(a[f.name])} END"
    sql = (look, f"UPDATE {entity.name} SET {f.name} = {swapped} {which}")
    state = _apply(scope, entity, lambda r: r[label] in new, lambda r: {f.name: new[r[label]]})
    return _draft(question, sql, state, None, "case", "look-up")


@template("UPDATE", "hard", 2)
def copy_cell(scope: Scope) -> Draft | None:
    """A value taken over from another row."""
    entity = scope.entity()
    f = entity and scope.field(entity, lambda f: f.role in {"category", "measure"})
    if not entity or not f:
        return None
    source = scope.rng.choice(scope.rows(entity))
    sel = scope.select(entity, 1, avoid=(f.name,), at_least=1, share=0.3, flat=True)
    if not sel or source[f.name] is None:
        return None
    label = entity.label.name
    question = scope.pick(
        f"Give all {sel.many} the {f.noun} that {named(entity, source)} has.",
        f"All {sel.many} must get the same {f.noun} as {named(entity, source)}. Update {f.name} accordingly.",
    )
    value = f"(SELECT s.v FROM (SELECT {f.name} AS v FROM {entity.name} WHERE {label} = {literal(source[label])}) AS s)"
    sql = f"UPDATE {entity.name} SET {f.name} = {value}{_where(sel)}"
    return _draft(question, sql, _apply(scope, entity, sel.test, lambda r: {f.name: source[f.name]}), sel, "subquery")
