"""The errors a statement can end with, in MySQL's numbers and words.

Invariant: every refusal the embedded engine gives carries a MySQL error number; no text of SQLite's ever leaves it.
"""

from __future__ import annotations

STATES = {
    1007: "HY000",
    1044: "42000",
    1046: "3D000",
    1048: "23000",
    1049: "42000",
    1050: "42S01",
    1051: "42S02",
    1052: "23000",
    1054: "42S22",
    1055: "42000",
    1056: "42000",
    1059: "42000",
    1060: "42S21",
    1061: "42000",
    1062: "23000",
    1064: "42000",
    1065: "42000",
    1066: "42000",
    1068: "42000",
    1072: "42000",
    1091: "42000",
    1109: "42S02",
    1110: "42000",
    1111: "HY000",
    1113: "42000",
    1136: "21S01",
    1140: "42000",
    1142: "42000",
    1146: "42S02",
    1166: "42000",
    1222: "21000",
    1227: "42000",
    1235: "42000",
    1241: "21000",
    1242: "21000",
    1248: "42000",
    1305: "42000",
    1364: "HY000",
    1365: "22012",
    1415: "0A000",
    1451: "23000",
    1452: "23000",
    1582: "42000",
    1690: "22003",
    1691: "HY000",
    3819: "HY000",
}


class MySQLError(Exception):
    """A refusal of the engine: MySQL's number, SQLSTATE and text."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text

    @property
    def message(self) -> str:
        """As a MySQL client prints it."""
        return f"{self.code} ({STATES.get(self.code, 'HY000')}): {self.text}"


def syntax_error(near: str, line: int) -> MySQLError:
    return MySQLError(
        1064,
        "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version "
        f"for the right syntax to use near '{near[:80]}' at line {line}",
    )


def unknown_column(name: str, clause: str) -> MySQLError:
    return MySQLError(1054, f"Unknown column '{name}' in '{clause}'")


def unknown_table(database: str, name: str) -> MySQLError:
    return MySQLError(1146, f"Table '{database}.{name}' doesn't exist")


def unsupported(what: str) -> MySQLError:
    return MySQLError(1235, f"This version of MySQL doesn't yet support '{what}'")


def too_deep() -> MySQLError:
    return MySQLError(1436, "Thread stack overrun: the statement is nested too deeply")


def column_list_mismatch() -> MySQLError:
    return MySQLError(
        1353,
        "In definition of view, derived table or common table expression, SELECT list and column names list have different "
        "column counts",
    )


def bad_parameter_count(function: str) -> MySQLError:
    return MySQLError(1582, f"Incorrect parameter count in the call to native function '{function}'")
