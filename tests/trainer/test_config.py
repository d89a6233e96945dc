"""The configuration, and the plan it comes to."""

from __future__ import annotations

from pathlib import Path

import pytest

from envhub.testing.hub import served_hub
from trainer_adapter import train
from trainer_adapter.config import ConfigError, load
from trainer_adapter.plan import OWN_FLAGS, plan

CONFIGS = Path(train.__file__).parent / "configs"
SMALL = """
[model]
path = "m"
[[tasks]]
environment = "calculator"
[train]
n_gpus = 2
[engines]
n = 2
stale_ratio = 0.5
"""


def written(tmp_path: Path, text: str = SMALL) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(text)
    return path


def values(flags: tuple[str, ...], name: str) -> list[str]:
    at = flags.index(name) + 1
    end = next((i for i in range(at, len(flags)) if flags[i].startswith("--")), len(flags))
    return list(flags[at:end])


@pytest.mark.parametrize("file", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_shipped_configuration_is_valid(file: Path) -> None:
    resolved = plan(load(file))
    assert len(set(resolved.flags) & OWN_FLAGS) >= 10 and {row.name for row in resolved.rows} >= {
        "batch",
        "policy memory",
    }


def test_the_paper_s_settings() -> None:
    config = load(CONFIGS / "paper-14b.toml")
    assert (len(config.engine_plan.fresh), config.engine_plan.n_stale, config.engines.stale_every) == (12, 4, 25)
    assert config.queue_settings.b_min * config.rollout.group_size == 256 * 8
    flags = plan(config).flags
    expected = {
        "--rollout.temperature": ["0.8"], "--actor.adam.lr": ["1e-06"], "--algo.kl.init_coef": ["0.0001"],
        "--algo.kl.estimator": ["k3"], "--actor.eps_clip_low_high": ["0.2", "0.2"], "--actor.dual_clip": ["3.0"],
        "--algo.advantage.estimator": ["group_norm"], "--algo.advantage.is_correction_level": ["off"],
    }  # fmt: skip
    assert {name: values(flags, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("[modle]\npath = 'x'", "modle"),
        ("[queue]\nb_min = 'many'", "queue.b_min"),
        ("[queue]\nb_min = 9\nb_max = 3", "b_min 9"),
        ("[engines]\nstale_ratio = 1.0", "stale_ratio"),
        ("[rollout]\ngroup_size = 1\n[queue]\nmin_group = 1", "group_size must be at least 2"),
        ("[rollout]\nturn_tokens = 9000", "turn_tokens"),
        (
            "[rollout]\ngroup_size = 3\n[queue]\nb_min = 1\nb_max = 1\nmax_staleness = 0\n[train]\nn_gpus = 8",
            "multiple of 8",
        ),
        ("[algorithm.correction]\nlevel = 'token'\ngating = 'tv'\nthreshold = [0.1, 0.2]", "threshold"),
        ("[queue]\non_failure = 'hope'", "on_failure"),
    ],
)
def test_what_cannot_work_is_refused_and_named(tmp_path: Path, change: str, said: str) -> None:
    text = "\n".join(["[model]\npath = 'm'", "[[tasks]]\nenvironment = 'calculator'", change])
    with pytest.raises(ConfigError, match=said):
        load(written(tmp_path, text))


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml"):
        load(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="not TOML"):
        load(written(tmp_path, "[model"))
    with pytest.raises(ConfigError, match=r"\[\[tasks\]\]"):
        load(written(tmp_path, "tasks = []\n[model]\npath = 'm'"))


def test_a_flag_that_the_adapter_decides_is_refused(tmp_path: Path) -> None:
    config = load(written(tmp_path))
    assert plan(config, extra=("--actor.adam.weight_decay", "0.1")).flags[-1] == "0.1"
    for flag in ("--rollout.batch_size", "--train.async_enable=1"):
        with pytest.raises(ConfigError, match="follows from the configuration"):
            plan(config, extra=(flag,))


async def test_a_dry_run_shows_the_plan_and_checks_the_hub(tmp_path: Path) -> None:
    async with served_hub(("calculator",)) as served:
        config = load(written(tmp_path, f"{SMALL}\n[hub]\nurl = '{served.url}'"))
        (source,) = await train.check_hub(config)
        assert (source.environment, source.n_tasks) == ("calculator", source.n_tasks) and source.n_tasks > 0
        for change, said in (
            ("environment = 'chess'", "no environment 'chess'"),
            ("environment = 'calculator'\nsplit = 'exam'", "no split 'exam'"),
            ("environment = 'calculator'\noptions = {depth = 1}", "no option 'depth'"),
            ("environment = 'calculator'\nindices = [99999999]", "tasks 0"),
        ):
            text = f"[model]\npath = 'm'\n[hub]\nurl = '{served.url}'\n[[tasks]]\n{change}"
            with pytest.raises(ConfigError, match=said):
                await train.check_hub(load(written(tmp_path, text)))


def test_the_command_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train.main(["--config", str(tmp_path / "none.toml"), "--dry-run"]) == 2
    assert "none.toml" in capsys.readouterr().out.replace("\n", "")
    down = written(tmp_path, f"{SMALL}\n[hub]\nurl = 'http://127.0.0.1:9'")
    assert train.main(["--config", str(down), "--dry-run"]) == 2
    shown = capsys.readouterr().out
    assert "1 fresh, 1 stale" in shown and "error:" in shown
