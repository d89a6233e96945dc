"""The configuration, and the plan it comes to."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from envhub.core.errors import AuthenticationError, UnavailableError
from envhub.testing.hub import served_hub
from tests.trainer.playground import NoteEnvironment
from trainer_adapter import train
from trainer_adapter.config import ConfigError, load
from trainer_adapter.openrlhf import compat
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
        ("[rollout]\nincomplete_penalty = nan", r"rollout\.incomplete_penalty must be a finite"),
        ("[algorithm]\nlearning_rate = inf", r"algorithm\.learning_rate must be a finite"),
        ("[algorithm.correction]\nlevel = 'token'\nthreshold = [0.5, inf]", "threshold must be a finite"),
        ("[rollout]\ntemperature = nan", "temperature"),
        ("[rollout]\nlease_s = 60", "lease_s 60 must be longer"),
        ("[[tasks]]\nenvironment = 'calculator'", "calculator/train twice"),
        (
            "[evaluate]\n[[evaluate.tasks]]\nenvironment = 'a'\n[[evaluate.tasks]]\nenvironment = 'a'",
            r"evaluate\.tasks.*twice",
        ),
        ("[train]\nn_gpus = true", "n_gpus"),
        ("[train]\nn_gpus = 1.0", "n_gpus"),
        ("[train]\nresume = 'yes'", "resume"),
        ("[train]\nwandb = 'project'", "wandb"),
        ("[model.template_options]\na = [1]", "template_options"),
        ("[hub]\nkey = 'hunter2'", "unknown field `key`"),
        ("[algorithm]\nbaseline = 'gae'\n[rollout]\non_rewrite = 'refuse'", "b_max to queue.b_min"),
    ],
)
def test_what_cannot_work_is_refused_and_named(tmp_path: Path, change: str, said: str) -> None:
    text = "\n".join(["[model]\npath = 'm'", "[[tasks]]\nenvironment = 'calculator'", change])
    with pytest.raises(ConfigError, match=said):
        load(written(tmp_path, text))


def test_a_key_never_shows_in_what_is_said(tmp_path: Path) -> None:
    secret = "hunter2-hunter2"
    key = tmp_path / "key"
    key.write_text(f"{secret}\n")
    config = load(written(tmp_path, f"{SMALL}\n[hub]\nkey_file = '{key}'"))
    assert train.hub_key(config) == secret
    for content in (f"{secret}\n{secret}", "", f"{secret} # mine"):
        key.write_text(content)
        with pytest.raises(ConfigError, match=r"hub\.key_file.*one key") as caught:
            train.hub_key(config)
        assert secret not in str(caught.value)
    key.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not a text"):
        train.hub_key(config)
    key.unlink()
    with pytest.raises(ConfigError, match=r"hub\.key_file"):
        train.hub_key(config)
    with pytest.raises(ConfigError) as caught:
        load(written(tmp_path, SMALL.replace("[model]", f"[model]\nkey = '{secret}'")))
    assert secret not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8800", "http://[::1", "ftp://x", "http://127.0.0.1:99999", "http://:80", "http://u:hunter2@hub"],
)
def test_a_url_that_is_none_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError, match=r"hub\.url") as caught:
        load(written(tmp_path, f"{SMALL}\n[hub]\nurl = '{url}'"))
    assert "hunter2" not in str(caught.value)
    for good in ("http://hub", "https://hub.example/envhub/", "http://[::1]:8800"):
        load(written(tmp_path, f"{SMALL}\n[hub]\nurl = '{good}'"))


def test_key_files_are_found_from_wherever_a_process_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/someone")
    wandb = "wandb = { project = 'p', key_file = '~/w', folder = 'runs' }"
    text = SMALL.replace("[train]", f"[train]\n{wandb}") + "[hub]\nkey_file = 'k'"
    config = load(written(tmp_path, text))
    assert config.hub.key_file == str(tmp_path / "k")
    assert config.train.wandb is not None
    assert (config.train.wandb.key_file, config.train.wandb.folder) == ("/home/someone/w", str(tmp_path / "runs"))
    flags = plan(config).flags
    assert values(flags, "--logger.wandb.project") == ["p"] and "/home/someone/w" not in flags


def test_a_reference_model_shares_the_policy_s_gpus(tmp_path: Path) -> None:
    """The shipped settings fit the GPUs that they speak of."""
    small, paper = load(CONFIGS / "small-gpu.toml"), load(CONFIGS / "paper-14b.toml")
    for config, total in ((small, "2: "), (paper, "64: ")):
        resolved = plan(config)
        assert "--train.colocate_actor_ref" in resolved.flags
        assert next(row.value for row in resolved.rows if row.name == "GPUs").startswith(total)
    text = SMALL.replace("n_gpus = 2", "n_gpus = 2\nmicro_batch = 1")
    gae = f"{text}[algorithm]\nbaseline = 'gae'\nkl_coef = 0.0\n[rollout]\non_rewrite = 'refuse'\n[queue]\nb_max = 32"
    resolved = plan(load(written(tmp_path, gae)))
    assert next(row.value for row in resolved.rows if row.name == "GPUs") == "6: 2 train, 2 play, 2 train the critic"
    assert "--train.colocate_actor_ref" not in resolved.flags


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
    for flag in ("--rollout.batch_size", "--train.async_enable=1", "--logger.wandb.key", "--logger.wandb.key=hunter2"):
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
            ("environment = 'calculator'\noptions = {max_turns = 'many'}", "does not start: .*max_turns"),
        ):
            text = f"[model]\npath = 'm'\n[hub]\nurl = '{served.url}'\n[[tasks]]\n{change}"
            with pytest.raises(ConfigError, match=said):
                await train.check_hub(load(written(tmp_path, text)))


def test_the_command_says_what_is_wrong_and_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert train.main(["--config", str(tmp_path / "none.toml"), "--dry-run"]) == 2
    assert "none.toml" in capsys.readouterr().out.replace("\n", "")
    down = written(tmp_path, f"{SMALL}\n[hub]\nurl = 'http://127.0.0.1:9'")
    monkeypatch.setattr(train, "_RETRY_FOR_S", 0.0)
    assert train.main(["--config", str(down), "--dry-run"]) == 2
    shown = capsys.readouterr().out
    assert "1 fresh, 1 stale" in shown and "error:" in shown and "`envhub up -e calculator` starts a hub" in shown


@pytest.mark.parametrize(
    ("error", "key_file", "said"),
    [
        (AuthenticationError("a client key is needed"), None, "hub.key_file names the file"),
        (AuthenticationError("a client key is needed"), "k", "is none of this hub's"),
        (UnavailableError("no answer"), None, "envhub up -e calculator"),
        (ConfigError("wrong"), None, ""),
    ],
)
def test_every_refusal_of_the_hub_says_what_helps(
    tmp_path: Path, error: Exception, key_file: str | None, said: str
) -> None:
    text = SMALL if key_file is None else f"{SMALL}\n[hub]\nkey_file = '{key_file}'"
    assert said in train._advice(error, load(written(tmp_path, text)))


async def test_an_episode_that_does_not_start_is_told_before_anything_is_trained(tmp_path: Path) -> None:
    told: list[str] = []
    environment = NoteEnvironment()
    async with served_hub({"notes": environment}, capacity=1) as served:
        text = f"[model]\npath = 'm'\n[hub]\nurl = '{served.url}'\n[[tasks]]\nenvironment = 'notes'\nsplit = 'test'"
        await train.check_hub(load(written(tmp_path, text)), tell=told.append)
        assert environment.n_live == 0, "the try is cancelled"
        assert told == ["hub: notes/test has 1000 tasks; an episode starts, with noop"]
        with pytest.raises(ConfigError, match=r"episode of notes/test does not start: episode_failed: .*no start"):
            await train.check_hub(load(written(tmp_path, f"{text}\noptions = {{ fail_reset = true }}")))


def test_a_dry_run_says_whether_this_interpreter_could_train(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for found, said in (("0.11.2", "openrlhf is installed"), ("0.10.4", "openrlhf 0.10.4 is installed in")):
        monkeypatch.setattr(compat, "version", lambda name, found=found: found)
        train._show_packages(Console(soft_wrap=True))
        assert said in capsys.readouterr().out
