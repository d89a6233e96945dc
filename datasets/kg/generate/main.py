"""Writes the dataset: ``python main.py --seed 2026 --out datasets/kg``.

Invariant: equal seeds give equal bytes; no question and no program comes twice anywhere; no answer can be had without reading
the graph.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import domains_arts
import domains_nature
import domains_society
import domains_world
from english import Writer
from nodes import Evaluator, calls, combinations, ingredients, n_hops, program, relations, things
from shapes import Draft, Shapes
from shortcuts import Shortcuts
from steps import Moves, moves
from triples import classes, properties, triples
from world import World, grow

sys.path.append(str(Path(__file__).resolve().parents[3]))
from envhub.envs.kg.tasks import KGTask, write_dataset
from envhub.envs.kg.terms import Literal, Term

VERSION = "1.0.0"
SIZES = {"train": 2000, "dev": 200, "test": 300}
MOST_HOPS = 4
MOST_CALLS = 12
COMPOSITIONAL_SHARE = 0.4
ZERO_SHOT_SHARE = 0.2
RESERVED_ONE_IN = 7
CONSTANT_SHARE = 0.015
MOST_TRIES = 3_000
SHAPE_DECK = Counter(
    {
        "one": 4,
        "chain-2": 12,
        "chain-3": 6,
        "both": 9,
        "both-3": 4,
        "both-nested": 9,
        "both-then": 6,
        "meeting": 6,
        "meeting-then": 3,
        "count-one": 3,
        "count-chain": 5,
        "count-both": 5,
        "count-nested": 3,
        "best-one": 3,
        "best-chain": 3,
        "best-both": 3,
        "best-then": 2,
        "first": 4,
        "first-of-chain": 3,
        "first-then": 2,
        "pair-one": 2,
        "pair-both": 2,
        "pair-then": 1,
    }
)
DOMAINS = domains_society.DOMAINS + domains_arts.DOMAINS + domains_world.DOMAINS + domains_nature.DOMAINS


class Questions:
    """Draws tasks split by split: train first, so that later ones know what has been seen."""

    def __init__(self, world: World, possible: Moves, seed: int) -> None:
        self._world = world
        self._moves = possible
        self._seed = seed
        self._evaluator = Evaluator(world)
        self._shortcuts = Shortcuts(world)
        self._asked: set[str] = set()
        self._programs: set[str] = set()
        self._seen: dict[str, set[str]] = {
            "relations": set(),
            "ingredients": set(),
            "combinations": set(),
            "things": set(),
        }

    def split(self, name: str) -> list[KGTask]:
        drafts = list(self._drafts(name))
        random.Random(f"{self._seed}/{name}/order").shuffle(drafts)
        tasks = [self._task(f"{name}-{number:04d}", *parts) for number, parts in enumerate(drafts)]
        if name == "train":
            for draft, _, _ in drafts:
                self._seen["relations"] |= relations(draft.node)
                self._seen["ingredients"] |= ingredients(draft.node)
                self._seen["combinations"] |= combinations(draft.node)
                self._seen["things"].update(things(draft.node))
        return tasks

    def _drafts(self, name: str) -> Iterator[tuple[Draft, str, str]]:
        n = SIZES[name]
        n_zero, n_new = (round(n * ZERO_SHOT_SHARE), round(n * COMPOSITIONAL_SHARE)) if name == "test" else (0, 0)
        plan = ["zero-shot"] * n_zero + ["compositional"] * n_new + ["iid"] * (n - n_zero - n_new)
        shapes = {
            held_out: Shapes(self._world, self._moves, self._evaluator, held_out=held_out) for held_out in (True, False)
        }
        rng = random.Random(f"{self._seed}/{name}")
        writer = Writer(self._world, self._moves, self._evaluator, random.Random(f"{self._seed}/{name}/words"))
        counts: Counter[int] = Counter()
        deck = _deck(rng)
        for level in plan:
            draft = self._draft(shapes[level == "zero-shot"], deck, rng, self._test(name, level, counts))
            counts[self._n(draft) if draft.count else 0] += 1
            question = self._write(writer, draft)
            self._asked.add(question)
            self._programs.add(self._program(draft))
            yield draft, question, level

    def _draft(self, shapes: Shapes, deck: Iterator[str], rng: random.Random, fits: Callable[[Draft], bool]) -> Draft:
        """A fitting draft of the next shape, or of one after it when there is none to be found."""
        for shape in deck:
            for _ in range(MOST_TRIES):
                draft = shapes.draw(shape, rng)
                if draft is not None and fits(draft):
                    return draft
        raise RuntimeError("the deck is endless")

    def _test(self, split: str, level: str, counts: Counter[int]) -> Callable[[Draft], bool]:
        most = math.ceil(CONSTANT_SHARE * SIZES[split])

        def fits(draft: Draft) -> bool:
            usual = not draft.count or counts[self._n(draft)] < most
            return usual and self._level_fits(draft, level, split) and self._fits(draft)

        return fits

    def _fits(self, draft: Draft) -> bool:
        node = draft.node
        trace = calls(node, count=draft.count)
        if n_hops(node) > MOST_HOPS or len(trace) > MOST_CALLS or self._program(draft) in self._programs:
            return False
        return not self._shortcuts.pay(draft, self._evaluator.set_of(node))

    def _level_fits(self, draft: Draft, level: str, split: str) -> bool:
        pairs, used = combinations(draft.node), ingredients(draft.node)
        reserved = any(self._reserved(pair) for pair in pairs)
        if split == "train":
            return not reserved
        if level == "zero-shot":
            return not relations(draft.node) <= self._seen["relations"]
        if not used <= self._seen["ingredients"]:
            return False
        return (
            reserved
            if level == "compositional"
            else pairs <= self._seen["combinations"] or (split == "dev" and not reserved)
        )

    def _reserved(self, pair: str) -> bool:
        """Whether a combination is kept for the test split."""
        return hashlib.sha256(f"{self._seed}/{pair}".encode()).digest()[0] % RESERVED_ONE_IN == 0

    def _program(self, draft: Draft) -> str:
        text = program(draft.node)
        return f"(COUNT {text})" if draft.count else text

    def _n(self, draft: Draft) -> int:
        return len(self._evaluator.set_of(draft.node))

    def _write(self, writer: Writer, draft: Draft) -> str:
        for _ in range(20):
            question = writer.question(draft.node, count=draft.count)
            if question not in self._asked:
                return question
        raise RuntimeError(f"asked before: {question}")

    def _task(self, name: str, draft: Draft, question: str, level: str) -> KGTask:
        trace = calls(draft.node, count=draft.count)
        given = things(draft.node)
        entities = sorted((self._world.names[each], each) for each in given)
        tags = [f"shape:{draft.shape}", f"generalization:{level}"]
        tags += ["held_out"] * (level != "iid")
        tags += ["unseen_entities"] * (not name.startswith("train") and not set(given) & self._seen["things"])
        return KGTask(
            id=f"kg-{name}",
            question=question,
            entities=dict(entities),
            answer=self._answer(draft),
            program=self._program(draft),
            solution=trace,
            kind=draft.kind,
            n_hops=n_hops(draft.node),
            source="envhub",
            difficulty="easy" if len(trace) <= 5 else "medium" if len(trace) <= 7 else "hard",
            tags=tuple(tags),
        )

    def _answer(self, draft: Draft) -> tuple[Term, ...]:
        found = self._evaluator.set_of(draft.node)
        return (Literal(str(len(found)), "integer"),) if draft.count else tuple(sorted(found))


def _deck(rng: random.Random) -> Iterator[str]:
    while True:
        deck = list(SHAPE_DECK.elements())
        rng.shuffle(deck)
        yield from deck


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--out", type=Path, default=Path("datasets/kg"))
    arguments = parser.parse_args()
    world = grow(DOMAINS, arguments.seed)
    questions = Questions(world, moves(DOMAINS), arguments.seed)
    write_dataset(
        arguments.out,
        {name: questions.split(name) for name in SIZES},
        graph=triples(world),
        classes=classes(DOMAINS),
        properties=properties(DOMAINS),
        name="kg",
        version=VERSION,
        generator={"seed": arguments.seed, "version": VERSION, "script": "datasets/kg/generate/main.py"},
    )


if __name__ == "__main__":
    main()
