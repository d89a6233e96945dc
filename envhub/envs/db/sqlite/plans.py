"""A compiled query before it is written out: its columns, and the SQL around them.

Invariant: a plan renders to one SQLite SELECT whose columns are named c0, c1, ... in order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.convert import sortable
from envhub.envs.db.sqlite.errors import MySQLError, column_list_mismatch
from envhub.envs.db.sqlite.scope import Col, X


class Out(NamedTuple):
    name: str
    x: X


@dataclass(slots=True)
class Plan:
    """A compiled query: its output columns, and the SQL before and after the select list.

    A compound has no select list of its own; ``branches`` are its members and ``tail`` follows them.
    """

    outs: list[Out]
    prefix: str = ""
    head: str = ""
    tail: str = ""
    branches: list[tuple[str, Plan]] = field(default_factory=list)

    def render(self, columns: list[str] | None = None) -> str:
        """The SQL; ``columns`` replaces the select list's expressions."""
        if self.branches:
            if columns is not None:
                return f"SELECT {', '.join(columns)} FROM ({self.render()})"
            return self.prefix + "".join(op + plan.render() for op, plan in self.branches) + self.tail
        columns = columns or [final(out.x) for out in self.outs]
        listed = ", ".join(f"{column} AS c{place}" for place, column in enumerate(columns))
        return f"{self.prefix}{self.head}{listed}{self.tail}"


def final(x: X) -> str:
    """An output column: a DECIMAL rounded to its scale, a text with its collation."""
    if x.loose:
        x = X(f"m_fix({x.sql}, {x.t.scale})", x.t)
    return sortable(x)


def derived_columns(outs: list[Out], names: list[str]) -> list[Col]:
    if names and len(names) != len(outs):
        raise column_list_mismatch()
    seen: set[str] = set()
    columns = []
    for place, out in enumerate(outs):
        name = names[place] if names else out.name
        if name.lower() in seen:
            raise MySQLError(1060, f"Duplicate column name '{name}'")
        seen.add(name.lower())
        columns.append(Col(name, X(f"c{place}", out.x.t)))
    return columns


@dataclass(slots=True)
class FixedPlan(Plan):
    """A query whose SQL is final."""

    sql: str = ""

    def render(self, columns: list[str] | None = None) -> str:
        return self.sql


def fixed(outs: list[Out], sql: str) -> Plan:
    return FixedPlan(outs, sql=sql)


def limit_clause(query: n.Query) -> str:
    if not isinstance(query.limit, n.Literal):
        return ""
    offset = f" OFFSET {query.offset.value!r}" if isinstance(query.offset, n.Literal) else ""
    return f" LIMIT {query.limit.value!r}{offset}"


def same_width(left: int, right: int) -> None:
    if left != right:
        raise MySQLError(1222, "The used SELECT statements have a different number of columns")
