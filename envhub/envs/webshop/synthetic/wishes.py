"""Goals: which products are wanted, for what, and how a person would say so.

Invariant: a goal asks only for what its product has, and all goals of a family of products are in one split.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from envhub.envs.webshop.catalogue import Goal
from envhub.envs.webshop.synthetic.attributes import Attribute
from envhub.envs.webshop.synthetic.families import Draft, families, family
from envhub.envs.webshop.synthetic.knobs import Knobs

NO_BOUND = 1_000_000.0
_WITH_OPTIONS = 0.85
_RESERVE = 1.4
_MOST_PER_FAMILY = 4
_BOUNDS = tuple(10.0 * step for step in range(1, 100))


class Candidate(NamedTuple):
    """A product that could be wanted: which member of which family, and whether for the first or the second time."""

    family: int
    member: int
    has_options: bool
    time: int

    def draft(self, knobs: Knobs) -> Draft:
        return family(knobs, self.family)[self.member]


def candidates(knobs: Knobs) -> dict[str, list[Candidate]]:
    """For every split more products than it has goals, in the order in which they should be wanted.

    Raises ValueError when the catalogue has too few products to want.
    """
    rng = random.Random(f"{knobs.seed}/splits")
    splits: dict[str, list[Candidate]] = {split: [] for split in knobs.splits}
    for members in _mixed(_wantable(knobs), rng):
        split = min(splits, key=lambda name: len(splits[name]) / knobs.splits[name])
        if len(splits[split]) >= _RESERVE * knobs.splits[split]:
            break
        splits[split] += rng.sample(members, min(len(members), _MOST_PER_FAMILY))
    short = [split for split, found in splits.items() if len(found) < knobs.splits[split]]
    if short:
        raise ValueError(f"{knobs.n_products} products are too few for the goals of {', '.join(short)}")
    return splits


def _wantable(knobs: Knobs) -> list[list[Candidate]]:
    found = (
        [
            Candidate(number, position, bool(draft.options), time)
            for position, draft in enumerate(members)
            for time in range(2 if draft.options else 1)
            if draft.can_be_wanted
        ]
        for number, members in enumerate(families(knobs))
    )
    return [members for members in found if members]


def _mixed(found: Iterable[list[Candidate]], rng: random.Random) -> Iterator[list[Candidate]]:
    """Families with options for most goals and families without for the others, in a random order while both last."""
    piles: dict[bool, list[list[Candidate]]] = {True: [], False: []}
    for members in found:
        piles[any(candidate.has_options for candidate in members)].append(members)
    for pile in piles.values():
        rng.shuffle(pile)
    while any(piles.values()):
        wanted = rng.random() < _WITH_OPTIONS
        yield (piles[wanted] or piles[not wanted]).pop()


def goal(draft: Draft, knobs: Knobs, attempt: str) -> Goal:
    """A wish for the product; another ``attempt`` is another wish."""
    rng = random.Random(f"{knobs.seed}/goal/{draft.asin}/{attempt}")
    attributes = _wished(draft, knobs, rng)
    options = _asked(draft, knobs, rng)
    bound = _bound(draft.price, knobs, rng)
    text = _worded(draft, attributes, options, knobs, rng)
    if bound != NO_BOUND:
        text = f"{text}, and price lower than {bound:.2f} dollars"
    named = tuple(attribute.name for attribute in attributes)
    return Goal(draft.asin, text, named, options if knobs.dict_options else tuple(options.values()), bound)


def _wished(draft: Draft, knobs: Knobs, rng: random.Random) -> list[Attribute]:
    claims = list(draft.claims)
    n = min(len(claims), knobs.max_goal_attributes, rng.choices((1, 2, 3, 4), (14, 36, 34, 16))[0])
    return [claim.attribute for claim in rng.sample(claims, n)]


def _asked(draft: Draft, knobs: Knobs, rng: random.Random) -> dict[str, str]:
    groups = list(draft.options)
    n = len(groups) if rng.random() < 0.75 else min(len(groups), 1)
    wanted = set(rng.sample(groups, min(n, knobs.max_goal_options)))
    return {group: rng.choice(draft.options[group]) for group in groups if group in wanted}


def _bound(price: float, knobs: Knobs, rng: random.Random) -> float:
    """The larger of two of the first four tens above the price, as in the published goals; the first ten when tight."""
    candidates = [bound for bound in _BOUNDS if bound > price][:4]
    if len(candidates) < 2:
        return NO_BOUND
    return candidates[0] if knobs.price_slack == "tight" else max(rng.sample(candidates, 2))


_OPENERS = (
    "i am looking for {0}",
    "i need {0}",
    "i want to buy {0}",
    "find me {0}",
    "show me {0}",
    "can you help me find {0}",
    "i would like {0}",
    "please get me {0}",
    "hello, i am after {0}",
    "my old one broke, so i need {0}",
    "i'm shopping for {0}",
)


def _worded(
    draft: Draft, attributes: Sequence[Attribute], options: Mapping[str, str], knobs: Knobs, rng: random.Random
) -> str:
    plain = [attribute for attribute in attributes if rng.random() >= knobs.paraphrase]
    other = [attribute for attribute in attributes if attribute not in plain]
    name = _name(draft, knobs, rng)
    thing = " ".join([*(attribute.name for attribute in plain if attribute.form == "is"), name])
    thing = _with_article(thing, is_plural=name.endswith("s") and not name.endswith("ss"))
    details = [f"{attribute.form} {attribute.name}" for attribute in plain if attribute.form != "is"]
    details += [_option(group, value, rng) for group, value in options.items()]
    text = rng.choice(_OPENERS).format(" ".join([thing, _listed(details)]).strip())
    if other:
        it = "they" if name.endswith("s") and not name.endswith("ss") else "it"
        wishes = " and ".join(rng.choice(attribute.paraphrases) for attribute in other)
        text = f"{text}. {it} should {wishes}"
    return text


def _name(draft: Draft, knobs: Knobs, rng: random.Random) -> str:
    if rng.random() >= knobs.vagueness:
        return draft.kind.name
    return rng.choice((draft.kind.query, draft.kind.categories.split(" › ")[-2].lower().removesuffix("s") + " things"))


def _with_article(thing: str, *, is_plural: bool) -> str:
    if is_plural:
        return thing
    return f"{'an' if thing[0] in 'aeio' else 'a'} {thing}"


def _listed(details: Sequence[str]) -> str:
    return ", ".join(details[:-1]) + f" and {details[-1]}" if len(details) > 1 else "".join(details)


def _option(group: str, value: str, rng: random.Random) -> str:
    if group == "color":
        return rng.choice(("in {0}", "in the color {0}", "colored {0}")).format(value)
    if group == "size":
        return rng.choice(("in size {0}", "sized {0}", "of size {0}")).format(value)
    if group == "flavor name":
        return rng.choice(("in {0} flavor", "with the flavor {0}")).format(value)
    return rng.choice(("with {0} {1}", "in the {0} {1}")).format(group, value)
