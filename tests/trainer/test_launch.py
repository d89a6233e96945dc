"""What the launcher refuses, and the flags it adds, without the packages that it starts."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import msgspec
import pytest

from envhub.testing.hub import served_hub
from trainer_adapter.config import Config, ConfigError, ModelSection, TaskSection, check
from trainer_adapter.openrlhf import code, compat, launch, settings
from trainer_adapter.plan import plan
from trainer_adapter.stream import TaskSource
from trainer_adapter.train import check_hub

CONFIG = Config(model=ModelSection(path="m"), tasks=(TaskSection(environment="db", options={"max_turns": 3}),))


def with_baseline(name: str, *, b_max: int = 64, on_failure: str = "retry", on_rewrite: str = "refuse") -> Config:
    values = msgspec.to_builtins(CONFIG)
    values["algorithm"]["baseline"] = name
    values["queue"] |= {"b_max": b_max, "on_failure": on_failure}
    values["rollout"]["on_rewrite"] = on_rewrite
    return msgspec.convert(values, Config)


def run_settings(config: Config = CONFIG, *, cpu: bool = False) -> settings.Settings:
    train = msgspec.structs.replace(config.train, device="cpu" if cpu else "cuda")
    return settings.Settings(
        config=msgspec.structs.replace(config, train=train), sources=(TaskSource("db", "train", 9),)
    )


@pytest.mark.parametrize("flag", ["--vllm.enable_sleep", "--algo.dynamic_filtering_enable", "--ds.ring_attn_size=2"])
def test_flags_that_go_around_the_queue_are_refused_by_name(flag: str) -> None:
    with pytest.raises(ConfigError, match=flag.partition("=")[0]):
        plan(CONFIG, extra=[flag])


def test_own_baselines_of_openrlhf_want_whole_groups() -> None:
    check(with_baseline("reinforce_baseline"))
    for config in (
        with_baseline("reinforce_baseline", on_failure="survivors"),
        with_baseline("reinforce_baseline", on_rewrite="split"),
        with_baseline("gae"),
    ):
        with pytest.raises(ConfigError, match="baseline"):
            check(config)
    check(with_baseline("gae", b_max=32))
    check(with_baseline("rloo", on_failure="survivors", on_rewrite="split"))


def test_flags_say_where_things_go_and_the_users_win() -> None:
    found = launch.flags(run_settings(cpu=True), ["--ckpt.output_dir", "elsewhere"])
    assert found[-2:] == ["--ckpt.output_dir", "elsewhere"]
    assert found[found.index("--ckpt.output_dir") + 1] == "checkpoints/final"
    assert found[found.index("--vllm.sync_backend") + 1] == "gloo"
    assert "--vllm.sync_backend" not in launch.flags(run_settings(), [])
    gae = launch.flags(run_settings(with_baseline("gae", b_max=32)), [])
    assert gae[gae.index("--critic.num_gpus_per_node") + 1] == "8"
    with pytest.raises(ConfigError, match=r"--train\.seed"):
        launch.flags(run_settings(), ["--train.seed", "1"])


def test_missing_and_foreign_versions_stop_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(compat, "version", missing)
    assert launch.launch(CONFIG, ()) == 1
    said = capsys.readouterr().err
    assert "not installed" in said and "make trainer-cpu" in said and "openrlhf[vllm]==0.11.2" in said
    monkeypatch.setattr(compat, "version", lambda name: "0.10.4")
    assert launch.launch(CONFIG, ()) == 1
    assert "openrlhf 0.10.4 is installed" in capsys.readouterr().err


def test_a_model_with_code_of_its_own_is_not_run_unless_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "qwen2"}')
    code.check(ModelSection(path=str(tmp_path)))
    for name in ("tokenizer_config.json", "config.json"):
        (tmp_path / name).write_text('{"auto_map": {"AutoConfig": "evil.Config"}}')
        with pytest.raises(ConfigError, match=f"auto_map in {name}.*trust_remote_code"):
            code.check(ModelSection(path=str(tmp_path)))
    code.check(ModelSection(path=str(tmp_path), trust_remote_code=True))
    monkeypatch.setattr(compat, "version", lambda name: "0.11.2")
    config = msgspec.structs.replace(CONFIG, model=ModelSection(path=str(tmp_path)))
    assert launch.launch(config, ()) == 1
    assert "trust_remote_code" in capsys.readouterr().err
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ConfigError, match="cannot be read"):
        code.check(ModelSection(path=str(tmp_path)))


def test_settings_travel_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_settings(cpu=True)
    monkeypatch.setenv(settings.VARIABLE, settings.dumps(run))
    assert settings.of_this_run() == run


async def test_evaluation_tasks_are_checked_against_the_hub() -> None:
    async with served_hub(("calculator",)) as hub:
        for task, text in (
            ({"environment": "kg"}, "no environment 'kg'"),
            ({"environment": "calculator", "split": "x"}, "no split 'x'"),
        ):
            values = msgspec.to_builtins(CONFIG)
            values |= {"hub": {"url": hub.url}, "tasks": [{"environment": "calculator"}], "evaluate": {"tasks": [task]}}
            with pytest.raises(ConfigError, match=text):
                await check_hub(msgspec.convert(values, Config))
    with pytest.raises(ConfigError, match=r"evaluate\.tasks"):
        check(msgspec.convert(msgspec.to_builtins(CONFIG) | {"evaluate": {}}, Config))


def test_all_but_the_trainer_s_own_processes_import_without_its_packages() -> None:
    """And without those that only a hub needs."""
    absent = (
        "ray",
        "torch",
        "vllm",
        "openrlhf",
        "deepspeed",
        "transformers",
        "fastapi",
        "sqlalchemy",
        "prometheus_client",
    )
    folder = Path(launch.__file__).parent.parent
    bound = {"agent", "checksums", "engine", "experience", "policy", "rollouts", "sampling", "trainer", "vllm_worker"}
    names = [
        ".".join(("trainer_adapter", *file.relative_to(folder).with_suffix("").parts))
        for file in sorted(folder.rglob("*.py"))
        if file.name not in ("__init__.py", "advantages.py")
        and not (file.parent.name == "openrlhf" and file.stem in bound)
    ]
    assert len(names) > 25
    script = f"""
import importlib, sys
sys.modules.update(dict.fromkeys({absent!r}))
for name in {names!r}:
    importlib.import_module(name)
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, cwd=folder.parent)
