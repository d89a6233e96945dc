"""Writes the dataset: ``python main.py --seed 2026 --out datasets/db``.

Invariant: equal seeds give equal bytes; no question is asked twice anywhere; no answer can be had without reading the rows.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import aggregates  # noqa: F401  # registers its templates
import comparison  # noqa: F401
import counting  # noqa: F401
import deletes  # noqa: F401
import domains_culture
import domains_service
import domains_work
import inserts  # noqa: F401
import listings  # noqa: F401
import lookups  # noqa: F401
import ranking  # noqa: F401
import sequences  # noqa: F401
import updates  # noqa: F401
from drafts import TEMPLATES, Draft, Template
from model import Data, Domain, Entity, Field, Row, Value, build, text
from selection import Scope

sys.path.append(str(Path(__file__).resolve().parents[3]))
from envhub.envs.db.database import Cell, Column, Table
from envhub.envs.db.tasks import Answer, DBTask, Rows, State, write_dataset
from envhub.envs.db.tasks import Value as AnswerCell

VERSION = "1.0.0"
SIZES = {"test": 300, "dev": 200, "train": 2000}
TASKS_PER_DATABASE = 9
HELD_OUT_SHARE = 0.2
CONTEXT_SHARE = 0.3
EXPLORE_SHARE = 0.15
CONSTANT_SHARE = 0.01
CHANGE_CONTEXTS = (
    "One correction is needed in our records.",
    "The database has to be brought up to date.",
    "Please carry out this change for me.",
    "There is a change to make in the database.",
)
KIND_DECK = Counter(
    {
        "INSERT": 12,
        "UPDATE": 14,
        "DELETE": 9,
        "counting": 11,
        "ranking": 11,
        "comparison": 10,
        "other": 13,
        "aggregation-SUM": 6,
        "aggregation-AVG": 6,
        "aggregation-MAX": 4,
        "aggregation-MIN": 4,
    }
)
DOMAINS = domains_culture.DOMAINS + domains_work.DOMAINS + domains_service.DOMAINS


def generate(seed: int, splits: tuple[str, ...] = ("test", "dev", "train")) -> dict[str, list[DBTask]]:
    """Splits are made in the order test, dev, train; leaving out later ones does not change earlier ones."""
    asked: set[str] = set()
    return {split: _split(seed, split, asked) for split in splits}


def _split(seed: int, split: str, asked: set[str]) -> list[DBTask]:
    rng = random.Random(f"{seed}/{split}")
    kinds = _kinds(rng)
    taken = Taken(asked, most=math.ceil(CONSTANT_SHARE * SIZES[split]))
    domains = [d for d in DOMAINS if not d.held_out]
    n_unseen = round(SIZES[split] * HELD_OUT_SHARE) if split == "test" else 0
    drafts = [
        *_drafts(f"{seed}/{split}/unseen", [d for d in DOMAINS if d.held_out], n_unseen, kinds, taken),
        *_drafts(f"{seed}/{split}", domains, SIZES[split] - n_unseen, kinds, taken),
    ]
    rng.shuffle(drafts)
    return [_task(f"{split}-{number:04d}", *parts) for number, parts in enumerate(drafts)]


def _kinds(rng: random.Random) -> Iterator[str]:
    while True:
        deck = list(KIND_DECK.elements())
        rng.shuffle(deck)
        yield from deck


def _drafts(
    seed: str, domains: list[Domain], n: int, kinds: Iterator[str], taken: Taken
) -> Iterator[tuple[Data, Template, Draft, random.Random]]:
    """``n`` drafts, TASKS_PER_DATABASE on each database, domain after domain."""
    data, rng, used = None, random.Random(), set[str]()
    for number in range(n):
        at, position = divmod(number, TASKS_PER_DATABASE)
        if data is None or position == 0:
            rng = random.Random(f"{seed}/{at}")
            data = build(domains[at % len(domains)], rng)
            used = set()
        template, draft = _draft(Scope(data, rng), next(kinds), used, taken)
        used.add(template.name)
        taken.add(draft)
        yield data, template, draft, random.Random(f"{seed}/{number}/words")


def _draft(scope: Scope, kind: str, used: set[str], taken: Taken) -> tuple[Template, Draft]:
    """A sound draft of the kind, of a template not yet used on this database while there is one."""
    candidates = [t for t in TEMPLATES if t.kind == kind]
    for attempt in range(4000):
        fresh = [t for t in candidates if t.name not in used] if attempt < 2000 else candidates
        template = scope.rng.choices(fresh or candidates, [t.weight for t in fresh or candidates])[0]
        draft = template.make(scope)
        if draft and draft not in taken and _earned(draft, scope.data):
            return template, draft
    raise RuntimeError(f"no {kind} task for {scope.domain.name}")


class Taken:
    """What a split already has: questions (of all splits), and how often each single answer is right in this one."""

    def __init__(self, questions: set[str], *, most: int) -> None:
        self._questions = questions
        self._answers: Counter[str] = Counter()
        self._most = most

    def __contains__(self, draft: Draft) -> bool:
        return draft.question in self._questions or self._answers[_single(draft)] >= self._most

    def add(self, draft: Draft) -> None:
        self._questions.add(draft.question)
        if _single(draft):
            self._answers[_single(draft)] += 1


def _single(draft: Draft) -> str:
    """The answer of one cell, else nothing."""
    return text(draft.answer[0][0]) if draft.answer and len(draft.answer) == len(draft.answer[0]) == 1 else ""


def _earned(draft: Draft, data: Data) -> bool:
    """Whether the answer is out of reach of an agent that does not read the rows it is about."""
    if draft.answer is None:
        return True
    cells = [text(v) for row in draft.answer for v in row]
    if not cells or any(v is None for row in draft.answer for v in row):
        return False
    firsts = {text(next(iter(rows[0].values()))) for rows in data.rows.values()}
    answer = _single(draft)
    if answer and (answer in {"0", "1"} | firsts or _mentions(draft.question, answer)):
        return False
    return not any(_is_column(cells, rows) for rows in data.rows.values())


def _mentions(question: str, answer: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(answer.casefold())}(?!\w|\.\d)", question.casefold()) is not None


def _is_column(cells: list[str], rows: list[Row]) -> bool:
    wanted = sorted(cells)
    return any(
        wanted in (sorted(column), sorted(set(column))) for column in ([text(r[n]) for r in rows] for n in rows[0])
    )


def _task(name: str, data: Data, template: Template, draft: Draft, rng: random.Random) -> DBTask:
    domain = data.domain
    question = draft.question
    if rng.random() < CONTEXT_SHARE:
        question = f"{rng.choice(domain.contexts if draft.answer else CHANGE_CONTEXTS)} {question}"
    with_types = rng.random() >= EXPLORE_SHARE
    tags = [f"domain:{domain.name}", f"template:{template.name}", *sorted(draft.tags)]
    tags += ["held_out"] * domain.held_out + ["explore"] * (not with_types)
    return DBTask(
        id=f"db-{name}",
        question=question,
        kind=template.kind,
        tables=tuple(_table(domain, entity, data.rows[entity.name]) for entity in domain.tables),
        answer=_answer(draft, domain),
        solution=draft.solution,
        table_info=_describe(domain, with_types=with_types),
        source="envhub",
        difficulty=template.difficulty,
        tags=tuple(tags),
    )


def _answer(draft: Draft, domain: Domain) -> Answer:
    if draft.state is not None:
        return State(tuple(_table(domain, entity, draft.state[entity.name]) for entity in domain.tables))
    assert draft.answer is not None
    cells = tuple(_answer_cell(value) for row in draft.answer for value in row)
    return Rows(cells, len(draft.answer[0]), draft.ordered)


def _answer_cell(value: Value) -> AnswerCell:
    """Numbers stay numbers, so that they are compared as such; dates become text."""
    if isinstance(value, Decimal):
        return value
    return int(value) if isinstance(value, bool | int) else text(value)


def _table(domain: Domain, entity: Entity, rows: list[Row]) -> Table:
    columns = tuple(Column(f.name, _type(domain, f), f.primary) for f in entity.fields)
    return Table(entity.name, columns, tuple(tuple(_cell(row[f.name]) for f in entity.fields) for row in rows))


def _type(domain: Domain, f: Field) -> str:
    return domain.table(f.target).key.type if f.role == "ref" else f.type


def _cell(value: Value) -> Cell:
    if value is None:
        return None
    return int(value) if isinstance(value, bool | int) else text(value)


def _describe(domain: Domain, *, with_types: bool) -> str:
    """The schema in one paragraph; without types the agent has to look for itself."""
    if not with_types:
        return f"The database has the tables {', '.join(t.name for t in domain.tables)}."
    parts = [f"{t.name} ({', '.join(f'{f.name} {_type(domain, f)}' for f in t.fields)})" for t in domain.tables]
    links = [
        f"{t.name}.{f.name} refers to {f.target}.{domain.table(f.target).key.name}"
        for t in domain.tables
        for f in t.having("ref")
    ]
    return f"The database has the tables {'; '.join(parts)}. {'; '.join(links)}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--out", type=Path, default=Path("datasets/db"))
    parser.add_argument("--dev-only", action="store_true", help="write the dev split alone (test is made on the way)")
    arguments = parser.parse_args()
    made = generate(arguments.seed, ("test", "dev") if arguments.dev_only else ("test", "dev", "train"))
    write_dataset(
        arguments.out,
        {split: made[split] for split in (("dev",) if arguments.dev_only else ("train", "dev", "test"))},
        name="db",
        version=VERSION,
        generator={"seed": arguments.seed, "version": VERSION, "script": "datasets/db/generate/main.py"},
    )


if __name__ == "__main__":
    main()
