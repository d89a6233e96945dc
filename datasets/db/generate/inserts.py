"""INSERT tasks. Invariant: the question names every value of every new row, or the row it is taken from."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

from drafts import NUMBER_WORDS, Draft, change, pairs_of, template
from model import Build, Entity, Field, Row, Value, article, literal
from selection import Scope, named, show


def _fresh(scope: Scope, entity: Entity, taken: Sequence[Row] = ()) -> Row | None:
    """A plausible row that is not in the table, with a new key and label."""
    state = Build(scope.rng)
    state.tables = scope.data.rows
    old = [*scope.rows(entity), *taken]
    state.start = 900 + scope.rng.randrange(90)
    state.index = scope.rng.randrange(10, 30)
    for _ in range(30):
        state.row, state.parents = {}, {}
        for f in entity.fields:
            if f.role == "ref":
                parent = state.parents[f.name] = scope.rng.choice(scope.data.rows[f.target])
                state.row[f.name] = next(iter(parent.values()))
            else:
                state.row[f.name] = None if f.blank and scope.rng.random() < f.blank else f.make(state)
        row = dict(state.row)
        names = {entity.key.name, entity.label.name}
        if all(row[n] != r[n] for n in names for r in old):
            return row
    return None


def _spoken(f: Field, value: Value) -> str:
    if f.role == "flag":
        return f.yes if value else f.no
    return f"{f.noun} {show(f, value)}"


def _sentence(entity: Entity, row: Row, skip: Sequence[str] = ()) -> str:
    """Every value of a row in words, NULLs at the end."""
    spoken = [
        _spoken(f, row[f.name])
        for f in entity.fields
        if row[f.name] is not None and f.role != "ref" and f.name not in skip
    ]
    spoken += [
        f"{f.noun} id {row[f.name]}" if isinstance(row[f.name], int) else f"{f.noun} {row[f.name]}"
        for f in _refs(entity, row, skip)
    ]
    missing = [f.noun for f in entity.fields if row[f.name] is None and f.name not in skip]
    return pairs_of(spoken) + (
        f"; the {pairs_of(missing)} {'is' if len(missing) == 1 else 'are'} not known yet (NULL)" if missing else ""
    )


def _refs(entity: Entity, row: Row, skip: Sequence[str]) -> list[Field]:
    return [f for f in entity.having("ref") if f.name not in skip and row[f.name] is not None]


def _columns(entity: Entity, row: Row) -> str:
    """``column = value`` for every column."""
    return ", ".join(f"{f.name} = {_raw(f, row[f.name])}" for f in entity.fields)


def _raw(f: Field, value: Value) -> str:
    if f.role == "flag":
        return "true" if value else "false"
    return "NULL" if value is None else literal(value)


def _insert(entity: Entity, rows: Sequence[Row]) -> str:
    names = ", ".join(f.name for f in entity.fields)
    values = ", ".join("(" + ", ".join(literal(row[f.name]) for f in entity.fields) + ")" for row in rows)
    return f"INSERT INTO {entity.name} ({names}) VALUES {values}"


def _with(scope: Scope, entity: Entity, rows: Sequence[Row]) -> dict[str, list[Row]]:
    state = scope.data.copy()
    state[entity.name] += [dict(row) for row in rows]
    return state


@template("INSERT", "easy", 10)
def insert_one(scope: Scope) -> Draft | None:
    entity = scope.entity()
    row = entity and _fresh(scope, entity)
    if not entity or not row:
        return None
    question = scope.pick(
        f"Add {article(entity.one)} {entity.one} to the table {entity.name}: {_sentence(entity, row)}.",
        f"Please register a new {entity.one} in {entity.name} with {_sentence(entity, row)}.",
        f"Insert a row into {entity.name} with {_columns(entity, row)}.",
        f"A new {entity.one} has to be entered in the table {entity.name}. Here are the details: "
        f"{_sentence(entity, row)}.",
        f"We have a new {entity.one} with {_sentence(entity, row)}. Enter it in the table {entity.name}.",
    )
    return change(
        question, _insert(entity, [row]), _with(scope, entity, [row]), {"null"} if None in row.values() else ()
    )


@template("INSERT", "medium", 3)
def insert_several(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: len(e.fields) < 8)
    if not entity:
        return None
    n = scope.rng.choice((2, 2, 3))
    rows: list[Row] = []
    for _ in range(n):
        row = _fresh(scope, entity, rows)
        if row is None:
            return None
        rows.append(row)
    details = " ".join(f"({i}) {_sentence(entity, row)}." for i, row in enumerate(rows, 1))
    question = scope.pick(
        f"Add {NUMBER_WORDS[n]} new {entity.many} to the table {entity.name}. {details}",
        f"The following {NUMBER_WORDS[n]} {entity.many} are missing from {entity.name}; please enter them. {details}",
    )
    return change(question, _insert(entity, rows), _with(scope, entity, rows), {"multi-row"})


@template("INSERT", "medium", 4)
def insert_for_named_parent(scope: Scope) -> Draft | None:
    """The reference is given by the parent's label and must be looked up."""
    entity = scope.entity(lambda e: any(not scope.domain.table(f.target).label.primary for f in e.having("ref")))
    row = entity and _fresh(scope, entity)
    if not entity or not row:
        return None
    ref = scope.field(entity, lambda f: f.role == "ref" and not scope.domain.table(f.target).label.primary)
    if ref is None:
        return None
    parent = scope.domain.table(ref.target)
    owner = next(p for p in scope.rows(parent) if p[parent.key.name] == row[ref.name])
    linked = f"Link it through {ref.name} to {named(parent, owner)}"
    question = scope.pick(
        f"Enter a new {entity.one} in {entity.name} with {_sentence(entity, row, (ref.name,))}. {linked}.",
        f"Create {article(entity.one)} {entity.one} with {_sentence(entity, row, (ref.name,))}. Store it in "
        f"{entity.name}. {linked}.",
    )
    names = ", ".join(f.name for f in entity.fields)
    values = ", ".join(f"p.{parent.key.name}" if f is ref else literal(row[f.name]) for f in entity.fields)
    sql = (
        f"INSERT INTO {entity.name} ({names}) SELECT {values} FROM {parent.name} AS p "
        f"WHERE p.{parent.label.name} = {literal(owner[parent.label.name])}"
    )
    return change(question, sql, _with(scope, entity, [row]), {"subquery", "insert-select"})


@template("INSERT", "medium", 3)
def insert_with_next_key(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.key.role == "key")
    row = entity and _fresh(scope, entity)
    if not entity or not row:
        return None
    key = entity.key
    row = {**row, key.name: max(int(str(r[key.name])) for r in scope.rows(entity)) + 1}
    question = scope.pick(
        f"Add a new {entity.one} to {entity.name} with {_sentence(entity, row, (key.name,))}. "
        f"Its {key.name} is the highest existing {key.name} plus 1.",
        f"Register a further {entity.one} in the table {entity.name}: {_sentence(entity, row, (key.name,))}. "
        f"As {key.name}, use one more than the largest {key.name} so far.",
    )
    names = ", ".join(f.name for f in entity.fields)
    values = ", ".join(f"MAX(t.{key.name}) + 1" if f is key else literal(row[f.name]) for f in entity.fields)
    sql = f"INSERT INTO {entity.name} ({names}) SELECT {values} FROM {entity.name} AS t"
    return change(question, sql, _with(scope, entity, [row]), {"insert-select", "aggregate"})


@template("INSERT", "hard", 3)
def insert_copy(scope: Scope) -> Draft | None:
    """A copy of an existing row with a new key and label and one other change."""
    entity = scope.entity(lambda e: len(e.fields) > 3)
    fresh = entity and _fresh(scope, entity)
    if not entity or not fresh:
        return None
    model = scope.rng.choice(scope.rows(entity))
    f = scope.field(
        entity, lambda f: f.role in {"measure", "ordinal", "category", "date"} and fresh[f.name] != model[f.name]
    )
    if f is None or fresh[f.name] is None:
        return None
    new = list(dict.fromkeys((entity.key.name, entity.label.name, f.name)))
    changed = [f"{entity.field(n).noun} {show(entity.field(n), fresh[n])}" for n in new]
    row = {**model, **{n: fresh[n] for n in new}}
    question = scope.pick(
        f"Insert a copy of {named(entity, model)} into {entity.name}, but with {pairs_of(changed)}. All other "
        f"columns keep the same values.",
        f"Duplicate {named(entity, model)} in the table {entity.name}. The copy gets {pairs_of(changed)}; "
        f"everything else stays identical.",
    )
    names = ", ".join(g.name for g in entity.fields)
    values = ", ".join(literal(row[g.name]) if g.name in new else f"t.{g.name}" for g in entity.fields)
    sql = (
        f"INSERT INTO {entity.name} ({names}) SELECT {values} FROM {entity.name} AS t "
        f"WHERE t.{entity.label.name} = {literal(model[entity.label.name])}"
    )
    return change(question, sql, _with(scope, entity, [row]), {"insert-select"})


@template("INSERT", "hard", 2)
def insert_relative_date(scope: Scope) -> Draft | None:
    """A row whose date is counted from another row's."""
    entity = scope.entity(lambda e: e.having("date"))
    fresh = entity and _fresh(scope, entity)
    f = entity and scope.field(entity, lambda f: f.role == "date")
    if not entity or not fresh or not f:
        return None
    model = scope.rng.choice(scope.rows(entity))
    day = model[f.name]
    if not isinstance(day, date):
        return None
    shift = scope.rng.randint(3, 40)
    row = {**fresh, f.name: day + timedelta(days=shift)}
    question = (
        f"Add a new {entity.one} to {entity.name} with {_sentence(entity, row, (f.name,))}. "
        f"Its {f.noun} ({f.name}) lies {shift} days after the {f.noun} of {named(entity, model)}."
    )
    names = ", ".join(g.name for g in entity.fields)
    values = ", ".join(
        f"DATE_ADD(t.{f.name}, INTERVAL {shift} DAY)" if g is f else literal(row[g.name]) for g in entity.fields
    )
    sql = (
        f"INSERT INTO {entity.name} ({names}) SELECT {values} FROM {entity.name} AS t "
        f"WHERE t.{entity.label.name} = {literal(model[entity.label.name])}"
    )
    return change(question, sql, _with(scope, entity, [row]), {"insert-select", "date"})
