"""Names for the entities of every kind. Invariant: the same generator state gives the same name; kinds of a closed list
never repeat a name, works, people and cities now and then do."""

from __future__ import annotations

import random
from collections.abc import Callable

from words import (
    ANIMALS,
    BAND_ADJECTIVES,
    BAND_NOUNS,
    CITY_ENDS,
    COMPANY_TAILS,
    COUNTRY_ENDS,
    FIRST_NAMES,
    LAST_ENDS,
    LAST_STARTS,
    LISTS,
    MASCOT_ANIMALS,
    MASCOT_NAMES,
    PLACE_MIDDLES,
    PLACE_STARTS,
    PRODUCT_ENDS,
    PRODUCT_STARTS,
    REGION_ENDS,
    TITLE_ADJECTIVES,
    TITLE_NOUNS,
    TITLE_PLURALS,
    TITLE_TAILS,
)

MAY_REPEAT = frozenset({"title", "person", "character", "city", "station"})


def names(key: str, n: int, rng: random.Random) -> list[str]:
    """``n`` names; unique unless the key is one of MAY_REPEAT. Raises ValueError for a list that is too short."""
    if key in LISTS:
        words = LISTS[key].split("|")
        if len(words) < n or len(set(words)) < len(words):
            raise ValueError(f"{key} has {len(set(words))} names; {n} are wanted")
        return rng.sample(words, n)
    made: list[str] = []
    taken: set[str] = set()
    while len(made) < n:
        name = MAKERS[key](rng)
        if key in MAY_REPEAT or name not in taken:
            made.append(name)
            taken.add(name)
    return made


def _root(rng: random.Random) -> str:
    return rng.choice(PLACE_STARTS) + rng.choice(PLACE_MIDDLES)


def _short(rng: random.Random) -> str:
    """A pronounceable word that ends on a consonant."""
    return _root(rng) + rng.choice(("n", "r", "s", "l", "th", "m", "k", "x", "d"))


def _city(rng: random.Random) -> str:
    start = rng.choice(PLACE_STARTS)
    return start + (rng.choice(PLACE_MIDDLES) if rng.random() < 0.3 else "") + rng.choice(CITY_ENDS)


def _surname(rng: random.Random) -> str:
    return rng.choice(LAST_STARTS) + rng.choice(LAST_ENDS)


def _person(rng: random.Random) -> str:
    middle = f" {rng.choice('ABCDEFGHJKLMNPRSTVW')}." if rng.random() < 0.12 else ""
    return f"{rng.choice(FIRST_NAMES)}{middle} {_surname(rng)}"


def _title(rng: random.Random) -> str:
    pattern = rng.randrange(6)
    adjective, noun = rng.choice(TITLE_ADJECTIVES), rng.choice(TITLE_NOUNS)
    if pattern == 0:
        return f"The {adjective} {noun}"
    if pattern == 1:
        return f"{adjective} {rng.choice(TITLE_PLURALS)}"
    if pattern == 2:
        return f"{noun} {rng.choice(TITLE_TAILS)}"
    if pattern == 3:
        return f"{rng.choice(TITLE_PLURALS)} {rng.choice(TITLE_TAILS)}"
    if pattern == 4:
        return f"The {noun} of {_root(rng)}{rng.choice(('n', 'r', 's', 'l'))}"
    return f"{'An' if noun[0] in 'AEIOU' else 'A'} {noun} for {rng.choice(FIRST_NAMES)}"


def _of(*tails: str, make: Callable[[random.Random], str] = _short) -> Callable[[random.Random], str]:
    """A made-up word and one of ``tails``."""
    return lambda rng: f"{make(rng)}{rng.choice(tails)}"


MAKERS: dict[str, Callable[[random.Random], str]] = {
    "person": _person,
    "title": _title,
    "character": lambda rng: (
        f"{rng.choice(('Captain', 'Doctor', 'Professor', 'Aunt', 'Old', 'Lady', 'Sergeant', 'Uncle'))} {_surname(rng)}"
        if rng.random() < 0.4
        else _person(rng)
    ),
    "language": _of("ish", "ese", "ic", "ian"),
    "country": _of(*COUNTRY_ENDS, make=lambda rng: rng.choice(PLACE_STARTS) + (rng.choice(PLACE_MIDDLES[5:16]))),
    "region": _of(*REGION_ENDS, make=lambda rng: rng.choice(PLACE_STARTS) + (rng.choice(PLACE_MIDDLES[5:16]))),
    "city": _city,
    "currency": _of(" crown", " mark", " dinar", " florin", " lira", " peso", " thaler"),
    "river": lambda rng: _root(rng) + rng.choice(("na", "ra", "s", "sk", "va", "len", "do", "th")),
    "mountain": lambda rng: f"{rng.choice(('Mount', 'Mount', 'Pico', 'Ben'))} {_short(rng)}",
    "range": _of(" Mountains", " Alps", " Hills", " Ridge"),
    "lake": lambda rng: f"Lake {_short(rng)}",
    "island": lambda rng: _root(rng) + rng.choice(("ey", "skar", "oya", "nos", "lua")),
    "company": lambda rng: (
        f"{_surname(rng)} & {_surname(rng)}" if rng.random() < 0.3 else f"{_short(rng)} {rng.choice(COMPANY_TAILS)}"
    ),
    "product": lambda rng: f"{rng.choice(PRODUCT_STARTS)}{rng.choice(PRODUCT_ENDS)} {rng.randint(2, 99) * 10}",
    "university": _of(" University", " College", " Institute of Technology", " Polytechnic"),
    "mascot": lambda rng: f"{rng.choice(MASCOT_NAMES)} the {rng.choice(MASCOT_ANIMALS)}",
    "office": lambda rng: (
        f"{rng.choice(('Governor', 'Mayor', 'Warden', 'Chief Justice', 'Commissioner', 'Chancellor', 'Prefect'))} of {_city(rng)}"
    ),
    "party": lambda rng: f"{_short(rng)} {rng.choice(('Party', 'League', 'Union', 'Alliance', 'Movement'))}",
    "award": lambda rng: f"{_surname(rng)} {rng.choice(('Prize', 'Medal', 'Award', 'Trophy'))}",
    "studio": _of(" Pictures", " Films", " Studios"),
    "band": lambda rng: f"The {rng.choice(BAND_ADJECTIVES)} {rng.choice(BAND_NOUNS)}",
    "label": _of(" Records", " Music", " Sound"),
    "festival": lambda rng: f"the {_city(rng)} {rng.choice(('Festival', 'Music Days', 'Open Air'))}",
    "publisher": lambda rng: f"{_surname(rng)} {rng.choice(('Press', 'House', 'Books', 'Verlag'))}",
    "series": lambda rng: f"The {_short(rng)} {rng.choice(('Chronicles', 'Cycle', 'Trilogy', 'Files'))}",
    "museum": lambda rng: f"the {_city(rng)} {rng.choice(('Museum of Art', 'Gallery', 'Art House', 'Museum'))}",
    "game_studio": _of(" Games", " Interactive", " Arcade"),
    "platform": lambda rng: (
        f"{rng.choice(PRODUCT_STARTS)}{rng.choice(('station', 'box', 'deck', 'play'))} {rng.randint(2, 9)}"
    ),
    "engine": lambda rng: f"{_short(rng)} Engine",
    "team": lambda rng: f"{_city(rng)} {rng.choice(ANIMALS)}",
    "league": lambda rng: f"the {_short(rng)} {rng.choice(('League', 'Division', 'Conference'))}",
    "stadium": lambda rng: f"{_surname(rng)} {rng.choice(('Stadium', 'Arena', 'Park', 'Ground'))}",
    "tournament": lambda rng: f"the {_short(rng)} {rng.choice(('Cup', 'Open', 'Shield', 'Masters'))}",
    "element": lambda rng: f"{rng.choice(PLACE_STARTS).lower()}{rng.choice(('an', 'en', 'ov', 'ith', 'ar', 'et'))}ium",
    "compound": lambda rng: (
        f"{rng.choice(PLACE_STARTS).lower()}{rng.choice(('yl', 'ene', 'ane', 'ol'))} "
        f"{rng.choice(('oxide', 'chloride', 'sulfate', 'nitrate', 'carbonate', 'fluoride', 'phosphate'))}"
    ),
    "invention": lambda rng: (
        f"{_surname(rng)} {rng.choice(('valve', 'engine', 'lamp', 'relay', 'lens', 'pump', 'gauge', 'loom', 'battery', 'filter'))}"
    ),
    "disease": lambda rng: (
        f"{_surname(rng)} {rng.choice(('syndrome', 'fever', 'disease', 'palsy', 'anaemia', 'dystrophy'))}"
    ),
    "drug": lambda rng: (
        _root(rng) + rng.choice(("zine", "lol", "mab", "prin", "statin", "xil", "dipine", "cillin", "tide", "fen"))
    ),
    "drug_class": lambda rng: f"{_root(rng).lower()}{rng.choice(('lides', 'zoles', 'mines', 'trates', 'bloxes'))}",
    "hospital": lambda rng: (
        f"{_city(rng)} {rng.choice(('General Hospital', 'Clinic', 'Memorial Hospital', 'Infirmary'))}"
    ),
    "airport": lambda rng: f"{_city(rng)} {rng.choice(('Airport', 'International Airport', 'Airfield'))}",
    "airline": _of(" Airlines", " Airways", " Air"),
    "aircraft": lambda rng: f"{_short(rng)} {rng.choice('ABCDKLMTX')}{rng.randint(10, 99) * 10}",
    "rail_line": lambda rng: f"{_city(rng)} {rng.choice(('Line', 'Main Line', 'Valley Railway', 'Coast Line'))}",
    "station": lambda rng: f"{_city(rng)} {rng.choice(('Central', 'North', 'South', 'East', 'West', 'Junction'))}",
    "dish": lambda rng: (
        f"{_root(rng).lower()}{rng.choice(('ka', 'tti', 'ra', 'sho', 'lle', 'ski'))} "
        f"{rng.choice(('stew', 'soup', 'pie', 'salad', 'dumplings', 'pancakes', 'casserole', 'roast', 'pudding', 'curry'))}"
    ),
    "cuisine": _of("ese", "ian", "ish"),
    "cheese": lambda rng: _root(rng) + rng.choice(("zano", "dam", "llon", "berg", "tique", "sky")),
    "wine": lambda rng: (
        f"{rng.choice(('Chateau', 'Cuvee', 'Vigna'))} {_short(rng)} {rng.choice(('Blanc', 'Rouge', 'Reserva', 'Brut', 'Gris'))}"
    ),
    "grape": lambda rng: _root(rng) + rng.choice(("vese", "llo", "sling", "not", "tino", "rache")),
    "restaurant": lambda rng: (
        f"{rng.choice(('Chez', 'Casa', 'Zum', 'Trattoria'))} {rng.choice(FIRST_NAMES)} {_surname(rng)}"
    ),
    "species": lambda rng: (
        f"{_short(rng)} {rng.choice(('warbler', 'marten', 'gecko', 'tapir', 'heron', 'vole', 'shark', 'toad', 'lynx', 'finch'))}"
    ),
    "family": lambda rng: f"{_root(rng)}{rng.choice(('n', 'r', 'l', 't'))}idae",
    "park": lambda rng: f"{_short(rng)} National Park",
    "breed": lambda rng: (
        f"{_short(rng)} {rng.choice(('terrier', 'hound', 'spaniel', 'shepherd', 'pointer', 'mastiff'))}"
    ),
    "building": lambda rng: f"{_surname(rng)} {rng.choice(('Tower', 'House', 'Hall', 'Palace', 'Court', 'Pavilion'))}",
    "bridge": lambda rng: f"the {_city(rng)} {rng.choice(('Bridge', 'Viaduct', 'Crossing'))}",
    "star": lambda rng: f"{_short(rng)} {rng.choice(('Alpha', 'Beta', 'Gamma', 'Delta', 'Prime', 'Major', 'Minor'))}",
    "planet": lambda rng: f"{_short(rng)} {rng.choice(('b', 'c', 'd', 'e', 'f', 'g'))}",
    "moon": lambda rng: _root(rng) + rng.choice(("mede", "rope", "berus", "ke", "tania", "dora")),
    "constellation": lambda rng: f"{rng.choice(TITLE_ADJECTIVES)} {rng.choice(MASCOT_ANIMALS)}",
    "observatory": lambda rng: f"the {_short(rng)} Observatory",
    "mission": lambda rng: f"{_short(rng)} {rng.randint(1, 24)}",
}
