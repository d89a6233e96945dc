# ruff: noqa: DTZ001  MySQL's DATETIME has no time zone
"""Dates and times: reading MySQL's loose spellings, arithmetic and formatting.

Invariant: a moment is stored as ``YYYY-MM-DD``, ``YYYY-MM-DD HH:MM:SS[.ffffff]`` or ``[-]HH:MM:SS[.ffffff]``; an
impossible date is None.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeAlias

from envhub.envs.db.sqlite.functions import Spec
from envhub.envs.db.sqlite.functions.numbers import exact

Raw: TypeAlias = str | int | float | bytes

_DATE = re.compile(r"\s*(\d{4}|\d{1,2})[^\w\s](\d{1,2})[^\w\s](\d{1,2})(?!\d)(?:[T\s]+(.*))?", re.S)
_CLOCK = re.compile(r"(\d{1,2})(?:[^\w\s](\d{1,2})(?:[^\w\s](\d{1,2})(?:\.(\d{0,6})\d*)?)?)?")
_TIME = re.compile(r"\s*(-)?(?:(\d+)\s+)?(\d+)(?::(\d{1,2}))?(?::(\d{1,2}))?(?:\.(\d{0,6})\d*)?")
_DATED = re.compile(r"\s*(\d{4}|\d{1,2}(?=-))[^\w\s]\d{1,2}[^\w\s]\d{1,2}")
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
ZERO_DATE = "0000-00-00"


def moment(value: Raw | None) -> datetime | None:
    """The date or datetime that ``value`` spells, time 00:00:00 when it has none."""
    found = read(value)
    return None if found is None else found[0]


def read(value: Raw | None) -> tuple[datetime, bool] | None:
    """The moment, and whether the text had a time part."""
    if value is None:
        return None
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return _read_text(value) if isinstance(value, str) else _read_number(str(int(value)))


@lru_cache(maxsize=8192)
def _read_text(text: str) -> tuple[datetime, bool] | None:
    match = _DATE.match(text)
    if match is None:
        digits = re.match(r"\s*(\d+)", text)
        return _read_number(digits.group(1)) if digits else None
    year, month, day, rest = match.groups()
    return _make(_century(year), int(month), int(day), rest or "")


def _century(year: str) -> int:
    number = int(year)
    return number if len(year) > 2 else number + (2000 if number < 70 else 1900)


def _make(year: int, month: int, day: int, clock: str) -> tuple[datetime, bool] | None:
    hour = minute = second = micro = 0
    match = _CLOCK.match(clock) if clock else None
    if match:
        hour, minute, second = (int(part or 0) for part in match.groups()[:3])
        micro = int((match.group(4) or "").ljust(6, "0") or 0)
    try:
        return datetime(year, month, day, hour, minute, second, micro), match is not None
    except ValueError:
        return None


def _read_number(digits: str) -> tuple[datetime, bool] | None:
    if len(digits) in (5, 6, 11, 12):
        digits = digits.zfill(6 if len(digits) <= 6 else 12)
        digits = str(_century(digits[:2])) + digits[2:]
    if len(digits) not in (8, 14):
        return None
    clock = ":".join((digits[8:10], digits[10:12], digits[12:14])) if len(digits) == 14 else ""
    return _make(int(digits[:4]), int(digits[4:6]), int(digits[6:8]), clock)


def date_text(value: datetime | date) -> str:
    return f"{value.year:04d}-{value.month:02d}-{value.day:02d}"


def moment_text(value: datetime) -> str:
    text = f"{date_text(value)} {value.hour:02d}:{value.minute:02d}:{value.second:02d}"
    return f"{text}.{value.microsecond:06d}" if value.microsecond else text


def to_date(value: Raw) -> str | None:
    found = moment(value)
    return None if found is None else date_text(found)


def to_moment(value: Raw) -> str | None:
    found = moment(value)
    return None if found is None else moment_text(found)


def comparable(value: Raw) -> str:
    """A string next to a DATETIME: its moment when it spells one, else itself."""
    found = moment(value)
    return str(value) if found is None else moment_text(found)


def number(value: str) -> int | float:
    """A stored moment in numeric context: 20200131, 20200131101500 or 101500."""
    digits = re.sub(r"[^\d.]", "", value)
    result = float(digits) if "." in digits else int(digits or 0)
    return -result if value.startswith("-") else result


def span(value: Raw | None) -> timedelta | None:
    """The TIME that ``value`` spells."""
    if value is None:
        return None
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    if _DATED.match(text):
        found = moment(text)
        return (
            None
            if found is None
            else timedelta(0, found.hour * 3600 + found.minute * 60 + found.second, found.microsecond)
        )
    match = _TIME.match(text)
    if match is None:
        return None
    minus, days, first, second, third, fraction = match.groups()
    if second is None and days is None:
        padded = first.zfill(6)
        hours, minutes, seconds = int(padded[:-4]), int(padded[-4:-2]), int(padded[-2:])
    else:
        hours, minutes, seconds = int(first) + 24 * int(days or 0), int(second or 0), int(third or 0)
    if minutes > 59 or seconds > 59:
        return None
    hours = min(hours, 838)
    result = timedelta(
        hours=hours, minutes=minutes, seconds=seconds, microseconds=int((fraction or "").ljust(6, "0") or 0)
    )
    return -result if minus else result


def span_text(value: timedelta) -> str:
    limit = timedelta(hours=838, minutes=59, seconds=59)
    value = max(-limit, min(value, limit))
    minus, value = ("-", -value) if value < timedelta(0) else ("", value)
    seconds = value.days * 86400 + value.seconds
    text = f"{minus}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{value.microseconds:06d}" if value.microseconds else text


def to_time(value: Raw) -> str | None:
    found = span(value)
    return None if found is None else span_text(found)


_PARTS = {
    "YEAR": lambda m: m.year,
    "MONTH": lambda m: m.month,
    "DAY": lambda m: m.day,
    "QUARTER": lambda m: (m.month + 2) // 3,
    "DAYOFWEEK": lambda m: m.isoweekday() % 7 + 1,
    "WEEKDAY": lambda m: m.weekday(),
    "DAYOFYEAR": lambda m: m.timetuple().tm_yday,
    "YEAR_MONTH": lambda m: m.year * 100 + m.month,
    "TO_DAYS": lambda m: m.toordinal() + 365,
}


def part(name: str, value: Raw) -> int | None:
    found = moment(value)
    if found is None:
        return (
            0 if isinstance(value, str) and value.startswith(ZERO_DATE) and name in ("YEAR", "MONTH", "DAY") else None
        )
    return int(_PARTS[name](found))


def clock_part(name: str, value: Raw) -> int | None:
    found = span(value)
    if found is None:
        return None
    found = abs(found)
    seconds = found.days * 86400 + found.seconds
    return {
        "HOUR": seconds // 3600,
        "MINUTE": seconds // 60 % 60,
        "SECOND": seconds % 60,
        "MICROSECOND": found.microseconds,
    }[name]


_COMBINED = {
    "DAY_HOUR": "%e%H", "DAY_MINUTE": "%e%H%i", "DAY_SECOND": "%e%H%i%s", "HOUR_MINUTE": "%k%i", "HOUR_SECOND": "%k%i%s",
    "MINUTE_SECOND": "%i%s", "DAY_MICROSECOND": "%e%H%i%s%f", "HOUR_MICROSECOND": "%k%i%s%f", "MINUTE_MICROSECOND": "%i%s%f",
    "SECOND_MICROSECOND": "%s%f",
}  # fmt: skip


def extract(unit: str, value: Raw) -> int | None:
    if unit in _PARTS:
        return part(unit, value)
    if unit == "WEEK":
        return week(value)
    if unit in ("HOUR", "MINUTE", "SECOND", "MICROSECOND"):
        return clock_part(unit, value)
    found = moment(value)
    return None if found is None else int(format_moment(found, _COMBINED[unit]))


def week_of(value: datetime, mode: int) -> tuple[int, int]:
    """(year, week) as WEEK() counts in the given mode, week never 0."""
    monday = bool(mode & 1)
    iso_like = bool(mode & 4) != bool(mode & 1)
    first = date(value.year, 1, 1)
    offset = first.weekday() if monday else (first.weekday() + 1) % 7
    start = first.toordinal() - offset + (7 if offset > 3 else 0) if iso_like else first.toordinal() + (7 - offset) % 7
    day = value.date().toordinal()
    if day < start:
        if value.year <= 1:
            return value.year, 1
        return week_of(datetime(value.year - 1, 12, 31), mode)
    number_of_week = (day - start) // 7 + 1
    if number_of_week == 53 and iso_like:
        following = date(value.year + 1, 1, 1) if value.year < 9999 else date(9999, 12, 31)
        offset = following.weekday() if monday else (following.weekday() + 1) % 7
        if offset <= 3 and day >= following.toordinal() - offset:
            return value.year + 1, 1
    return value.year, number_of_week


def week(value: Raw, mode: int = 0) -> int | None:
    found = moment(value)
    if found is None:
        return None
    year, count = week_of(found, mode)
    if mode & 2:
        return count
    if year < found.year:
        return 0
    return 53 if year > found.year else count


def year_week(value: Raw, mode: int = 0) -> int | None:
    found = moment(value)
    if found is None:
        return None
    year, count = week_of(found, mode | 2)
    return year * 100 + count


def _ordinal_suffix(day: int) -> str:
    return "th" if 10 <= day % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


_FORMATS: dict[str, Callable[[datetime], str]] = {
    "Y": lambda m: f"{m.year:04d}",
    "y": lambda m: f"{m.year % 100:02d}",
    "m": lambda m: f"{m.month:02d}",
    "c": lambda m: str(m.month),
    "M": lambda m: MONTHS[m.month - 1],
    "b": lambda m: MONTHS[m.month - 1][:3],
    "d": lambda m: f"{m.day:02d}",
    "e": lambda m: str(m.day),
    "D": lambda m: f"{m.day}{_ordinal_suffix(m.day)}",
    "j": lambda m: f"{m.timetuple().tm_yday:03d}",
    "W": lambda m: DAYS[m.weekday()],
    "a": lambda m: DAYS[m.weekday()][:3],
    "w": lambda m: str(m.isoweekday() % 7),
    "H": lambda m: f"{m.hour:02d}",
    "k": lambda m: str(m.hour),
    "h": lambda m: f"{(m.hour + 11) % 12 + 1:02d}",
    "I": lambda m: f"{(m.hour + 11) % 12 + 1:02d}",
    "l": lambda m: str((m.hour + 11) % 12 + 1),
    "i": lambda m: f"{m.minute:02d}",
    "s": lambda m: f"{m.second:02d}",
    "S": lambda m: f"{m.second:02d}",
    "f": lambda m: f"{m.microsecond:06d}",
    "p": lambda m: "AM" if m.hour < 12 else "PM",
    "r": lambda m: f"{(m.hour + 11) % 12 + 1:02d}:{m.minute:02d}:{m.second:02d} {'AM' if m.hour < 12 else 'PM'}",
    "T": lambda m: f"{m.hour:02d}:{m.minute:02d}:{m.second:02d}",
    "U": lambda m: f"{week_of(m, 0)[1] if week_of(m, 0)[0] == m.year else 0:02d}",
    "u": lambda m: f"{week_of(m, 1)[1] if week_of(m, 1)[0] == m.year else 0 if week_of(m, 1)[0] < m.year else 53:02d}",
    "V": lambda m: f"{week_of(m, 2)[1]:02d}",
    "v": lambda m: f"{week_of(m, 3)[1]:02d}",
    "X": lambda m: f"{week_of(m, 2)[0]:04d}",
    "x": lambda m: f"{week_of(m, 3)[0]:04d}",
}


def format_moment(value: datetime, template: str) -> str:
    out = []
    chars = iter(template)
    for char in chars:
        if char != "%":
            out.append(char)
            continue
        code = next(chars, "%")
        writer = _FORMATS.get(code)
        out.append(writer(value) if writer else code)
    return "".join(out)


def date_format(value: Raw, template: str) -> str | None:
    found = moment(value)
    return None if found is None or not template else format_moment(found, template)


def time_format(value: Raw, template: str) -> str | None:
    found = span(value)
    if found is None:
        return None
    seconds = found.days * 86400 + found.seconds
    hours = seconds // 3600
    fake = datetime(2000, 1, 1, hours % 24, seconds // 60 % 60, seconds % 60, found.microseconds)
    return format_moment(fake, template.replace("%H", f"{hours:02d}").replace("%k", str(hours)))


_READ_PATTERNS = {
    "Y": r"(?P<Y>\d{1,4})", "y": r"(?P<y>\d{1,2})", "m": r"(?P<m>\d{1,2})", "c": r"(?P<m>\d{1,2})", "d": r"(?P<d>\d{1,2})",
    "e": r"(?P<d>\d{1,2})", "D": r"(?P<d>\d{1,2})(?:st|nd|rd|th)", "H": r"(?P<H>\d{1,2})", "k": r"(?P<H>\d{1,2})",
    "h": r"(?P<I>\d{1,2})", "I": r"(?P<I>\d{1,2})", "l": r"(?P<I>\d{1,2})", "i": r"(?P<i>\d{1,2})", "s": r"(?P<s>\d{1,2})",
    "S": r"(?P<s>\d{1,2})", "f": r"(?P<f>\d{1,6})", "p": r"(?P<p>[AaPp][Mm])", "j": r"(?P<j>\d{1,3})",
    "M": "(?P<M>" + "|".join(MONTHS) + ")", "b": "(?P<b>" + "|".join(month[:3] for month in MONTHS) + ")",
    "W": "(?:" + "|".join(DAYS) + ")", "a": "(?:" + "|".join(day[:3] for day in DAYS) + ")",
    "T": r"(?P<H>\d{1,2}):(?P<i>\d{1,2}):(?P<s>\d{1,2})", "r": r"(?P<I>\d{1,2}):(?P<i>\d{1,2}):(?P<s>\d{1,2})\s*(?P<p>[AaPp][Mm])",
    "%": "%",
}  # fmt: skip


@lru_cache(maxsize=128)
def _reader(template: str) -> re.Pattern[str] | None:
    pattern, chars = r"\s*", iter(template)
    for char in chars:
        if char == "%":
            code = next(chars, "%")
            if code not in _READ_PATTERNS:
                return None
            pattern += r"\s*" + _READ_PATTERNS[code]
        elif char.isspace():
            pattern += r"\s*"
        else:
            pattern += r"\s*" + re.escape(char)
    try:
        return re.compile(pattern, re.I)
    except re.error:
        return None


def str_to_date(text: str, template: str, kind: str) -> str | None:
    """``kind`` is what the template promises: date, time or datetime."""
    reader = _reader(template)
    match = reader.match(text) if reader else None
    if match is None:
        return None
    parts = {name: value for name, value in match.groupdict().items() if value is not None}
    clock = _clock(parts)
    if clock is None:
        return None
    if kind == "time":
        return span_text(clock)
    year = int(parts["Y"]) if len(parts.get("Y", "")) > 2 else _century(parts.get("Y") or parts.get("y") or "0000")
    month = int(parts.get("m", 0)) or _month(parts)
    day = int(parts.get("d", 0))
    if not day or not month:
        if "j" in parts and year:
            found = date(year, 1, 1) + timedelta(int(parts["j"]) - 1)
            year, month, day = found.year, found.month, found.day
        elif month > 12 or day > 31:
            return None
        else:
            text = f"{year:04d}-{month:02d}-{day:02d}"
            return text if kind == "date" else f"{text} {span_text(clock)}"
    try:
        found_moment = datetime(year, month, day) + clock
    except (ValueError, OverflowError):
        return None
    return date_text(found_moment) if kind == "date" else moment_text(found_moment)


def _month(parts: dict[str, str]) -> int:
    name = (parts.get("M") or parts.get("b") or "").lower()
    return next((place for place, month in enumerate(MONTHS, 1) if name and month.lower().startswith(name)), 0)


def _clock(parts: dict[str, str]) -> timedelta | None:
    hour = int(parts.get("H", 0))
    if "I" in parts:
        hour = int(parts["I"])
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if parts.get("p", "").upper() == "PM" else 0)
    minute, second = int(parts.get("i", 0)), int(parts.get("s", 0))
    if hour > 23 or minute > 59 or second > 59:
        return None
    return timedelta(hours=hour, minutes=minute, seconds=second, microseconds=int(parts.get("f", "0").ljust(6, "0")))


_SECONDS = {"MICROSECOND": 1e-6, "SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86400, "WEEK": 604800}
_UNIT_FIELDS = {
    "YEAR_MONTH": ("YEAR", "MONTH"), "DAY_HOUR": ("DAY", "HOUR"), "DAY_MINUTE": ("DAY", "HOUR", "MINUTE"),
    "DAY_SECOND": ("DAY", "HOUR", "MINUTE", "SECOND"), "HOUR_MINUTE": ("HOUR", "MINUTE"),
    "HOUR_SECOND": ("HOUR", "MINUTE", "SECOND"), "MINUTE_SECOND": ("MINUTE", "SECOND"),
    "SECOND_MICROSECOND": ("SECOND", "MICROSECOND"), "MINUTE_MICROSECOND": ("MINUTE", "SECOND", "MICROSECOND"),
    "HOUR_MICROSECOND": ("HOUR", "MINUTE", "SECOND", "MICROSECOND"),
    "DAY_MICROSECOND": ("DAY", "HOUR", "MINUTE", "SECOND", "MICROSECOND"),
}  # fmt: skip


def _amount(value: Raw, unit: str, direction: int) -> tuple[int, timedelta]:
    """The interval as (months, time)."""
    if unit in _UNIT_FIELDS:
        fields = _UNIT_FIELDS[unit]
        text = str(value)
        numbers = [int(digits) for digits in re.findall(r"\d+", text)][: len(fields)]
        numbers = [0] * (len(fields) - len(numbers)) + numbers
        direction *= -1 if text.strip().startswith("-") else 1
        amounts = dict(zip(fields, numbers, strict=True))
    else:
        prefix = re.match(r"\s*[-+]?\d*\.?\d*", str(value))
        number_of = exact((prefix.group().strip() if prefix else "") or 0) if isinstance(value, str) else exact(value)  # type: ignore[arg-type]
        if unit == "SECOND":
            return 0, timedelta(microseconds=direction * int(number_of * 1000000))
        rounding = "ROUND_DOWN" if isinstance(value, str) else "ROUND_HALF_EVEN"
        amounts = {unit: int(number_of.to_integral_value(rounding))}
    months = amounts.get("YEAR", 0) * 12 + amounts.get("QUARTER", 0) * 3 + amounts.get("MONTH", 0)
    micros = sum(int(_SECONDS[name] * 1000000) * count for name, count in amounts.items() if name in _SECONDS)
    return direction * months, timedelta(microseconds=direction * micros)


def shift(value: datetime, months: int, time: timedelta) -> datetime | None:
    if months:
        year, month = divmod(value.year * 12 + value.month - 1 + months, 12)
        if not 1 <= year <= 9999:
            return None
        value = value.replace(year=year, month=month + 1, day=min(value.day, monthrange(year, month + 1)[1]))
    try:
        return value + time
    except OverflowError:
        return None


def date_add(value: Raw, amount: Raw, unit: str, direction: int, kind: str) -> str | None:
    """``kind``: date or datetime, or str when the result has a time exactly if the argument or the unit has one."""
    try:
        months, time = _amount(amount, unit, direction)
        if kind == "time":
            found_span = span(value)
            return None if found_span is None else span_text(found_span + time)
        found = read(value)
        result = None if found is None else shift(found[0], months, time)
    except OverflowError:
        return None
    if found is None or result is None:
        return None
    with_time = kind == "datetime" or (
        kind == "str" and (found[1] or time % timedelta(days=1) != timedelta(0) or _fine(unit))
    )
    return moment_text(result) if with_time else date_text(result)


def _fine(unit: str) -> bool:
    return unit not in ("DAY", "WEEK", "MONTH", "QUARTER", "YEAR", "YEAR_MONTH")


def timestamp_diff(unit: str, start: Raw, end: Raw) -> int | None:
    low, high = moment(start), moment(end)
    if low is None or high is None:
        return None
    sign = 1
    if high < low:
        low, high, sign = high, low, -1
    if unit in ("MONTH", "QUARTER", "YEAR"):
        months = (high.year - low.year) * 12 + high.month - low.month
        if (high.day, high.time()) < (low.day, low.time()):
            months -= 1
        return sign * (months // {"MONTH": 1, "QUARTER": 3, "YEAR": 12}[unit])
    micros = (high - low) // timedelta(microseconds=1)
    return sign * (micros // int(_SECONDS[unit] * 1000000))


def date_diff(a: Raw, b: Raw) -> int | None:
    left, right = moment(a), moment(b)
    return None if left is None or right is None else (left.date() - right.date()).days


def time_diff(a: Raw, b: Raw) -> str | None:
    left, right = read(a), read(b)
    if left is not None and right is not None and "-" in str(a)[1:] and "-" in str(b)[1:]:
        return span_text(left[0] - right[0])
    start, end = span(a), span(b)
    return None if start is None or end is None else span_text(start - end)


def add_time(value: Raw, amount: Raw, direction: int) -> str | None:
    extra = span(amount)
    if extra is None:
        return None
    if "-" in str(value)[1:]:
        found = moment(value)
        return None if found is None else moment_text(found + direction * extra)
    base = span(value)
    return None if base is None else span_text(base + direction * extra)


def from_days(count: int) -> str:
    return date_text(date.fromordinal(count - 365)) if 366 <= count <= 3652424 else ZERO_DATE


def from_unixtime(seconds: int | float | str, template: str | None = None) -> str | None:
    count = float(seconds)
    if not 0 <= count < 32536771200:
        return None
    found = datetime.fromtimestamp(0, UTC).replace(tzinfo=None) + timedelta(microseconds=round(count * 1000000))
    return moment_text(found) if template is None else format_moment(found, template)


def unix_timestamp(value: Raw) -> int:
    found = moment(value)
    return 0 if found is None else max(0, int((found - datetime(1970, 1, 1)).total_seconds()))


def to_seconds(value: Raw) -> int | None:
    found = moment(value)
    return None if found is None else int((found - datetime(1, 1, 1)).total_seconds()) + 366 * 86400


def make_date(year: int, day: int) -> str | None:
    if day < 1 or not 0 <= year <= 9999:
        return None
    start = date(_century(str(year)) if year < 100 else year, 1, 1).toordinal() + day - 1
    return date_text(date.fromordinal(start)) if start <= date.max.toordinal() else None


def make_time(hour: int, minute: int, second: int | float | str) -> str | None:
    seconds = exact(second)
    if not 0 <= minute < 60 or not 0 <= seconds < 60:
        return None
    result = timedelta(hours=abs(max(-900, min(hour, 900))), minutes=minute, microseconds=int(seconds * 1000000))
    return span_text(-result if hour < 0 else result)


def last_day(value: Raw) -> str | None:
    found = moment(value)
    return None if found is None else date_text(found.replace(day=monthrange(found.year, found.month)[1]))


def period_months(period: int) -> int:
    return _century(f"{period // 100:02d}") * 12 + period % 100 - 1


def period_add(period: int, months: int) -> int:
    year, month = divmod(period_months(period) + months, 12)
    return year * 100 + month + 1


def name_of(names: str, value: Raw) -> str | None:
    found = moment(value)
    if found is None:
        return None
    return MONTHS[found.month - 1] if names == "month" else DAYS[found.weekday()]


def seconds_of(value: Raw) -> int | None:
    found = span(value)
    if found is None:
        return None
    return int(found.total_seconds())


FORMAT_NAMES = {
    ("DATE", "USA"): "%m.%d.%Y", ("DATE", "JIS"): "%Y-%m-%d", ("DATE", "ISO"): "%Y-%m-%d", ("DATE", "EUR"): "%d.%m.%Y",
    ("DATE", "INTERNAL"): "%Y%m%d", ("TIME", "USA"): "%h:%i:%s %p", ("TIME", "ISO"): "%H:%i:%s", ("TIME", "EUR"): "%H.%i.%s",
}  # fmt: skip


FUNCTIONS = {
    "DATE": Spec("d", "date", to_date),
    "TIME": Spec("d", "time", to_time),
    "YEAR": Spec("d", "int", lambda value: part("YEAR", value)),
    "MONTH": Spec("d", "int", lambda value: part("MONTH", value)),
    "DAY": Spec("d", "int", lambda value: part("DAY", value)),
    "DAYOFMONTH": Spec("d", "int", lambda value: part("DAY", value)),
    "DAYOFWEEK": Spec("d", "int", lambda value: part("DAYOFWEEK", value)),
    "DAYOFYEAR": Spec("d", "int", lambda value: part("DAYOFYEAR", value)),
    "WEEKDAY": Spec("d", "int", lambda value: part("WEEKDAY", value)),
    "QUARTER": Spec("d", "int", lambda value: part("QUARTER", value)),
    "WEEK": Spec("d?i", "int", week),
    "WEEKOFYEAR": Spec("d", "int", lambda value: week(value, 3)),
    "YEARWEEK": Spec("d?i", "int", year_week),
    "HOUR": Spec("d", "int", lambda value: clock_part("HOUR", value)),
    "MINUTE": Spec("d", "int", lambda value: clock_part("MINUTE", value)),
    "SECOND": Spec("d", "int", lambda value: clock_part("SECOND", value)),
    "MICROSECOND": Spec("d", "int", lambda value: clock_part("MICROSECOND", value)),
    "EXTRACT": Spec("sd", "int", extract),
    "MONTHNAME": Spec("d", "str", lambda value: name_of("month", value)),
    "DAYNAME": Spec("d", "str", lambda value: name_of("day", value)),
    "LAST_DAY": Spec("d", "date", last_day),
    "DATE_FORMAT": Spec("ds", "str", date_format),
    "TIME_FORMAT": Spec("ds", "str", time_format),
    "DATEDIFF": Spec("dd", "int", date_diff),
    "TIMEDIFF": Spec("dd", "time", time_diff),
    "TIMESTAMPDIFF": Spec("sdd", "int", timestamp_diff),
    "TO_DAYS": Spec("d", "int", lambda value: part("TO_DAYS", value)),
    "TO_SECONDS": Spec("d", "int", to_seconds),
    "FROM_DAYS": Spec("i", "date", from_days),
    "MAKEDATE": Spec("ii", "date", make_date),
    "MAKETIME": Spec("iin", "time", make_time),
    "SEC_TO_TIME": Spec("r", "time", lambda seconds: span_text(timedelta(seconds=max(-4e6, min(seconds, 4e6))))),
    "TIME_TO_SEC": Spec("d", "int", seconds_of),
    "PERIOD_ADD": Spec("ii", "int", period_add),
    "PERIOD_DIFF": Spec("ii", "int", lambda a, b: period_months(a) - period_months(b)),
    "ADDTIME": Spec("dd", "str", lambda value, amount: add_time(value, amount, 1)),
    "SUBTIME": Spec("dd", "str", lambda value, amount: add_time(value, amount, -1)),
    "GET_FORMAT": Spec("ss", "str", lambda kind, name: FORMAT_NAMES.get((kind, name.upper()))),
    "CONVERT_TZ": Spec("dss", "datetime", lambda value, source, target: convert_zone(value, source, target)),
}


def _offset(zone: str) -> timedelta | None:
    match = re.fullmatch(r"([+-])(\d{1,2}):(\d{2})", zone)
    if match is None:
        return timedelta(0) if zone.upper() in ("UTC", "SYSTEM", "GMT") else None
    minutes = int(match.group(2)) * 60 + int(match.group(3))
    return timedelta(minutes=minutes if match.group(1) == "+" else -minutes)


def convert_zone(value: Raw, source: str, target: str) -> str | None:
    found, low, high = moment(value), _offset(source), _offset(target)
    return None if found is None or low is None or high is None else moment_text(found - low + high)


INTERNAL: dict[str, Callable[..., Any]] = {
    "m_date": to_date,
    "m_moment": to_moment,
    "m_cmp": comparable,
    "m_time": to_time,
    "m_tnum": number,
    "m_dateadd": date_add,
    "m_strtodate": str_to_date,
    "m_fromunix": from_unixtime,
    "m_unixts": unix_timestamp,
}
