"""The name an agent knows its database by.

Invariant: the real name, which differs from episode to episode, never shows in an observation, and the alias means the
agent's own database wherever it is written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from envhub.envs.db.database import QueryResult

ALIAS = "task_db"


@dataclass(frozen=True, slots=True)
class Alias:
    """Translates one episode's statements and results; plain replacement is sound because both names are unmistakable."""

    real: str
    host: str

    def to_server(self, sql: str) -> str:
        return re.sub(rf"\b{ALIAS}\b", self.real, sql)

    def to_agent(self, result: QueryResult) -> QueryResult:
        return replace(
            result,
            message=self._hide(result.message),
            columns=tuple(self._hide(name) for name in result.columns),
            rows=self.rows_to_agent(result.rows),
        )

    def rows_to_agent(self, rows: tuple[tuple[object, ...], ...]) -> tuple[tuple[object, ...], ...]:
        if not any(isinstance(value, str) and self._shows(value) for row in rows for value in row):
            return rows
        return tuple(tuple(self._hide(value) if isinstance(value, str) else value for value in row) for row in rows)

    def _hide(self, text: str) -> str:
        """Also the name as a GRANT writes it; a user's host becomes ``%``, wherever this process runs."""
        if not self._shows(text):
            return text
        text = text.replace(self.real, ALIAS).replace(self._escaped, ALIAS.replace("_", r"\_"))
        return re.sub(rf"({ALIAS}['`]?@['`]?){re.escape(self.host)}", r"\1%", text)

    def _shows(self, text: str) -> bool:
        return self.real in text or self._escaped in text

    @property
    def _escaped(self) -> str:
        return self.real.replace("_", r"\_")
