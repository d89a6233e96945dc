"""Ways to an answer without reading the question. Invariant: no shipped question falls to one of them."""

from __future__ import annotations

from nodes import things
from shapes import Draft
from world import World


class Shortcuts:
    def __init__(self, world: World) -> None:
        self._world = world
        self._relations: dict[str, list[str]] = {}
        for relation in sorted(world.objects):
            for subject in world.objects[relation]:
                self._relations.setdefault(subject, []).append(relation)

    def pay(self, draft: Draft, answer: frozenset[str]) -> bool:
        """Whether the first or last listed relation of a given thing leads to the answer, once or twice in a row, or what
        those of all given things have in common is it."""
        if draft.count:
            return any(len(found) == len(answer) for found in self._blind(draft))
        return answer in self._blind(draft)

    def _blind(self, draft: Draft) -> list[frozenset[str]]:
        found: list[frozenset[str]] = []
        given = sorted(things(draft.node))
        for position in (0, -1):
            found.append(frozenset.intersection(*[self._step(frozenset({thing}), position) for thing in given]))
            for thing in given:
                reached = frozenset({thing})
                for _ in range(2):
                    reached = self._step(reached, position)
                    found.append(reached)
        return found

    def _step(self, start: frozenset[str], position: int) -> frozenset[str]:
        relations = sorted({relation for each in start for relation in self._relations.get(each, ())})
        return self._world.follow(start, (relations[position],)) if relations else start
