"""The trainer adapter's own tensor code on one GPU, in minutes: checksums, task normalization, the proof of a weight update.

Needs PyTorch. transformers adds a model's parameters; vLLM and OpenRLHF add an engine with the adapter's worker, which samples and
takes the weights of another model and then its own again, tensor by tensor (not with ``--quick``). It says nothing about NCCL,
which needs two GPUs, or throughput: a run with ``trainer_adapter/configs/small-gpu.toml`` does. Without a GPU it has nothing to
prove, unless ``--device cpu`` asks for a rehearsal.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
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
    if _is_there("transformers"):
        claims["weight_updates_judged_wrongly"] = Claim(_update_errors(device), 0)
    if _is_there("transformers", "vllm", "openrlhf") and not args.quick:
        n_wrong, logprob_error = _engine_errors(device)
        claims |= {
            "engine_updates_that_went_wrong": Claim(n_wrong, 0),
            "engine_logprob_error": Claim(logprob_error, 0.05),
        }
    args.quick |= device.type == "cpu"  # a rehearsal is no result to keep
    return finish("gpu_smoke", args, claims, {"device": _name(device), "checksum_gib_per_s": round(gib_per_s, 2)})


def _is_there(*names: str) -> bool:
    return all(importlib.util.find_spec(name) is not None for name in names)


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
    from trainer_adapter.openrlhf.checksums import RecordingGroup
    from trainer_adapter.versions import Manifest, WeightSyncError, verify

    model = _model(seed=0).to(device)
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


def _engine_errors(device: Any) -> tuple[int, float]:
    """How many updates of a vLLM engine reported other checksums than were sent or left other weights than they should; and the
    largest difference between the log-prob that the engine gives to a token it sampled and transformers' own."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # the engine in this process: what it receives comes from here
    if device.type == "cpu":
        from trainer_adapter.openrlhf import cpu

        os.environ.update(cpu.ENVIRONMENT)
        cpu.setup()
        cpu.keep_weights()
    from vllm import LLM

    own, other = _model(seed=0), _model(seed=1)
    with tempfile.TemporaryDirectory() as folder:
        own.save_pretrained(folder)
        engine = LLM(
            folder, skip_tokenizer_init=True, enforce_eager=True, max_model_len=256, seed=0,
            gpu_memory_utilization=0.3, kv_cache_memory_bytes=64 << 20, logprobs_mode="processed_logprobs",
            worker_extension_cls="trainer_adapter.openrlhf.vllm_worker.HubWorker",
        )  # fmt: skip
    (begun,) = engine.collective_rpc("held")
    error = _logprob_error(engine, own.to(device))
    states = []
    for model in (other, own):
        sent = {name: value.detach().to(device) for name, value in model.named_parameters()}
        (is_right,) = engine.collective_rpc(_takes, args=(sent,))
        states.append((is_right, *engine.collective_rpc("held")))
    (first_right, changed), (second_right, restored) = states
    return (not first_right or changed == begun) + (not second_right or restored != begun), error


def _takes(worker: Any, sent: Mapping[str, Any]) -> bool:
    """In an engine's worker: an update with these tensors, without a network; whether it reported what was sent."""
    from trainer_adapter.openrlhf.checksums import RecordingGroup, checksum

    class Wire:
        def broadcast(self, tensor: Any, src: int, stream: Any = None) -> None:
            tensor.copy_(sent[arriving])

    # vLLM hands out a wrapper, which reads through and does not write through
    worker = getattr(worker, "worker", worker)
    worker._model_update_group, worker._model_update_with_ray = RecordingGroup(Wire(), sends=False), False
    worker._received = {}
    for arriving, tensor in sent.items():
        worker.update_weight(arriving, tensor.dtype, tensor.shape)
    return bool(worker.take_received() == {name: checksum(tensor.cpu()) for name, tensor in sent.items()})


def _logprob_error(engine: Any, model: Any) -> float:
    import torch
    from vllm import SamplingParams

    prompt = list(range(5, 25))
    params = SamplingParams(temperature=0.8, max_tokens=64, logprobs=0, detokenize=False, ignore_eos=True)
    (answer,) = engine.generate([{"prompt_token_ids": prompt}], params, use_tqdm=False)
    sampled, given = list(answer.outputs[0].token_ids), answer.outputs[0].logprobs
    with torch.no_grad():
        scores = model(torch.tensor([prompt + sampled], device=model.device)).logits[0, len(prompt) - 1 : -1]
    expected = (scores.float() / 0.8).log_softmax(-1)
    return max(
        abs(float(expected[n, token]) - each[token].logprob)
        for n, (token, each) in enumerate(zip(sampled, given, strict=True))
    )


def _model(*, seed: int) -> Any:
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    shape = Qwen2Config(
        vocab_size=999, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, tie_word_embeddings=False, bos_token_id=None, eos_token_id=1,
    )  # fmt: skip
    return Qwen2ForCausalLM(shape).to(torch.bfloat16)


def _name(device: Any) -> str:
    import torch

    return str(torch.cuda.get_device_name(device)) if device.type == "cuda" else "cpu"


if __name__ == "__main__":
    sys.exit(main())
