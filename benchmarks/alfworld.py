"""What a household episode costs, natively and with the real packages, and whether both play the same game.

Run: ``python benchmarks/alfworld.py [--quick] [--json] [--python INTERPRETER]``. ``INTERPRETER`` has the packages alfworld and
textworld (default: ENVHUB_TEST_ALFWORLD_PYTHON, or ``.venv-alfworld`` in the checkout); without one, the ratio cannot be measured, is
reported as 0 and misses its goal.

Claims: ``differences`` between native play and the recorded answers of the real packages, plus those of fresh random walks
beside the packages themselves; ``reset_ms`` and ``step_ms``, medians of a whole episode's open + reset and step (tool call
parsed, observation, list of admissible actions); ``step_ratio``, TextWorld's median step over the native one for the same answer
(observation, admissible, won), processor times of one run; ``compile_ms``, from the stored line to a game ready to play;
``session_kib`` of memory for each of 2,000 live sessions; ``growth_mib`` over many episodes.
"""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import os
import random
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness import Claim, Latency, arguments, finish

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from envhub.core.types import Message, TaskRef, ToolCall
from envhub.envs.alfworld.env import NAME, AlfworldEnvironment, create
from envhub.envs.alfworld.game import decode, encode
from envhub.envs.alfworld.options import OPTIONS
from envhub.envs.alfworld.play import Play
from envhub.envs.alfworld.tasks import TaskSet
from envhub.envs.alfworld.world import build
from tests.alfworld.differential import Tally, fuzz, shipped

REPOSITORY = Path(__file__).resolve().parents[1]
GOLDENS = REPOSITORY / "tests" / "alfworld" / "goldens.json.gz"
SPLIT = "train"
N_LIVE, N_LIVE_STEPS = 2_000, 10
_PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20
_RATIO_UNKNOWN = 0.0


def main() -> int:
    parser = arguments(__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--python", default=_default_python())
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    args = parser.parse_args()
    n_games, n_episodes, real_s = (100, 5_000, 15.0) if args.quick else (1_000, 100_000, 120.0)
    print(f"seed {args.seed}")
    rng = random.Random(args.seed)
    train = next(each for each in shipped() if each.name.endswith(SPLIT))
    tasks = rng.sample(range(len(train)), n_games)
    details: dict[str, Any] = {"seed": args.seed, "n_games": n_games}
    compile_s = _compile(train, tasks)
    native_s = _play(train, tasks, rng)
    details["compile_ms"], details["native_step_ms"] = _latency(compile_s), _latency(native_s)
    resets, steps = asyncio.run(_episodes(tasks, rng))
    details["reset_ms"], details["step_ms"] = _latency(resets), _latency(steps)
    session_kib = asyncio.run(_live(tasks, rng))
    growth_mib = asyncio.run(_many(tasks, n_episodes))
    details["n_episodes"] = n_episodes
    differences = _replay()
    real = _beside_the_real(args.python, args.seed, real_s)
    ratio = _RATIO_UNKNOWN
    if real is not None:
        differences += len(real.differences)
        ratio = statistics.median(real.step_s) / statistics.median(native_s)
        details["textworld"] = {
            "games": real.n_games,
            "states": real.n_states,
            "load_ms": _latency(real.load_s),
            "reset_ms": _latency(real.reset_s),
            "step_ms": _latency(real.step_s),
            "reset_ratio": statistics.median(real.reset_s) / statistics.median(resets),
        }
        print(f"TextWorld: {real.n_games} games, {real.n_states} states, {len(real.differences)} differences")
    print(json.dumps(details, indent=1))
    claims = {
        "differences": Claim(differences, 0),
        "reset_ms": Claim(Latency.of(resets).p50_ms, 1.0),
        "step_ms": Claim(Latency.of(steps).p50_ms, 0.2),
        "step_ratio": Claim(ratio, 1000, at_least=True),
        "compile_ms": Claim(Latency.of(compile_s).p50_ms, 20),
        "session_kib": Claim(session_kib, 50),
        "growth_mib": Claim(growth_mib, 5),
    }
    return finish("alfworld", args, claims, details)


def _latency(seconds: Sequence[float]) -> dict[str, float]:
    latency = Latency.of(seconds)
    return {"p50_ms": round(latency.p50_ms, 4), "p99_ms": round(latency.p99_ms, 4)}


def _default_python() -> str | None:
    here = REPOSITORY / ".venv-alfworld" / "bin" / "python"
    return os.environ.get("ENVHUB_TEST_ALFWORLD_PYTHON") or (str(here) if here.is_file() else None)


def _compile(train: TaskSet, tasks: Sequence[int]) -> list[float]:
    times = []
    for task in tasks:
        line = json.dumps(encode(train[task]))
        started = time.process_time()
        build(decode(json.loads(line)))
        times.append(time.process_time() - started)
    return times


def _play(train: TaskSet, tasks: Sequence[int], rng: random.Random) -> list[float]:
    """Times of one step with everything TextWorld answers, on random walks."""
    times = []
    for task in tasks:
        play = Play(build(train[task]))
        commands = play.admissible
        for _ in range(40):
            command = rng.choice(commands)
            started = time.perf_counter()
            play.step(command)
            commands, _won = play.admissible, play.won
            times.append(time.perf_counter() - started)
    return times


async def _episodes(tasks: Sequence[int], rng: random.Random) -> tuple[list[float], list[float]]:
    environment = create({})
    resets, steps = [], []
    for task in (*tasks, *tasks):
        started = time.perf_counter()
        episode = await environment.open(TaskRef(NAME, SPLIT, task), seed=1, options=OPTIONS)
        await episode.reset()
        resets.append(time.perf_counter() - started)
        for _ in range(20):
            message = _call(rng.choice(episode.player.admissible))
            started = time.perf_counter()
            await episode.step(message)
            steps.append(time.perf_counter() - started)
        await episode.close()
    return resets, steps


async def _live(tasks: Sequence[int], rng: random.Random) -> float:
    """KiB for each of 2,000 episodes in the middle of play, their share of the compiled games included."""
    environment = create({})
    await _some_episode(environment, tasks[0])
    before = _rss_mib()
    episodes = []
    for number in range(N_LIVE):
        task = TaskRef(NAME, SPLIT, tasks[number % len(tasks)])
        episode = await environment.open(task, seed=1, options=OPTIONS)
        await episode.reset()
        episodes.append(episode)
    for _ in range(N_LIVE_STEPS):
        for episode in episodes:
            await episode.step(_call(rng.choice(episode.player.admissible)))
    return (_rss_mib() - before) * 1024 / N_LIVE


async def _many(tasks: Sequence[int], n_episodes: int) -> float:
    """MiB that memory grows by from the end of the first tenth of the episodes to the last."""
    environment = create({})
    before = 0.0
    for number in range(n_episodes):
        if number == n_episodes // 10:
            before = _rss_mib()
        await _some_episode(environment, tasks[number % min(200, len(tasks))])
    return _rss_mib() - before


async def _some_episode(environment: AlfworldEnvironment, task: int) -> None:
    episode = await environment.open(TaskRef(NAME, SPLIT, task), seed=1, options=OPTIONS)
    await episode.reset()
    await episode.step(_call("look"))
    await episode.step(_call(episode.player.admissible[0]))
    await episode.close()


def _replay() -> int:
    """Differences from the recorded answers."""
    n_wrong = 0
    for record in json.loads(gzip.decompress(GOLDENS.read_bytes()))["games"]:
        world = build(decode(record["game"]))
        for trace in record["traces"]:
            play = Play(world)
            for command, observation, admissible, won in trace:
                if command is not None:
                    play.step(command.strip())
                n_wrong += (play.observation, play.admissible, play.won) != (observation, admissible, won)
    return n_wrong


def _beside_the_real(python: str | None, seed: int, seconds: float) -> Tally | None:
    if not python or shutil.which(python) is None:
        print("no interpreter with the packages alfworld and textworld: the ratio to TextWorld was not measured")
        return None
    return fuzz(python, seed=seed, seconds=seconds)


def _call(action: str) -> Message:
    return Message.assistant(None, ToolCall("call", "take_action", json.dumps({"action": action})))


def _rss_mib() -> float:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_MIB


if __name__ == "__main__":
    sys.exit(main())
