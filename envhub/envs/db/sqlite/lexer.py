"""Cuts MySQL statement text into tokens.

Invariant: linear in the text's length; the only errors are a MySQL syntax error and too many tokens.
"""

from __future__ import annotations

import re

from envhub.envs.db.sqlite.errors import MySQLError, syntax_error

MAX_TOKENS = 100_000
"""What bounds the time to parse a statement, which no deadline interrupts; a long literal is one token."""

RESERVED = frozenset(
    [
        "ACCESSIBLE",
        "ADD",
        "ALL",
        "ALTER",
        "ANALYZE",
        "AND",
        "AS",
        "ASC",
        "ASENSITIVE",
        "BEFORE",
        "BETWEEN",
        "BIGINT",
        "BINARY",
        "BLOB",
        "BOTH",
        "BY",
        "CALL",
        "CASCADE",
        "CASE",
        "CHANGE",
        "CHAR",
        "CHARACTER",
        "CHECK",
        "COLLATE",
        "COLUMN",
        "CONDITION",
        "CONSTRAINT",
        "CONTINUE",
        "CONVERT",
        "CREATE",
        "CROSS",
        "CUBE",
        "CUME_DIST",
        "CURRENT_DATE",
        "CURRENT_TIME",
        "CURRENT_TIMESTAMP",
        "CURRENT_USER",
        "CURSOR",
        "DATABASE",
        "DATABASES",
        "DAY_HOUR",
        "DAY_MICROSECOND",
        "DAY_MINUTE",
        "DAY_SECOND",
        "DEC",
        "DECIMAL",
        "DECLARE",
        "DEFAULT",
        "DELAYED",
        "DELETE",
        "DENSE_RANK",
        "DESC",
        "DESCRIBE",
        "DETERMINISTIC",
        "DISTINCT",
        "DISTINCTROW",
        "DIV",
        "DOUBLE",
        "DROP",
        "DUAL",
        "EACH",
        "ELSE",
        "ELSEIF",
        "EMPTY",
        "ENCLOSED",
        "ESCAPED",
        "EXCEPT",
        "EXISTS",
        "EXIT",
        "EXPLAIN",
        "FALSE",
        "FETCH",
        "FIRST_VALUE",
        "FLOAT",
        "FLOAT4",
        "FLOAT8",
        "FOR",
        "FORCE",
        "FOREIGN",
        "FROM",
        "FULLTEXT",
        "FUNCTION",
        "GENERATED",
        "GET",
        "GRANT",
        "GROUP",
        "GROUPING",
        "GROUPS",
        "HAVING",
        "HIGH_PRIORITY",
        "HOUR_MICROSECOND",
        "HOUR_MINUTE",
        "HOUR_SECOND",
        "IF",
        "IGNORE",
        "IN",
        "INDEX",
        "INFILE",
        "INNER",
        "INOUT",
        "INSENSITIVE",
        "INSERT",
        "INT",
        "INT1",
        "INT2",
        "INT3",
        "INT4",
        "INT8",
        "INTEGER",
        "INTERSECT",
        "INTERVAL",
        "INTO",
        "IO_AFTER_GTIDS",
        "IO_BEFORE_GTIDS",
        "IS",
        "ITERATE",
        "JOIN",
        "JSON_TABLE",
        "KEY",
        "KEYS",
        "KILL",
        "LAG",
        "LAST_VALUE",
        "LATERAL",
        "LEAD",
        "LEADING",
        "LEAVE",
        "LEFT",
        "LIKE",
        "LIMIT",
        "LINEAR",
        "LINES",
        "LOAD",
        "LOCALTIME",
        "LOCALTIMESTAMP",
        "LOCK",
        "LONG",
        "LONGBLOB",
        "LONGTEXT",
        "LOOP",
        "LOW_PRIORITY",
        "MASTER_BIND",
        "MATCH",
        "MAXVALUE",
        "MEDIUMBLOB",
        "MEDIUMINT",
        "MEDIUMTEXT",
        "MIDDLEINT",
        "MINUTE_MICROSECOND",
        "MINUTE_SECOND",
        "MOD",
        "MODIFIES",
        "NATURAL",
        "NOT",
        "NO_WRITE_TO_BINLOG",
        "NTH_VALUE",
        "NTILE",
        "NULL",
        "NUMERIC",
        "OF",
        "ON",
        "OPTIMIZE",
        "OPTIMIZER_COSTS",
        "OPTION",
        "OPTIONALLY",
        "OR",
        "ORDER",
        "OUT",
        "OUTER",
        "OUTFILE",
        "OVER",
        "PARTITION",
        "PERCENT_RANK",
        "PRECISION",
        "PRIMARY",
        "PROCEDURE",
        "PURGE",
        "RANGE",
        "RANK",
        "READ",
        "READS",
        "READ_WRITE",
        "REAL",
        "RECURSIVE",
        "REFERENCES",
        "REGEXP",
        "RELEASE",
        "RENAME",
        "REPEAT",
        "REPLACE",
        "REQUIRE",
        "RESIGNAL",
        "RESTRICT",
        "RETURN",
        "REVOKE",
        "RIGHT",
        "RLIKE",
        "ROW",
        "ROWS",
        "ROW_NUMBER",
        "SCHEMA",
        "SCHEMAS",
        "SECOND_MICROSECOND",
        "SELECT",
        "SENSITIVE",
        "SEPARATOR",
        "SET",
        "SHOW",
        "SIGNAL",
        "SMALLINT",
        "SPATIAL",
        "SPECIFIC",
        "SQL",
        "SQLEXCEPTION",
        "SQLSTATE",
        "SQLWARNING",
        "SQL_BIG_RESULT",
        "SQL_CALC_FOUND_ROWS",
        "SQL_SMALL_RESULT",
        "SSL",
        "STARTING",
        "STORED",
        "STRAIGHT_JOIN",
        "SYSTEM",
        "TABLE",
        "TERMINATED",
        "THEN",
        "TINYBLOB",
        "TINYINT",
        "TINYTEXT",
        "TO",
        "TRAILING",
        "TRIGGER",
        "TRUE",
        "UNDO",
        "UNION",
        "UNIQUE",
        "UNLOCK",
        "UNSIGNED",
        "UPDATE",
        "USAGE",
        "USE",
        "USING",
        "UTC_DATE",
        "UTC_TIME",
        "UTC_TIMESTAMP",
        "VALUES",
        "VARBINARY",
        "VARCHAR",
        "VARCHARACTER",
        "VARYING",
        "VIRTUAL",
        "WHEN",
        "WHERE",
        "WHILE",
        "WINDOW",
        "WITH",
        "WRITE",
        "XOR",
        "YEAR_MONTH",
        "ZEROFILL",
    ]
)

_TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*|--(?=[\s\x00-\x1f]|$)[^\n]*|/\*(?!!)(?:[^*]|\*(?!/))*\*/|/\*!\d*|\*/)
    |(?P<hex>0x[0-9A-Fa-f]+(?![\w$])|[xX]'[0-9A-Fa-f]*')
    |(?P<bit>0b[01]+(?![\w$])|[bB]'[01]*')
    |(?P<num>(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?(?![\w$]))
    |(?P<id>[\w$]+)
    |(?P<str>[nN]?'[^'\\]*(?:(?:\\.|'')[^'\\]*)*'|"[^"\\]*(?:(?:\\.|"")[^"\\]*)*")
    |(?P<qid>`(?:[^`]|``)*`)
    |(?P<op><=>|->>|->|:=|<=|>=|<>|!=|&&|\|\||<<|>>|[-+*/%(),.;=<>!~^&|@?:{}])""",
    re.X | re.S,
)
_ESCAPE = re.compile(r"\\(.)", re.S)
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


class Token:
    """``kind``: id, qid, str, num, hex, bit, op or end; ``up`` is the upper-case text of unquoted words and operators."""

    __slots__ = ("end", "kind", "pos", "text", "up")

    def __init__(self, kind: str, text: str, pos: int, end: int) -> None:
        self.kind = kind
        self.text = text
        self.pos = pos
        self.end = end
        self.up = text.upper() if kind == "id" else text if kind == "op" else ""


def tokenize(sql: str) -> list[Token]:
    tokens: list[Token] = []
    pos, size = 0, len(sql)
    versioned = False
    while pos < size:
        match = _TOKEN.match(sql, pos)
        if match is None:
            raise error_at(sql, pos)
        kind = match.lastgroup or ""
        end = match.end()
        if kind == "space":
            versioned = _versioned(sql, pos, end, versioned)
        else:
            if len(tokens) >= MAX_TOKENS:
                raise MySQLError(1436, "Thread stack overrun: the statement is too large")
            tokens.append(Token(kind, match.group(), pos, end))
            if kind == "op" and match.group() == ".":
                end = _qualified_word(sql, end, tokens)
        pos = end
    tokens.append(Token("end", "", size, size))
    return tokens


def _versioned(sql: str, pos: int, end: int, inside: bool) -> bool:
    """Whether the text goes on inside ``/*!40101 ... */``, whose content counts. Raises for a ``*/`` that ends nothing."""
    if sql.startswith("/*!", pos):
        return True
    if sql.startswith("*/", pos) and end - pos == 2:
        if not inside:
            raise error_at(sql, pos)
        return False
    return inside


_WORD = re.compile(r"[\w$]+")


def _qualified_word(sql: str, pos: int, tokens: list[Token]) -> int:
    """After a dot a word is an identifier even when it is reserved or starts with a digit."""
    match = _WORD.match(sql, pos)
    if match is None or len(tokens) < 2 or tokens[-2].kind not in ("id", "qid"):
        return pos
    token = Token("qid", match.group(), pos, match.end())
    tokens.append(token)
    return match.end()


def error_at(sql: str, pos: int) -> MySQLError:
    return syntax_error(sql[pos:], sql.count("\n", 0, pos) + 1)


def unquote(text: str) -> str:
    """A string token's value."""
    if text[0] in "nN":
        text = text[1:]
    quote = text[0]
    body = text[1:-1]
    if quote * 2 in body:
        body = _double_quotes(body, quote)
    elif "\\" in body:
        body = _ESCAPE.sub(_unescape, body)
    return body


def _unescape(match: re.Match[str]) -> str:
    char = match.group(1)
    return _ESCAPES.get(char, char)


def _double_quotes(body: str, quote: str) -> str:
    return re.sub(r"\\(.)|" + quote * 2, lambda m: _unescape(m) if m.group(1) else quote, body, flags=re.S)


def identifier(token: Token) -> str:
    if token.kind == "qid" and token.text.startswith("`"):
        return token.text[1:-1].replace("``", "`")
    return token.text
