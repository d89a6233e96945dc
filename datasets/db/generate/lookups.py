"""Questions of type "other": look-ups, lists, set operations, text and windows. Invariant: a list never is a whole column."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

from drafts import NUMBER_WORDS, Draft, clear_best, extremes, grouped, listing, numbers, single, template, what
from model import Entity, Field, Value, literal, text
from selection import MONTHS, Scope, named

MAX_LIST = 7


def _hint(f: Field) -> str:
    if f.role == "date":
        return "Write the date as YYYY-MM-DD."
    return "Write it as YYYY-MM-DD HH:MM:SS." if f.role == "moment" else ""


def _attribute(scope: Scope, entity: Entity) -> Field | None:
    return scope.field(entity, lambda f: f.role in {"category", "measure", "ordinal", "date", "moment"} and f.type != "BOOLEAN")


@template("other", "easy", 3)
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


@template("other", "medium", 4)
def labels_of_selection(scope: Scope) -> Draft | None:
    entity = scope.entity()
    sel = entity and scope.select(entity, scope.rng.choice((1, 2, 2)), at_least=1, share=0.3)
    if not entity or not sel or len(sel.rows) > MAX_LIST:
        return None
    label = entity.label
    sql = f"SELECT {entity.name}.{label.name} {sel.source.sql}{sel.where()}"
    if len(sel.rows) == 1:
        question = scope.pick(
            f"There is exactly one {sel.one}. What is {entity.its} {label.noun}?",
            f"What is the {label.noun} of the only {sel.one}?",
            f"Find the one {sel.one} and give the {label.noun}.",
        )
        return single(question, sql, sel.rows[0][label.name], sel.tags)
    question = scope.pick(
        f"List the {label.nouns} of all {sel.many}, in any order.",
        f"Which {sel.many} are on record? Give their {label.nouns} in any order.",
        f"I need the {label.nouns} of all {sel.many}. The order does not matter.",
    )
    return listing(question, sql, [r[label.name] for r in sel.rows], sel.tags)


@template("other", "medium", 2)
def distinct_values(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("category"))
    f = entity and scope.field(entity, lambda f: f.role == "category")
    sel = entity and f and scope.select(entity, 1, avoid=(f.name,), at_least=3, share=0.5)
    if not entity or not f or not sel:
        return None
    values = sorted(grouped(sel.rows, f.name), key=lambda v: str(v).casefold())
    if not 2 <= len(values) <= 6 or len(values) == len(grouped(scope.rows(entity), f.name)):
        return None
    question = scope.pick(
        f"Which different {f.nouns} occur among the {sel.many}? List each once, in alphabetical order.",
        f"List the distinct {f.nouns} found among the {sel.many}, sorted alphabetically.",
    )
    column = f"{entity.name}.{f.name}"
    where = sel.where(f"{column} IS NOT NULL") if f.blank else sel.where()
    if f.blank:
        question += " Leave out missing values."
    sql = f"SELECT DISTINCT {column} {sel.source.sql}{where} ORDER BY {column}"
    return listing(question, sql, values, {"distinct", *sel.tags}, ordered=True)


@template("other", "hard", 3)
def parents_without_children(scope: Scope) -> Draft | None:
    link = scope.relation()
    if not link:
        return None
    parent, child, ref = link
    sel = scope.select(child, scope.rng.choice((0, 0, 1)), avoid=(ref.name,), flat=True)
    if not sel:
        return None
    used = {r[ref.name] for r in sel.rows}
    found = [p for p in scope.rows(parent) if p[parent.key.name] not in used]
    if not 1 <= len(found) <= MAX_LIST or len(found) == len(scope.rows(parent)):
        return None
    nouns = parent.label.nouns
    question = scope.pick(
        f"Which {parent.many} {ref.hasnt} {sel.many}? Give their {nouns}, in any order.",
        f"List the {nouns} of all {parent.many} that {ref.hasnt} {sel.many}. Any order will do.",
    )
    match = f"{child.name}.{ref.name} = {parent.name}.{parent.key.name}"
    sql = f"SELECT {parent.label.name} FROM {parent.name} WHERE NOT EXISTS (SELECT 1 {sel.source.sql}{sel.where(match)})"
    return listing(question, sql, [p[parent.label.name] for p in found], {"set-difference", "subquery", *sel.tags})


@template("other", "hard", 3)
def parents_with_enough_children(scope: Scope) -> Draft | None:
    link = scope.relation()
    if not link:
        return None
    parent, child, ref = link
    sel = scope.select(child, scope.rng.choice((0, 1)), avoid=(ref.name,), at_least=6, share=0.95)
    if not sel:
        return None
    n = scope.rng.choice((2, 3, 4, 5))
    exactly = scope.rng.random() < 0.4
    sizes = {k: len(g) for k, g in grouped(sel.rows, ref.name).items()}
    keys = {k for k, size in sizes.items() if (size == n if exactly else size >= n)}
    found = [p for p in scope.rows(parent) if p[parent.key.name] in keys]
    if not 1 <= len(found) <= MAX_LIST or len(found) == len(scope.rows(parent)):
        return None
    how = f"{'exactly' if exactly else 'at least'} {NUMBER_WORDS[n]}"
    nouns = parent.label.nouns
    question = scope.pick(
        f"Which {parent.many} {ref.have} {how} {sel.many}? Give the {nouns}, in any order.",
        f"List the {nouns} of the {parent.many} that {ref.have} {how} {sel.many}, in any order.",
    )
    joined = sel.source.join(child.name, ref, parent)
    by = f"{joined}.{parent.key.name}" + ("" if parent.label.primary else f", {joined}.{parent.label.name}")
    sql = (
        f"SELECT {joined}.{parent.label.name} {sel.source.sql}{sel.where()} GROUP BY {by} "
        f"HAVING COUNT(*) {'=' if exactly else '>='} {n}"
    )
    return listing(question, sql, [p[parent.label.name] for p in found], {"having", "group", *sel.tags})


@template("other", "hard", 3)
def parents_with_both(scope: Scope) -> Draft | None:
    """Parents with a child of each of two categories."""
    link = scope.relation(lambda p, c: c.having("category"))
    if not link:
        return None
    parent, child, ref = link
    f = scope.field(child, lambda f: f.role == "category")
    values = sorted({text(r[f.name]) for r in scope.rows(child) if r[f.name] is not None}) if f else []
    if not f or len(values) < 3:
        return None
    a, b = scope.rng.sample(values, 2)
    keys = [{r[ref.name] for r in scope.rows(child) if r[f.name] == v} for v in (a, b)]
    both = scope.rng.random() < 0.6
    wanted = keys[0] & keys[1] if both else keys[0] - keys[1]
    found = [p for p in scope.rows(parent) if p[parent.key.name] in wanted]
    if not 1 <= len(found) <= MAX_LIST or len(found) == len(scope.rows(parent)):
        return None
    first, second = f.phrase.format(v=a), f.phrase.format(v=b)
    middle = f"as well as {child.many} {second}" if both else f"but {ref.hasnt} {child.many} {second}"
    nouns = parent.label.nouns
    question = scope.pick(
        f"Which {parent.many} {ref.have} {child.many} {first} {middle}? Give their {nouns}, in any order.",
        f"List the {nouns} of all {parent.many} that {ref.have} {child.many} {first} {middle}, in any order.",
    )

    def some(value: str, alias: str) -> str:
        match = f"{alias}.{ref.name} = p.{parent.key.name} AND {alias}.{f.name} = {literal(value)}"
        return f"EXISTS (SELECT 1 FROM {child.name} AS {alias} WHERE {match})"

    sql = (
        f"SELECT p.{parent.label.name} FROM {parent.name} AS p WHERE {some(a, 'x')} AND {'' if both else 'NOT '}{some(b, 'y')}"
    )
    tag = "intersection" if both else "set-difference"
    return listing(question, sql, [p[parent.label.name] for p in found], {tag, "subquery"})


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
        f"Find the {entity.one} with the {side} {f.noun} among the {sel.many}. Answer with the {label.noun} and the {f.noun}, in this order.",
    )
    null = (f"{entity.name}.{f.name} IS NOT NULL",) if f.blank else ()
    sql = (
        f"SELECT {entity.name}.{label.name}, {entity.name}.{f.name} {sel.source.sql}{sel.where(*null)} "
        f"ORDER BY {entity.name}.{f.name} {'DESC' if highest else 'ASC'} LIMIT 1"
    )
    return Draft(question, (sql,), frozenset({"two-columns", *sel.tags}), ((row[label.name], row[f.name]),), ordered=True)


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
        question = f"{start} Answer in the form {label.noun} (the {by.noun} in round brackets), with one space before the bracket."
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
    sql = f"SELECT {shown} FROM {entity.name}{null} ORDER BY {entity.name}.{f.name} {'DESC' if highest else 'ASC'} LIMIT 1"
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
    sql = f"SELECT {column} {sel.source.sql}{sel.where()} ORDER BY CHAR_LENGTH({column}) {'DESC' if longest else 'ASC'} LIMIT 1"
    return single(question, sql, best, {"string", *sel.tags})


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
        f"Sort all {entity.many} by {f.noun} from {low} to {high}. Which {entity.one} comes directly {'after' if after else 'before'} "
        f"{named(entity, rows[at])}? Give the {label.noun}."
    )
    fn = "LEAD" if after else "LAG"
    null = f" WHERE t.{f.name} IS NOT NULL" if f.blank else ""
    if f.blank:
        question += f" Leave out {entity.many} without a recorded {f.noun}."
    inner = f"SELECT t.{label.name} AS label, {fn}(t.{label.name}) OVER (ORDER BY t.{f.name}) AS next_label FROM {entity.name} AS t{null}"
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
        f"Go through the {entity.many} in order of {when.noun}, earliest first and by {entity.label.noun} where it is equal, and keep a running total of the {f.noun}. "
        f"What is the {entity.label.noun} of the {entity.one} at which the running total first exceeds {limit}?"
    )
    inner = f"SELECT t.{label} AS label, t.{when.name} AS moment_of, SUM(t.{f.name}) OVER (ORDER BY t.{when.name}, t.{label}) AS running FROM {entity.name} AS t"
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
    hint = "" if by_year else f" Taking all years together, answer with the English name of the month, such as {example}."
    question = f"Going by the {f.noun}, which {unit} has the most {sel.many}?{hint}"
    null = (f"{column} IS NOT NULL",) if f.blank else ()
    if by_year:
        sql = f"SELECT YEAR({column}) {sel.source.sql}{sel.where(*null)} GROUP BY YEAR({column}) ORDER BY COUNT(*) DESC LIMIT 1"
        return single(question, sql, best, {"date", "group", *sel.tags})
    shown = f"MONTHNAME({column})"
    sql = f"SELECT {shown} {sel.source.sql}{sel.where(*null)} GROUP BY {shown} ORDER BY COUNT(*) DESC LIMIT 1"
    return single(question, sql, MONTHS[best - 1], {"date", "group", *sel.tags})



@template("other", "hard", 4)
def table_by_group(scope: Scope) -> Draft | None:
    """Two columns, one row for each group."""
    entity = scope.entity(lambda e: e.having("category"))
    by = entity and scope.field(entity, lambda f: f.role == "category" and not f.blank)
    sel = entity and by and scope.select(entity, scope.rng.choice((0, 1)), avoid=(by.name,), at_least=6)
    if not entity or not by or not sel:
        return None
    groups = {str(k): len(g) for k, g in grouped(sel.rows, by.name).items()}
    n = scope.rng.choice((1, 1, 2, 3))
    shown = sorted(((k, size) for k, size in groups.items() if size >= n), key=lambda pair: pair[0].casefold())
    if not 2 <= len(shown) <= 6:
        return None
    only = f" Leave out groups of fewer than {n}." if n > 1 else ""
    question = (
        f"For each {by.noun}, count the {sel.many}.{only} Give every {by.noun} followed by its count, in alphabetical order of the {by.noun}."
    )
    if n == 1:
        question += f" Skip a {by.noun} with no such {entity.one}."
    column = f"{entity.name}.{by.name}"
    having = f" HAVING COUNT(*) >= {n}" if n > 1 else ""
    sql = f"SELECT {column}, COUNT(*) {sel.source.sql}{sel.where()} GROUP BY {column}{having} ORDER BY {column}"
    tags = {"two-columns", "group", *({"having"} if n > 1 else ()), *sel.tags}
    return Draft(question, (sql,), frozenset(tags), tuple(shown), ordered=True)


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
        f"Among the {child.many} {ref.of.format(v=named(parent, owner))}, take the one with the {side} {f.noun}. What is its {ask.noun}?",
        f"What is the {ask.noun} of the {child.one} with the {side} {f.noun} among all {child.many} {ref.of.format(v=named(parent, owner))}?",
    )
    sql = (
        f"SELECT c.{ask.name} FROM {child.name} AS c JOIN {parent.name} AS p ON p.{parent.key.name} = c.{ref.name} "
        f"WHERE p.{parent.label.name} = {literal(owner[parent.label.name])} ORDER BY c.{f.name} {'DESC' if latest else 'ASC'} LIMIT 1"
    )
    return single(question, sql, row[ask.name], {"join-2", "date"})


@template("other", "medium", 4)
def union_of_selections(scope: Scope) -> Draft | None:
    """Labels of rows that meet one of two conditions."""
    entity = scope.entity()
    a = entity and scope.select(entity, 1, at_least=1, share=0.15, flat=True)
    b = entity and a and scope.select(entity, 1, avoid=(a.clauses[0].field,), at_least=1, share=0.15, flat=True)
    if not entity or not a or not b:
        return None
    label = entity.label
    found = [r for r in scope.rows(entity) if a.test(r) or b.test(r)]
    if not 2 <= len(found) <= MAX_LIST or len(found) == max(len(a.rows), len(b.rows)):
        return None
    question = scope.pick(
        f"Find all {entity.many} that are either {a.words} or {b.words} (or both). List their {label.nouns}, in any order.",
        f"List the {label.nouns} of the {a.many} and also of the {b.many}. Name each only once, in any order.",
    ).replace("that are either with", "either with").replace("that are either", "either")
    sql = f"SELECT {label.name} FROM {entity.name}{a.where()} UNION SELECT {label.name} FROM {entity.name}{b.where()}"
    return listing(question, sql, [r[label.name] for r in found], {"union", *a.tags, *b.tags})


@template("other", "hard", 4)
def labels_across_tables(scope: Scope) -> Draft | None:
    entity = scope.entity(lambda e: e.having("ref"))
    sel = entity and scope.select_deep(entity)
    if not entity or not sel or len(sel.rows) > MAX_LIST:
        return None
    label = entity.label
    question = scope.pick(
        f"List the {label.nouns} of all {sel.many}, in any order.",
        f"I need the {label.nouns} of all {sel.many}. The order does not matter.",
    )
    sql = f"SELECT {entity.name}.{label.name} {sel.source.sql}{sel.where()}"
    return listing(question, sql, [r[label.name] for r in sel.rows], sel.tags)
