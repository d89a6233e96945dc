"""What the driver sets on the server's sessions so that MariaDB and MySQL answer alike.

Invariant: every session of every episode runs under the same settings, whatever the server's defaults are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from envhub.core.errors import UnavailableError

SQL_MODE = "ONLY_FULL_GROUP_BY,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
"""Not strict, as the published environment runs: two of its reference statements fail in strict mode."""

LOAD_SQL_MODE = "STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION"
"""While tables are loaded a value that does not fit its column is an error, not a silent change."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs between the two servers."""

    collation: str
    list_xa: str
    max_packet_bytes: int

    @property
    def load_settings(self) -> str:
        return self._settings(LOAD_SQL_MODE)

    @property
    def episode_settings(self) -> str:
        return self._settings(SQL_MODE)

    def _settings(self, sql_mode: str) -> str:
        return (
            f"SET NAMES utf8mb4 COLLATE {self.collation}, collation_server='{self.collation}', "
            f"sql_mode='{sql_mode}', time_zone='+00:00', lc_messages='en_US', autocommit=1, group_concat_max_len=1048576"
        )


ADMIN_SETTINGS = (
    "SET NAMES utf8mb4, sql_mode='', time_zone='+00:00', autocommit=1, lock_wait_timeout=3, innodb_lock_wait_timeout=1"
)
"""The lock waits are bounded so that removing a database cannot hang behind what its agent left open."""


def dialect_of(version: str, *, max_packet_bytes: int) -> Dialect:
    """From the server's ``VERSION()``. Raises UnavailableError for a server too old to be MySQL-like."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if "mariadb" in version.lower():
        if numbers < (10, 10):
            raise UnavailableError(f"MariaDB {version} is too old; the mysql driver needs 10.11 or later")
        return Dialect("utf8mb4_uca1400_nopad_ai_ci", "XA RECOVER FORMAT='SQL'", max_packet_bytes)
    if numbers < (8, 0):
        raise UnavailableError(f"MySQL {version} is too old; the mysql driver needs 8.0 or later")
    return Dialect("utf8mb4_0900_ai_ci", "XA RECOVER CONVERT XID", max_packet_bytes)
