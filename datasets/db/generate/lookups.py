"""Questions of type "other" about single rows. Invariant: the row that is asked about is unique."""

from __future__ import annotations

from decimal import Decimal

from drafts import Draft, clear_best, single, template, what
from model import Entity, Field, literal, text
from selection import Scope, named


def _hint(f: Field) -> str:
    if f.role == "date":
        return "Write the date as YYYY-MM-DD."
    return "Write it as YYYY-MM-DD HH:MM:SS." if f.role == "moment" else ""


def _attribute(scope: Scope, entity: Entity) -> Field | None:
    return scope.field(
        entity, lambda f: f.role in {"category", "measure", "ordinal", "date", "moment"} and f.type != "BOOLEAN"
    )


@template("other", "easy", 8)
def attribute_of_one(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: len(e.fields) > 2)
    f = entity and _attribute(scope, entity)
    if not entity or not f:
        return None
    row = scope.rng.choice(scope.rows(entity))
    if row[f.name] is None:
        return None
    question = what(scope, f"the {f.noun} of {named(entity, row)}", _hint(f))
    label = entity.label.name
    return single(question, f"SELECT {f.name} FROM {entity.name} WHERE {label} = {literal(row[label])}", row[f.name])


@template("other", "medium", 4)
def attribute_of_parent(scope: Scope) -> Draft | None:
    link = scope.relation()
    if not link:
        return None
    parent, child, ref = link
    row = scope.rng.choice(scope.rows(child))
    owner = scope.data.parent(row, ref)
    f = scope.field(parent, lambda f: f.role in {"category", "measure", "ordinal", "date", "label"} and not f.primary)
    if owner is None or f is None or owner[f.name] is None:
        return None
    question = what(scope, f"the {f.noun} of {ref.whose.format(v=named(child, row))}", _hint(f))
    sql = (
        f"SELECT {parent.name}.{f.name} FROM {child.name} JOIN {parent.name} ON {parent.name}.{parent.key.name} = "
        f"{child.name}.{ref.name} WHERE {child.name}.{child.label.name} = {literal(row[child.label.name])}"
    )
    return single(question, sql, owner[f.name], {"join-2"})


@template("other", "hard", 4)
def attribute_of_grandparent(scope: Scope) -> Draft | None:
    link = scope.relation(lambda p, c: p.having("ref"))
    if not link:
        return None
    parent, child, ref = link
    up = scope.rng.choice(parent.having("ref"))
    grand = scope.domain.table(up.target)
    row = scope.rng.choice(scope.rows(child))
    owner = scope.data.parent(row, ref)
    top = scope.data.parent(owner, up) if owner else None
    f = scope.field(grand, lambda f: f.role in {"category", "measure", "ordinal", "date", "label"} and not f.primary)
    if top is None or f is None or top[f.name] is None:
        return None
    chain = up.whose.format(v=ref.whose.format(v=named(child, row)))
    sql = (
        f"SELECT g.{f.name} FROM {child.name} AS c JOIN {parent.name} AS p ON p.{parent.key.name} = c.{ref.name} "
        f"JOIN {grand.name} AS g ON g.{grand.key.name} = p.{up.name} "
        f"WHERE c.{child.label.name} = {literal(row[child.label.name])}"
    )
    return single(what(scope, f"the {f.noun} of {chain}", _hint(f)), sql, top[f.name], {"join-3"})


@template("other", "medium", 3)
def label_and_value_of_best(scope: Scope) -> Draft | None:
    """Two cells of one row."""
    entity = scope.entity(lambda e: e.having("measure"))
    f = entity and scope.field(entity, lambda f: f.role == "measure")
    sel = entity and f and scope.select(entity, 1, avoid=(f.name,), at_least=3)
    if not entity or not f or not sel:
        return None
    highest = scope.rng.random() < 0.6
    label = entity.label
    pairs = [(Decimal(str(r[f.name])), r[label.name]) for r in sel.rows if r[f.name] is not None]
    best = clear_best(pairs, highest=highest)
    if best is None:
        return None
    row = next(r for r in sel.rows if r[label.name] == best)
    side = "highest" if highest else "lowest"
    question = scope.pick(
        f"Of all {sel.many}, which one has the {side} {f.noun}? Give two answers: the {label.noun}, then the {f.noun}.",
        f"Find the {entity.one} with the {side} {f.noun} among the {sel.many}. Answer with the {label.noun} "
        f"and the {f.noun}, in this order.",
    )
    null = (f"{entity.name}.{f.name} IS NOT NULL",) if f.blank else ()
    sql = (
        f"SELECT {entity.name}.{label.name}, {entity.name}.{f.name} {sel.source.sql}{sel.where(*null)} "
        f"ORDER BY {entity.name}.{f.name} {'DESC' if highest else 'ASC'} LIMIT 1"
    )
    return Draft(
        question, (sql,), frozenset({"two-columns", *sel.tags}), ((row[label.name], row[f.name]),), ordered=True
    )


@template("other", "medium", 3)
def label_with_category_text(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("category") and e.having("measure", "date"))
    if not entity:
        return None
    by = scope.field(entity, lambda f: f.role == "category")
    f = scope.field(entity, lambda f: f.role in {"measure", "date"})
    if not by or not f:
        return None
    highest = scope.rng.random() < 0.6
    rows = [r for r in scope.rows(entity) if r[f.name] is not None]
    order = sorted(rows, key=lambda r: r[f.name], reverse=highest)  # type: ignore[arg-type, return-value]
    if len(order) < 3 or order[0][f.name] == order[1][f.name] or order[0][by.name] is None:
        return None
    side = {"measure": ("highest", "lowest"), "date": ("latest", "earliest")}[f.role][0 if highest else 1]
    label = entity.label
    style = scope.rng.choice(("brackets", "dash", "upper"))
    best, group = text(order[0][label.name]), text(order[0][by.name])
    start = f"Find the {entity.one} with the {side} {f.noun}."
    a, b = f"{entity.name}.{label.name}", f"{entity.name}.{by.name}"
    if style == "brackets":
        question = (
            f"{start} Answer in the form {label.noun} (the {by.noun} in round brackets), with one space before "
            f"the bracket."
        )
        answer, shown = f"{best} ({group})", f"CONCAT({a}, ' (', {b}, ')')"
    elif style == "dash":
        question = f'{start} Answer with the {label.noun} and {by.noun} joined by " - ".'
        answer, shown = f"{best} - {group}", f"CONCAT({a}, ' - ', {b})"
    else:
        question = f"{start} Answer with the {label.noun} in capital letters."
        answer, shown = best.upper(), f"UPPER({a})"
        if answer == best:
            return None
    null = f" WHERE {entity.name}.{f.name} IS NOT NULL" if f.blank else ""
    sql = (
        f"SELECT {shown} FROM {entity.name}{null} ORDER BY {entity.name}.{f.name} "
        f"{'DESC' if highest else 'ASC'} LIMIT 1"
    )
    return single(question, sql, answer, {"string"})


@template("other", "medium", 2)
def longest_label(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: not e.label.primary)
    sel = entity and scope.select(entity, scope.rng.choice((0, 1)), at_least=4, avoid=(entity.label.name,))
    if not entity or not sel:
        return None
    longest = scope.rng.random() < 0.6
    label = entity.label
    best = clear_best([(Decimal(len(str(r[label.name]))), r[label.name]) for r in sel.rows], highest=longest)
    if best is None:
        return None
    side = "longest" if longest else "shortest"
    question = scope.pick(
        f"Which {label.noun} is the {side} among the {sel.many}, counting all characters including spaces?",
        f"Find the {side} {label.noun} (by number of characters, spaces included) among the {sel.many}.",
    )
    column = f"{entity.name}.{label.name}"
    sql = (
        f"SELECT {column} {sel.source.sql}{sel.where()} ORDER BY CHAR_LENGTH({column}) "
        f"{'DESC' if longest else 'ASC'} LIMIT 1"
    )
    return single(question, sql, best, {"string", *sel.tags})


@template("other", "hard", 4)
def latest_child_of_parent(scope: Scope) -> Draft | None:
    link = scope.relation(lambda p, c: c.having("date", "moment"))
    if not link:
        return None
    parent, child, ref = link
    f = scope.field(child, lambda f: f.role in {"date", "moment"} and not f.blank)
    owner = scope.rng.choice(scope.rows(parent))
    rows = [r for r in scope.rows(child) if r[ref.name] == owner[parent.key.name]]
    if f is None or len(rows) < 2 or len({r[f.name] for r in rows}) < len(rows):
        return None
    latest = scope.rng.random() < 0.5
    row = sorted(rows, key=lambda r: r[f.name], reverse=latest)[0]  # type: ignore[arg-type, return-value]
    ask = scope.field(child, lambda g: g.role in {"category", "measure", "label"})
    if ask is None or row[ask.name] is None:
        return None
    side = "latest" if latest else "earliest"
    question = scope.pick(
        f"Among the {child.many} {ref.of.format(v=named(parent, owner))}, take the one with the {side} "
        f"{f.noun}. What is its {ask.noun}?",
        f"What is the {ask.noun} of the {child.one} with the {side} {f.noun} among all {child.many} "
        f"{ref.of.format(v=named(parent, owner))}?",
    )
    sql = (
        f"SELECT c.{ask.name} FROM {child.name} AS c JOIN {parent.name} AS p ON p.{parent.key.name} = c.{ref.name} "
        f"WHERE p.{parent.label.name} = {literal(owner[parent.label.name])} ORDER BY c.{f.name} "
        f"{'DESC' if latest else 'ASC'} LIMIT 1"
    )
    return single(question, sql, row[ask.name], {"join-2", "date"})
