"""The state of one database that its statements share: connection, catalog, session variables, the clock of the statement.

Invariant: everything a statement may depend on besides its text and the data is here, so replaying the same statements with the same
clocks gives the same database.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from typing import Any

from envhub.envs.db.sqlite import nodes as n
from envhub.envs.db.sqlite.catalog import Catalog, TableDef
from envhub.envs.db.sqlite.connection import Connection
from envhub.envs.db.sqlite.errors import MySQLError
from envhub.envs.db.sqlite.expressions import compile_expr
from envhub.envs.db.sqlite.kinds import T
from envhub.envs.db.sqlite.plans import final
from envhub.envs.db.sqlite.scope import Col, Context, Scope, Source, X

VERSION = "8.0.36"
MAX_HELD_BYTES = 64 << 20


def system_variables() -> dict[str, Any]:
    return {
        "version": VERSION, "version_comment": "MySQL Community Server - GPL", "autocommit": 1, "last_insert_id": 0, "row_count": -1,
        "found_rows": 0, "sql_mode": "ONLY_FULL_GROUP_BY,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION",
        "character_set_client": "utf8mb4", "character_set_connection": "utf8mb4", "character_set_results": "utf8mb4",
        "collation_connection": "utf8mb4_0900_ai_ci", "collation_database": "utf8mb4_0900_ai_ci", "time_zone": "+00:00",
        "lower_case_table_names": 0, "group_concat_max_len": 1 << 20, "max_allowed_packet": 4 << 20, "foreign_key_checks": 1,
        "unique_checks": 1, "sql_safe_updates": 0, "transaction_isolation": "REPEATABLE-READ", "tx_isolation": "REPEATABLE-READ",
        "cte_max_recursion_depth": 1000, "div_precision_increment": 4, "identity": 0, "hostname": "localhost", "port": 3306,
        "character_set_database": "utf8mb4", "character_set_server": "utf8mb4", "collation_server": "utf8mb4_0900_ai_ci",
        "default_storage_engine": "InnoDB", "max_execution_time": 0, "wait_timeout": 28800, "sql_select_limit": (1 << 63) - 1,
    }  # fmt: skip


@dataclass(slots=True)
class Session:
    connection: Connection
    catalog: Catalog = field(default_factory=Catalog)
    system: dict[str, Any] = field(default_factory=system_variables)
    now: str = "1970-01-01 00:00:00"

    def context(self) -> Context:
        return Context(self.catalog, self.now, self.connection.variables, self.system)

    def rows(self, sql: str, params: list[Any]) -> list[tuple[Any, ...]]:
        """Every row of a query that a change will be made from, held in memory and therefore bounded."""
        cursor = self.connection.execute(sql, params)
        found: list[tuple[Any, ...]] = []
        size = 0
        try:
            for row in cursor:
                size += 64 + 16 * len(row) + sum(len(value) for value in row if isinstance(value, str | bytes))
                if size > MAX_HELD_BYTES:
                    raise MySQLError(1114, "The table is full")
                found.append(row)
        except sqlite3.Error as error:
            raise self.connection.translate(error) from error
        return found

    def value(self, node: n.Expr) -> tuple[Any, T]:
        """One expression's value outside any table."""
        ctx = self.context()
        x = compile_expr(ctx, node, Scope())
        return self.rows(f"SELECT {final(x)}", ctx.params)[0][0], x.t


class RowExpressions:
    """Expressions over one row of a table, given as values: generated columns, CHECKs, ON DUPLICATE KEY UPDATE."""

    def __init__(self, session: Session, table: TableDef, exprs: list[n.Expr], alias: str | None = None) -> None:
        self.session = session
        width = len(table.columns)
        ctx = session.context()
        ctx.params = [None] * (2 * width)
        old = [Col(c.name, X(f"?{place + 1}", c.t)) for place, c in enumerate(table.columns)]
        ctx.values = [Col(c.name, X(f"?{width + place + 1}", c.t)) for place, c in enumerate(table.columns)]
        sources = [Source(table.name, "", old)]
        if alias is not None:
            sources.append(Source(alias, "", ctx.values))
        compiled = [compile_expr(ctx, expr, Scope(sources=list(sources))) for expr in exprs]
        self.rest = ctx.params[2 * width :]
        last = len(ctx.params)  # SQLite wants every value bound to be mentioned up to the highest number
        listed = ", ".join(f"{final(x)} AS v{place}" for place, x in enumerate(compiled))
        self.sql = f"SELECT {listed} WHERE ?{last} IS ?{last}"

    def evaluate(self, row: list[Any], new: list[Any] | None = None) -> tuple[Any, ...]:
        return self.session.rows(self.sql, [*row, *(new or row), *self.rest])[0]
