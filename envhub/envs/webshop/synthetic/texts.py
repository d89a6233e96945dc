"""The prose of a product page: brands, title noise, bullets and descriptions; templates of the shop's own.

Invariant: a text names an attribute only where its caller puts one in.
"""

from __future__ import annotations

import random

from envhub.envs.webshop.synthetic.phrases import Phrase, rows

_STARTS = [
    "Al",
    "Bel",
    "Cor",
    "Dan",
    "El",
    "Fen",
    "Gar",
    "Hal",
    "Ivo",
    "Jor",
    "Kel",
    "Lum",
    "Mor",
    "Nev",
    "Or",
    "Pel",
    "Quor",
    "Riv",
    "Sol",
    "Tav",
    "Ul",
    "Ven",
    "Wex",
    "Yor",
    "Zan",
]
_MIDDLES = ("", "a", "i", "o", "en", "ar", "il", "ov")
_ENDS = ("dale", "vex", "mira", "ton", "qua", "belle", "wick", "nest", "lin", "forge", "za", "bury")

BRANDS: tuple[Phrase, ...] = tuple(
    Phrase.of(f"{start}{middle}{end}") for start in _STARTS for middle in _MIDDLES for end in _ENDS
)
"""2,400 names that are nobody's."""

TITLE_USES: tuple[Phrase, ...] = tuple(
    Phrase.of(text)
    for text in (
        "for men",
        "for women",
        "for kids",
        "for home office",
        "for travel",
        "for beginners",
        "for everyday use",
        "for indoor and outdoor",
        "for small spaces",
        "for camping",
    )
    for text in [
        " ".join(
            f"~{word}" if word in ("for", "and", "everyday", "small", "outdoor") else word for word in text.split()
        )
    ]
)
TITLE_NOISE: tuple[Phrase, ...] = tuple(
    Phrase.of(text)
    for text in (
        "~great gift idea",
        "birthday gift",
        "holiday present ~for family ~and friends",
        "~new model",
        "~upgraded version",
        "bonus guide",
        "value bundle",
        "~popular choice",
        "customer favorite",
        "~limited release",
        "~improved design",
        "starter set",
        "family pack",
        "workshop quality",
        "~two year warranty",
        "party kitchen office garage dorm",
        "weekend project",
        "store brand ~alternative",
    )
)
_MATERIALS = tuple(
    Phrase.of(text)
    for text in [
        "~premium",
        "~classic",
        "~modern",
        "~compact",
        "~professional",
        "~deluxe",
        "~original",
        "~rustic",
        "~simple",
        "~elegant",
        "~sturdy",
        "~everyday",
    ]
)

_POINTS = tuple(
    rows(
        """
QUALITY YOU CAN TRUST     | every order is looked over twice before it leaves our workshop
WHAT YOU GET              | one order holds the {name}, a short guide and our promise to answer within a day
A THOUGHTFUL PRESENT      | wrapped nicely it makes a fine surprise for a birthday, a housewarming or no reason at all
MADE FOR DAILY LIFE       | whether at home, at work or on the road, the {name} earns its place
DETAILS THAT MATTER       | our team spent a long winter on the small things that others leave out
PLEASE NOTE               | monitors differ, so what arrives may look a shade warmer or cooler than the picture
HOW TO CHOOSE             | compare the numbers in the table with what you own before you order
CARE                      | follow the leaflet and the {name} will serve you for years
OUR STORY                 | {brand} began at a kitchen table and still packs each parcel by hand
SERVICE                   | not happy? write to {brand} and we will find a way that suits you
LOOKS                     | a calm shape that goes with what you already have
TRIED AND TESTED          | more than forty households lived with it for a season before we began to sell it
FOR EVERY SEASON          | good in spring and summer, and no less in the colder months
PEACE OF MIND             | whatever breaks is replaced without questions during the first year
SMART DESIGN              | nothing is left to chance, from the outline down to the last corner
""",
        2,
    )
)
_SAYING = (
    "{attr}: you will notice the difference from the first day",
    "{attr} - one of the reasons why buyers come back to {brand}",
    "we made sure that the {name} comes as promised: {attr}",
    "{attr}, as you would expect from {brand}",
    "tested and found {attr} by people who use it every day",
    "looking for {attr}? then look no further than {brand}",
)
_OPENINGS = (
    "The {brand} {name} was drawn up for people who know what they want.",
    "Meet the {name} by {brand}.",
    "There is no shortage of choice, and yet the right {name} is hard to find; this one comes close.",
    "From the workshop of {brand}: the {name} with character.",
)
_SENTENCES = (
    "It is packed in a plain carton that folds flat afterwards.",
    "We answer every letter, most of them on the same day.",
    "Sizes and shades are listed above; choose with care.",
    "Thousands have left our door so far and few came back.",
    "The first batch sold out in a week, so the second one is larger.",
    "Our designers drew it again and again until nothing could be left out.",
    "Use it as you like; it was not made to sit in a drawer.",
    "A short guide in plain language comes with each order.",
    "Nothing in the picture besides the {name} is part of the order.",
    "If you have bought from {brand} before, you know what to expect.",
    "It has been seen in shops at a higher price.",
    "We would rather make one thing well than ten things badly.",
)


def adjective(rng: random.Random) -> Phrase:
    return rng.choice(_MATERIALS)


def point(rng: random.Random, name: str, brand: str) -> str:
    """A bullet that says nothing that anybody asks for."""
    heading, text = rng.choice(_POINTS)
    text = text.format(name=name, brand=brand)
    return f"{heading}: {text}." if rng.random() < 0.7 else f"{text[0].upper()}{text[1:]}."


def saying(rng: random.Random, attribute: str, name: str, brand: str) -> str:
    """A sentence that names an attribute."""
    text = rng.choice(_SAYING).format(attr=attribute, name=name, brand=brand)
    return f"{text[0].upper()}{text[1:]}."


def hinting(rng: random.Random, paraphrase: str, is_plural: bool) -> str:
    """A sentence that gives an attribute in other words."""
    said = " ".join(_TO_BUYER.get(word, word) for word in paraphrase.split())
    it = "they" if is_plural else "it"
    text = rng.choice(("{it} will {said}.", "we promise that {it} will {said}.", "day after day {it} will {said}."))
    text = text.format(it=it, said=said)
    return f"{text[0].upper()}{text[1:]}"


_TO_BUYER = {"i": "you", "me": "you", "my": "your", "our": "your", "we": "you"}


def description(rng: random.Random, name: str, brand: str, told: str) -> str:
    """About fifty words; ``told`` is put somewhere in the middle."""
    sentences = [rng.choice(_OPENINGS), *rng.sample(_SENTENCES, rng.randrange(2, 7))]
    text = [sentence.format(name=name, brand=brand) for sentence in sentences]
    if told:
        text.insert(rng.randrange(1, len(text) + 1), told)
    return " ".join(text)
