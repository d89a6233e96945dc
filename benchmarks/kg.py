"""Knowledge-graph episodes on a graph of a million triples: latency of calls that ask the store, oracle
success, 64 sessions, memory.

The graph is the shipped one and as many renamed copies of it as it takes; questions are about the shipped part. Copies share
the classes and the properties, so that indexes and class extents are those of the large graph.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from harness import Claim, Latency, arguments, finish

from envhub.core.types import Message, TaskRef
from envhub.envs.datasets import dataset_dir
from envhub.envs.kg.embedded import EmbeddedStore, open_store
from envhub.envs.kg.env import NAME, OPTIONS, KGEnvironment, Split, World
from envhub.envs.kg.tasks import load_graph, load_ontology, load_split
from envhub.envs.kg.terms import ENTITY, Term, Triple

N_TRIPLES = 1_000_000
N_SESSIONS = 64
SPLIT = "test"
ASKING = ("get_relations", "get_attributes")
"""Tools that always ask the store; the others may know the answer already."""


def grown(folder: Path, n_triples: int) -> Iterator[Triple]:
    """The shipped graph, then renamed copies, ``n_triples`` in all."""
    triples = list(load_graph(folder))
    copies = (triples if number == 0 else _renamed(triples, f"_{number}") for number in itertools.count())
    return itertools.islice(itertools.chain.from_iterable(copies), max(n_triples, len(triples)))


def _renamed(triples: list[Triple], suffix: str) -> Iterator[Triple]:
    def name(term: Term) -> Term:
        return term + suffix if isinstance(term, str) and ENTITY.fullmatch(term) else term

    return (Triple(subject + suffix, predicate, name(value)) for subject, predicate, value in triples)


@dataclass(slots=True)
class Timing:
    """Seconds of each tool call, of those that ask the store for a list, and of each final answer; ``rewards`` of episodes."""

    calls: list[float] = field(default_factory=list)
    lists: list[float] = field(default_factory=list)
    answers: list[float] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)


async def play(environment: KGEnvironment, task: TaskRef, timing: Timing) -> None:
    """The reference solution of a task, timed step by step."""
    episode = await environment.open(task, seed=0, options=OPTIONS)
    await episode.reset()
    reward = 0.0
    for message in environment.solution(task) or (Message.assistant("Final Answer: #0"),):
        started = time.perf_counter()
        result = await episode.step(message)
        took_s = time.perf_counter() - started
        (timing.calls if message.tool_calls else timing.answers).append(took_s)
        if any(call.name in ASKING for call in message.tool_calls):
            timing.lists.append(took_s)
        reward += result.reward
    timing.rewards.append(reward)
    await episode.close()


async def play_all(environment: KGEnvironment, tasks: Iterator[TaskRef], timing: Timing) -> None:
    for task in tasks:
        await play(environment, task, timing)


def rounds(n_tasks: int, n_episodes: int) -> Iterator[TaskRef]:
    return (TaskRef(NAME, SPLIT, number % n_tasks) for number in range(n_episodes))


def rss_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def measure(environment: KGEnvironment, *, n_episodes: int) -> tuple[dict[str, Claim], dict[str, float]]:
    n_tasks = environment.info().splits[SPLIT]
    await play_all(environment, rounds(n_tasks, n_tasks), Timing())
    alone = Timing()
    await play_all(environment, rounds(n_tasks, n_tasks), alone)
    together = Timing()
    tasks = rounds(n_tasks, max(n_tasks, n_episodes // 5))
    started = time.perf_counter()
    await asyncio.gather(*(play_all(environment, tasks, together) for _ in range(N_SESSIONS)))
    took_s = time.perf_counter() - started
    gc.collect()
    before_mib, many = rss_mib(), Timing()
    tasks = rounds(n_tasks, n_episodes)
    await asyncio.gather(*(play_all(environment, tasks, many) for _ in range(N_SESSIONS)))
    n_bytes_of_timing = 40 * sum(map(len, (many.calls, many.lists, many.answers, many.rewards)))
    gc.collect()
    growth_mib = rss_mib() - before_mib - n_bytes_of_timing / 2**20
    one, load, answers = Latency.of(alone.lists), Latency.of(together.lists), Latency.of(alone.answers)
    rewards = alone.rewards + together.rewards + many.rewards
    claims = {
        "call_p50_ms": Claim(one.p50_ms, 2.0),
        "oracle_success": Claim(sum(rewards) / len(rewards), 1.0, at_least=True),
        "memory_growth_mib": Claim(max(0.0, growth_mib), 16.0),
    }
    return claims, {
        "call_p50_ms": one.p50_ms,
        "call_p99_ms": one.p99_ms,
        "any_call_p50_ms": Latency.of(alone.calls).p50_ms,
        "answer_p50_ms": answers.p50_ms,
        "answer_p99_ms": answers.p99_ms,
        "calls_per_s_at_64": len(together.calls) / took_s,
        "call_p50_ms_at_64": load.p50_ms,
        "call_p99_ms_at_64": load.p99_ms,
        "episodes": float(len(rewards)),
        "memory_growth_mib": growth_mib,
    }


async def run(folder: Path, scratch: Path, *, n_episodes: int) -> tuple[dict[str, Claim], dict[str, float]]:
    started = time.perf_counter()
    opened = open_store(scratch, "grown", partial(grown, folder, N_TRIPLES))
    build_s = time.perf_counter() - started
    n_triples = len(opened)
    world = World(load_ontology(folder), "grown", EmbeddedStore(lambda: opened))
    environment = KGEnvironment({SPLIT: Split(load_split(folder, SPLIT), world)})
    try:
        claims, details = await measure(environment, n_episodes=n_episodes)
    finally:
        await environment.close()
    return claims, {"triples": float(n_triples), "build_s": build_s, **details}


def main() -> int:
    parser = arguments(__doc__ or "")
    parser.add_argument("--datasets", type=Path, help="root of the datasets, by default the shipped ones")
    args = parser.parse_args()
    folder = dataset_dir(NAME, root=args.datasets)
    with tempfile.TemporaryDirectory() as scratch:
        claims, details = asyncio.run(run(folder, Path(scratch), n_episodes=500 if args.quick else 5_000))
    for name, value in details.items():
        print(f"{name:20} {value:14.2f}")
    return finish("kg", args, claims, details)


if __name__ == "__main__":
    sys.exit(main())
