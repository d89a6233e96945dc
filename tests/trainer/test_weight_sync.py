"""B057: engines that fail or hang while they are paused, updated, asked or resumed."""

import asyncio
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from trainer_adapter.queue import InfrastructureDownError
from trainer_adapter.tokens import Failure, FailureKind
from trainer_adapter.versions import WeightSyncError
from trainer_adapter.weight_sync import Limits, Progress, compare, update

TENSORS = {"a": "1", "b": "2"}
LIMITS = Limits(call_s=0.05, send_s=0.1)


@dataclass
class Engine:
    """Fails or hangs in the call that is named."""

    fails: str = ""
    hangs: str = ""
    tensors: Mapping[str, str] = field(default_factory=lambda: dict(TENSORS))
    n_tensors: int = 2
    error: str | None = None
    version: int = 0
    calls: list[str] = field(default_factory=list)

    async def pause(self) -> None:
        await self._call("pause")

    async def progress(self) -> Progress:
        await self._call("progress")
        return Progress(self.n_tensors, self.error)

    async def received(self) -> Sequence[Mapping[str, str]]:
        await self._call("received")
        return [self.tensors] if self.tensors else []

    async def set_version(self, version: int) -> None:
        await self._call("set_version")
        self.version = version

    async def resume(self) -> None:
        await self._call("resume")

    async def _call(self, name: str) -> None:
        self.calls.append(name)
        if name == self.fails:
            raise RuntimeError("broken")
        if name == self.hangs:
            await asyncio.Event().wait()


async def sent() -> Mapping[str, str]:
    return TENSORS


async def test_update_pauses_proves_and_resumes() -> None:
    engines = {0: Engine(), 2: Engine()}
    manifest = await update(engines, sent, 5, LIMITS)
    assert manifest.version == 5 and manifest.tensors == TENSORS
    for engine in engines.values():
        assert engine.calls == ["pause", "received", "set_version", "resume"] and engine.version == 5


@pytest.mark.parametrize("how", ["fails", "hangs"])
@pytest.mark.parametrize("call", ["pause", "received", "set_version", "resume"])
async def test_engine_that_fails_or_hangs_is_named_and_the_others_go_on(call: str, how: str) -> None:
    broken = Engine(**{how: call})  # type: ignore[arg-type]  # a call's name
    engines = {0: Engine(), 1: broken, 2: Engine()}
    async with asyncio.timeout(20):
        with pytest.raises(WeightSyncError, match="engine 1") as caught:
            await update(engines, sent, 5, LIMITS)
    assert caught.value.engine == 1
    assert engines[0].calls[-1] == engines[2].calls[-1] == "resume"
    assert broken.calls[-1] == "resume", "an engine that could not be asked may still be paused"


async def test_missing_and_changed_tensors_stop_the_run() -> None:
    for tensors, text in (
        ({"a": "1"}, "lacks 1 of 2 tensors: b"),
        ({"a": "1", "b": "9"}, "other values"),
        ({}, "reports nothing"),
    ):
        engines = {0: Engine(), 3: Engine(tensors=tensors)}
        with pytest.raises(WeightSyncError, match=text) as caught:
            await update(engines, sent, 1, LIMITS)
        assert caught.value.engine == 3 and engines[3].version == 0
        assert engines[0].calls[-1] == engines[3].calls[-1] == "resume"


async def test_every_worker_of_an_engine_must_have_every_tensor() -> None:
    class TwoWorkers(Engine):
        async def received(self) -> Sequence[Mapping[str, str]]:
            return [TENSORS, {"a": "1"}]

    with pytest.raises(WeightSyncError, match="engine 0 lacks"):
        await update({0: TwoWorkers()}, sent, 1, LIMITS)


async def hung() -> Mapping[str, str]:
    await asyncio.Event().wait()
    return {}


async def refused() -> Mapping[str, str]:
    raise RuntimeError("connection reset")


@pytest.mark.parametrize("send", [hung, refused])
async def test_broken_sending_names_the_engine_with_an_error(send: object) -> None:
    engines = {0: Engine(), 1: Engine(n_tensors=1, error="b: out of memory")}
    with pytest.raises(WeightSyncError, match=r"engine 1 .* after 1 tensors: b: out of memory"):
        await update(engines, send, 1, LIMITS)  # type: ignore[arg-type]
    assert engines[0].calls[-1] == engines[1].calls[-1] == "resume"


async def test_hung_sending_names_the_engine_that_is_behind_or_silent() -> None:
    with pytest.raises(WeightSyncError, match=r"engine 2 .* after 1 tensors: no answer within"):
        await update({0: Engine(), 2: Engine(n_tensors=1)}, hung, 1, LIMITS)
    with pytest.raises(WeightSyncError, match=r"engine 1 .* it does not answer"):
        await update({0: Engine(n_tensors=1), 1: Engine(hangs="progress")}, hung, 1, LIMITS)


async def test_error_that_is_no_engines_is_raised_as_it_is() -> None:
    engines = {0: Engine(), 1: Engine()}
    with pytest.raises(RuntimeError, match="connection reset"):
        await update(engines, refused, 1, LIMITS)
    assert engines[0].calls[-1] == "resume"


async def test_cancelled_update_resumes() -> None:
    engines = {0: Engine()}
    sending = asyncio.Event()

    async def send() -> Mapping[str, str]:
        sending.set()
        return await hung()

    task = asyncio.create_task(update(engines, send, 1, Limits(call_s=20, send_s=60)))
    await sending.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engines[0].calls == ["pause", "resume"]


@dataclass
class Holder:
    weights: str
    fails: bool = False
    hangs: bool = False

    async def held(self) -> str:
        if self.fails:
            raise RuntimeError("broken")
        if self.hangs:
            await asyncio.Event().wait()
        return self.weights


async def test_engines_that_were_due_must_hold_the_same() -> None:
    engines = {0: Holder("new"), 1: Holder("new"), 2: Holder("old")}
    assert await compare(engines, (0, 1), LIMITS) == {0: "new", 1: "new", 2: "old"}
    assert await compare(engines, (2,), LIMITS) == {0: "new", 1: "new", 2: "old"}
    with pytest.raises(WeightSyncError, match="engine 2 holds other weights than engine 0") as caught:
        await compare(engines, (0, 1, 2), LIMITS)
    assert caught.value.engine == 2


@pytest.mark.parametrize("how", [{"fails": True}, {"hangs": True}])
async def test_engine_that_does_not_tell_what_it_holds_is_named(how: dict[str, bool]) -> None:
    async with asyncio.timeout(20):
        with pytest.raises(WeightSyncError, match="engine 1 does not tell what it holds") as caught:
            await compare({0: Holder("new"), 1: Holder("new", **how)}, (0,), LIMITS)
    assert caught.value.engine == 1


def test_errors_travel_between_processes() -> None:
    down = InfrastructureDownError("8 of 8 failed", [Failure(FailureKind.INFRASTRUCTURE, "lost", "gone")])
    for error in (WeightSyncError("engine 3 lacks a", engine=3), down):
        back = pickle.loads(pickle.dumps(error))
        assert type(back) is type(error) and str(back) == str(error) and vars(back) == vars(error)
