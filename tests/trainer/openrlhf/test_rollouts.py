"""The queue's actor as a plain object: on a hub in this process, with engines that are scripted, resumed from its own state."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

import msgspec
import pytest

from envhub.core.errors import UnavailableError
from envhub.core.types import TaskRef
from envhub.testing.hub import served_hub
from tests.trainer.tokenizers import ByteTokenizer

pytestmark = [pytest.mark.timeout(120)]

TRAIN_TEMPERATURE, EVALUATION_TEMPERATURE = 1.0, 0.25


class Handle:
    """An engine as Ray shows it: ``handle.sample.remote(request)``."""

    def __init__(self, say: Callable[[str], str]) -> None:
        self.say = say
        self.version = 0
        self.temperatures: list[float] = []
        self.sample = self

    def remote(self, request: Any) -> asyncio.Future[Any]:
        return asyncio.ensure_future(self._answer(request))

    async def _answer(self, request: Any) -> Any:
        from trainer_adapter.openrlhf.sampling import Sampled

        self.temperatures.append(request.temperature)
        version = self.version
        await asyncio.sleep(0.001)
        text = self.say(ByteTokenizer().decode(request.ids))
        ids = tuple(ByteTokenizer().ids(text + "<|endoftext|>"))
        return Sampled(ids, (-0.5,) * len(ids), text, "stop", version)


def submit(prompt: str) -> str:
    """Right or wrong, by the length of the prompt."""
    return f'CALL submit {{"answer": {len(prompt) % 2}}}'


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """``made(url, engines, queue={...})``: the queue's actor of a configuration."""
    from trainer_adapter.config import Config
    from trainer_adapter.formats import chat_format
    from trainer_adapter.openrlhf import rollouts, sampling, settings
    from trainer_adapter.stream import TaskSource

    monkeypatch.setattr(rollouts, "chat_format_of", lambda model: chat_format(model.format, ByteTokenizer()))
    monkeypatch.setattr(sampling.ray, "cancel", lambda answer: answer.cancel())

    def make(url: str, engines: list[Handle], **sections: Any) -> Any:
        plain: dict[str, Any] = {
            "model": {"path": "m", "format": "plain"},
            "hub": {"url": url},
            "tasks": [{"environment": "calculator"}],
            "rollout": {"group_size": 2, "temperature": TRAIN_TEMPERATURE, "max_live": 8},
            "queue": {"b_min": 2, "b_max": 4, "max_staleness": 1},
            "engines": {"n": len(engines), "stale_ratio": 0.5, "stale_every": 3},
            "train": {"n_gpus": 1, "device": "cpu"},
        }
        for name, section in sections.items():
            plain[name] = {**plain.get(name, {}), **section}
        run = settings.Settings(
            config=msgspec.convert(plain, Config), sources=(TaskSource("calculator", "train", 100),)
        )
        monkeypatch.setenv(settings.VARIABLE, settings.dumps(run))
        return rollouts.Rollouts(engines)

    yield make


@asynccontextmanager
async def playing(queue: Any) -> AsyncIterator[None]:
    fit = asyncio.create_task(queue.fit(0, 0))
    try:
        await queue._running()
        yield
    finally:
        await queue.stop()
        await fit


async def test_a_batch_is_played_on_all_engines_and_evaluation_on_fresh_ones_alone(made: Callable[..., Any]) -> None:
    fresh, stale = Handle(submit), Handle(submit)
    evaluate = {
        "n_samples": 3, "n_tasks": 5, "temperature": EVALUATION_TEMPERATURE,
        "tasks": [{"environment": "calculator", "split": "test"}, {"environment": "calculator", "split": "train"}],
    }  # fmt: skip
    async with served_hub(("calculator",)) as hub:
        queue = made(hub.url, [fresh, stale], evaluate=evaluate)
        async with playing(queue):
            for version in range(1, 5):
                batch = await queue.next_batch()
                assert 2 <= len(batch.groups) <= 4
                await queue.advance(version)
            found = await queue.evaluate(4)
            report = await queue.report()
        assert hub.worker.table.n_slots_taken == 0, "every session has ended"
    assert fresh.temperatures.count(EVALUATION_TEMPERATURE) == 2 * 5 * 3
    assert EVALUATION_TEMPERATURE not in stale.temperatures and TRAIN_TEMPERATURE in stale.temperatures
    assert {"pass1", "pass1/calculator-test", "pass3/calculator-train", "success/calculator-test"} <= found.keys()
    assert found["version_begun"] == 4 and report.account.balanced
    assert report.metrics["failure_rate/calculator"] == 0.0 and set(report.steps) == {0, 1}
    assert 0 <= report.metrics["latency/queue_s"] <= report.metrics["latency/queue_max_s"] < 60
    account = (await queue.report()).account
    assert account.balanced and not account.live and not account.ready


EVALUATE = {"n_samples": 2, "n_tasks": 4, "tasks": [{"environment": "calculator", "split": "test"}]}


async def test_every_evaluation_begins_alike_whatever_the_version(made: Callable[..., Any]) -> None:
    asked: list[list[tuple[int | None, int | None]]] = []
    async with served_hub(("calculator",)) as hub:
        queue = made(hub.url, [Handle(submit), Handle(submit)], evaluate=EVALUATE)
        async with playing(queue):
            session = queue._hub.session

            def noted(environment: str, split: str, task: int, **options: Any) -> Any:
                if split == "test":
                    asked[-1].append((task, options["seed"]))
                return session(environment, split, task, **options)

            queue._hub.session = noted
            for version in (0, 7):
                asked.append([])
                await queue.evaluate(version)
    assert asked[0] == asked[1] and len(set(asked[0])) == 4 and len(asked[0]) == 8


async def test_an_evaluation_does_not_end_a_run_that_goes_on(
    made: Callable[..., Any], logged: Callable[[], set[str]]
) -> None:
    """Not when an environment is away just now, and not when the hub is."""
    gone = {**EVALUATE, "tasks": [*EVALUATE["tasks"], {"environment": "kg", "split": "test"}]}  # type: ignore[misc]
    async with served_hub(("calculator",)) as hub:
        queue = made(hub.url, [Handle(submit), Handle(submit)], evaluate=gone)
        async with playing(queue):
            found = await queue.evaluate(1)
            assert "pass1/calculator" in found and "pass1" not in found, "a mean over what is left would mislead"

            async def away() -> None:
                raise UnavailableError("the hub is away")

            queue._hub.environments = away
            assert await queue.evaluate(2) == {}
    assert "the evaluation of version 2 has no result: the hub is away" in logged()


async def test_an_evaluation_that_is_under_way_when_the_run_stops_leaves_no_session(made: Callable[..., Any]) -> None:
    """B001"""

    class Slow(Handle):
        async def _answer(self, request: Any) -> Any:
            await asyncio.Event().wait()

    async with served_hub(("calculator",)) as hub:
        queue = made(hub.url, [Slow(submit), Slow(submit)], evaluate=EVALUATE)
        async with playing(queue):
            evaluating = asyncio.create_task(queue.evaluate(0))
            async with asyncio.timeout(20):
                while hub.worker.table.n_slots_taken < 8 + 8:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        assert hub.worker.table.n_slots_taken == 0 and await evaluating == {}


async def test_a_resumed_queue_goes_on_with_version_tasks_and_draws(made: Callable[..., Any]) -> None:
    """What was under way comes first, then the tasks that would have come; engines are drawn as they would have been."""
    from trainer_adapter.engines import Step
    from trainer_adapter.stream import TaskSource, TaskStream

    engines = [Handle(submit), Handle(submit)]
    async with served_hub(("calculator",)) as hub:
        first = made(hub.url, engines, queue={"max_staleness": 3})
        async with playing(first):
            for version in range(1, 4):
                await first.next_batch()
                await first.advance(version)
            state = json.loads(json.dumps(await first.state_dict()))
            unfinished = [str(task) for task in first._queue.unfinished()]
            n_admitted = first._queue.serial
    resumed = made("http://127.0.0.1:9", engines, queue={"max_staleness": 3})
    await resumed.load_state_dict(state)
    assert (resumed._queue.version, resumed._queue.serial) == (3, n_admitted) and unfinished
    whole = [
        str(task) for task in islice(TaskStream([TaskSource("calculator", "train", 100)], seed=42), n_admitted + 5)
    ]
    assert [str(next(resumed._stream)) for _ in range(len(unfinished) + 5)] == [*unfinished, *whole[n_admitted:]]
    ticket = resumed._queue.admit(TaskRef("calculator", "train", 0))[0]
    assert ticket.group == f"g{n_admitted}"
    steps = [Step(ticket.group, member, 0, turn) for member in range(4) for turn in range(9)]
    assert [resumed._pool.draw(step) for step in steps] == [first._pool.draw(step) for step in steps]


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Callable[[], set[str]]:
    """The adapter's log, which its processes keep from everybody else's."""
    from trainer_adapter.openrlhf import logs

    logs.show()
    monkeypatch.setattr(logging.getLogger("trainer_adapter"), "propagate", True)
    caplog.set_level(logging.INFO, "trainer_adapter")
    return lambda: {record.getMessage() for record in caplog.records}


async def test_what_fails_is_told_in_the_log_and_ends_the_run_when_it_is_everything(
    made: Callable[..., Any], logged: Callable[[], set[str]]
) -> None:
    """B015"""
    from ray.exceptions import RayActorError

    from trainer_adapter.queue import InfrastructureDownError

    class Broken(Handle):
        async def _answer(self, request: Any) -> Any:
            raise RayActorError(error_msg="the engine died")

    async with served_hub(("calculator",)) as hub:
        queue = made(hub.url, [Broken(submit), Broken(submit)], queue={"failure_window": 8})
        async with playing(queue):
            with pytest.raises(InfrastructureDownError, match=r"8 of the last 8.*engine_failed x8.*the engine died"):
                await queue.next_batch()
            report = await queue.report()
        assert hub.worker.table.n_slots_taken == 0
    assert report.metrics["failure_rate/calculator"] == 1.0
    assert report.metrics["failures_engine_failed/calculator"] >= 8
    told = {line.split("(")[1].split(")")[0] for line in logged() if "trajectory of calculator failed" in line}
    assert {f"engine_failed, {n} so far" for n in (1, 2, 4, 8)} <= told and len(told) <= 5, "not once for each"


async def test_a_trainer_that_waits_says_what_for(
    made: Callable[..., Any], logged: Callable[[], set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainer_adapter.openrlhf import rollouts

    class Slow(Handle):
        async def _answer(self, request: Any) -> Any:
            await asyncio.Event().wait()

    monkeypatch.setattr(rollouts, "_TELL_EVERY_S", 0.01)
    said = "waiting for a batch: 0 of 2 groups ready, 4 under way; dropped so far: none"
    async with served_hub(("calculator",)) as hub:
        queue = made(hub.url, [Slow(submit), Slow(submit)])
        async with playing(queue):
            waiting = asyncio.create_task(queue.next_batch())
            async with asyncio.timeout(20):
                while said not in logged():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        assert hub.worker.table.n_slots_taken == 0


async def test_a_group_begins_alike_and_another_one_otherwise(made: Callable[..., Any]) -> None:
    from trainer_adapter.groups import group_seed
    from trainer_adapter.queue import Ticket

    config = made("http://127.0.0.1:9", [Handle(submit)] * 2)._config
    task = TaskRef("calculator", "train", 0)
    tickets = [Ticket("g1", member, task, attempt) for member in range(4) for attempt in range(2)]
    seeds = {group_seed(config.train.seed, ticket.group) for ticket in tickets}
    assert len(seeds) == 1 and group_seed(config.train.seed, Ticket("g2", 0, task).group) not in seeds
