"""Official files into a catalogue, and a catalogue into files of the official form, so that both take one path.

Invariant: the splits of one kind share no goal, and a split exists only when the goals reach it. Prices and price bounds are
drawn once, from the recorded seed, in the order of the original.

``official-test``, ``-dev`` and ``-train`` are goals 0..499, 500..1499 and the rest, as the original divides them. AgentBench
divides the same goals otherwise: ``agentbench-std`` 0..199, ``agentbench-dev`` 200..279, ``agentbench-train`` 1000..11999. Its
training goals 1000..1499 are in ``official-dev``: do not train on one division and measure on the other.
"""

from __future__ import annotations

import json
import random
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Literal

from envhub.core.types import JSON
from envhub.envs.webshop import official
from envhub.envs.webshop.build import Progress, build, sqlite_as_os_errors
from envhub.envs.webshop.catalogue import Catalogue, Goal, Product
from envhub.envs.webshop.goals import Listing, human_goals, n_human_goals, n_synthetic_goals, synthetic_goals
from envhub.envs.webshop.official import OfficialFiles
from envhub.envs.webshop.store import Store, file_checksum

GoalKind = Literal["human", "synthetic"]

DIVISIONS: Mapping[str, tuple[int, int | None]] = {
    "official-test": (0, 500),
    "official-dev": (500, 1500),
    "official-train": (1500, None),
    "agentbench-std": (0, 200),
    "agentbench-dev": (200, 280),
    "agentbench-train": (1000, 12_000),
}
"""First goal and the one after the last; None is all that remain."""

ALL = "official-all"
N_HUMAN_GOALS = 12_087
_N_NEEDED = max(end for _, end in DIVISIONS.values() if end is not None)


def convert(
    files: OfficialFiles,
    out: Path,
    *,
    goals: GoalKind = "human",
    seed: int = 0,
    limit: int | None = None,
    partial: bool = False,
    progress: Progress = lambda stage, done: None,
) -> Path:
    """Build the catalogue ``out``; called again after an interruption it goes on where it stopped.

    ``limit`` takes the first products only. Goals that are fewer than the official ones have indices that mean other tasks: with
    ``partial`` they become one split, ``official-all``, else ValueError says how many are missing. To say it before the long work,
    the files are read once for that alone. Raises ValueError for a malformed file too, StoreError, OSError.
    """
    rng = random.Random(seed)
    kept: list[Listing] = []
    meta = {
        "name": f"official-{goals}",
        "seed": seed,
        "limit": limit,
        "partial": partial,
        "files": {path.name: file_checksum(path) for path in _paths(files)},
    }

    def divided(catalogue: Catalogue) -> dict[str, list[Goal]]:
        return divide(human_goals(kept, rng) if goals == "human" else synthetic_goals(kept, rng), partial=partial)

    with sqlite_as_os_errors(out):
        if not out.exists():
            _check_number(official.read_listings(files, random.Random(seed), limit=limit), goals, partial=partial)
        listings = official.read_listings(files, rng, limit=limit)
        return build(_products(listings, kept, goals), divided, out, meta=meta, progress=progress)


def divide(goals: Sequence[Goal], *, partial: bool = False) -> dict[str, list[Goal]]:
    """Goals in their order to splits. Raises ValueError when they do not reach the ends of the divisions."""
    _check_enough(len(goals), partial=partial)
    if partial:
        return {ALL: list(goals)}
    return {split: list(goals[first:end]) for split, (first, end) in DIVISIONS.items()}


def _check_number(listings: Generator[Listing, None, None], kind: GoalKind, *, partial: bool) -> None:
    """Reads no further than it takes. Raises ValueError."""
    found = 0
    with closing(listings):
        for listing in listings:
            found += n_human_goals(listing) if kind == "human" else n_synthetic_goals(listing)
            if found >= (1 if partial else _N_NEEDED):
                return
    _check_enough(found, partial=partial)


def _check_enough(n_goals: int, *, partial: bool) -> None:
    if not n_goals:
        raise ValueError("there are no goals: no product of the catalogue has an instruction of the kind asked for")
    if not partial and n_goals < _N_NEEDED:
        raise ValueError(
            f"the loaded set has goals 0..{n_goals - 1}, and the official splits go up to {_N_NEEDED - 1} "
            f"({N_HUMAN_GOALS} goals in all): load all products, or ask for a partial conversion (--partial), "
            f"whose one split is {ALL}"
        )


def _paths(files: OfficialFiles) -> list[Path]:
    return [path for path in (files.products, files.attributes, files.human, files.nouns) if path is not None]


def _products(listings: Iterable[Listing], kept: list[Listing], goals: GoalKind) -> Iterator[Product]:
    """The products; listings that goals can be made of are kept, without what goals do not look at."""
    for listing in listings:
        if listing.human if goals == "human" else listing.template is not None:
            kept.append(replace(listing, product=replace(listing.product, description="", bullets=(), title="")))
        yield listing.product


def export(store: Store, folder: Path) -> OfficialFiles:
    """Write a catalogue as files of the official form.

    These cannot hold a price that was drawn from a range, nor a price bound: reading them draws both anew. Goals become human
    instructions, in the order of the splits' names.
    """
    folder.mkdir(parents=True, exist_ok=True)
    instructions: dict[str, list[JSON]] = {}
    for split in sorted(store.splits):
        for goal in store.goals(split):
            instructions.setdefault(goal.asin, []).append(_instruction(goal))
    files = OfficialFiles(*(folder / f"{name}.json" for name in _NAMES))
    about = ((product.asin, {"attributes": list(product.attributes)}) for product in store.products())
    _write_array(files.products, (_item(product) for product in store.products()))
    _write_object(files.attributes, about)
    _write_object(folder / f"{_NAMES[2]}.json", instructions.items())
    _write_object(folder / f"{_NAMES[3]}.json", ((each.asin, list(each.nouns)) for each in store.products()))
    return files


_NAMES = ("items_shuffle", "items_ins_v2", "items_human_ins", "nouns")


def _item(product: Product) -> dict[str, JSON]:
    options = {
        group: [{"value": value, "image": product.option_images.get(value)} for value in values]
        for group, values in product.options.items()
    }
    return {
        "asin": product.asin,
        "name": product.title,
        "full_description": product.description,
        "small_description": list(product.bullets),
        "pricing": product.price_tag.replace(" to ", " - "),
        "images": [product.image] if product.image else [],
        "product_category": product.categories,
        "category": product.category,
        "query": product.query,
        "customization_options": options or "",
    }


def _instruction(goal: Goal) -> dict[str, JSON]:
    values = list(goal.options.values()) if isinstance(goal.options, Mapping) else list(goal.options)
    return {
        "asin": goal.asin,
        "instruction": goal.text.rpartition(", and price lower than ")[0] or goal.text,
        "attributes": list(goal.attributes),
        "options": values,
        "instruction_attributes": list(goal.attributes),
        "instruction_options": values,
    }


def _write_array(path: Path, items: Iterable[JSON]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write("[")
        for number, item in enumerate(items):
            file.write((",\n" if number else "\n") + json.dumps(item, ensure_ascii=False))
        file.write("\n]\n")


def _write_object(path: Path, members: Iterable[tuple[str, JSON]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write("{")
        for number, (key, value) in enumerate(members):
            file.write((",\n" if number else "\n") + f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
        file.write("\n}\n")
