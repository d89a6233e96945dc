"""Families of products: one drawn freely, and near-duplicates of it that differ in one thing.

Invariant: a family depends on the knobs and its number alone, so that any part of a catalogue can be made again by itself.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from envhub.envs.webshop.catalogue import Product
from envhub.envs.webshop.synthetic import options, texts
from envhub.envs.webshop.synthetic.attributes import Attribute, without_conflicts
from envhub.envs.webshop.synthetic.kinds import KINDS, Kind
from envhub.envs.webshop.synthetic.knobs import Knobs
from envhub.envs.webshop.synthetic.phrases import Phrase, joined

Place = Literal["title", "first", "later", "description", "hint", "variant"]
"""Where a product shows an attribute. The first bullet is indexed, later ones are not; a hint says it in other words only, and a
variant spelling is listed without being shown."""

_PLACES: tuple[Place, ...] = ("title", "first", "later", "description", "hint", "variant")
_PLACE_WEIGHTS = (12, 14, 36, 9, 18, 11)
_UNLISTED = 0.08
"""The share of attributes shown word for word that no list of attributes holds."""

_N_BRANDS = 400
_MOST_IN_FAMILY = 8
_MOST_VALUES = 24
_UNPRICED = 0.05
UNKNOWN_PRICE = 100.0


@dataclass(frozen=True, slots=True)
class Claim:
    """An attribute that a product has; ``listed`` is whether its list of attributes holds it."""

    attribute: Attribute
    place: Place
    listed: bool


@dataclass(frozen=True, slots=True)
class Draft:
    """A product before it is put into words. ``high`` equals ``low`` for one price; both are 0 for none."""

    asin: str
    kind: Kind
    brand: Phrase
    model: str
    claims: tuple[Claim, ...]
    options: dict[str, tuple[str, ...]]
    low: float
    high: float
    price: float
    words_seed: str
    noise: float

    @property
    def can_be_wanted(self) -> bool:
        return any(claim.listed for claim in self.claims)


def families(knobs: Knobs) -> Iterator[tuple[Draft, ...]]:
    """Every family in order; together they have ``n_products`` members."""
    n_left, number = knobs.n_products, 0
    while n_left > 0:
        members = family(knobs, number)[:n_left]
        n_left -= len(members)
        number += 1
        yield members


def family(knobs: Knobs, number: int) -> tuple[Draft, ...]:
    rng = random.Random(f"{knobs.seed}/family/{number}")
    first = _free(knobs, number, rng)
    n_copies = min(knobs.near_duplicates, _MOST_IN_FAMILY - 1, int(rng.expovariate(1 / 1.9)))
    return (first, *(_copy(first, knobs, number, position, rng) for position in range(1, n_copies + 1)))


def product(draft: Draft) -> Product:
    rng = random.Random(draft.words_seed)
    title = _title(draft, rng)
    return Product(
        asin=draft.asin,
        title=title.text,
        price_tag=_tag(draft),
        price=draft.price,
        bullets=_bullets(draft, rng),
        description=_description(draft, rng),
        options=draft.options,
        attributes=tuple(
            claim.attribute.variant if claim.place == "variant" else claim.attribute.name
            for claim in draft.claims
            if claim.listed
        ),
        query=draft.kind.query,
        categories=draft.kind.categories,
        nouns=title.nouns,
        category=draft.kind.domain,
    )


_BITS = 45
_STRIDE = 0x5DEECE66D
_DIGITS = "0123456789ABCDEFGHJKLMNPQRSTUVWX"


def _asin(knobs: Knobs, number: int, position: int) -> str:
    """Ten characters, different for every product; their order says nothing."""
    scattered = ((number * _MOST_IN_FAMILY + position) * _STRIDE + knobs.seed * 0x9E3779B1) % (1 << _BITS)
    return "S" + "".join(_DIGITS[scattered >> shift & 31] for shift in range(0, _BITS, 5))


def _free(knobs: Knobs, number: int, rng: random.Random) -> Draft:
    kind = KINDS[rng.randrange(knobs.n_kinds) * len(KINDS) // knobs.n_kinds]
    chosen = rng.random() >= knobs.optionless
    groups = kind.groups if rng.random() < 0.6 else kind.groups[:1]
    n_claims = min(len(kind.attributes), 1 + rng.randrange(2, 7))
    is_bare = not chosen and rng.random() < knobs.attributeless / max(knobs.optionless, 0.01)
    claims = tuple(_claim(each, rng) for each in without_conflicts(rng.sample(kind.attributes, n_claims)))
    low, high, price = _prices(kind.usual_price, knobs, rng)
    return Draft(
        asin=_asin(knobs, number, 0),
        kind=kind,
        brand=_brand(rng),
        model=_model(rng),
        claims=tuple(replace(claim, listed=False) for claim in claims[:2]) if is_bare else claims,
        options=options.draw(rng, groups, most=_MOST_VALUES) if chosen else {},
        low=low,
        high=high,
        price=price,
        words_seed=f"{knobs.seed}/words/{number}",
        noise=knobs.title_noise,
    )


def _claim(attribute: Attribute, rng: random.Random) -> Claim:
    place = rng.choices(_PLACES, _PLACE_WEIGHTS)[0]
    return Claim(attribute, place, not (place not in ("hint", "variant") and rng.random() < _UNLISTED))


def _brand(rng: random.Random) -> Phrase:
    return texts.BRANDS[rng.randrange(_N_BRANDS) * len(texts.BRANDS) // _N_BRANDS]


def _model(rng: random.Random) -> str:
    if rng.random() < 0.6:
        return ""
    return f"{rng.choice('ABCDEFGHKLMNPRSTVX')}{rng.choice('ABCDEFGHKLMNPRSTVX')}{rng.randrange(10, 999)}"


def _copy(first: Draft, knobs: Knobs, number: int, position: int, rng: random.Random) -> Draft:
    """A near-duplicate: other in an attribute, an option group or the price, and sometimes by another maker."""
    copy = replace(first, asin=_asin(knobs, number, position), model=_model(rng))
    if rng.random() < 0.5:
        copy = replace(copy, brand=_brand(rng))
    if rng.random() < 0.4:
        copy = replace(copy, words_seed=f"{first.words_seed}/{position}")
    changes = ["attribute", "attribute", "price"] + ["option", "option"] * bool(first.options)
    change = rng.choice(changes)
    if change == "price" and first.high:
        factor = rng.uniform(1.6, 3.0)
        low = _ending(first.low * factor + 15, rng)
        high = low if first.high == first.low else max(low, _ending(first.high * factor + 15, rng))
        return replace(copy, low=low, high=high, price=_drawn(low, high, rng))
    if change == "option":
        return replace(copy, options=options.redrawn(rng, first.kind.groups, first.options))
    held = [claim.attribute for claim in first.claims]
    others = [
        each for each in first.kind.attributes if each not in held and without_conflicts([*held, each])[-1] is each
    ]
    place = rng.randrange(len(first.claims))
    new = [_claim(rng.choice(others), rng)] if others else []
    if not first.can_be_wanted:
        new = [replace(claim, listed=False) for claim in new]
    return replace(copy, claims=(*first.claims[:place], *new, *first.claims[place + 1 :]))


def _prices(usual: float, knobs: Knobs, rng: random.Random) -> tuple[float, float, float]:
    if rng.random() < _UNPRICED:
        return 0.0, 0.0, UNKNOWN_PRICE
    low = _ending(rng.lognormvariate(0.0, 0.5) * usual, rng)
    high = _ending(low * rng.uniform(1.1, 2.2) + 1, rng) if rng.random() < knobs.ranges / (1 - _UNPRICED) else low
    return low, max(low, high), _drawn(low, max(low, high), rng)


def _drawn(low: float, high: float, rng: random.Random) -> float:
    return low if low == high else rng.uniform(low, high)


def _ending(price: float, rng: random.Random) -> float:
    return max(1, int(price)) + rng.choice((0.99, 0.99, 0.95, 0.49, 0.0, 0.5, 0.89))


def _tag(draft: Draft) -> str:
    if not draft.high:
        return f"${UNKNOWN_PRICE}"
    return f"${draft.low}" if draft.low == draft.high else f"${draft.low} to ${draft.high}"


def _title(draft: Draft, rng: random.Random) -> Phrase:
    claimed = [claim.attribute.phrase.titled for claim in draft.claims if claim.place == "title"]
    front = [draft.brand, Phrase(draft.model, ()), *claimed[:1]]
    if rng.random() < 0.4:
        front.append(texts.adjective(rng).titled)
    front.append(draft.kind.phrase.titled)
    if rng.random() < draft.noise:
        front.append(rng.choice(texts.TITLE_USES).titled)
    n_idle = 0
    while rng.random() < draft.noise and n_idle < 6:
        n_idle += 1
    tail = [*claimed[1:], *(phrase.titled for phrase in rng.sample(texts.TITLE_NOISE, n_idle))]
    comma = Phrase(",", ())
    return joined([*front, *(part for phrase in tail for part in (comma, phrase))])


def _bullets(draft: Draft, rng: random.Random) -> tuple[str, ...]:
    name, brand = draft.kind.name, draft.brand.text
    first = [claim.attribute for claim in draft.claims if claim.place == "first"]
    later = [texts.saying(rng, claim.attribute.name, name, brand) for claim in draft.claims if claim.place == "later"]
    later += [
        texts.hinting(rng, rng.choice(claim.attribute.paraphrases), draft.kind.is_plural)
        for claim in draft.claims
        if claim.place == "hint"
    ]
    later += [texts.point(rng, name, brand) for _ in range(rng.randrange(0, 4))]
    rng.shuffle(later)
    names = " and ".join(attribute.name for attribute in first)
    head = texts.saying(rng, names, name, brand) if first else texts.point(rng, name, brand)
    return (head, *dict.fromkeys(later))


def _description(draft: Draft, rng: random.Random) -> str:
    told = [claim.attribute.name for claim in draft.claims if claim.place == "description"]
    if not told and rng.random() < 0.42:
        return ""
    said = texts.saying(rng, " and ".join(told), draft.kind.name, draft.brand.text) if told else ""
    return texts.description(rng, draft.kind.name, draft.brand.text, said)
