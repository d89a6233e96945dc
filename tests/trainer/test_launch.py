"""What the launcher refuses, and the flags it adds, without the packages that it starts."""

from importlib.metadata import PackageNotFoundError

import msgspec
import pytest

from envhub.testing.hub import served_hub
from trainer_adapter.config import Config, ConfigError, ModelSection, TaskSection, check
from trainer_adapter.openrlhf import compat, launch, settings
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
    return settings.Settings(config=config, sources=(TaskSource("db", "train", 9),), cpu=cpu)


@pytest.mark.parametrize("flag", ["--vllm.enable_sleep", "--algo.dynamic_filtering_enable", "--ds.ring_attn_size=2"])
def test_flags_that_go_around_the_queue_are_refused_by_name(flag: str) -> None:
    with pytest.raises(ValueError, match=flag.partition("=")[0]):
        launch.refuse(CONFIG, [flag])


def test_own_baselines_of_openrlhf_want_whole_groups() -> None:
    launch.refuse(with_baseline("reinforce_baseline"), [])
    for config in (
        with_baseline("reinforce_baseline", on_failure="survivors"),
        with_baseline("reinforce_baseline", on_rewrite="split"),
        with_baseline("gae"),
    ):
        with pytest.raises(ValueError, match="baseline"):
            launch.refuse(config, [])
    launch.refuse(with_baseline("gae", b_max=32), [])
    launch.refuse(with_baseline("rloo", on_failure="survivors", on_rewrite="split"), [])


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
    assert "pip install 'openrlhf>=0.11.2,<0.12'" in capsys.readouterr().err
    monkeypatch.setattr(compat, "version", lambda name: "0.10.4")
    assert launch.launch(CONFIG, ()) == 1
    assert "openrlhf 0.10.4 is installed" in capsys.readouterr().err


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
