"""The vocabulary a domain is described in: fields, tables, domains, and the making of one coherent database from them.

Invariant: a database is a function of its domain and its seed alone, every reference points at an existing row, and
every label is unique in its table.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Literal

Value = None | bool | int | Decimal | str | date | datetime
Row = dict[str, Value]
Role = Literal["key", "label", "category", "measure", "ordinal", "date", "moment", "flag", "note", "ref"]


class Build:
    """The state while rows are made: the random source, the finished tables and the row under construction."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.tables: dict[str, list[Row]] = {}
        self.parents: dict[str, Row] = {}
        self.row: Row = {}
        self.index = 0
        self.start = 0

    def day(self, name: str) -> date:
        """A date already made in this row, or in a parent row as ``ref_field.column``."""
        value = self.value(name)
        if isinstance(value, datetime):
            return value.date()
        if not isinstance(value, date):
            raise TypeError(f"{name} is no date")
        return value

    def value(self, name: str) -> Value:
        ref, _, column = name.rpartition(".")
        return self.parents[ref][column] if ref else self.row[column]


Make = Callable[[Build], Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One column and the words for it.

    ``phrase``/``more``/``less``/``yes``/``no``/``missing``/``present``/``of`` are modifiers that follow a noun of either
    number ("book(s) written by {v}"). ``top``/``low`` are superlative adjectives ("longest"). ``has``/``have``/``hasnt``
    join a referenced table to this one ("has written", "have written", "have not written any"); ``whose`` names the
    referenced row ("the author of {v}").
    """

    name: str
    type: str
    noun: str
    role: Role
    make: Make
    nouns: str = ""
    quote: bool = False
    unit: str = ""
    phrase: str = ""
    more: str = ""
    less: str = ""
    top: str = ""
    low: str = ""
    summable: bool = False
    yes: str = ""
    no: str = ""
    blank: float = 0.0
    missing: str = ""
    present: str = ""
    target: str = ""
    of: str = ""
    has: str = ""
    have: str = ""
    hasnt: str = ""
    whose: str = ""
    primary: bool = False


@dataclass(frozen=True, slots=True)
class Entity:
    """A table. ``spans`` are pairs of date fields and the noun of the days between; ``products`` two measures and
    the noun of their product."""

    name: str
    one: str
    many: str
    fields: tuple[Field, ...]
    size: tuple[int, int]
    spans: tuple[tuple[str, str, str], ...] = ()
    products: tuple[tuple[str, str, str], ...] = ()

    @property
    def key(self) -> Field:
        return next(f for f in self.fields if f.primary)

    @property
    def label(self) -> Field:
        return next(f for f in self.fields if f.role == "label")

    @property
    def its(self) -> str:
        """The possessive of one row; people have names in ``full_name``."""
        return "their" if self.label.name == "full_name" else "its"

    def field(self, name: str) -> Field:
        return next(f for f in self.fields if f.name == name)

    def having(self, *roles: Role) -> list[Field]:
        return [f for f in self.fields if f.role in roles]


@dataclass(frozen=True, slots=True)
class Domain:
    """``contexts`` are sentences that may precede a question; they carry no condition."""

    name: str
    tables: tuple[Entity, ...]
    contexts: tuple[str, ...]
    held_out: bool = False

    def table(self, name: str) -> Entity:
        return next(t for t in self.tables if t.name == name)

    def children(self, entity: Entity) -> list[tuple[Entity, Field]]:
        return [(t, f) for t in self.tables for f in t.having("ref") if f.target == entity.name]


@dataclass(slots=True)
class Data:
    """One database: rows by table, in insertion order."""

    domain: Domain
    rows: dict[str, list[Row]]
    _index: dict[str, dict[Value, Row]] = field(default_factory=dict)

    def parent(self, row: Row, ref: Field) -> Row | None:
        """The row ``ref`` points at; None for NULL."""
        index = self._index.get(ref.target)
        if index is None:
            key = self.domain.table(ref.target).key.name
            index = self._index[ref.target] = {r[key]: r for r in self.rows[ref.target]}
        value = row[ref.name]
        return None if value is None else index[value]

    def copy(self) -> dict[str, list[Row]]:
        return {name: [dict(row) for row in rows] for name, rows in self.rows.items()}


def build(domain: Domain, rng: random.Random) -> Data:
    state = Build(rng)
    for entity in domain.tables:
        state.tables[entity.name] = _rows(entity, state)
    return Data(domain, state.tables)


def _rows(entity: Entity, state: Build) -> list[Row]:
    pools = {f.name: _parent_pool(state, f) for f in entity.having("ref")}
    unique: set[Value] = set()
    rows: list[Row] = []
    state.start = state.rng.randrange(11, 90) * 10 + state.rng.randrange(1, 9)
    for index in range(state.rng.randint(*entity.size)):
        state.index = index
        for _ in range(200):
            row = _row(entity, state, pools)
            if row[entity.label.name] not in unique:
                break
        else:
            raise ValueError(f"{entity.name}: not enough labels")
        unique.add(row[entity.label.name])
        rows.append(row)
    return rows


def _row(entity: Entity, state: Build, pools: Mapping[str, Sequence[Row]]) -> Row:
    state.row, state.parents = {}, {}
    for f in entity.fields:
        if f.role == "ref":
            parent = state.parents[f.name] = state.rng.choice(pools[f.name])
            state.row[f.name] = next(iter(parent.values()))
        elif f.blank and state.rng.random() < f.blank:
            state.row[f.name] = None
        else:
            state.row[f.name] = f.make(state)
    return state.row


def _parent_pool(state: Build, ref: Field) -> list[Row]:
    """Parents in uneven numbers, about one in seven never referenced, so that counts differ and differences exist."""
    pool: list[Row] = []
    parents = state.tables[ref.target]
    for row in parents:
        pool += [row] * state.rng.choice((0, 1, 1, 2, 3, 4, 5) if len(parents) > 6 else (1, 2, 3, 4, 5))
    return pool or list(parents)


def article(noun: str) -> str:
    """``a`` or ``an``, by sound for the nouns in use."""
    return "an" if (noun[0] in "aeiou" and not noun.startswith(("uni", "euro"))) or noun.startswith("hour") else "a"


def text(value: Value) -> str:
    """The canonical spelling of a value, as MySQL prints it."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, date):
        return value.isoformat()
    return str(value)


def literal(value: Value) -> str:
    """A SQL literal."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int | Decimal):
        return str(value)
    return "'" + text(value).replace("'", "''") + "'"
