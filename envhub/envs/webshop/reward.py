"""The reward of a purchase: how much of what the instruction asks for was bought.

Invariant: a score is in [0, 1], and in ``webshop`` mode equals the published reward bit for bit, details included::

    total = r_type * (attributes met + options met + price met) / (n attributes + n options + 1)

The published normalisation of colours differs between the two sides of a goal whose options are a mapping, so that some
goals give less than 1 for exactly the right purchase (``unreachable`` lists them). ``consistent`` mode treats both sides
alike and is the same in everything else.

Beyond the published formula: a bound of 0 or less asks for no price (its term leaves sum and divisor), an unknown (NaN)
price misses any bound, a goal without attributes has no ``r_att``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from envhub.core.types import JSON
from envhub.envs.webshop.catalogue import Goal, Product
from envhub.envs.webshop.colours import COLOUR_WORDS
from envhub.envs.webshop.fuzzy import similar

RewardMode = Literal["webshop", "consistent"]

_SAME_TYPE_ABOVE = 0.2
_OTHER_TYPE_BELOW = 0.1


@dataclass(frozen=True, slots=True)
class Score:
    """A judged purchase. A ``None`` part was not asked for; ``w_*`` are the parts' shares of the sum, 0 for such a part."""

    total: float
    r_type: float
    query_match: bool
    category_match: bool
    title_score: float
    r_att: float | None
    w_att: float
    r_option: float | None
    w_option: float
    r_price: bool | None
    w_price: float

    def info(self) -> dict[str, JSON]:
        """The published details: same keys, order and values; parts not asked for are left out."""
        info: dict[str, JSON] = {"r_type": self.r_type}
        if self.r_att is not None:
            info |= {"r_att": self.r_att, "w_att": self.w_att}
        info |= {
            "query_match": self.query_match,
            "category_match": self.category_match,
            "title_score": self.title_score,
        }
        if self.r_option is not None:
            info |= {"r_option": self.r_option, "w_option": self.w_option}
        if self.r_price is not None:
            info |= {"r_price": self.r_price, "w_price": self.w_price}
        return info


@dataclass(frozen=True, slots=True)
class _Type:
    factor: float
    query_match: bool
    category_match: bool
    title_score: float


def judge(
    bought: Product, options: Mapping[str, str], goal: Goal, target: Product, *, mode: RewardMode = "webshop"
) -> Score:
    """``options`` are the chosen values by group; ``target`` is the product that ``goal.asin`` names."""
    n_attributes, n_options = len(goal.attributes), len(goal.options)
    price_met = bought.price <= goal.price_upper if goal.price_upper > 0 else None
    divisor = n_attributes + n_options + (price_met is not None)
    attributes_met = sum(_has_attribute(bought, wanted) for wanted in goal.attributes)
    options_met = _options_met(tuple(options.values()), goal.options, mode)
    kind = _type(bought, target)
    return Score(
        total=(attributes_met + options_met + bool(price_met)) / divisor * kind.factor if divisor else kind.factor,
        r_type=kind.factor,
        query_match=kind.query_match,
        category_match=kind.category_match,
        title_score=kind.title_score,
        r_att=attributes_met / n_attributes if n_attributes else None,
        w_att=n_attributes / divisor if divisor else 0.0,
        r_option=options_met / n_options if n_options else None,
        w_option=n_options / divisor if divisor else 0.0,
        r_price=price_met,
        w_price=1 / divisor if price_met is not None else 0.0,
    )


def unreachable(
    goals: Sequence[Goal], product: Callable[[str], Product], *, mode: RewardMode = "webshop"
) -> tuple[int, ...]:
    """Indices of the goals that give less than 1 for their own product with the very options they name.

    A goal with a list of values is tried with these values, whether its product has an option called so or not.
    """
    return tuple(index for index, goal in enumerate(goals) if _best(goal, product(goal.asin), mode) < 1.0)


def _best(goal: Goal, target: Product, mode: RewardMode) -> float:
    options = goal.options if isinstance(goal.options, Mapping) else {value: value for value in goal.options}
    return judge(target, options, goal, target, mode=mode).total


def _type(bought: Product, target: Product) -> _Type:
    query_match = bought.query == target.query
    category_match = len(_parts(bought.categories) & _parts(target.categories)) >= 2
    title_score = _title_score(bought.nouns, target.nouns)
    factor = 1.0 if query_match or category_match or title_score > _SAME_TYPE_ABOVE else 0.5
    if title_score < _OTHER_TYPE_BELOW:
        factor = 0.1
    if title_score == 0.0:
        factor = 0.0
    return _Type(factor, query_match, category_match, title_score)


def _parts(categories: str) -> set[str]:
    return {part.strip() for part in categories.split("›")}


def _title_score(bought: Sequence[str], wanted: Sequence[str]) -> float:
    """Common nouns over the number of wanted ones, in which repeats count (so a repeated noun lowers it)."""
    return len(set(bought) & set(wanted)) / len(wanted) if wanted else _SAME_TYPE_ABOVE


def _has_attribute(product: Product, wanted: str) -> bool:
    if any(similar(attribute, wanted) for attribute in product.attributes):
        return True
    texts = (product.title, " ".join(product.bullets), product.description)
    return any(wanted in text.lower() for text in texts)


def _options_met(bought: Sequence[str], wanted: Sequence[str] | Mapping[str, str], mode: RewardMode) -> int:
    chosen = [_colour_or_value(value) for value in bought]
    if mode == "consistent":
        values = wanted.values() if isinstance(wanted, Mapping) else wanted
        asked = [_colour_or_value(value) for value in values]
        return sum(any(value == goal or similar(value, goal) for value in chosen) for goal in asked)
    pairs = wanted.items() if isinstance(wanted, Mapping) else ()
    published = [_colour_or_pair(pair) for pair in pairs] or [_colour_or_value(value) for value in wanted]
    return sum(any(similar(value, goal) for value in chosen) for goal in published)


def _colour_or_value(value: str) -> str:
    """The first colour word that occurs anywhere in the value, be it part of another word ("rectangular" is "tan")."""
    return next((word for word in COLOUR_WORDS if word in value), value)


def _colour_or_pair(pair: tuple[str, str]) -> str | tuple[str, str]:
    """The published code looks for colour words among the two elements of a (group, value) pair, not inside them."""
    return next((word for word in COLOUR_WORDS if word in pair), pair)
