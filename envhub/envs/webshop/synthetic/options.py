"""What a product can be chosen in: groups of option values as shops write them, codes, two colours and packs included.

Invariant: within one product no value occurs twice, in one group or in two; none reads like a button of the shop; none holds
a bracket.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

BUTTONS = frozenset(
    {
        "search",
        "back to search",
        "next >",
        "< prev",
        "description",
        "features",
        "reviews",
        "attributes",
        "buy now",
    }
)

_COLORS = [
    "black",
    "white",
    "blue",
    "green",
    "red",
    "pink",
    "purple",
    "orange",
    "yellow",
    "brown",
    "navy",
    "teal",
    "burgundy",
    "ivory",
    "khaki",
    "charcoal",
    "silver",
    "gold",
    "lavender",
    "olive",
    "beige",
    "maroon",
    "turquoise",
    "coral",
    "mint",
    "taupe",
    "rust",
    "mustard",
    "plum",
    "mauve",
]
_SHADES = ("dark", "light", "deep", "pale", "dusty", "smoky", "bright", "soft", "antique", "frosted")
_PATTERN_WORDS = (
    "floral",
    "striped",
    "plaid",
    "marble",
    "geometric",
    "paisley",
    "dotted",
    "abstract",
    "botanical",
    "chevron",
)
_PATTERNS = tuple(f"{word} {thing}" for word in _PATTERN_WORDS for thing in ("forest", "wave", "garden", "night"))
_STYLES = ("classic", "modern", "deluxe", "compact", "premium", "sport", "original", "vintage", "slimline", "standard")
_STYLE_TAILS = ("edition", "model", "version", "bundle", "kit")
_FLAVORS = [
    "strawberry",
    "blueberry acai",
    "salted caramel",
    "dark cocoa",
    "vanilla bean",
    "honey mustard",
    "sea salt",
    "sour cream & onion",
    "smoky barbecue",
    "lemon ginger",
    "wild cherry",
    "peppermint twist",
    "cinnamon apple",
    "maple pecan",
    "peanut crunch",
    "tropical mango",
    "chili lime",
    "garlic herb",
    "green apple",
    "raspberry lemonade",
    "toasted coconut",
    "banana bread",
    "pumpkin spice",
    "black pepper",
    "unflavored",
]
_SCENTS = [
    "lavender fields",
    "ocean breeze",
    "citrus grove",
    "vanilla musk",
    "white jasmine",
    "sandalwood",
    "fresh linen",
    "cucumber melon",
    "rose petal",
    "unscented",
    "eucalyptus",
    "honey almond",
    "green bamboo",
    "sweet pea",
    "cedar smoke",
]
_SIZES = ("x-small", "small", "medium", "large", "x-large", "xx-large", "3x-large", "4x-large", "5x-large")
_FITS = ("regular", "big & tall", "petite", "tapered", "loose cut")
_BEDS = ("twin", "twin xl", "full", "queen", "king", "california king")
_ROASTS = ("breakfast roast", "medium-dark roast", "espresso roast", "french roast", "decaf roast")
_DEVICES = (
    "nova 9",
    "nova 9 pro",
    "nova 10",
    "nova 10 max",
    "orbit s2",
    "orbit s3",
    "orbit s3 plus",
    "pixelon 6",
    "pixelon 7a",
)
_CELLS = ("aa", "aaa", "c cell", "d cell", "9 volt")


def _color(rng: random.Random, n: int) -> list[str]:
    """One way of naming colours for the whole group: plain, shaded, coded (before or after), or two at a time."""
    way = rng.choices(("plain", "shaded", "code before", "code after", "two", "mixed"), (34, 20, 12, 9, 10, 15))[0]
    letter = rng.choice("abcdfghkz")
    values = []
    for number, color in enumerate(rng.sample(_COLORS, min(n, len(_COLORS))), start=1):
        this = rng.choice(("plain", "shaded", "code before", "two")) if way == "mixed" else way
        if this == "shaded":
            values.append(f"{rng.choice(_SHADES)} {color}")
        elif this == "code before":
            values.append(f"{letter}{number}-{color}")
        elif this == "code after":
            values.append(f"{color}-{letter}{number:02d}")
        elif this == "two":
            values.append(f"{color} | {rng.choice([other for other in _COLORS if other != color])}")
        else:
            values.append(color)
    return values


def _run(rng: random.Random, values: Sequence[str], n: int) -> list[str]:
    start = rng.randrange(max(1, len(values) - n + 1))
    return list(values[start : start + n])


def _some(rng: random.Random, values: Sequence[str], n: int) -> list[str]:
    return rng.sample(list(values), min(n, len(values)))


def _numbers(rng: random.Random, low: int, high: int, step: int, n: int) -> list[int]:
    return sorted(rng.sample(range(low, high + 1, step), min(n, (high - low) // step + 1)))


def _packs(rng: random.Random, sizes: Sequence[str], n: int) -> list[str]:
    counts = (1, 2, 3, 4, 6, 8, 12, 24)
    pairs = [f"{size} (pack of {count})" for size in sizes for count in counts]
    return rng.sample(pairs, min(n, len(pairs)))


def _ounce(rng: random.Random, n: int) -> list[str]:
    unit = rng.choice(("ounce", "fl oz", "oz"))
    values = [f"{value / 10:g} {unit}" for value in _numbers(rng, 5, 160, 5, n)]
    return _packs(rng, values, n) if rng.random() < 0.3 else values


def _shoe(rng: random.Random, n: int) -> list[str]:
    start = rng.randrange(5, 9)
    sizes = [f"{start + step / 2:g}" for step in range(n)]
    wide = [f"{size} wide" for size in rng.sample(sizes, len(sizes) // 3)] if rng.random() < 0.3 else []
    return [*sizes, *wide]


def _dimension(rng: random.Random, n: int) -> list[str]:
    sides = _numbers(rng, 10, 96, 2, n)
    return [f'{side}" x {side + rng.randrange(0, 25, 2)}"' for side in sides]


def _rug(rng: random.Random, n: int) -> list[str]:
    shape = rng.choice(("", "", " runner", " round"))
    return [f"{side} x {side + rng.randrange(1, 5)} ft{shape}" for side in _numbers(rng, 2, 12, 1, n)]


def _count(rng: random.Random, n: int) -> list[str]:
    unit = rng.choice(("count", "pieces", "servings"))
    values = [f"{value} {unit}" for value in _numbers(rng, 4, 60, 2, n)]
    return _packs(rng, values, n) if rng.random() < 0.4 else values


def _counted(word: str, low: int, high: int, step: int) -> Callable[[random.Random, int], list[str]]:
    def draw(rng: random.Random, n: int) -> list[str]:
        return [word.format(value) for value in _numbers(rng, low, high, step, n)]

    return draw


def _style(rng: random.Random, n: int) -> list[str]:
    return [f"{style} {rng.choice(_STYLE_TAILS)}" for style in rng.sample(_STYLES, min(n, len(_STYLES)))]


_GROUPS: Mapping[str, tuple[str, Callable[[random.Random, int], list[str]]]] = {
    "bed": ("size", lambda rng, n: _run(rng, _BEDS, n)),
    "capacity": ("capacity", _counted("{}000 mah", 5, 30, 5)),
    "cell": ("size", lambda rng, n: _some(rng, _CELLS, n)),
    "color": ("color", _color),
    "count": ("size", _count),
    "device": ("compatible model", lambda rng, n: _some(rng, _DEVICES, n)),
    "dimension": ("size", _dimension),
    "fit": ("fit type", lambda rng, n: _some(rng, _FITS, min(n, 3))),
    "flavor": ("flavor name", lambda rng, n: _some(rng, _FLAVORS, n)),
    "fluid": ("size", _counted("{} fl oz", 6, 64, 2)),
    "fluidpack": ("size", lambda rng, n: _packs(rng, _counted("{} fl oz", 8, 34, 2)(rng, 3), n)),
    "inch": ("size", _counted("{} inch", 6, 70, 2)),
    "length": ("size", _counted("{} feet", 3, 100, 1)),
    "memory": ("memory", lambda rng, n: [f"{size} gb ram" for size in _run(rng, ("4", "8", "16", "32", "64"), n)]),
    "millimeter": ("size", _counted("{} mm", 16, 26, 2)),
    "ounce": ("size", _ounce),
    "ouncepack": ("size", lambda rng, n: _packs(rng, _counted("{} ounce", 1, 32, 1)(rng, 3), n)),
    "pack": ("pack", _counted("pack of {}", 1, 24, 1)),
    "panel": ("size", lambda rng, n: [f"{width}w x {width + 32}l panel" for width in _numbers(rng, 38, 84, 2, n)]),
    "pattern": ("pattern name", lambda rng, n: _some(rng, _PATTERNS, n)),
    "person": ("size", _counted("{} person", 2, 10, 1)),
    "piece": ("item package", _counted("set of {}", 2, 20, 1)),
    "pound": ("size", _counted("{} pounds", 5, 60, 5)),
    "roast": ("roast", lambda rng, n: _some(rng, _ROASTS, n)),
    "rug": ("size", _rug),
    "scent": ("scent", lambda rng, n: _some(rng, _SCENTS, n)),
    "shoe": ("size", _shoe),
    "size": ("size", lambda rng, n: _run(rng, _SIZES, n)),
    "storage": ("capacity", lambda rng, n: [f"{size} ssd" for size in _run(rng, ("128gb", "256gb", "512gb", "1tb", "2tb"), n)]),
    "style": ("style", _style),
    "thickness": ("thickness", lambda rng, n: [f"{value / 4:g} inches thick" for value in _numbers(rng, 1, 48, 1, n)]),
    "tier": ("configuration", _counted("{}-tier", 2, 7, 1)),
    "volume": ("capacity", _counted("{} liters", 15, 60, 5)),
    "watt": ("wattage", _counted("{}w", 12, 100, 8)),
}  # fmt: skip


def draw(rng: random.Random, groups: Sequence[str], *, most: int) -> dict[str, tuple[str, ...]]:
    """Values for some of the ``groups`` that a kind of product knows; ``most`` bounds the values of one."""
    found: dict[str, tuple[str, ...]] = {}
    taken = set(BUTTONS)
    for group in groups:
        name, values_of = _GROUPS[group]
        n = min(most, 2 + int(rng.expovariate(1 / 4)))
        values = [value for value in dict.fromkeys(values_of(rng, n)) if value not in taken]
        if values and name not in found:
            found[name] = tuple(values)
            taken.update(values)
    return found


def redrawn(
    rng: random.Random, kind_groups: Sequence[str], old: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """The same groups with other values in one of them."""
    changed = rng.choice(list(old))
    group = next(each for each in kind_groups if _GROUPS[each][0] == changed)
    elsewhere = {value for name, values in old.items() if name != changed for value in values} | BUTTONS
    drawn = (value for value in dict.fromkeys(_GROUPS[group][1](rng, len(old[changed]) + 1)) if value not in elsewhere)
    values = tuple(drawn) or old[changed]
    return {name: values if name == changed else kept for name, kept in old.items()}


def check(groups: Mapping[str, tuple[str, ...]]) -> None:
    """Raises ValueError for options that a shop of pages could not tell apart."""
    values = [value for group in groups.values() for value in group]
    if len(set(values)) != len(values):
        raise ValueError(f"an option value occurs twice in {dict(groups)}")
    if wrong := [
        value for value in values if value in BUTTONS or set(value) & set("[]") or value != value.lower().strip()
    ]:
        raise ValueError(f"option values {wrong} cannot be clicked without doubt")
