"""MySQL's functions in Python, one module for each family.

Invariant: a function is pure, bounded in the memory it takes, and answers None for a value it cannot use; what MySQL reports as an
error it raises as MySQLError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

MAX_TEXT = 4 << 20


class Spec(NamedTuple):
    """``args``: one letter an argument: s text, b text or bytes, i integer, r float, n number, d date or time, a anything;
    lower case after ``?`` is optional, ``*`` repeats the last. ``returns``: a kind, or ``dec:N``. ``nulls``: gets None passed."""

    args: str
    returns: str
    call: Callable[..., Any]
    nulls: bool = False
