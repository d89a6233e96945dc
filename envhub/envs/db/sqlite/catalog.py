"""What a database holds: tables, views, keys, and the physical names they have in SQLite.

Invariant: SQLite only ever sees generated names (``t1``, ``c0``), so no name a user writes can reach SQLite's own tables or syntax.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.errors import MySQLError, unknown_table
from envhub.envs.db.sqlite.kinds import T

DATABASE = "env"


@dataclass(slots=True)
class ColumnDef:
    name: str
    type: str
    """MySQL's spelling in lower case."""
    t: T
    phys: str
    nullable: bool = True
    default: n.Expr | None = None
    auto_increment: bool = False
    on_update_now: bool = False
    generated: n.Expr | None = None
    comment: str = ""


@dataclass(slots=True)
class KeyDef:
    """``kind``: PRIMARY, UNIQUE or INDEX; ``columns`` are logical names."""

    kind: str
    name: str
    columns: list[str]


@dataclass(slots=True)
class TableDef:
    name: str
    phys: str
    columns: list[ColumnDef]
    keys: list[KeyDef] = field(default_factory=list)
    foreign: list[n.ForeignKey] = field(default_factory=list)
    checks: list[n.CheckSpec] = field(default_factory=list)
    temporary: bool = False
    auto_next: int = 1

    def find(self, name: str) -> ColumnDef | None:
        lowered = name.lower()
        return next((column for column in self.columns if column.name.lower() == lowered), None)

    @property
    def primary(self) -> KeyDef | None:
        return next((key for key in self.keys if key.kind == "PRIMARY"), None)

    @property
    def unique_keys(self) -> list[KeyDef]:
        return [key for key in self.keys if key.kind != "INDEX"]

    @property
    def auto_column(self) -> ColumnDef | None:
        return next((column for column in self.columns if column.auto_increment), None)

    def next_phys(self) -> str:
        used = {column.phys for column in self.columns}
        return next(f"c{number}" for number in range(len(used) + 1) if f"c{number}" not in used)


@dataclass(slots=True)
class ViewDef:
    name: str
    columns: list[str]
    query: n.Query
    text: str


@dataclass(slots=True)
class Catalog:
    tables: dict[str, TableDef] = field(default_factory=dict)
    views: dict[str, ViewDef] = field(default_factory=dict)
    made: int = 0

    def phys(self) -> str:
        self.made += 1
        return f"t{self.made}"

    def check_database(self, ref: n.TableRef) -> None:
        """Only the session's own database exists."""
        if ref.database is not None and ref.database != DATABASE:
            raise MySQLError(1044, f"Access denied for user 'agent'@'localhost' to database '{ref.database}'")

    def table(self, ref: n.TableRef) -> TableDef:
        self.check_database(ref)
        table = self.tables.get(ref.name)
        if table is None:
            if ref.name in self.views:
                raise MySQLError(1288, f"The target table {ref.name} of the statement is not updatable")
            raise unknown_table(DATABASE, ref.name)
        return table
