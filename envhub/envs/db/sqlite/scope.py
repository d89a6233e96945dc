"""Which names an expression can see, and what they stand for.

Invariant: resolution is MySQL's: the innermost query first, ambiguity is an error, and the error names the clause.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from envhub.envs.db.sqlite.catalog import Catalog, TableDef
from envhub.envs.db.sqlite.errors import MySQLError, too_deep, unknown_column
from envhub.envs.db.sqlite.kinds import INT, T
from envhub.envs.db.sqlite.nodes import Window

NO_CONST: Any = object()
MAX_NAMES = 1000


class X(NamedTuple):
    """A compiled expression: SQLite text and MySQL type.

    ``const``: its value when it is a literal. ``native``: a base column, whose SQLite collation already is the right one.
    ``loose``: a DECIMAL that may hold more digits than its scale. ``chain``: the SQL without its parentheses, for a sum or product
    that may stand bare to the left of another (SQLite's parser stack is short).
    """

    sql: str
    t: T
    const: Any = NO_CONST
    native: bool = False
    loose: bool = False
    chain: str = ""


class Col(NamedTuple):
    name: str
    x: X


@dataclass(slots=True)
class Source:
    """One table of a FROM clause; ``alias`` is its name there, ``phys`` its name in the compiled SQL."""

    alias: str
    phys: str
    columns: list[Col]
    table: TableDef | None = None


@dataclass(slots=True)
class CTEDef:
    phys: str
    columns: list[Col]


@dataclass(slots=True)
class Scope:
    parent: Scope | None = None
    sources: list[Source] = field(default_factory=list)
    ctes: dict[str, CTEDef | None] = field(default_factory=dict)
    merged: dict[str, X] = field(default_factory=dict)
    """Columns of USING and NATURAL joins, by lower-case name."""
    aliases: dict[str, X] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)
    windows: dict[str, Window] = field(default_factory=dict)
    clause: str = "field list"
    alias_first: bool = False
    alias_last: bool = False
    aggregated: bool = False
    in_aggregate: bool = False
    group_keys: set[str] = field(default_factory=set)
    rolled: set[str] = field(default_factory=set)
    bare: list[tuple[str, str]] = field(default_factory=list)
    """Columns met outside aggregates: (SQL, name for the error message)."""

    def find_cte(self, name: str) -> CTEDef | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.ctes:
                return scope.ctes[name]
            scope = scope.parent
        return None

    def resolve(self, parts: tuple[str, ...]) -> X:
        scope: Scope | None = self
        while scope is not None:
            found = scope._local(parts)
            if found is not None:
                return found
            scope = scope.parent
        raise unknown_column(".".join(parts), self.clause)

    def _local(self, parts: tuple[str, ...]) -> X | None:
        name = parts[-1].lower()
        if len(parts) == 1:
            if self.alias_first and name in self.aliases:
                return self.aliases[name]
            found = self.merged.get(name) or self._column(name, None)
            if found is None and self.alias_last:
                found = self.aliases.get(name)
            return found
        return self._column(name, parts[-2])

    def _column(self, name: str, table: str | None) -> X | None:
        found: tuple[Source, Col] | None = None
        for source in self.sources:
            if table is not None and source.alias != table:
                continue
            for column in source.columns:
                if column.name.lower() == name:
                    if found is not None:
                        raise MySQLError(1052, f"Column '{column.name}' in {self.clause} is ambiguous")
                    found = (source, column)
                    break
        if found is None:
            return None
        source, column = found
        if not self.in_aggregate:
            self.bare.append((column.x.sql, f"env.{source.alias}.{column.name}"))
        return column.x


def flag(sql: str) -> X:
    """A boolean result."""
    return X(sql, INT)


@dataclass(slots=True)
class Context:
    """What compiling one statement needs besides its tree."""

    catalog: Catalog
    now: str
    variables: dict[str, Any]
    system: dict[str, Any]
    params: list[Any] = field(default_factory=list)
    names: int = 0
    assigned: dict[str, T] = field(default_factory=dict)
    """User variables this statement assigns."""
    values: list[Col] = field(default_factory=list)
    """What VALUES(column) stands for inside ON DUPLICATE KEY UPDATE."""
    impure: bool = False

    def param(self, value: Any) -> str:
        self.params.append(value)
        return f"?{len(self.params)}"

    def name(self) -> str:
        """A fresh table alias. Raises when a statement, its views included, reads absurdly many tables."""
        self.names += 1
        if self.names > MAX_NAMES:
            raise too_deep()
        return f"a{self.names}"
