"""The syntax tree of a MySQL statement.

Invariant: a tree is never changed after the parser returns it, so parsed statements can be cached and shared.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeAlias

Value: TypeAlias = int | float | Decimal | str | bytes | None


@dataclass(slots=True)
class Literal:
    """``kind`` overrides what the Python type says: ``date``, ``time``, ``datetime``."""

    value: Value
    kind: str = ""


@dataclass(slots=True)
class Name:
    """A column reference; ``parts`` is 1 to 3 identifiers."""

    parts: tuple[str, ...]


@dataclass(slots=True)
class Star:
    table: str | None = None


@dataclass(slots=True)
class Variable:
    name: str
    system: bool = False


@dataclass(slots=True)
class Assign:
    name: str
    value: Expr


@dataclass(slots=True)
class Unary:
    op: str
    operand: Expr


@dataclass(slots=True)
class Binary:
    op: str
    left: Expr
    right: Expr


@dataclass(slots=True)
class Logic:
    """AND or OR over any number of operands."""

    op: str
    operands: list[Expr]


@dataclass(slots=True)
class Is:
    operand: Expr
    what: str
    negated: bool


@dataclass(slots=True)
class Between:
    operand: Expr
    low: Expr
    high: Expr
    negated: bool


@dataclass(slots=True)
class In:
    operand: Expr
    items: list[Expr]
    query: Query | None
    negated: bool


@dataclass(slots=True)
class Like:
    operand: Expr
    pattern: Expr
    escape: Expr | None
    negated: bool


@dataclass(slots=True)
class Case:
    operand: Expr | None
    whens: list[tuple[Expr, Expr]]
    default: Expr | None


@dataclass(slots=True)
class Cast:
    operand: Expr
    target: str


@dataclass(slots=True)
class Collate:
    operand: Expr
    collation: str


@dataclass(slots=True)
class Interval:
    amount: Expr
    unit: str


@dataclass(slots=True)
class Exists:
    query: Query


@dataclass(slots=True)
class Subquery:
    query: Query


@dataclass(slots=True)
class Quantified:
    op: str
    left: Expr
    quantifier: str
    query: Query


@dataclass(slots=True)
class Row:
    items: list[Expr]


@dataclass(slots=True)
class Order:
    expr: Expr
    descending: bool


@dataclass(slots=True)
class Window:
    base: str | None = None
    partition: list[Expr] = field(default_factory=list)
    order: list[Order] = field(default_factory=list)
    frame: str = ""


@dataclass(slots=True)
class Call:
    """``name`` is upper case. ``over`` is a window, or the name of one."""

    name: str
    args: list[Expr]
    distinct: bool = False
    order: list[Order] = field(default_factory=list)
    separator: str | None = None
    over: Window | str | None = None


@dataclass(slots=True)
class Default:
    """The word DEFAULT as a value."""


Expr: TypeAlias = (
    Literal
    | Name
    | Star
    | Variable
    | Assign
    | Unary
    | Binary
    | Logic
    | Is
    | Between
    | In
    | Like
    | Case
    | Cast
    | Collate
    | Interval
    | Exists
    | Subquery
    | Quantified
    | Row
    | Call
    | Default
)


@dataclass(slots=True)
class Item:
    """One entry of a select list; ``text`` is its source text, the column's name when there is no alias."""

    expr: Expr
    alias: str | None
    text: str


@dataclass(slots=True)
class TableRef:
    database: str | None
    name: str
    alias: str


@dataclass(slots=True)
class Derived:
    query: Query
    alias: str
    columns: list[str]


@dataclass(slots=True)
class Join:
    """``kind``: INNER, LEFT, RIGHT, COMMA."""

    left: Source
    right: Source
    kind: str
    on: Expr | None = None
    using: list[str] = field(default_factory=list)
    natural: bool = False


Source: TypeAlias = TableRef | Derived | Join


@dataclass(slots=True)
class CTE:
    name: str
    columns: list[str]
    query: Query


@dataclass(slots=True)
class Select:
    items: list[Item]
    source: Source | None = None
    where: Expr | None = None
    group: list[Expr] = field(default_factory=list)
    rollup: bool = False
    having: Expr | None = None
    windows: dict[str, Window] = field(default_factory=dict)
    distinct: bool = False
    order: list[Order] = field(default_factory=list)
    limit: Expr | None = None
    offset: Expr | None = None
    ctes: list[CTE] = field(default_factory=list)
    recursive: bool = False


@dataclass(slots=True)
class Values:
    """``VALUES ROW(...), ROW(...)`` as a query."""

    rows: list[list[Expr]]
    order: list[Order] = field(default_factory=list)
    limit: Expr | None = None
    offset: Expr | None = None
    ctes: list[CTE] = field(default_factory=list)
    recursive: bool = False


@dataclass(slots=True)
class Compound:
    """``op``: UNION, INTERSECT or EXCEPT; ``everything`` keeps duplicates."""

    left: Query
    op: str
    everything: bool
    right: Query
    order: list[Order] = field(default_factory=list)
    limit: Expr | None = None
    offset: Expr | None = None
    ctes: list[CTE] = field(default_factory=list)
    recursive: bool = False


Query: TypeAlias = Select | Compound | Values


@dataclass(slots=True)
class Insert:
    table: TableRef
    columns: list[str] | None
    rows: list[list[Expr]]
    query: Query | None
    mode: str = ""
    """"", IGNORE or REPLACE."""
    update: list[tuple[Name, Expr]] = field(default_factory=list)
    row_alias: str | None = None


@dataclass(slots=True)
class Update:
    source: Source
    assignments: list[tuple[Name, Expr]]
    where: Expr | None
    order: list[Order]
    limit: Expr | None
    ctes: list[CTE] = field(default_factory=list)
    recursive: bool = False
    ignore: bool = False


@dataclass(slots=True)
class Delete:
    source: Source
    targets: list[str]
    where: Expr | None
    order: list[Order]
    limit: Expr | None
    ctes: list[CTE] = field(default_factory=list)
    recursive: bool = False


@dataclass(slots=True)
class ColumnSpec:
    name: str
    type: str
    """MySQL's spelling, e.g. ``decimal(10,2) unsigned``."""
    not_null: bool = False
    default: Expr | None = None
    on_update_now: bool = False
    auto_increment: bool = False
    primary: bool = False
    unique: bool = False
    generated: Expr | None = None
    comment: str = ""
    collation: str = ""
    check: Expr | None = None
    references: ForeignKey | None = None


@dataclass(slots=True)
class KeySpec:
    """``kind``: PRIMARY, UNIQUE or INDEX."""

    kind: str
    name: str | None
    columns: list[str]


@dataclass(slots=True)
class ForeignKey:
    name: str | None
    columns: list[str]
    table: str
    references: list[str]
    on_delete: str = "RESTRICT"
    on_update: str = "RESTRICT"


@dataclass(slots=True)
class CheckSpec:
    name: str | None
    expr: Expr


@dataclass(slots=True)
class CreateTable:
    table: TableRef
    columns: list[ColumnSpec]
    keys: list[KeySpec]
    foreign: list[ForeignKey]
    checks: list[CheckSpec]
    if_not_exists: bool = False
    temporary: bool = False
    query: Query | None = None
    like: TableRef | None = None


@dataclass(slots=True)
class CreateView:
    table: TableRef
    columns: list[str]
    query: Query
    replace: bool
    text: str


@dataclass(slots=True)
class Drop:
    """``what``: TABLE or VIEW."""

    what: str
    tables: list[TableRef]
    if_exists: bool


@dataclass(slots=True)
class AlterAction:
    """``what``: ADD, DROP, MODIFY, CHANGE, RENAME, RENAME_COLUMN, ADD_KEY, DROP_KEY, ADD_FOREIGN, ADD_CHECK, DROP_CHECK,
    DROP_FOREIGN, SET_DEFAULT, DROP_DEFAULT, RENAME_KEY, NOTHING."""

    what: str
    name: str = ""
    column: ColumnSpec | None = None
    key: KeySpec | None = None
    foreign: ForeignKey | None = None
    check: CheckSpec | None = None
    position: str | None = None
    """None keeps or appends, "" is FIRST, a name is AFTER it."""
    new_name: str = ""
    default: Expr | None = None
    if_exists: bool = False


@dataclass(slots=True)
class AlterTable:
    table: TableRef
    actions: list[AlterAction]


@dataclass(slots=True)
class RenameTables:
    pairs: list[tuple[TableRef, TableRef]]


@dataclass(slots=True)
class Truncate:
    table: TableRef


@dataclass(slots=True)
class Show:
    """``what``: TABLES, COLUMNS, CREATE, DATABASES, INDEX, VARIABLES, STATUS, WARNINGS, TABLE STATUS, EMPTY."""

    what: str
    table: TableRef | None = None
    full: bool = False
    like: str | None = None
    where: Expr | None = None


@dataclass(slots=True)
class Explain:
    query: Query


@dataclass(slots=True)
class Use:
    database: str


@dataclass(slots=True)
class Transaction:
    """``what``: BEGIN, COMMIT, ROLLBACK, SAVEPOINT, ROLLBACK_TO, RELEASE."""

    what: str
    name: str = ""


@dataclass(slots=True)
class SetVariables:
    assignments: list[tuple[str, bool, Expr]]
    """(name, is a system variable, value)"""


@dataclass(slots=True)
class Do:
    items: list[Expr]


@dataclass(slots=True)
class Refused:
    """A statement that the session may not run at all."""

    code: int
    text: str


@dataclass(slots=True)
class Nothing:
    """A statement that is accepted and has no effect here (ANALYZE, LOCK TABLES, ...)."""


Statement: TypeAlias = (
    Select
    | Compound
    | Values
    | Insert
    | Update
    | Delete
    | CreateTable
    | CreateView
    | Drop
    | AlterTable
    | RenameTables
    | Truncate
    | Show
    | Explain
    | Use
    | Transaction
    | SetVariables
    | Do
    | Refused
    | Nothing
)
