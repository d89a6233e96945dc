"""OpenRLHF without a GPU: small changes to modules as they are imported, in every process of a run.

Invariant: nothing on disk changes, nothing is imported before its time, and nothing happens unless `setup` is called.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

ENVIRONMENT: Mapping[str, str] = {
    "DS_ACCELERATOR": "cpu",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "TORCH_COMPILE_DISABLE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "RAY_ENABLE_ZERO_COPY_TORCH_TENSORS": "0",
    "TOKENIZERS_PARALLELISM": "false",
}
FLAGS: Sequence[str] = (
    "--vllm.sync_backend", "gloo", "--vllm.enforce_eager", "--ds.attn_implementation", "eager",
)  # fmt: skip
ENGINE: Mapping[str, Any] = {"gpu_memory_utilization": 0.3, "kv_cache_memory_bytes": 64 << 20}
"""Arguments of vLLM's engine; its default would take a share of all memory."""

Execute = Callable[[], None]


def setup() -> None:
    """Idempotent; Ray calls it when a worker process starts."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _ring_attention(module: ModuleType, execute: Execute) -> None:
    """It imports flash_attn for packed sequences, which are not used. The stand-in must not stay: vLLM and transformers look
    whether there is one."""
    names = ("flash_attn", "flash_attn.bert_padding", "flash_attn.utils", "flash_attn.utils.distributed")
    standins = {name: ModuleType(name) for name in names}
    for name in ("index_first_axis", "pad_input", "rearrange", "unpad_input"):
        setattr(standins["flash_attn.bert_padding"], name, None)
    standins["flash_attn.utils.distributed"].all_gather = None  # type: ignore[attr-defined]  # a stand-in
    sys.modules.update(standins)
    try:
        execute()
    finally:
        for name in names:
            del sys.modules[name]


def _cuda(module: ModuleType, execute: Execute) -> None:
    """``.to(torch.cuda.current_device())`` then means the CPU."""
    execute()
    import torch

    for name in ("set_device", "synchronize", "empty_cache", "current_stream"):
        setattr(torch.cuda, name, lambda *args, **kwargs: None)
    torch.cuda.current_device = lambda: "cpu"


def _strategy(module: Any, execute: Execute) -> None:
    """The device mesh, and PyTorch's own Adam: DeepSpeed would compile one in C++ for minutes."""
    execute()
    mesh, train_model = module.init_device_mesh, module.DeepspeedStrategy._ds_init_train_model
    initialize = module.deepspeed.initialize

    def with_torch_adam(*args: Any, **kwargs: Any) -> Any:
        kwargs["config"]["optimizer"]["params"]["torch_adam"] = True
        return initialize(*args, **kwargs)

    def on_cpu(device: str, *args: Any, **kwargs: Any) -> Any:
        return mesh("cpu", *args, **kwargs)

    def prepared(self: Any, *args: Any, **kwargs: Any) -> Any:
        module.deepspeed.initialize = with_torch_adam
        try:
            return train_model(self, *args, **kwargs)
        finally:
            module.deepspeed.initialize = initialize

    module.init_device_mesh = on_cpu
    module.DeepspeedStrategy._ds_init_train_model = prepared


def _replay_buffer(module: Any, execute: Execute) -> None:
    """It makes a device ``cuda:N`` of the current one."""
    execute()
    import torch

    def device(name: str) -> torch.device:
        return torch.device("cpu")

    module.torch = _Overlay(module.torch, device=device)


def _process_group(module: Any, execute: Execute) -> None:
    """Gloo instead of NCCL between the policy and the engines."""
    execute()
    module.stateless_init_process_group = _gloo_group


def _gloo_group(master_address: str, master_port: int, rank: int, world_size: int, device: Any) -> _GlooGroup:
    from vllm.distributed.utils import stateless_init_torch_distributed_process_group

    return _GlooGroup(
        stateless_init_torch_distributed_process_group(master_address, master_port, rank, world_size, "gloo")
    )


class _GlooGroup:
    def __init__(self, group: Any) -> None:
        self._group = group

    def broadcast(self, tensor: Any, src: int, stream: Any = None) -> None:
        from torch.distributed import BroadcastOptions

        options = BroadcastOptions()
        options.rootRank, options.rootTensor = src, 0
        self._group.broadcast([tensor], options).wait()


def keep_weights() -> None:
    """For vLLM's engine core: on newer CPUs it would keep a packed copy of every weight, which no update reaches."""
    import vllm.model_executor.layers.utils as layers
    from torch.nn.functional import linear

    def plain(layer: Any, remove_weight: bool) -> None:
        layer.cpu_linear = linear

    layers.dispatch_cpu_unquantized_gemm = plain


def _shared_memory(module: Any, execute: Execute) -> None:
    """DeepSpeed would compile an operator for all-reduce in shared memory; gloo does that."""
    execute()
    module.build_shm_op = lambda: None


class _Overlay:
    """A module in which some names are others."""

    def __init__(self, module: Any, **names: Any) -> None:
        self.__dict__.update(names)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


_CHANGES: Mapping[str, Callable[[ModuleType, Execute], None]] = {
    "openrlhf": _cuda,
    "openrlhf.models.ring_attn_utils": _ring_attention,
    "openrlhf.utils.deepspeed.deepspeed": _strategy,
    "openrlhf.utils.distributed_util": _process_group,
    "openrlhf.trainer.ppo_utils.replay_buffer": _replay_buffer,
    "deepspeed.comm.torch": _shared_memory,
}


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self) -> None:
        self._busy: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _CHANGES or fullname in self._busy:
            return None
        self._busy.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._busy.discard(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, _CHANGES[fullname])
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, inner: importlib.abc.Loader, change: Callable[[ModuleType, Execute], None]) -> None:
        self._inner = inner
        self._change = change

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._change(module, lambda: self._inner.exec_module(module))
