"""OpenRLHF's vLLM engine, which also samples single turns for the queue and reports what weights it got.

Invariants: the version of a completion is read before its request goes out; log-probs are the sampling engine's own, after
temperature and top-p; an aborted request is reported as aborted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ray
from openrlhf.trainer.ray.vllm_engine import RolloutRayActor
from vllm import SamplingParams

from trainer_adapter.openrlhf import cpu, settings
from trainer_adapter.openrlhf.compat import unwrapped
from trainer_adapter.openrlhf.sampling import Request, Sampled
from trainer_adapter.weight_sync import Progress

_MAX_CONCURRENCY = 10_000
"""Calls at once: a full engine must still hear that it is to pause."""


class Engine(unwrapped(RolloutRayActor)):  # type: ignore[misc]  # the base is known at run time only
    async def __init__(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[misc]  # Ray awaits it
        kwargs["worker_extension_cls"] = "trainer_adapter.openrlhf.vllm_worker.HubWorker"
        kwargs["logprobs_mode"] = "processed_logprobs"
        kwargs.setdefault("max_logprobs", 1)
        run = settings.of_this_run()
        kwargs["trust_remote_code"] = run.config.model.trust_remote_code
        if run.cpu:
            kwargs.update(cpu.ENGINE)
        self._version = 0
        self._n_received = 0
        self._error: str | None = None
        await super().__init__(*args, **kwargs)

    async def sample(self, request: Request) -> Sampled:
        """One completion."""
        version = self._version
        params = SamplingParams(
            temperature=request.temperature,
            top_p=request.top_p,
            max_tokens=request.max_tokens,
            stop_token_ids=list(request.stop_ids),
            logprobs=0,
            skip_special_tokens=False,
        )
        output = await self.generate(list(request.ids), params)
        if output is None or not output.outputs:
            return Sampled((), (), "", "abort", version)
        return sampled(output.outputs[0], version)

    async def set_version(self, version: int) -> None:
        self._version = version

    async def update_weight(self, name: str, dtype: Any, shape: Any, empty_cache: bool = False) -> Any:
        try:
            done = await super().update_weight(name, dtype, shape, empty_cache)
        except BaseException as error:
            self._error = f"{name}: {type(error).__name__}: {error}"
            raise
        self._n_received += 1
        return done

    async def progress(self) -> Progress:
        """Answers while an update hangs: it does not ask the worker."""
        return Progress(self._n_received, self._error)

    async def received(self) -> Sequence[dict[str, str]]:
        """Of each worker, the checksums since the last call."""
        self._n_received = 0
        return list(await self.llm.collective_rpc("take_received"))

    async def held(self) -> str:
        """Checksum of the weights it plays with."""
        found: list[str] = await self.llm.collective_rpc("held")
        return " ".join(found)


def sampled(output: Any, version: int) -> Sampled:
    """A finished output of vLLM; one without a finish reason was cut off by somebody else."""
    ids = tuple(output.token_ids)
    logprobs = tuple(float(each[id].logprob) for id, each in zip(ids, output.logprobs or (), strict=False))
    finish = output.finish_reason if output.finish_reason in ("stop", "length") else "abort"
    return Sampled(ids, logprobs, output.text, finish, version)


EngineActor = ray.remote(max_concurrency=_MAX_CONCURRENCY)(Engine)
