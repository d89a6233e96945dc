"""Writes the dataset: ``python main.py --seed 2026 --out datasets/os``.

Invariant: equal seeds give equal bytes; no task comes twice anywhere; no single answer is right for more than a small share of
a split; templates that are held out and a pool of project names appear in the test split alone.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))

import accounts  # noqa: F401  # registers its templates
import archives  # noqa: F401
import configuration  # noqa: F401
import disk  # noqa: F401
import environment  # noqa: F401
import files  # noqa: F401
import machines  # noqa: F401
import permissions  # noqa: F401
import programs  # noqa: F401
import repos  # noqa: F401
import schedules  # noqa: F401
import services  # noqa: F401
import tables  # noqa: F401
import texts  # noqa: F401
from drafts import TEMPLATES, Draft, Scope, Template

from envhub.envs.os.tasks import Answer, Check, OSTask, Script, write_dataset

VERSION = "1.0.0"
SIZES = {"test": 200, "dev": 100, "train": 1000}
HELD_OUT_SHARE = 0.2
CONSTANT_SHARE = 0.015
MOST_TRIES = 400
FAMILIES = tuple(sorted({each.family for each in TEMPLATES}))


@dataclass(frozen=True, slots=True)
class Made:
    """A draft with the template it came from."""

    template: Template
    draft: Draft


class Taken:
    """What there is already: questions and set-ups of all splits, and how often each answer is right in this one."""

    def __init__(self, seen: set[str], n: int) -> None:
        self._seen = seen
        self._answers: Counter[str] = Counter()
        self._most = max(1, math.floor(CONSTANT_SHARE * n))

    def fits(self, draft: Draft) -> bool:
        return not self._marks(draft) & self._seen and (not draft.gold or self._answers[draft.gold] < self._most)

    def add(self, draft: Draft) -> None:
        self._seen |= self._marks(draft)
        self._answers[draft.gold] += bool(draft.gold)

    @staticmethod
    def _marks(draft: Draft) -> set[str]:
        return {draft.question, hashlib.sha256(f"{draft.tree.setup()}{draft.start}".encode()).hexdigest()}


def drafts(seed: int, splits: tuple[str, ...] = ("test", "dev", "train")) -> dict[str, list[Made]]:
    """Made in the order test, dev, train; leaving out later ones does not change earlier ones."""
    seen: set[str] = set()
    return {split: _split(seed, split, seen) for split in splits}


def _split(seed: int, split: str, seen: set[str]) -> list[Made]:
    rng = random.Random(f"{seed}/{split}")
    n = SIZES[split]
    taken = Taken(seen, n)
    n_held_out = round(n * HELD_OUT_SHARE) if split == "test" else 0
    plan = [
        *_deck([t for t in TEMPLATES if t.held_out], n_held_out, rng),
        *_deck([t for t in TEMPLATES if not t.held_out], n - n_held_out, rng),
    ]
    made = []
    for number, each in enumerate(plan):
        found = _made(each, f"{seed}/{split}/{number}", taken, unseen=split == "test")
        taken.add(found.draft)
        made.append(found)
    rng.shuffle(made)
    return made


def _deck(templates: list[Template], n: int, rng: random.Random) -> Iterator[Template]:
    """Family after family, so that all are equally frequent; within one by weight."""
    by_family: dict[str, list[Template]] = defaultdict(list)
    for each in templates:
        by_family[each.family].append(each)
    queues: dict[str, list[Template]] = {}
    families = sorted(by_family)
    for number in range(n):
        family = families[number % len(families)]
        if not queues.get(family):
            queues[family] = [each for each in by_family[family] for _ in range(each.weight)]
            rng.shuffle(queues[family])
        yield queues[family].pop()


def _made(template: Template, seed: str, taken: Taken, *, unseen: bool) -> Made:
    """A draft of the template; when its answers are used up, of another of the family."""
    others = [
        each
        for each in TEMPLATES
        if each.family == template.family and each.held_out == template.held_out and each != template
    ]
    random.Random(seed).shuffle(others)
    for each in (template, *others):
        for attempt in range(MOST_TRIES):
            draft = each.make(Scope(random.Random(f"{seed}/{each.name}/{attempt}"), unseen))
            if draft is not None and taken.fits(draft):
                return Made(each, draft)
    raise RuntimeError(f"no task of family {template.family} in {MOST_TRIES} tries")


def task(name: str, made: Made) -> OSTask:
    draft, template = made.draft, made.template
    tags = (f"template:{template.name}", "change" if draft.checks else "answer", *draft.tags)
    return OSTask(
        id=f"os-{name}",
        description=draft.question,
        answer=Answer(draft.kind, (draft.gold,)) if draft.gold else None,
        checks=tuple(Check(Script(code, "python" if view == "judge" else "bash"), view) for view, code in draft.checks),  # type: ignore[arg-type]  # a view
        init=(Script(draft.tree.setup(), "python"),),
        start=draft.start or None,
        solution=draft.solution,
        family=template.family,
        difficulty=template.difficulty,
        tags=tags + ("held_out",) * template.held_out,
    )


def tasks(made: dict[str, list[Made]]) -> dict[str, list[OSTask]]:
    return {
        split: [task(f"{split}-{number:04d}", each) for number, each in enumerate(found)]
        for split, found in made.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--out", type=Path, default=Path("datasets/os"))
    arguments = parser.parse_args()
    made = tasks(drafts(arguments.seed))
    write_dataset(
        arguments.out,
        {split: made[split] for split in ("train", "dev", "test")},
        name="os",
        version=VERSION,
        generator={"seed": arguments.seed, "version": VERSION, "script": "datasets/os/generate/main.py"},
    )


if __name__ == "__main__":
    main()
