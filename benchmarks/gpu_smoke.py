"""The trainer adapter's own tensor code on a GPU, in a minute: checksums, task normalization, the proof of a weight update.

Needs PyTorch; transformers adds a model's parameters. It says nothing about NCCL, vLLM on CUDA or throughput: a run with
``trainer_adapter/configs/small-gpu.toml`` does. Without a GPU it has nothing to prove, unless ``--device cpu`` asks for a rehearsal.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from typing import Any

from harness import Claim, arguments, finish


def main() -> int:
    parser = arguments("the trainer adapter's tensor code on a GPU")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N or cpu")
    args = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        return _nothing("PyTorch is not installed", as_json=args.json)
    import torch

    if args.device != "cpu" and not torch.cuda.is_available():
        return _nothing("there is no GPU", as_json=args.json)
    device = torch.device(args.device)
    n_wrong, gib_per_s = _checksums(device, mib=64 if args.quick or args.device == "cpu" else 4096)
    claims = {
        "checksums_that_differ_from_the_hosts": Claim(n_wrong, 0),
        "normalization_error": Claim(_normalization_error(device), 1e-6),
    }
    if importlib.util.find_spec("transformers") is not None:
        claims["weight_updates_judged_wrongly"] = Claim(_update_errors(device), 0)
    return finish("gpu_smoke", args, claims, {"device": _name(device), "checksum_gib_per_s": round(gib_per_s, 2)})


def _nothing(why: str, *, as_json: bool) -> int:
    print(f"nothing to prove: {why}")
    if as_json:
        print(json.dumps({"claims": {}}))
    return 0


def _checksums(device: Any, *, mib: int) -> tuple[int, float]:
    """How many tensors of odd shapes and types have another checksum on the device, and its speed on a large one."""
    import torch

    from trainer_adapter.openrlhf.checksums import checksum

    made = torch.Generator().manual_seed(0)
    tensors = [
        torch.randn(shape, generator=made).to(dtype)
        for shape in ((), (3,), (1023, 7), (4096, 1025))
        for dtype in (torch.bfloat16, torch.float16, torch.float32)
    ]
    n_wrong = sum(checksum(each) != checksum(each.to(device)) for each in tensors)
    large = torch.ones(mib << 19, dtype=torch.bfloat16, device=device)
    checksum(large[: 1 << 20])
    began = time.perf_counter()
    checksum(large)
    return n_wrong, mib / 1024 / (time.perf_counter() - began)


def _normalization_error(device: Any) -> float:
    """Largest difference between the device's normalized advantages and the host's."""
    import torch

    from trainer_adapter.advantages import TaskNormalizer

    made = torch.Generator().manual_seed(1)
    advantages = [torch.randn((16, n), generator=made) * 3 + 1 for n in (700, 33)]
    masks = [torch.rand(each.shape, generator=made) < 0.4 for each in advantages]
    tasks = ["db", "kg", "os", "webshop"] * 8
    host = TaskNormalizer()(advantages, masks, tasks)
    there = TaskNormalizer()([each.to(device) for each in advantages], [each.to(device) for each in masks], tasks)
    return max(float((a - b.cpu()).abs().max()) for a, b in zip(host, there, strict=True))


def _update_errors(device: Any) -> int:
    """A model's parameters are copied as an update would: a whole one must be accepted, one without a tensor refused by name."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from trainer_adapter.openrlhf.checksums import RecordingGroup
    from trainer_adapter.versions import Manifest, WeightSyncError, verify

    shape = Qwen2Config(vocab_size=999, hidden_size=128, intermediate_size=256, num_hidden_layers=2)
    model = Qwen2ForCausalLM(shape).to(device)
    names = [name for name, _ in model.named_parameters()]

    class Wire:
        """Changes nothing."""

        def broadcast(self, tensor: Any, src: int, stream: Any = None) -> None:
            tensor.add_(0)

    sender, receiver = RecordingGroup(Wire(), sends=True), RecordingGroup(Wire(), sends=False)
    for value in model.parameters():
        sender.broadcast(value.data, 0)
        receiver.broadcast(value.data.clone(), 0)
    sent = Manifest(1, dict(zip(names, sender.checksums, strict=True)))
    arrived = dict(zip(names, receiver.checksums, strict=True))
    verify(sent, {0: Manifest(1, arrived)}, (0,))
    n_wrong = 0
    for name in names:
        try:
            verify(sent, {0: Manifest(1, {each: value for each, value in arrived.items() if each != name})}, (0,))
            n_wrong += 1
        except WeightSyncError as error:
            n_wrong += name not in str(error)
    return n_wrong


def _name(device: Any) -> str:
    import torch

    return str(torch.cuda.get_device_name(device)) if device.type == "cuda" else "cpu"


if __name__ == "__main__":
    sys.exit(main())
