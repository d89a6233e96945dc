"""Catalogues by name, and the goals of their splits as tasks.

Invariant: a catalogue of a name is built once on a machine, whoever asks first and however many at once; after that it is opened
in milliseconds and shared. A task is a stored goal: the same in every process, before and after a restart.

The catalogues with names (see ``synthetic.knobs``) are made from a seed when they are first asked for; any other is a folder
that ``convert`` or ``synthetic.making`` has written.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from envhub.core.errors import InvalidRequestError
from envhub.envs.webshop import oracle
from envhub.envs.webshop.catalogue import Goal
from envhub.envs.webshop.store import CATALOG, Store, StoreError, open_store
from envhub.envs.webshop.synthetic import making
from envhub.envs.webshop.synthetic.knobs import GENERATOR, SIZES, Knobs

log = logging.getLogger(__name__)

DEFAULT_CATALOGUE = "small"
_DEFAULT_SPLITS = ("test", "official-test")


@dataclass(frozen=True, slots=True)
class Tasks:
    """An open catalogue with its goals; ``close`` frees both."""

    name: str
    catalogue: Store
    splits: Mapping[str, Sequence[Goal]]
    close: Callable[[], None]

    @property
    def dataset_hash(self) -> str:
        return self.catalogue.digest[:16]

    @property
    def default_split(self) -> str:
        return next((split for split in _DEFAULT_SPLITS if split in self.splits), next(iter(self.splits)))


def open_tasks(catalogue: str = DEFAULT_CATALOGUE, *, cache: Path | None = None, compiled: bool = False) -> Tasks:
    """A named catalogue, kept in ``cache`` (by default below $XDG_CACHE_HOME), or the one in the folder ``catalogue``.

    Raises InvalidRequestError that says what to do.
    """
    stack = ExitStack()
    try:
        folder = _named(catalogue, cache, stack) if catalogue in SIZES else _converted(catalogue)
        store = stack.enter_context(open_store(folder, compiled=compiled))
    except (OSError, StoreError) as error:
        stack.close()
        raise InvalidRequestError(f"the catalogue {catalogue!r} of webshop cannot be opened: {error}") from error
    splits = {split: store.goals(split) for split in store.splits}
    if not splits:
        stack.close()
        raise InvalidRequestError(f"the catalogue {catalogue!r} of webshop has no goals")
    return Tasks(str(store.meta.get("name", folder.name)), store, splits, stack.close)


def unreachable(tasks: Tasks, split: str) -> Iterator[tuple[int, str]]:
    """Index and reason of the goals that do not give 1 for the very product and options they ask for, in index order."""
    for index, goal in enumerate(tasks.splits[split]):
        product = tasks.catalogue.product(goal.asin)
        best = oracle.best_score(product, goal, product, mode="webshop")
        if best < 1.0:
            yield index, f"the right product with the right options earns {best:g} in the reward mode webshop"


def _converted(catalogue: str) -> Path:
    folder = _expanded(Path(catalogue))
    if not folder.is_dir():
        names = ", ".join(SIZES)
        raise StoreError(
            f"it is neither a name ({names}) nor a folder with a catalogue; make one with `envhub webshop convert`"
        )
    return folder


def _named(name: str, cache: Path | None, stack: ExitStack) -> Path:
    knobs = SIZES[name]
    if cache is not None:
        return _made(name, knobs, _expanded(cache))
    try:
        return _made(name, knobs, _user_cache())
    except OSError as error:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="envhub-webshop-"))
        log.warning("no place to keep catalogues (%s): this one lasts as long as the process", error)
        return _made(name, knobs, Path(scratch))


def _made(name: str, knobs: Knobs, cache: Path) -> Path:
    made_of = json.dumps([GENERATOR, asdict(knobs)], sort_keys=True, default=dict)
    folder = cache / f"{name}-{hashlib.sha256(made_of.encode()).hexdigest()[:12]}"
    if folder.is_dir() and not (folder / CATALOG).is_file():
        raise StoreError(f"{folder} is empty or incomplete; remove this folder, and the catalogue is made again")
    if not folder.is_dir():
        log.info("making the catalogue %s with %d products in %s", name, knobs.n_products, folder)
        making.make(name, knobs, folder)
    return folder


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise StoreError(f"{path}: {error}") from error


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "envhub" / "webshop"
