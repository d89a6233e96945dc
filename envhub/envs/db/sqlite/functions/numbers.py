"""Numeric functions and exact DECIMAL arithmetic.

Invariant: DECIMAL values travel as ``int`` or plain text and are never rounded through a float.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal, InvalidOperation, Overflow
from typing import Any, TypeAlias

from envhub.envs.db.sqlite.errors import MySQLError
from envhub.envs.db.sqlite.functions import Spec

Number: TypeAlias = int | float | str
CTX = Context(prec=100, rounding=ROUND_HALF_UP, Emax=9999, Emin=-9999, traps=[InvalidOperation, Overflow])
BIGINT = 1 << 63


def exact(value: Number) -> Decimal:
    """A stored number as Decimal; text that is no number counts by its numeric prefix."""
    if type(value) is float:
        return Decimal(repr(value)) if math.isfinite(value) else Decimal(0)
    try:
        return Decimal(value)
    except InvalidOperation:
        return Decimal(0)


def plain(value: Decimal) -> str:
    text = format(value, "f")
    return text[1:] if text.startswith("-") and not value else text


def scaled(value: Number, scale: int) -> str:
    """Rounded half up to ``scale`` digits."""
    return plain(exact(value).quantize(Decimal(1).scaleb(-scale), context=CTX))


def as_number(value: Number) -> int | float | Decimal:
    return Decimal(value) if type(value) is str else value  # type: ignore[return-value]  # str was ruled out


def float_text(value: float) -> str:
    """A double as MySQL prints it."""
    if value == math.floor(value) and abs(value) < 1e15:
        return str(int(value))
    text = repr(value)
    if "e" in text:
        mantissa, _, exponent = text.partition("e")
        power = int(exponent)
        if -15 <= power < 15:
            return format(Decimal(text), "f")
        return f"{mantissa.removesuffix('.0')}e{power}"
    return text


def add(a: Number, b: Number) -> str:
    return plain(CTX.add(exact(a), exact(b)))


def subtract(a: Number, b: Number) -> str:
    return plain(CTX.subtract(exact(a), exact(b)))


def multiply(a: Number, b: Number) -> str:
    return plain(CTX.multiply(exact(a), exact(b)))


def divide(a: Number, b: Number, digits: int) -> str | None:
    divisor = exact(b)
    if not divisor:
        return None
    return plain(CTX.divide(exact(a), divisor).quantize(Decimal(1).scaleb(-digits), ROUND_DOWN, CTX))


def modulo(a: Number, b: Number) -> Number | None:
    if type(a) is float or type(b) is float:
        divisor = float(b)
        return math.fmod(float(a), divisor) if divisor else None
    exact_divisor = exact(b)
    return plain(CTX.remainder(exact(a), exact_divisor)) if exact_divisor else None


def int_divide(a: Number, b: Number) -> int | None:
    divisor = exact(b)
    return int(CTX.divide(exact(a), divisor)) if divisor else None


def overflow(kind: str, text: str) -> MySQLError:
    return MySQLError(1690, f"{kind} value is out of range in '{text}'")


def clamp(value: int) -> int:
    return max(-BIGINT, min(BIGINT - 1, value))


def to_integer(value: Number | bytes) -> int:
    """CAST(x AS SIGNED) of a number: half away from zero, of a double half to even."""
    if type(value) is bytes:
        return int.from_bytes(value[-8:], "big", signed=len(value) >= 8)
    if type(value) is float and not math.isfinite(value):
        return BIGINT - 1 if value > 0 else -BIGINT
    if type(value) is float:
        return clamp(round(value))
    return clamp(int(exact(value).to_integral_value(ROUND_HALF_UP)))  # type: ignore[arg-type]  # bytes were ruled out


def to_unsigned(value: Number | bytes) -> int | str:
    number = int(exact(value).to_integral_value(ROUND_HALF_UP)) if type(value) is not bytes else to_integer(value)  # type: ignore[arg-type]
    number = number % (1 << 64) if number < 0 else min(number, (1 << 64) - 1)
    return number if number < BIGINT else str(number)


def round_double(value: float, digits: int = 0) -> float:
    if not math.isfinite(value) or digits > 300:
        return value
    if digits < -300:
        return 0.0
    power = 10.0 ** abs(digits)
    if digits < 0:
        return float(round(value / power)) * power
    product = value * power
    return float(round(product)) / power if math.isfinite(product) else value


def round_exact(value: Number, digits: int) -> str:
    digits = max(-60, min(digits, 30))
    rounded = exact(value).quantize(Decimal(1).scaleb(-digits), context=CTX)
    return plain(rounded if digits >= 0 else rounded.quantize(Decimal(1)))


def round_int(value: int, digits: int) -> int:
    return value if digits >= 0 else clamp(int(Decimal(round_exact(value, digits))))


def truncate(value: Number, digits: int) -> Number:
    digits = max(-60, min(digits, 30))
    cut = exact(value).quantize(Decimal(1).scaleb(-digits), ROUND_DOWN, CTX)
    if type(value) is float:
        return float(cut)
    if type(value) is int:
        return clamp(int(cut))
    return plain(cut if digits >= 0 else cut.quantize(Decimal(1)))


def ceiling(value: Number) -> int | float:
    return float(math.ceil(value)) if type(value) is float else clamp(math.ceil(exact(value)))


def floor(value: Number) -> int | float:
    return float(math.floor(value)) if type(value) is float else clamp(math.floor(exact(value)))


def absolute(value: Number) -> Number:
    return abs(value) if type(value) is not str else plain(abs(Decimal(value)))  # type: ignore[arg-type]  # str was ruled out


def sign(value: Number) -> int:
    number = as_number(value)
    return (number > 0) - (number < 0)


def negate(value: Number) -> str:
    return plain(-exact(value))


def power(base: float, exponent: float) -> float | None:
    try:
        return math.pow(base, exponent)
    except (ValueError, OverflowError):
        raise overflow("DOUBLE", f"pow({float_text(base)},{float_text(exponent)})") from None


def exponential(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        raise overflow("DOUBLE", f"exp({float_text(value)})") from None


def root(value: float) -> float | None:
    return math.sqrt(value) if value >= 0 else None


def logarithm(value: float) -> float | None:
    return math.log(value) if value > 0 else None


def log_base(base: float, value: float | None = None) -> float | None:
    if value is None:
        return logarithm(base)
    return math.log(value) / math.log(base) if base > 0 and base != 1 and value > 0 else None


def log2(value: float) -> float | None:
    return math.log2(value) if value > 0 else None


def log10(value: float) -> float | None:
    return math.log10(value) if value > 0 else None


def arc(function: str, value: float) -> float | None:
    return {"acos": math.acos, "asin": math.asin}[function](value) if -1 <= value <= 1 else None


def cotangent(value: float) -> float:
    tangent = math.tan(value)
    if tangent == 0:
        raise overflow("DOUBLE", f"cot({float_text(value)})")
    return 1 / tangent


def arc_tangent(y: float, x: float | None = None) -> float:
    return math.atan(y) if x is None else math.atan2(y, x)


def grouped(value: Number, digits: int) -> str:
    """FORMAT(): thousands separators."""
    digits = max(0, min(digits, 30))
    if type(value) is float:
        value = round_double(value, digits)
    return format(exact(value).quantize(Decimal(1).scaleb(-digits), context=CTX), ",f")


def convert_base(value: str, source: int, target: int) -> str | None:
    if not (2 <= abs(source) <= 36 and 2 <= abs(target) <= 36):
        return None
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    text = value.strip().lower()
    negative = text.startswith("-")
    number = 0
    for char in text.lstrip("+-"):
        place = digits.find(char)
        if place < 0 or place >= abs(source):
            break
        number = min(number * abs(source) + place, (1 << 64) - 1)
    if negative:
        number = -number if target < 0 else (1 << 64) - number if number else 0
    text = ""
    rest = abs(number)
    while rest:
        rest, place = divmod(rest, abs(target))
        text = digits[place] + text
    return ("-" if number < 0 else "") + (text.upper() or "0")


def unsigned_text(value: int, spec: str) -> str:
    return format(value % (1 << 64), spec)


def crc32(value: str | bytes) -> int:
    return zlib.crc32(value if isinstance(value, bytes) else value.encode())


def bit_operation(op: str, a: int, b: int) -> int | str:
    left, right = a % (1 << 64), b % (1 << 64)
    if op in ("<<", ">>"):
        result = 0 if right > 63 else (left << right if op == "<<" else left >> right)
    else:
        result = left & right if op == "&" else left | right if op == "|" else left ^ right
    result %= 1 << 64
    return result if result < BIGINT else str(result)


def bit_not(value: int) -> int | str:
    return bit_operation("^", value, -1)


def interval_index(*values: Number) -> int:
    """INTERVAL(n, a, b, ...): how many of the sorted bounds are at most n."""
    bounds = [as_number(value) for value in values]
    return sum(1 for bound in bounds[1:] if bound <= bounds[0])


FUNCTIONS = {
    "CEIL": Spec("n", "int", ceiling),
    "FLOOR": Spec("n", "int", floor),
    "SIGN": Spec("n", "int", sign),
    "POW": Spec("rr", "real", power),
    "SQRT": Spec("r", "real", root),
    "EXP": Spec("r", "real", exponential),
    "LN": Spec("r", "real", logarithm),
    "LOG": Spec("r?r", "real", log_base),
    "LOG2": Spec("r", "real", log2),
    "LOG10": Spec("r", "real", log10),
    "SIN": Spec("r", "real", math.sin),
    "COS": Spec("r", "real", math.cos),
    "TAN": Spec("r", "real", math.tan),
    "COT": Spec("r", "real", cotangent),
    "ASIN": Spec("r", "real", lambda value: arc("asin", value)),
    "ACOS": Spec("r", "real", lambda value: arc("acos", value)),
    "ATAN": Spec("r?r", "real", arc_tangent),
    "DEGREES": Spec("r", "real", math.degrees),
    "RADIANS": Spec("r", "real", math.radians),
    "PI": Spec("", "real", lambda: math.pi),
    "FORMAT": Spec("ni?a", "str", lambda value, digits, locale=None: grouped(value, digits)),
    "CONV": Spec("sii", "str", convert_base),
    "BIN": Spec("i", "str", lambda value: unsigned_text(value, "b")),
    "OCT": Spec("i", "str", lambda value: unsigned_text(value, "o")),
    "CRC32": Spec("b", "int", crc32),
    "BIT_COUNT": Spec("i", "int", lambda value: (value % (1 << 64)).bit_count()),
    "INTERVAL": Spec("nn*", "int", interval_index),
}
FUNCTIONS["CEILING"] = FUNCTIONS["CEIL"]
FUNCTIONS["POWER"] = FUNCTIONS["POW"]
FUNCTIONS["ATAN2"] = FUNCTIONS["ATAN"]

INTERNAL: dict[str, Callable[..., Any]] = {
    "m_add": add,
    "m_sub": subtract,
    "m_mul": multiply,
    "m_div": divide,
    "m_mod": modulo,
    "m_idiv": int_divide,
    "m_neg": negate,
    "m_abs": absolute,
    "m_fix": scaled,
    "m_rs": float_text,
    "m_int": to_integer,
    "m_uns": to_unsigned,
    "m_roundr": round_double,
    "m_roundd": round_exact,
    "m_roundi": round_int,
    "m_trunc": truncate,
    "m_bit": bit_operation,
    "m_bitnot": bit_not,
}
"""Called by compiled SQL under these names."""
