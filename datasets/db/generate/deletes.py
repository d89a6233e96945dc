"""DELETE tasks. Invariant: at least one row goes and at least one stays."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from drafts import NUMBER_WORDS, Draft, change, clear_best, extremes, grouped, mean, numbers, template
from model import Entity, Row, literal
from selection import Scope, Selection, named


def _without(scope: Scope, entity: Entity, gone: Callable[[Row], bool]) -> dict[str, list[Row]] | None:
    state = scope.data.copy()
    rows = state[entity.name]
    state[entity.name] = [row for row in rows if not gone(row)]
    return state if 0 < len(state[entity.name]) < len(rows) else None


def _where(sel: Selection) -> str:
    if sel.source.n_tables == 1:
        return sel.where()
    key = f"{sel.entity.name}.{sel.entity.key.name}"
    return (
        f" WHERE {sel.entity.key.name} IN (SELECT k FROM (SELECT {key} AS k {sel.source.sql}{sel.where()}) AS chosen)"
    )


@template("DELETE", "easy", 6)
def delete_one(scope: Scope) -> Draft | None:
    entity = scope.entity()
    if not entity:
        return None
    row = scope.rng.choice(scope.rows(entity))
    label = entity.label.name
    state = _without(scope, entity, lambda r: r[label] == row[label])
    if state is None:
        return None
    question = scope.pick(
        f"Remove {named(entity, row)} from the table {entity.name}; leave the other tables as they are.",
        f"Delete {named(entity, row)} from {entity.name} and change nothing else.",
        f"It was a mistake to enter {named(entity, row)}. Undo this by deleting the row from "
        f"{entity.name} without touching other tables.",
    )
    return change(question, f"DELETE FROM {entity.name} WHERE {label} = {literal(row[label])}", state)


@template("DELETE", "medium", 5)
def delete_selection(scope: Scope) -> Draft | None:
    entity = scope.entity()
    sel = entity and scope.select(entity, scope.rng.choice((1, 2, 2)), at_least=1, share=0.6)
    state = entity and sel and _without(scope, entity, sel.test)
    if not entity or not sel or not state:
        return None
    question = scope.pick(
        f"Delete all {sel.many} from {entity.name}.",
        f"Remove every {sel.one} from the table {entity.name}.",
        f"We no longer need any {sel.many}. Delete them from {entity.name}.",
        f"Clean up the table {entity.name}: drop all {sel.many}.",
    )
    return change(question, f"DELETE FROM {entity.name}{_where(sel)}", state, sel.tags)


@template("DELETE", "hard", 3)
def delete_childless(scope: Scope) -> Draft | None:
    link = scope.relation()
    if not link:
        return None
    parent, child, ref = link
    used = {r[ref.name] for r in scope.rows(child)}
    key = parent.key.name
    state = _without(scope, parent, lambda r: r[key] not in used)
    if state is None:
        return None
    question = scope.pick(
        f"Delete the {parent.many} that {ref.hasnt} {child.many}.",
        f"Remove from {parent.name} every {parent.one} to which no {child.one} is linked through {ref.name}.",
    )
    inner = f"SELECT 1 FROM {child.name} WHERE {child.name}.{ref.name} = {parent.name}.{key}"
    return change(
        question, f"DELETE FROM {parent.name} WHERE NOT EXISTS ({inner})", state, {"set-difference", "subquery"}
    )


@template("DELETE", "hard", 3)
def delete_beyond_average(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("measure"))
    f = entity and scope.field(entity, lambda f: f.role == "measure")
    if not entity or not f:
        return None
    average = mean(numbers(scope.rows(entity), f.name))
    if any(abs(v - average) < Decimal("0.01") for v in numbers(scope.rows(entity), f.name)):
        return None
    above = scope.rng.random() < 0.5
    state = _without(scope, entity, lambda r: any((v > average) == above for v in numbers([r], f.name)))
    if state is None:
        return None
    side = "above" if above else "below"
    question = scope.pick(
        f"Delete every {entity.one} whose {f.noun} is {side} the average {f.noun} of all {entity.many} before "
        f"the deletion.",
        f"Compute the average {f.noun} of all {entity.many}, then remove those {side} it from {entity.name}.",
    )
    if f.blank:
        question += f" Keep {entity.many} without a recorded {f.noun}."
    inner = f"SELECT m.average FROM (SELECT AVG({f.name}) AS average FROM {entity.name}) AS m"
    sql = f"DELETE FROM {entity.name} WHERE {f.name} {'>' if above else '<'} ({inner})"
    return change(question, sql, state, {"subquery"})


@template("DELETE", "hard", 3)
def delete_with_children(scope: Scope) -> Draft | None:
    """A row and everything that points at it; two statements."""
    link = scope.relation(lambda p, c: len(scope.domain.children(p)) == 1)
    if not link:
        return None
    parent, child, ref = link
    if scope.domain.children(child):
        return None
    row = scope.rng.choice(scope.rows(parent))
    key, label = parent.key.name, parent.label.name
    state = _without(scope, child, lambda r: r[ref.name] == row[key])
    if state is None:
        return None
    state[parent.name] = [r for r in state[parent.name] if r[key] != row[key]]
    question = scope.pick(
        f"Delete {named(parent, row)} together with all {child.many} that refer to it.",
        f"Remove {named(parent, row)} and, so that nothing is left dangling, all of {parent.its} {child.many} as well.",
    )
    chosen = f"(SELECT {key} FROM {parent.name} WHERE {label} = {literal(row[label])})"
    statements = (
        f"DELETE FROM {child.name} WHERE {ref.name} = {chosen}",
        f"DELETE FROM {parent.name} WHERE {label} = {literal(row[label])}",
    )
    return change(question, statements, state, {"multi-statement", "subquery"})


@template("DELETE", "hard", 2)
def delete_best_of_selection(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("measure"))
    f = entity and scope.field(entity, lambda f: f.role == "measure")
    sel = entity and f and scope.select(entity, scope.rng.choice((0, 1)), avoid=(f.name,), at_least=3, flat=True)
    if not entity or not f or not sel:
        return None
    highest = scope.rng.random() < 0.5
    label = entity.label.name
    best = clear_best([(n, r[label]) for r in sel.rows for n in numbers([r], f.name)], highest=highest)
    state = _without(scope, entity, lambda r: best is not None and r[label] == best)
    if state is None:
        return None
    question = scope.pick(
        f"Among the {sel.many}, delete the one with the {'highest' if highest else 'lowest'} {f.noun}; keep "
        f"all others.",
        f"Find the {entity.one} with the {'highest' if highest else 'lowest'} {f.noun} among all {sel.many} "
        f"and remove only this row.",
    )
    null = (f"{entity.name}.{f.name} IS NOT NULL",) if f.blank else ()
    inner = (
        f"SELECT {entity.name}.{label} AS label {sel.source.sql}{sel.where(*null)} "
        f"ORDER BY {entity.name}.{f.name} {'DESC' if highest else 'ASC'} LIMIT 1"
    )
    return change(
        question,
        f"DELETE FROM {entity.name} WHERE {label} = (SELECT b.label FROM ({inner}) AS b)",
        state,
        {"subquery", *sel.tags},
    )


@template("DELETE", "hard", 2)
def delete_of_rare_parents(scope: Scope) -> Draft | None:
    """Children whose parent has only few of them."""
    link = scope.relation()
    if not link:
        return None
    _, child, ref = link
    n = scope.rng.choice((2, 3))
    small = {k for k, g in grouped(scope.rows(child), ref.name).items() if len(g) < n}
    state = _without(scope, child, lambda r: r[ref.name] in small)
    if state is None:
        return None
    question = scope.pick(
        f"Delete all {child.many} whose {ref.noun} appears in fewer than {n} {child.many}.",
        f"In {child.name}, remove the {child.many} of every {ref.noun} ({ref.name}) that occurs fewer than "
        f"{n} times in the table.",
    )
    inner = (
        f"SELECT k FROM (SELECT {ref.name} AS k FROM {child.name} GROUP BY {ref.name} HAVING COUNT(*) < {n}) AS rare"
    )
    return change(question, f"DELETE FROM {child.name} WHERE {ref.name} IN ({inner})", state, {"having", "subquery"})


@template("DELETE", "hard", 3)
def keep_one_of_each_group(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("category", "ref") and e.having("measure", "date"))
    if not entity:
        return None
    by = scope.field(entity, lambda f: f.role in {"category", "ref"} and not f.blank)
    f = scope.field(entity, lambda f: f.role in {"measure", "date"} and not f.blank)
    if not by or not f:
        return None
    highest = scope.rng.random() < 0.6
    key = entity.key.name
    kept = set()
    for group in grouped(scope.rows(entity), by.name).values():
        order = sorted(group, key=lambda r: r[f.name], reverse=highest)  # type: ignore[arg-type, return-value]
        if len(order) > 1 and order[0][f.name] == order[1][f.name]:
            return None
        kept.add(order[0][key])
    state = _without(scope, entity, lambda r: r[key] not in kept)
    if state is None:
        return None
    side = extremes(f)[0 if highest else 1]
    question = scope.pick(
        f"For each {by.noun}, keep only the {entity.one} with the {side} {f.noun} and delete all other {entity.many}.",
        f"Thin out the table {entity.name}: of every {by.noun} ({by.name}), only the {entity.one} with the "
        f"{side} {f.noun} may remain.",
    )
    inner = (
        f"SELECT t.{key} AS k, ROW_NUMBER() OVER (PARTITION BY t.{by.name} ORDER BY t.{f.name} "
        f"{'DESC' if highest else 'ASC'}) AS place "
        f"FROM {entity.name} AS t"
    )
    sql = f"DELETE FROM {entity.name} WHERE {key} NOT IN (SELECT r.k FROM ({inner}) AS r WHERE r.place = 1)"
    return change(question, sql, state, {"window", "group", "subquery"})


@template("DELETE", "medium", 2)
def delete_first_rows(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("measure", "date", "moment"))
    f = entity and scope.field(entity, lambda f: f.role in {"measure", "date", "moment"})
    if not entity or not f:
        return None
    n = scope.rng.choice((2, 3, 4, 5))
    highest = scope.rng.random() < 0.5
    rows = [r for r in scope.rows(entity) if r[f.name] is not None]
    rows.sort(key=lambda r: r[f.name], reverse=highest)  # type: ignore[arg-type, return-value]
    if len(rows) <= n + 1 or rows[n - 1][f.name] == rows[n][f.name]:
        return None
    key = entity.key.name
    gone = {r[key] for r in rows[:n]}
    state = _without(scope, entity, lambda r: r[key] in gone)
    if state is None:
        return None
    side = extremes(f)[0 if highest else 1]
    question = scope.pick(
        f"Delete the {NUMBER_WORDS[n]} {entity.many} with the {side} {f.noun} from {entity.name}.",
        f"Remove those {NUMBER_WORDS[n]} {entity.many} that have the {side} values of {f.noun}.",
    )
    null = f" WHERE {f.name} IS NOT NULL" if f.blank else ""
    inner = f"SELECT {key} AS k FROM {entity.name}{null} ORDER BY {f.name} {'DESC' if highest else 'ASC'} LIMIT {n}"
    return change(
        question, f"DELETE FROM {entity.name} WHERE {key} IN (SELECT r.k FROM ({inner}) AS r)", state, {"subquery"}
    )
