"""What the environment needs of a triple store. Backends: ``embedded`` (Oxigraph in this process) and ``http`` (SPARQL 1.1).

Invariant: a store that cannot answer raises; it never answers less than it was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from envhub.envs.kg.sparql import NS
from envhub.envs.kg.terms import DATATYPES, Literal, Term


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """``timeout_s`` bounds one query and ``queue_s`` its wait for a free slot; at most ``n_at_once`` run beside each other."""

    timeout_s: float = 20.0
    queue_s: float = 120.0
    n_at_once: int = 4


class TripleStore(Protocol):
    """Shared by all episodes of an environment; read only."""

    name: str

    async def ready(self) -> None:
        """Return when queries can be answered. Raises UnavailableError when they cannot."""

    async def select(self, query: str) -> Sequence[Term]:
        """The values of ``?x``, in no order.

        Raises UnavailableError when the store does not answer, EpisodeTimeoutError when it takes too long and
        EpisodeFailedError when its answer makes no sense.
        """

    async def close(self) -> None:
        """Idempotent."""


def term_of_iri(iri: str) -> str:
    return iri.removeprefix(NS)


def term_of_literal(text: str, datatype: str, lang: str) -> Literal:
    """A literal of an answer; one of a datatype that graphs do not have is text."""
    local = datatype.rpartition("#")[2]
    if lang:
        return Literal(text, "string", lang)
    return Literal(text, local if local in DATATYPES else "string")
