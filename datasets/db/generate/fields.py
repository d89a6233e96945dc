"""Constructors of fields and makers of values. Invariant: every maker draws only from ``build.rng``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal

from model import Build, Field, Make, Value, article
from words import FIRST_NAMES, LAST_NAMES


def key(name: str, noun: str) -> Field:
    return Field(
        name=name,
        type="INT",
        noun=noun,
        role="key",
        primary=True,
        make=lambda b: b.start + b.index * 3 + b.rng.randrange(3),
    )


def code(name: str, noun: str, pattern: str, nouns: str = "") -> Field:
    """A textual primary key that is also the label, e.g. ``L-{n}``."""
    return Field(
        name=name,
        type="VARCHAR(20)",
        noun=noun,
        nouns=nouns or noun + "s",
        role="label",
        primary=True,
        make=lambda b: pattern.format(n=b.start * 10 + b.index * 7 + b.rng.randrange(7)),
    )


def label(name: str, noun: str, make: Make, *, nouns: str = "", quote: bool = False) -> Field:
    return Field(
        name=name, type="VARCHAR(80)", noun=noun, nouns=nouns or noun + "s", role="label", make=make, quote=quote
    )


def cat(name: str, noun: str, nouns: str, values: Sequence[str], phrase: str, *, blank: float = 0.0) -> Field:
    missing, present = _null_words(noun, blank)
    return Field(
        name=name,
        type="VARCHAR(40)",
        noun=noun,
        nouns=nouns,
        role="category",
        make=pick(values),
        phrase=phrase,
        blank=blank,
        missing=missing,
        present=present,
    )


def num(
    name: str,
    noun: str,
    make: Make,
    *,
    type: str = "INT",
    more: str = "",
    less: str = "",
    top: str = "",
    low: str = "",
    unit: str = "",
    summable: bool = False,
    blank: float = 0.0,
) -> Field:
    missing, present = _null_words(noun, blank)
    return Field(
        name=name,
        type=type,
        noun=noun,
        role="measure",
        make=make,
        more=more or f"with {article(noun)} {noun} above {{v}}",
        less=less or f"with {article(noun)} {noun} below {{v}}",
        top=top,
        low=low,
        unit=unit,
        summable=summable,
        blank=blank,
        missing=missing,
        present=present,
    )


def ordinal(name: str, noun: str, make: Make, *, more: str = "", less: str = "", top: str = "", low: str = "",
            blank: float = 0.0) -> Field:  # fmt: skip
    """A whole number that orders rows but is not counted with, such as a year or a floor."""
    return replace(num(name, noun, make, more=more, less=less, top=top, low=low, blank=blank), role="ordinal")


def dec(name: str, noun: str, make: Make, *, more: str = "", less: str = "", top: str = "", low: str = "",
        unit: str = "", summable: bool = False, blank: float = 0.0, digits: int = 2) -> Field:  # fmt: skip
    return num(name, noun, make, type=f"DECIMAL(12,{digits})", more=more, less=less, top=top, low=low, unit=unit,
               summable=summable, blank=blank)  # fmt: skip


def day(name: str, noun: str, verb: str, make: Make, *, blank: float = 0.0) -> Field:
    """``verb`` is a participle that dates attach to: "published" after/before/in."""
    missing, present = _null_words(noun, blank)
    return Field(
        name=name,
        type="DATE",
        noun=noun,
        role="date",
        make=make,
        phrase=verb,
        blank=blank,
        missing=missing,
        present=present,
    )


def moment(name: str, noun: str, verb: str, make: Make, *, blank: float = 0.0) -> Field:
    missing, present = _null_words(noun, blank)
    return Field(
        name=name, type="DATETIME", noun=noun, role="moment", make=make, phrase=verb, blank=blank, missing=missing,
        present=present,
    )  # fmt: skip


def flag(name: str, noun: str, yes: str, no: str, share: float = 0.4) -> Field:
    return Field(
        name=name, type="BOOLEAN", noun=noun, role="flag", make=lambda b: b.rng.random() < share, yes=yes, no=no
    )


def note(name: str, noun: str, values: Sequence[str], *, blank: float = 0.5) -> Field:
    missing, present = _null_words(noun, blank)
    return Field(
        name=name, type="TEXT", noun=noun, role="note", make=pick(values), blank=blank, missing=missing, present=present
    )


def ref(name: str, target: str, noun: str, *, of: str, has: str, have: str, hasnt: str, whose: str) -> Field:
    """A reference to the first field of ``target``; the domain sets the column type by the target's key."""
    return Field(
        name=name, type="INT", noun=noun, role="ref", target=target, make=_unused, of=of, has=has, have=have,
        hasnt=hasnt, whose=whose,
    )  # fmt: skip


def _unused(build: Build) -> Value:
    raise AssertionError("references are drawn by the table")


def _null_words(noun: str, blank: float) -> tuple[str, str]:
    return (f"without a recorded {noun}", f"with {article(noun)} {noun} on record") if blank else ("", "")


def pick(values: Sequence[str]) -> Make:
    """Earlier values are more frequent, so that groups differ in size."""
    weights = [len(values) + 2 - i for i in range(len(values))]
    return lambda b: b.rng.choices(values, weights)[0]


def ints(low: int, high: int, step: int = 1) -> Make:
    return lambda b: b.rng.randrange(low, high + 1, step)


def money(low: float, high: float, cents: int = 5) -> Make:
    """A DECIMAL with two digits, a multiple of ``cents``."""
    return lambda b: Decimal(b.rng.randrange(round(low * 100), round(high * 100), cents)).scaleb(-2)


def tenths(low: float, high: float) -> Make:
    return lambda b: Decimal(b.rng.randrange(round(low * 10), round(high * 10))).scaleb(-1)


def dates(first: str, last: str) -> Make:
    a, z = date.fromisoformat(first), date.fromisoformat(last)
    return lambda b: a + timedelta(days=b.rng.randrange((z - a).days))


def later(name: str, low: int, high: int) -> Make:
    """``low``..``high`` days after another date of the row or (``ref.column``) of a parent."""
    return lambda b: b.day(name) + timedelta(days=b.rng.randint(low, high))


def times(first: str, last: str, *, from_hour: int = 6, to_hour: int = 22) -> Make:
    inner = dates(first, last)

    def make(b: Build) -> Value:
        day_ = inner(b)
        assert isinstance(day_, date)
        return datetime.combine(day_, time(b.rng.randint(from_hour, to_hour), b.rng.randrange(0, 60, 5)))

    return make


def person(b: Build) -> Value:
    return f"{b.rng.choice(FIRST_NAMES)} {b.rng.choice(LAST_NAMES)}"


def mix(pattern: str, *parts: Sequence[str]) -> Make:
    """``pattern`` with one word of each list, e.g. ``mix("The {} {}", ADJECTIVES, NOUNS)``."""
    return lambda b: pattern.format(*(b.rng.choice(p) for p in parts))


def one_of(*makes: Make) -> Make:
    return lambda b: b.rng.choice(makes)(b)
