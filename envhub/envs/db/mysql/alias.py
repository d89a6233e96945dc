"""The name an agent knows its database by.

Invariant: the real name, which differs from episode to episode, never shows in an observation, and the alias means the
agent's own database wherever it is written.
"""

from __future__ import annotations

import re
from dataclasses import replace

from envhub.envs.db.database import QueryResult

ALIAS = "task_db"
_ALIAS_WORD = re.compile(rf"\b{ALIAS}\b")


class Alias:
    """Translates one episode's statements and results; plain replacement is sound because both names are unmistakable."""

    def __init__(self, real: str, host: str) -> None:
        self._real = real
        self._as_granted = _as_granted(real)
        self._token = real.split("_")[2]
        self._user = re.compile(rf"({ALIAS}['`]?@['`]?){re.escape(host)}")

    def to_server(self, sql: str) -> str:
        return _ALIAS_WORD.sub(self._real, sql)

    def to_agent(self, result: QueryResult) -> QueryResult:
        return replace(
            result,
            message=self._hide(result.message),
            columns=tuple(self._hide(name) for name in result.columns),
            rows=self.rows_to_agent(result.rows),
        )

    def rows_to_agent(self, rows: tuple[tuple[object, ...], ...]) -> tuple[tuple[object, ...], ...]:
        token = self._token
        if not any(isinstance(value, str) and token in value for row in rows for value in row):
            return rows
        return tuple(tuple(self._hide(value) if isinstance(value, str) else value for value in row) for row in rows)

    def _hide(self, text: str) -> str:
        """Also the name as a GRANT writes it; a user's host becomes ``%``, wherever this process runs."""
        if self._token not in text:
            return text
        text = text.replace(self._real, ALIAS).replace(self._as_granted, _as_granted(ALIAS))
        return self._user.sub(r"\1%", text)


def _as_granted(name: str) -> str:
    return name.replace("_", r"\_")
