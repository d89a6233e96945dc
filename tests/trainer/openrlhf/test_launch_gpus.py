"""What the launcher does about GPUs that there are, or are not, with a Ray that only says so."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from trainer_adapter.config import Config, ModelSection, TaskSection

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[int, list[str], dict[str, Any]]]:
    """``launched(n_there, train={...})``: the exit status, OpenRLHF's flags when it came so far, and how Ray was started."""
    import ray

    from trainer_adapter.openrlhf import code, compat, cpu, launch, settings

    flags: list[str] = []
    options: dict[str, Any] = {}
    for module, name in (
        (code, "check"),
        (compat, "check_version"),
        (compat, "check_names"),
        (launch.model, "chat_format_of"),
    ):
        monkeypatch.setattr(module, name, lambda *given: None)
    monkeypatch.setattr(launch, "_replace", lambda: None)
    monkeypatch.setattr(launch, "_run_cli", flags.extend)
    monkeypatch.setattr(launch.signal, "signal", lambda number, handler: None)
    monkeypatch.setattr(cpu, "setup", lambda: None)
    monkeypatch.setattr(ray, "init", lambda **given: options.update(given))
    monkeypatch.setenv(settings.VARIABLE, "")
    for name in cpu.ENVIRONMENT:
        monkeypatch.setenv(name, os.environ.get(name, "as it was"))

    def call(n_there: int | None, **sections: Any) -> tuple[int, list[str], dict[str, Any]]:
        values = msgspec.to_builtins(Config(model=ModelSection(path="m"), tasks=(TaskSection(environment="db"),)))
        values["train"] |= {"checkpoint": str(tmp_path / "checkpoint"), "n_gpus": 3}
        values["engines"] |= {"n": 2, "tensor_parallel": 2, "stale_ratio": 0.0}
        for name, section in sections.items():
            values[name] |= section
        there = {"CPU": 8.0} if n_there is None else {"CPU": 8.0, "GPU": float(n_there)}
        monkeypatch.setattr(ray, "cluster_resources", lambda: there)
        return launch.launch(msgspec.convert(values, Config), ()), flags, options

    return call


def test_a_head_without_a_gpu_trains_on_those_of_its_cluster(
    launched: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What this machine has does not matter."""
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    status, flags, options = launched(7)
    assert status == 0 and "--vllm.num_engines" in flags and "gloo" not in flags
    assert "address" not in options and "num_gpus" not in options
    assert os.environ["DS_ACCELERATOR"] != "cpu"


@pytest.mark.parametrize("n_there", [None, 0])
def test_a_cluster_without_gpus_is_refused_and_train_device_named(
    launched: Callable[..., Any], capsys: pytest.CaptureFixture[str], n_there: int | None
) -> None:
    status, flags, _ = launched(n_there)
    assert status == 1 and not flags
    assert 'train.device = "cpu"' in capsys.readouterr().err


def test_too_few_gpus_are_refused_with_who_wants_them(
    launched: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """OpenRLHF would wait for them without a word."""
    status, flags, _ = launched(6)
    assert status == 1 and not flags
    said = capsys.readouterr().err
    assert "the run needs 7: 3 train and hold the reference model, 4 play; the Ray cluster has 6" in said
    gae = {"algorithm": {"baseline": "gae"}, "queue": {"b_min": 6, "b_max": 6}, "rollout": {"on_rewrite": "refuse"}}
    assert launched(9, **gae)[0] == 1
    assert "needs 10: 3 train and hold the reference model, 4 play, 3 train the critic" in capsys.readouterr().err
    assert launched(10, **gae)[0] == 0


def test_a_cpu_is_used_when_it_is_asked_for(launched: Callable[..., Any]) -> None:
    status, flags, options = launched(7, train={"device": "cpu"})
    assert status == 0 and "gloo" in flags
    assert options["address"] == "local" and options["num_gpus"] == 7
    assert os.environ["DS_ACCELERATOR"] == "cpu"
    assert options["runtime_env"]["worker_process_setup_hook"] == "trainer_adapter.openrlhf.cpu.setup"


def test_what_is_resumed_is_told_and_a_run_that_begins_anew_loads_nothing(
    launched: Callable[..., Any], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "saved" / "_actor").mkdir(parents=True)
    status, flags, _ = launched(7, train={"resume": True, "checkpoint": "saved"})
    assert status == 0 and "--ckpt.load_enable" not in flags
    assert flags[flags.index("--ckpt.path") + 1] == str(tmp_path / "saved"), "Ray's processes may have begun elsewhere"
    assert "holds no checkpoint, training begins anew" in capsys.readouterr().out
    (tmp_path / "saved" / "_actor" / "global_step2").mkdir()
    assert launched(7, train={"checkpoint": "saved"})[0] == 1
    assert "train.resume = true" in capsys.readouterr().err
