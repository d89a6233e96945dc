"""Questions of type "other" whose answer is a list. Invariant: a list is short and never a whole column."""

from __future__ import annotations

from drafts import NUMBER_WORDS, Draft, alphabetical, grouped, listing, single, template
from model import literal, text
from selection import Scope

MAX_LIST = 7


@template("other", "easy", 6)
def labels_by_one_condition(scope: Scope) -> Draft | None:
    return _labels(scope, 1, flat=True)


@template("other", "medium", 4)
def labels_of_selection(scope: Scope) -> Draft | None:
    return _labels(scope, scope.rng.choice((1, 2, 2)), flat=False)


def _labels(scope: Scope, n: int, *, flat: bool) -> Draft | None:
    entity = scope.entity()
    sel = entity and scope.select(entity, n, at_least=1, share=0.3, flat=flat)
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
    values = alphabetical(grouped(sel.rows, f.name))
    if not values or not 2 <= len(values) <= 6 or len(values) == len(grouped(scope.rows(entity), f.name)):
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
    sql = (
        f"SELECT {parent.label.name} FROM {parent.name} WHERE NOT EXISTS (SELECT 1 {sel.source.sql}{sel.where(match)})"
    )
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
        f"SELECT p.{parent.label.name} FROM {parent.name} AS p WHERE {some(a, 'x')} AND "
        f"{'' if both else 'NOT '}{some(b, 'y')}"
    )
    tag = "intersection" if both else "set-difference"
    return listing(question, sql, [p[parent.label.name] for p in found], {tag, "subquery"})


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
    shown = alphabetical(k for k, size in groups.items() if size >= n)
    if not shown or not 2 <= len(shown) <= 6:
        return None
    only = f" Leave out groups of fewer than {n}." if n > 1 else ""
    question = (
        f"For each {by.noun}, count the {sel.many}.{only} Give every {by.noun} followed by its count, in "
        f"alphabetical order of the {by.noun}."
    )
    if n == 1:
        question += f" Skip a {by.noun} with no such {entity.one}."
    column = f"{entity.name}.{by.name}"
    having = f" HAVING COUNT(*) >= {n}" if n > 1 else ""
    sql = f"SELECT {column}, COUNT(*) {sel.source.sql}{sel.where()} GROUP BY {column}{having} ORDER BY {column}"
    tags = {"two-columns", "group", *({"having"} if n > 1 else ()), *sel.tags}
    return Draft(question, (sql,), frozenset(tags), tuple((k, groups[k]) for k in shown), ordered=True)


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
    question = (
        scope.pick(
            f"Find all {entity.many} that are either {a.words} or {b.words} (or both). List their {label.nouns}, "
            f"in any order.",
            f"List the {label.nouns} of the {a.many} and also of the {b.many}. Name each only once, in any order.",
        )
        .replace("that are either with", "either with")
        .replace("that are either", "either")
    )
    sql = f"SELECT {label.name} FROM {entity.name}{a.where()} UNION SELECT {label.name} FROM {entity.name}{b.where()}"
    return listing(question, sql, [r[label.name] for r in found], {"union", *a.tags, *b.tags})


@template("other", "hard", 6)
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
