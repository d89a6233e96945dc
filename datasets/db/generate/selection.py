"""Selections: a set of rows described three times, as English, as SQL and as a Python test on rows.

Invariant: the English, the SQL and the Python of a clause mean the same; the Python never runs the SQL, so that the two
check each other.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from model import Data, Domain, Entity, Field, Row, Value, article, literal, text

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip
Test = Callable[[Row], bool]


@dataclass(slots=True)
class From:
    """FROM with its joins; the same join is made once."""

    base: Entity
    joins: list[str] = field(default_factory=list)
    _aliases: dict[tuple[str, str], str] = field(default_factory=dict)

    def join(self, alias: str, ref: Field, target: Entity) -> str:
        """The alias under which the row that ``ref`` of ``alias`` points at is joined."""
        known = self._aliases.get((alias, ref.name))
        if known:
            return known
        taken = {self.base.name, *self._aliases.values()}
        name = target.name if target.name not in taken else f"{target.name}_{len(taken) + 1}"
        spelled = target.name if name == target.name else f"{target.name} AS {name}"
        self._aliases[alias, ref.name] = name
        self.joins.append(f"JOIN {spelled} ON {name}.{target.key.name} = {alias}.{ref.name}")
        return name

    @property
    def sql(self) -> str:
        return " ".join([f"FROM {self.base.name}", *self.joins])

    @property
    def n_tables(self) -> int:
        return 1 + len(self.joins)


@dataclass(frozen=True, slots=True)
class Clause:
    """``rank`` orders clauses so that a nested one, which would swallow what follows it, comes last."""

    words: str
    sql: str
    test: Test
    field: str
    rank: int = 0
    tags: tuple[str, ...] = ()


@dataclass(slots=True)
class Selection:
    """The rows of one table that meet every clause."""

    source: From
    clauses: list[Clause]
    rows: list[Row]

    @property
    def entity(self) -> Entity:
        return self.source.base

    @property
    def words(self) -> str:
        parts = [c.words for c in self.clauses]
        if sum(c.rank == 2 for c in self.clauses) > 1:
            return "that are both " + " and ".join(f"({mark}) {part}" for mark, part in zip("ab", parts, strict=True))
        if len(parts) < 2:
            return "".join(parts)
        return ", ".join(parts[:-1]) + (", and " if len(parts) > 2 else " and ") + parts[-1]

    @property
    def many(self) -> str:
        return f"{self.entity.many} {self.words}".strip()

    @property
    def one(self) -> str:
        return f"{self.entity.one} {self.words}".strip()

    def where(self, *more: str) -> str:
        conditions = [c.sql for c in self.clauses] + list(more)
        return (" WHERE " + " AND ".join(conditions)) if conditions else ""

    def test(self, row: Row) -> bool:
        return all(c.test(row) for c in self.clauses)

    @property
    def tags(self) -> set[str]:
        tags = {tag for c in self.clauses for tag in c.tags}
        if self.source.n_tables > 1:
            tags.add(f"join-{self.source.n_tables}")
        return tags


class Scope:
    """What a template draws from: one database and one random source."""

    def __init__(self, data: Data, rng: random.Random) -> None:
        self.data = data
        self.rng = rng

    @property
    def domain(self) -> Domain:
        return self.data.domain

    def rows(self, entity: Entity) -> list[Row]:
        return self.data.rows[entity.name]

    def entity(self, fits: Callable[[Entity], object] = lambda e: True) -> Entity | None:
        """A random table that fits; larger tables twice as likely."""
        found = [t for t in self.domain.tables if fits(t)]
        weights = [2 if len(self.rows(t)) > 24 else 1 for t in found]
        return self.rng.choices(found, weights)[0] if found else None

    def field(self, entity: Entity, fits: Callable[[Field], object]) -> Field | None:
        found = [f for f in entity.fields if fits(f)]
        return self.rng.choice(found) if found else None

    def relation(
        self, fits: Callable[[Entity, Entity], object] = lambda p, c: True
    ) -> tuple[Entity, Entity, Field] | None:
        """A random (parent, child, reference of the child)."""
        found = [
            (p, c, f) for p in self.domain.tables for c, f in self.domain.children(p) if fits(p, c)
        ]  # fmt: skip
        return self.rng.choice(found) if found else None

    def pick(self, *forms: str) -> str:
        return self.rng.choice(forms)

    def select(
        self,
        entity: Entity,
        n_clauses: int,
        *,
        avoid: Iterable[str] = (),
        at_least: int = 2,
        share: float = 0.75,
        flat: bool = False,
        on: Row | None = None,
    ) -> Selection | None:
        """A selection of ``n_clauses`` clauses that keeps ``at_least`` rows and at most ``share`` of the table.

        ``flat`` refuses joins. ``on`` is a row it must keep."""
        rows = self.rows(entity)
        for _ in range(12):
            source = From(entity)
            target = on or self.rng.choice(rows)
            clauses = self._clauses(source, target, n_clauses, set(avoid), flat)
            if clauses is None:
                continue
            clauses.sort(key=lambda c: c.rank)
            if sum(c.rank == 2 for c in clauses) > 1:
                continue
            kept = [row for row in rows if all(c.test(row) for c in clauses)]
            if len(kept) >= at_least and (not clauses or len(kept) <= max(1.0, share * len(rows))):
                return Selection(source, clauses, kept)
        return None

    def select_deep(self, entity: Entity, *, avoid: Iterable[str] = (), at_least: int = 2) -> Selection | None:
        """A selection by one or two references, each followed as far as it goes: joins over three or four tables."""
        rows = self.rows(entity)
        refs = [f for f in entity.having("ref") if f.name not in avoid]
        for _ in range(12):
            source, target = From(entity), self.rng.choice(rows)
            chosen = self.rng.sample(refs, min(len(refs), self.rng.choice((1, 2, 2))))
            found = [_reference(self, source, entity.name, f, target, 2, deep=True) for f in chosen]
            clauses = [c for c in found if c is not None]
            kept = [row for row in rows if all(c.test(row) for c in clauses)]
            if len(clauses) == len(chosen) and source.n_tables > 2 and at_least <= len(kept) <= 0.8 * len(rows):
                return Selection(source, clauses, kept)
        return None

    def _clauses(self, source: From, target: Row, n: int, avoid: set[str], flat: bool) -> list[Clause] | None:
        clauses: list[Clause] = []
        for _ in range(n):
            clause = clause_for(self, source, source.base.name, source.base, target, avoid, 0 if flat else 2)
            if clause is None:
                return None
            avoid.add(clause.field)
            clauses.append(clause)
        return clauses


def show(f: Field, value: Value) -> str:
    """A value inside a question."""
    return f'"{text(value)}"' if f.quote else text(value)


def named(entity: Entity, row: Row) -> str:
    """``the book "The Silent Harbour"``, or ``Eastbrook Depot`` where the name says what it is."""
    if str(row[entity.label.name]).lower().split()[-1] == entity.one:
        return show(entity.label, row[entity.label.name])
    return f"the {entity.one} {show(entity.label, row[entity.label.name])}"


def clause_for(
    scope: Scope, source: From, alias: str, entity: Entity, target: Row, avoid: set[str], depth: int, deep: bool = False
) -> Clause | None:
    """A clause that ``target`` meets. ``depth`` is how many references may still be followed."""
    candidates = [
        f for f in entity.fields if f.name not in avoid and (f.role != "ref" or depth > 0) and f.role != "key"
    ]
    if not candidates:
        return None
    weights = [
        3 if f.role == "ref" else 2 if f.role in {"category", "date", "moment", "measure"} else 1 for f in candidates
    ]
    refs = [f for f in candidates if f.role == "ref"]
    f = scope.rng.choice(refs) if deep and refs else scope.rng.choices(candidates, weights)[0]
    if f.role == "ref":
        return _reference(scope, source, alias, f, target, depth, deep=deep)
    return _plain(scope, alias, entity, f, target)


def _reference(
    scope: Scope, source: From, alias: str, f: Field, target: Row, depth: int, *, deep: bool = False
) -> Clause | None:
    parent = scope.domain.table(f.target)
    row = scope.data.parent(target, f)
    if row is None:
        return None
    if not deep and scope.rng.random() < 0.35:
        value = row[parent.label.name]
        words = f.of.format(v=named(parent, row))
        if parent.label.primary:
            return Clause(words, f"{alias}.{f.name} = {literal(value)}", lambda r: r[f.name] == value, f.name, 1)
        joined = source.join(alias, f, parent)
        sql = f"{joined}.{parent.label.name} = {literal(value)}"
        return Clause(words, sql, _through(scope, f, lambda p: p[parent.label.name] == value), f.name, 1)
    joined = source.join(alias, f, parent)
    inner = clause_for(scope, source, joined, parent, row, set(), depth - 1, deep)
    if inner is None:
        return None
    words = f.of.format(v=f"{parent.many} {inner.words}")
    return Clause(words, inner.sql, _through(scope, f, inner.test), f.name, 2, inner.tags)


def _through(scope: Scope, f: Field, test: Test) -> Test:
    def follow(row: Row) -> bool:
        parent = scope.data.parent(row, f)
        return parent is not None and test(parent)

    return follow


def _plain(scope: Scope, alias: str, entity: Entity, f: Field, target: Row) -> Clause | None:
    column, value = f"{alias}.{f.name}", target[f.name]
    if value is None:
        return Clause(f.missing, f"{column} IS NULL", lambda r: r[f.name] is None, f.name, 0, ("null",))
    if f.role == "note" or (f.blank and scope.rng.random() < 0.12):
        return Clause(f.present, f"{column} IS NOT NULL", lambda r: r[f.name] is not None, f.name, 0, ("null",))
    if f.role == "category":
        return _category(scope, column, entity, f, value)
    if f.role in {"measure", "ordinal"}:
        return _measure(scope, column, entity, f, value)
    if f.role == "flag":
        words = f.yes if value else f.no
        return Clause(words, f"{column} = {int(bool(value))}", lambda r: r[f.name] is value, f.name)
    if isinstance(value, datetime):
        return _moment(scope, column, f, value)
    if isinstance(value, date):
        return _date(scope, column, f, value)
    return None if f.primary else _label(scope, column, f, str(value))


def _category(scope: Scope, column: str, entity: Entity, f: Field, value: Value) -> Clause:
    others = sorted({text(r[f.name]) for r in scope.rows(entity) if r[f.name] is not None} - {text(value)})
    draw = scope.rng.random()
    if draw < 0.15 and len(others) > 2:
        other = scope.rng.choice(others)
        words = f.phrase.format(v=f"{text(value)} or {other}")
        return Clause(
            words, f"{column} IN ({literal(value)}, {literal(other)})", lambda r: r[f.name] in (value, other), f.name
        )
    if draw < 0.28 and others and not f.blank:
        other = scope.rng.choice(others)
        return Clause(
            f"whose {f.noun} is not {other}", f"{column} <> {literal(other)}", lambda r: r[f.name] != other, f.name
        )
    return Clause(f.phrase.format(v=text(value)), f"{column} = {literal(value)}", lambda r: r[f.name] == value, f.name)


def _measure(scope: Scope, column: str, entity: Entity, f: Field, value: Value) -> Clause | None:
    values = sorted({r[f.name] for r in scope.rows(entity) if r[f.name] is not None})  # type: ignore[type-var]  # numbers
    below = [v for v in values if v < value]  # type: ignore[operator]
    above = [v for v in values if v > value]  # type: ignore[operator]
    if below and (scope.rng.random() < 0.5 or not above):
        limit = scope.rng.choice(below)
        words, sql = f.more.format(v=text(limit)), f"{column} > {literal(limit)}"
        return Clause(words, sql, lambda r: r[f.name] is not None and r[f.name] > limit, f.name)  # type: ignore[operator]
    if above:
        limit = scope.rng.choice(above)
        words, sql = f.less.format(v=text(limit)), f"{column} < {literal(limit)}"
        return Clause(words, sql, lambda r: r[f.name] is not None and r[f.name] < limit, f.name)  # type: ignore[operator]
    return None


def _date(scope: Scope, column: str, f: Field, value: date) -> Clause:
    shift = timedelta(days=scope.rng.randint(1, 300))
    kind = scope.rng.choice(("after", "before", "year", "month", "between", "year", "after"))

    def clause(words: str, sql: str, holds: Callable[[date], bool]) -> Clause:
        def test(row: Row) -> bool:
            cell = row[f.name]
            return isinstance(cell, date) and holds(cell)

        return Clause(f"{f.phrase} {words}", sql, test, f.name, 0, ("date",))

    if kind == "after":
        limit = value - shift
        return clause(f"after {limit}", f"{column} > '{limit}'", lambda d: d > limit)
    if kind == "before":
        limit = value + shift
        return clause(f"before {limit}", f"{column} < '{limit}'", lambda d: d < limit)
    if kind == "year":
        return clause(f"in {value.year}", f"YEAR({column}) = {value.year}", lambda d: d.year == value.year)
    if kind == "month":
        sql = f"YEAR({column}) = {value.year} AND MONTH({column}) = {value.month}"
        same = (value.year, value.month)
        return clause(f"in {MONTHS[value.month - 1]} {value.year}", sql, lambda d: (d.year, d.month) == same)
    first, last = value - shift, value + timedelta(days=scope.rng.randint(1, 300))
    words = f"between {first} and {last} (both days included)"
    return clause(words, f"{column} BETWEEN '{first}' AND '{last}'", lambda d: first <= d <= last)


def _moment(scope: Scope, column: str, f: Field, value: datetime) -> Clause:
    def clause(words: str, sql: str, holds: Callable[[datetime], bool], tag: str = "date") -> Clause:
        def test(row: Row) -> bool:
            cell = row[f.name]
            return isinstance(cell, datetime) and holds(cell)

        return Clause(f"{f.phrase} {words}", sql, test, f.name, 0, (tag,))

    kind = scope.rng.choice(("from", "month", "hour", "before"))
    if kind == "from":
        limit = value.date() - timedelta(days=scope.rng.randint(0, 40))
        return clause(f"on or after {limit}", f"{column} >= '{limit} 00:00:00'", lambda m: m.date() >= limit)
    if kind == "before":
        limit = value.date() + timedelta(days=scope.rng.randint(1, 40))
        return clause(f"before {limit}", f"{column} < '{limit} 00:00:00'", lambda m: m.date() < limit)
    if kind == "month":
        sql = f"YEAR({column}) = {value.year} AND MONTH({column}) = {value.month}"
        same = (value.year, value.month)
        return clause(f"in {MONTHS[value.month - 1]} {value.year}", sql, lambda m: (m.year, m.month) == same)
    hour = max(1, value.hour - scope.rng.randint(0, 4))
    return clause(
        f"at {hour:02d}:00 or later in the day", f"HOUR({column}) >= {hour}", lambda m: m.hour >= hour, "time"
    )


def _label(scope: Scope, column: str, f: Field, value: str) -> Clause:
    words = value.split()
    if scope.rng.random() < 0.5:
        letter = value[0]
        phrase = f'with {article(f.noun)} {f.noun} starting with the letter "{letter}"'
        return Clause(
            phrase, f"{column} LIKE '{letter}%'", lambda r: str(r[f.name]).startswith(letter), f.name, 0, ("string",)
        )
    part = max(words, key=len)
    phrase = f'with {article(f.noun)} {f.noun} containing the text "{part}"'
    holds: Test = lambda r: part.lower() in str(r[f.name]).lower()  # noqa: E731
    return Clause(phrase, f"{column} LIKE '%{part}%'", holds, f.name, 0, ("string",))
