"""A real engine behind Ray: cancelled and aborted completions, versions, and a queue that is stopped while it plays."""

import asyncio
import dataclasses
import os
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.asyncio(loop_scope="module")]

PROMPT = tuple(range(20, 60))


@pytest.fixture(scope="module")
def settings() -> Any:
    from trainer_adapter.openrlhf import settings

    return settings


@pytest.fixture(scope="module")
def run(endless_model: Path, settings: Any) -> Any:
    import msgspec

    from trainer_adapter.config import Config
    from trainer_adapter.stream import TaskSource

    config = msgspec.convert(
        {
            "model": {"path": str(endless_model), "format": "plain"},
            "tasks": [{"environment": "calculator"}],
            "rollout": {"group_size": 3, "context_tokens": 2048, "turn_tokens": 1800, "temperature": 1.0},
            "queue": {"b_min": 2, "b_max": 4, "max_staleness": 0},
            "engines": {"n": 1, "stale_ratio": 0.0},
            "train": {"n_gpus": 1, "device": "cpu"},
        },
        Config,
    )
    return settings.Settings(config=config, sources=(TaskSource("calculator", "train", 1000),))


@pytest.fixture(scope="module")
def engine(run: Any, settings: Any) -> Iterator[Any]:
    """One engine actor, as OpenRLHF makes them."""
    from trainer_adapter.openrlhf import cpu, launch

    before = dict(os.environ)
    os.environ.update(cpu.ENVIRONMENT)
    os.environ[settings.VARIABLE] = settings.dumps(run)
    cpu.setup()
    import ray

    ray.init(**launch._ray_options(run), log_to_driver=False)
    try:
        from trainer_adapter.openrlhf.engine import EngineActor

        actor = EngineActor.options(num_cpus=1, num_gpus=1).remote(
            model=run.config.model.path, enforce_eager=True, dtype="bfloat16", max_model_len=2048, num_gpus=1, seed=1,
            distributed_executor_backend="uni",
        )  # fmt: skip
        ray.get(actor.progress.remote(), timeout=400)
        yield actor
    finally:
        ray.shutdown()
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture
async def sampler(engine: Any, run: Any) -> AsyncIterator[Any]:
    from trainer_adapter.openrlhf.sampling import RemoteEngine

    yield RemoteEngine(engine, 7, 1.0, 1.0, (), 60.0)
    await unfinished(engine, 0)


async def unfinished(engine: Any, n: int, limit_s: float = 30) -> float:
    """Seconds until the engine has this many requests."""
    began = time.monotonic()
    while (found := await engine.get_num_unfinished_requests.remote()) != n:
        assert time.monotonic() - began < limit_s, f"{found} requests are unfinished, not {n}"
        await asyncio.sleep(0.05)
    return time.monotonic() - began


async def test_completion_carries_the_engines_ids_and_log_probs(sampler: Any) -> None:
    found = await sampler.sample(PROMPT, max_tokens=12)
    assert len(found.ids) == len(found.logprobs) == 12
    assert found.finish == "length" and found.engine == 7
    assert all(-30 < each < 0 for each in found.logprobs)


async def test_version_is_that_of_dispatch(sampler: Any, engine: Any) -> None:
    """B016: a version that comes while a completion is under way does not become its version."""
    await engine.set_version.remote(4)
    under_way = asyncio.create_task(sampler.sample(PROMPT, max_tokens=400))
    await unfinished(engine, 1)
    await engine.pause_generation.remote()
    await engine.set_version.remote(5)
    await engine.resume_generation.remote()
    assert (await under_way).version == 4
    assert (await sampler.sample(PROMPT, max_tokens=2)).version == 5


async def test_cancelled_callers_leave_no_request(sampler: Any, engine: Any) -> None:
    tasks = [asyncio.create_task(sampler.sample(PROMPT, max_tokens=1900)) for _ in range(6)]
    await unfinished(engine, 6)
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in ended)
    assert await unfinished(engine, 0) < 10


async def test_slow_completion_is_given_up(sampler: Any, engine: Any) -> None:
    from trainer_adapter.tokens import SamplerError

    with pytest.raises(SamplerError, match="no completion within"):
        await dataclasses.replace(sampler, limit_s=0.2).sample(PROMPT, max_tokens=1900)
    await unfinished(engine, 0)


async def test_request_that_cannot_be_served_is_a_sampler_error(sampler: Any) -> None:
    from trainer_adapter.tokens import SamplerError

    with pytest.raises(SamplerError):
        await sampler.sample(PROMPT * 100, max_tokens=4)
    assert len((await sampler.sample(PROMPT, max_tokens=4)).ids) <= 4, "the engine lives on"


async def test_aborted_output_is_no_completion(engine: Any) -> None:
    """B016: neither vLLM's abort nor a missing finish reason looks like an end."""
    from trainer_adapter.openrlhf.engine import sampled
    from trainer_adapter.openrlhf.sampling import RemoteEngine
    from trainer_adapter.tokens import SamplerError

    @dataclasses.dataclass
    class Output:
        finish_reason: str | None
        token_ids: tuple[int, ...] = ()
        logprobs: tuple[Any, ...] = ()
        text: str = ""

    for reason in ("abort", None, "error"):
        answer = sampled(Output(reason), 3)
        assert answer.finish == "abort"

        class Sample:
            @staticmethod
            def remote(request: Any, answer: Any = answer) -> Any:
                return asyncio.sleep(0, answer)

        class Handle:
            sample = Sample

        with pytest.raises(SamplerError, match="aborted"):
            await RemoteEngine(Handle(), 0, 1.0, 1.0, (), 60.0).sample((1,), max_tokens=1)
    assert sampled(Output("stop"), 3).finish == "stop"


async def test_weight_update_is_proved_tensor_by_tensor(engine: Any, run: Any, port: int) -> None:
    """Over a real process group: what arrives is what was sent; a tensor that is left out is named."""
    from safetensors.torch import load_file

    from trainer_adapter.openrlhf.checksums import RecordingGroup
    from trainer_adapter.openrlhf.cpu import _gloo_group
    from trainer_adapter.openrlhf.trainer import RemoteEngineControl
    from trainer_adapter.versions import WeightSyncError
    from trainer_adapter.weight_sync import Limits, update

    joined = engine.init_process_group.remote("127.0.0.1", port, 1, 2, "openrlhf", "gloo", False)
    group = RecordingGroup(await asyncio.to_thread(_gloo_group, "127.0.0.1", port, 0, 2, "cpu"), sends=True)
    await joined
    weights = {name: value * 1.5 for name, value in load_file(Path(run.config.model.path, "model.safetensors")).items()}

    async def send(names: Iterable[str]) -> dict[str, str]:
        group.checksums.clear()
        for name in names:
            got = engine.update_weight.remote(name, weights[name].dtype, weights[name].shape)
            await asyncio.to_thread(group.broadcast, weights[name], 0)
            await got
        return dict(zip(weights, group.checksums, strict=False))

    controls = {3: RemoteEngineControl(engine)}
    before = await engine.held.remote()
    sent = await update(controls, lambda: send(weights), 9, Limits(20, 60))
    assert len(sent.tensors) == len(weights) > 20
    after = await engine.held.remote()
    assert after != before

    some = list(weights)[:-1]

    async def forget_one() -> dict[str, str]:
        return {**await send(some), list(weights)[-1]: "left out"}

    with pytest.raises(WeightSyncError, match=f"engine 3 lacks 1 of {len(weights)} tensors: {list(weights)[-1]}"):
        await update(controls, forget_one, 10, Limits(20, 60))
    assert await engine.held.remote() == after, "the same tensors make the same weights"


async def test_stopped_queue_ends_its_sessions_and_requests(hub: Any, engine: Any, run: Any, settings: Any) -> None:
    """B001: a run that stops while episodes are under way leaves nothing on the hub or in the engine."""
    import msgspec

    from trainer_adapter.openrlhf.rollouts import RolloutsActor

    config = msgspec.structs.replace(run.config, hub=msgspec.structs.replace(run.config.hub, url=hub.url))
    here = settings.dumps(msgspec.structs.replace(run, config=config))
    queue = RolloutsActor.options(runtime_env={"env_vars": {settings.VARIABLE: here}}).remote([engine])
    playing = queue.fit.remote(0, 0)
    await unfinished(engine, 6)
    assert hub.count("envhub_sessions") == 6
    account = (await queue.report.remote()).account
    assert account.balanced and account.live == 6
    await queue.stop.remote()
    await asyncio.wait_for(asyncio.wrap_future(playing.future()), 60)
    assert hub.count("envhub_sessions") == 0
    await asyncio.to_thread(hub.wait_for_episodes, 6)
    assert hub.ends("cancelled") == {"cancelled": 6, "all": 6}
    account = (await queue.report.remote()).account
    assert account.balanced and account.dropped == {"cancelled": 6}
    await unfinished(engine, 0)
