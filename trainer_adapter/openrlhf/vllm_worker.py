"""vLLM's worker as OpenRLHF extends it, keeping the checksum of every tensor that arrives.

Invariant: what is reported as received is what came over the wire, by the name it was announced with.
"""

from __future__ import annotations

import os
from typing import Any

from trainer_adapter.openrlhf import cpu, settings

if settings.VARIABLE in os.environ and settings.of_this_run().cpu:
    cpu.setup()  # vLLM's engine core is no Ray worker: nobody else calls it there
    cpu.keep_weights()

import torch  # after cpu.setup
from openrlhf.trainer.ray.vllm_worker_wrap import WorkerWrap

from trainer_adapter.openrlhf.checksums import RecordingGroup, checksum


class HubWorker(WorkerWrap):
    """Mixed into vLLM's worker, which brings ``device``, ``model_config`` and ``model_runner``."""

    _model_update_group: Any

    def init_process_group(self, *args: Any, **kwargs: Any) -> None:
        super().init_process_group(*args, **kwargs)
        self._model_update_group = RecordingGroup(self._model_update_group, sends=False)
        self._received: dict[str, str] = {}

    def update_weight(self, name: str, dtype: Any, shape: Any, empty_cache: bool = False) -> None:
        if self.device.type == "cpu":
            self._update_on_cpu(name, dtype, shape)
        else:
            super().update_weight(name, dtype, shape, empty_cache)
        self._received[name] = self._model_update_group.checksums.pop()

    def take_received(self) -> dict[str, str]:
        """Checksums by name since the last call."""
        received, self._received = self._received, {}
        return received

    def held(self) -> str:
        """Checksum over the model's own parameters, however vLLM merges and stores them."""
        parts = [f"{name} {checksum(value)}" for name, value in sorted(self.model_runner.model.named_parameters())]
        return checksum(torch.tensor(list("\n".join(parts).encode()), dtype=torch.uint8))

    def _update_on_cpu(self, name: str, dtype: Any, shape: Any) -> None:
        """What the base does, with ``device`` in place of the word cuda."""
        if dtype != self.model_config.dtype:
            raise TypeError(f"{name} comes as {dtype}, the engine holds {self.model_config.dtype}")
        weight = torch.empty(shape, dtype=dtype, device=self.device)
        self._model_update_group.broadcast(weight, src=0)
        self.model_runner.model.load_weights(weights=[(name, weight)])
