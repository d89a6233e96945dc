"""Grows the graph from its domains. Invariant: equal seeds give equal worlds; every link is stored in both directions, and a
thing has every type that its kind inherits from."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from names import names
from schema import Domain, Kind, Link, Literal, Measure, Mediator, Role

TOPIC = "common.topic"
G_SHARE = 0.12
ID_LETTERS = "0123456789bcdfghjklmnpqrstvwxyz_"

Objects = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class World:
    """``objects`` holds relation -> subject -> objects, ``values`` attribute -> subject -> value; mediators have no name."""

    names: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, Kind] = field(default_factory=dict)
    types: dict[str, tuple[str, ...]] = field(default_factory=dict)
    members: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    objects: dict[str, dict[str, list[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    values: dict[str, dict[str, Literal]] = field(default_factory=lambda: defaultdict(dict))

    def follow(self, start: frozenset[str], path: Sequence[str]) -> frozenset[str]:
        """Everything that the relations of ``path``, taken in turn, lead to."""
        reached = start
        for relation in path:
            objects = self.objects[relation]
            reached = frozenset().union(*[objects[each] for each in reached if each in objects])
        return reached


def grow(domains: Sequence[Domain], seed: int) -> World:
    world = World()
    ids = _ids(random.Random(f"{seed}/ids"))
    kinds = {kind.name: kind for domain in domains for kind in domain.kinds}
    for kind in kinds.values():
        _populate(world, kind, kinds, ids, random.Random(f"{seed}/{kind.name}"))
    links = [link for domain in domains for link in domain.links]
    for link in sorted(links, key=lambda link: bool(link.among)):
        _connect(world, link, random.Random(f"{seed}/{link.forward}"))
    for domain in domains:
        for mediator in domain.mediators:
            _mediate(world, mediator, ids, random.Random(f"{seed}/{mediator.name}"))
        for measure in domain.measures:
            _measure(world, measure, world.members[measure.source], random.Random(f"{seed}/{measure.name}"))
    return world


def ancestors(name: str, kinds: Mapping[str, Kind]) -> tuple[str, ...]:
    """The type itself, then what it inherits from, ``common.topic`` last."""
    found = [name]
    for each in found:
        kind = kinds[each]
        found += [parent for parent in (kind.parent, kind.also) if parent and parent not in found]
    return (*found, TOPIC)


def _ids(rng: random.Random) -> Iterator[tuple[str, str]]:
    """Endless pairs of an ``m.`` and a ``g.`` id; no two share their tail."""
    taken: set[str] = set()
    while True:
        tail = "".join(rng.choice(ID_LETTERS) for _ in range(4))
        if tail not in taken:
            taken.add(tail)
            yield f"m.0{tail}", f"g.1{tail}"


def _populate(
    world: World, kind: Kind, kinds: Mapping[str, Kind], ids: Iterator[tuple[str, str]], rng: random.Random
) -> None:
    if kind.pool:
        chosen = set(rng.sample(world.members[kind.parent], kind.pool))
        made = [each for each in world.members[kind.parent] if each in chosen]
    else:
        made = []
        for name in names(kind.names, kind.count, rng) if kind.count else ():
            usual, rare = next(ids)
            made.append(rare if rng.random() < G_SHARE else usual)
            world.names[made[-1]] = name
            world.kinds[made[-1]] = kind
    for each in made:
        have = world.types.get(each, ())
        fresh = [name for name in ancestors(kind.name, kinds) if name not in have]
        world.types[each] = (*have, *fresh)
        for name in fresh:
            if name != TOPIC:
                world.members[name].append(each)


def _connect(world: World, link: Link, rng: random.Random) -> None:
    subjects, targets = world.members[link.source], world.members[link.target]
    rank = {each: position for position, each in enumerate(targets)}
    n_back: dict[str, int] = defaultdict(int)
    for subject in subjects:
        choices: Sequence[str] = targets
        if link.among:
            choices = sorted(world.follow(frozenset({subject}), link.among), key=rank.__getitem__)
        first = rank[subject] + 1 if subject in rank else 0
        for found in _draw(choices, first, rng.choice(link.fan), rng):
            if not link.most_back or n_back[found] < link.most_back:
                n_back[found] += 1
                _add(world, link.forward, subject, found)
                _add(world, link.reverse, found, subject)


def _draw(choices: Sequence[str], first: int, n: int, rng: random.Random) -> list[str]:
    """At most ``n`` different ones from position ``first`` on, early ones more often: some things are popular."""
    found: list[str] = []
    for _ in range(2 * n):
        if first < len(choices) and len(found) < n:
            position = min(rng.randrange(first, len(choices)) for _ in range(rng.choice((1, 1, 2))))
            if choices[position] not in found:
                found.append(choices[position])
    return found


def _add(world: World, relation: str, subject: str, found: str) -> None:
    world.objects[relation][subject].append(found)


def _mediate(world: World, mediator: Mediator, ids: Iterator[tuple[str, str]], rng: random.Random) -> None:
    lead, *others = mediator.roles
    made: list[str] = []
    for subject in world.members[lead.target]:
        for _ in range(rng.choice(mediator.fan)):
            node = next(ids)[1]
            made.append(node)
            world.types[node] = (mediator.name,)
            world.members[mediator.name].append(node)
            players = {subject}
            _play(world, lead, subject, node)
            for role in others:
                [player] = _draw(world.members[role.target], 0, 1, rng)
                if player not in players and rng.random() < role.share:
                    players.add(player)
                    _play(world, role, player, node)
    for measure in mediator.measures:
        _measure(world, measure, made, rng)


def _play(world: World, role: Role, player: str, node: str) -> None:
    _add(world, role.into, player, node)
    _add(world, role.out, node, player)


def _measure(world: World, measure: Measure, subjects: Sequence[str], rng: random.Random) -> None:
    for subject in subjects:
        if rng.random() < measure.share:
            world.values[measure.name][subject] = measure.draw(rng)
