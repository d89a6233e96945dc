"""The real packages as a backend: same answers, no lost processes, games the native engine refuses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from envhub.core.errors import EpisodeFailedError, InvalidRequestError, MissingExtraError, NoCapacityError
from envhub.core.types import TaskRef
from envhub.envs.alfworld.env import AlfworldEnvironment
from envhub.envs.alfworld.options import OPTIONS
from envhub.envs.alfworld.pddl import UnsupportedGameError
from envhub.envs.alfworld.play import Play
from envhub.envs.alfworld.stage import Stage
from envhub.envs.alfworld.tasks import TaskSet
from envhub.envs.alfworld.textworld_backend import StagePool
from envhub.envs.alfworld.world import build
from tests.alfworld.real import real_python
from tests.alfworld.test_env import call
from tests.alfworld.test_pddl import GAME, file_of

TASK = TaskRef("alfworld", "test", 0)
pytestmark = [pytest.mark.alfworld, pytest.mark.timeout(300)]


@pytest.fixture
async def pool() -> AsyncIterator[StagePool]:
    found = StagePool(python=real_python(), size=1, wait_s=0.3)
    yield found
    await found.close()


async def test_a_game_that_is_in_no_file_is_played_as_natively(pool: StagePool) -> None:
    player = await pool.begin(GAME, "2.1.2")
    native = Play(build(GAME, "2.1.2"))
    for command in (*GAME.walkthrough[:2], "dance", "look", "help", *GAME.walkthrough[2:]):
        native.step(command)
        await player.step(command, "exact")
        assert player.observation == native.observation
        assert list(player.admissible) == native.admissible
    assert player.won and native.won
    await player.close()


async def test_one_process_plays_game_after_game(pool: StagePool) -> None:
    first = await pool.begin(GAME, "2.1.2")
    stage = first._stage
    with pytest.raises(NoCapacityError):
        await pool.begin(GAME, "2.1.2")
    await first.close()
    await first.close()
    second = await pool.begin(GAME, "2.1.2")
    assert second._stage is stage
    await second.close()


async def test_a_process_with_a_request_still_out_is_never_used_again(pool: StagePool) -> None:
    player = await pool.begin(GAME, "2.1.2")
    stage = player._stage
    step = asyncio.ensure_future(player.step("look", "exact"))
    await asyncio.sleep(0)
    step.cancel()
    await asyncio.gather(step, return_exceptions=True)
    await player.close()
    again = await pool.begin(GAME, "2.1.2")
    assert again._stage is not stage
    assert again.observation == Play(build(GAME)).observation
    await again.close()


async def test_a_worn_process_is_replaced() -> None:
    pool = StagePool(python=real_python(), size=1, max_games=1)
    first = await pool.begin(GAME, "2.1.2")
    stage = first._stage
    await first.close()
    second = await pool.begin(GAME, "2.1.2")
    assert second._stage is not stage
    await second.close()
    await pool.close()


async def test_a_process_that_dies_is_a_failure_of_ours(pool: StagePool) -> None:
    player = await pool.begin(GAME, "2.1.2")
    assert player._stage is not None
    player._stage._process.kill()
    with pytest.raises(EpisodeFailedError):
        await player.step("look", "exact")
    await player.close()
    again = await pool.begin(GAME, "2.1.2")
    await again.close()


async def test_the_backend_plays_what_the_native_engine_refuses(tmp_path: Path, pool: StagePool) -> None:
    file = file_of(GAME)
    domain = file.domain.replace("(not (holdsAny ?a))", "")
    path = tmp_path / "game.tw-pddl"
    path.write_text(
        json.dumps({"pddl_domain": domain, "grammar": file.grammar, "pddl_problem": file.problem, "walkthrough": []})
    )

    def load(_: int) -> object:
        raise UnsupportedGameError("other rules")

    games = TaskSet("odd", 1, load, dataset_hash="odd", suspects=[0], path=lambda _: path)  # type: ignore[arg-type] # never returns
    refusing = AlfworldEnvironment({"test": games})
    with pytest.raises(UnsupportedGameError):
        await refusing.open(TASK, seed=1, options=OPTIONS)
    assert [defect.usable for defect in refusing.lint("test")] == [False]
    playing = AlfworldEnvironment({"test": games}, backend="auto", stages=pool)
    assert [defect.usable for defect in playing.lint("test")] == [True]
    episode = await playing.open(TASK, seed=1, options=OPTIONS)
    await episode.reset()
    result = await episode.step(call(GAME.walkthrough[0]))
    assert result.info["executed"] == GAME.walkthrough[0] and result.info["family"] is None
    assert await episode.fork() is None
    await episode.close()


async def test_another_wording_than_the_file_s_is_refused(pool: StagePool) -> None:
    games = TaskSet("one", 1, lambda _: GAME, dataset_hash="one")
    environment = AlfworldEnvironment({"test": games}, backend="textworld", stages=pool)
    with pytest.raises(InvalidRequestError, match="wording"):
        await environment.open(TASK, seed=1, options={**OPTIONS, "text": "2.1.1"})


def test_a_problem_it_cannot_load_is_told_and_leaves_the_process_alive() -> None:
    stage = Stage(python=real_python())
    with pytest.raises(EpisodeFailedError, match="TextWorld failed"):
        stage.load(Path("/no/such/file"))
    assert stage.pose(GAME).observation
    stage.close()
    stage.close()


@pytest.mark.parametrize("python", ["/no/such/python", "/bin/false"])
def test_an_interpreter_without_the_packages_is_told(python: str, tmp_path: Path) -> None:
    with pytest.raises((MissingExtraError, EpisodeFailedError)):
        Stage(python=python).pose(GAME)
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'textworld'\" >&2\nexit 1\n")
    bare.chmod(0o755)
    with pytest.raises(MissingExtraError, match="alfworld"):
        Stage(python=str(bare)).pose(GAME)
