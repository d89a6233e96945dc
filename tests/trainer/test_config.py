"""The configuration, and the plan it comes to."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from rich.console import Console

from envhub.core.errors import AuthenticationError, UnavailableError
from envhub.testing.hub import served_hub
from tests.trainer.playground import NoteEnvironment
from trainer_adapter import train
from trainer_adapter.config import ConfigError, key_in, load
from trainer_adapter.openrlhf import compat
from trainer_adapter.plan import plan

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


def rows(file: Path) -> dict[str, str]:
    return {row.name: row.value for row in plan(load(file)).rows}


def corrected(level: str, mode: str, gating: str, threshold: tuple[float, ...]) -> str:
    given = f"level = '{level}'\nmode = '{mode}'\ngating = '{gating}'\nthreshold = {list(threshold)}"
    return f"{SMALL}\n[algorithm.correction]\n{given}"


@pytest.mark.parametrize("file", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_shipped_configuration_is_valid(file: Path) -> None:
    found = rows(file)
    assert found.keys() >= {"batch", "policy memory"} and "note" not in found
    assert "unknown" not in found["activations"]


def test_the_paper_s_settings() -> None:
    config = load(CONFIGS / "paper-14b.toml")
    assert (len(config.engine_plan.fresh), config.engine_plan.n_stale, config.engines.stale_every) == (12, 4, 25)
    assert config.queue_settings.b_min * config.rollout.group_size == 256 * 8
    flags = plan(config).flags
    expected = {
        "--rollout.temperature": ["0.8"], "--actor.adam.lr": ["1e-06"], "--algo.kl.init_coef": ["0.0001"],
        "--algo.kl.estimator": ["k3"], "--actor.eps_clip_low_high": ["0.2", "0.2"], "--actor.dual_clip": ["3.0"],
        "--algo.advantage.estimator": ["group_norm"], "--algo.advantage.is_correction_level": ["off"],
        "--actor.lr_scheduler": ["constant"], "--actor.lr_warmup_ratio": ["0.0"], "--actor.gradient_checkpointing_enable": [],
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
        ("[algorithm.correction]\nmode = 'mask'\ngating = 'tv'\nthreshold = [0.1, 0.2]", "threshold"),
        ("[algorithm.correction]\nlevel = 'seq'", "takes mode = 'mask'"),
        ("[algorithm.correction]\nlevel = 'token'\nmode = 'mask'\ngating = 'tv'", r"one bound.*\[0\.01\]"),
        ("[algorithm.correction]\nmode = 'mask'\ngating = 'tv'\nthreshold = [0.0]", "one bound above 0"),
        ("[train]\nlr_warmup = 0.1", "constant_with_warmup"),
        ("[train]\nlr_scheduler = 'reduce_on_plateau'", "lr_scheduler"),
        ("[train]\ndevice = 'tpu'", "device"),
        ("[train]\nseed = -1", "seed"),
        ("[train]\nseed = 4294967296", "seed"),
        (
            "[queue]\nstaleness_of = 'all'\n[engines]\nn = 2\nstale_ratio = 0.5",
            r"staleness_of 'all'.*24 versions behind.*max_staleness 4",
        ),
        ("[engines]\nn = 2\nstale_ratio = 0.5\nweights = [1e308, 1e308]", r"engines\.weights are too large"),
        (
            "[[tasks]]\nenvironment = 'a'\nweight = 1e308\n[[tasks]]\nenvironment = 'b'\nweight = 1e308",
            r"weights of \[\[tasks\]\] are too large",
        ),
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
    for odd in ("k\\u0000", "~nobody-of-this-name/k"):
        with pytest.raises(ConfigError, match=r"hub\.key_file"):
            load(written(tmp_path, f'{SMALL}\n[hub]\nkey_file = "{odd}"'))
    with pytest.raises(ConfigError, match="setting"):
        key_in("k\0", "setting")
    with pytest.raises(ConfigError) as caught:
        load(written(tmp_path, SMALL.replace("[model]", f"[model]\nkey = '{secret}'")))
    assert secret not in str(caught.value)


@pytest.mark.parametrize("threshold", [(5.0, 0.5), (-3.0, -1.0), (2.0, 5.0), (0.1, 0.5), (1.0, 1.0), (5.0,)])
def test_bounds_that_leave_no_token_to_train_on_are_refused(tmp_path: Path, threshold: tuple[float, ...]) -> None:
    for level, mode in (("token", "clip"), ("token", "mask"), ("seq", "mask"), ("off", "clip")):
        with pytest.raises(ConfigError, match="a low and a high bound of the ratio"):
            load(written(tmp_path, corrected(level, mode, "ratio", threshold)))


def test_only_the_ratio_of_a_token_is_clipped(tmp_path: Path) -> None:
    for level, gating in itertools.product(("off", "token", "seq"), ("ratio", "binary_kl", "tv")):
        threshold = (0.5, 5.0) if gating == "ratio" else (0.01,)
        load(written(tmp_path, corrected(level, "mask", gating, threshold)))
        clipped = written(tmp_path, corrected(level, "clip", gating, threshold))
        if gating == "ratio" and level != "seq":
            load(clipped)
        else:
            with pytest.raises(ConfigError, match="takes mode = 'mask'"):
                load(clipped)


@pytest.mark.parametrize(
    ("queue", "train", "n_groups"),
    [
        ("b_min = 4\nb_max = 6", "n_gpus = 1\nmicro_batch = 2\nsteps_per_batch = 3", 6),
        ("", "n_gpus = 8\nsteps_per_batch = 3", 33),
        ("b_min = 4\nb_max = 6", "n_gpus = 3", 6),
        ("b_min = 1\nb_max = 4", "n_gpus = 8\nmicro_batch = 2", 4),
    ],
)
def test_the_first_batch_is_one_that_every_rank_can_cut_into_micro_batches(
    tmp_path: Path, queue: str, train: str, n_groups: int
) -> None:
    """DeepSpeed's rule, and OpenRLHF's: a batch of rollouts gives every rank a micro batch."""
    group = 8 if not queue else 4
    text = f"[model]\npath = 'm'\n[[tasks]]\nenvironment = 'a'\n[rollout]\ngroup_size = {group}\n[queue]\n{queue}\n[train]\n{train}"
    config = load(written(tmp_path, text))
    flags = plan(config).flags
    batch = int(*values(flags, "--train.batch_size"))
    ranks, micro_batch = config.train.n_gpus, config.train.micro_batch
    assert int(*values(flags, "--rollout.batch_size")) == n_groups
    assert batch * config.train.steps_per_batch == n_groups * group
    assert batch % (ranks * micro_batch) == 0 and n_groups * group // micro_batch >= ranks


def test_the_best_checkpoint_is_that_of_a_metric_which_there_will_be(tmp_path: Path) -> None:
    two = "[[evaluate.tasks]]\nenvironment = 'db'\n[[evaluate.tasks]]\nenvironment = 'db'\nsplit = 'test'"
    for best in ("pass1", "none", "pass4/db-train", "success/db-test", "reward/db-test"):
        load(written(tmp_path, f"{SMALL}\n[evaluate]\nbest = '{best}'\n{two}"))
    for best in ("pas1", "", "pass1/db", "pass3/db-test", "failures/db-test", "eval_default_pass1"):
        with pytest.raises(ConfigError, match=r"evaluate\.best.*valid: pass1, pass1/db-test, .*'none'"):
            load(written(tmp_path, f"{SMALL}\n[evaluate]\nbest = '{best}'\n{two}"))


@pytest.mark.parametrize(("stage", "gib"), [(0, 32.0), (1, 8 + 12 * 2 / 4), (2, 4 + 14 * 2 / 4), (3, 8.0)])
def test_memory_is_that_of_the_stage(tmp_path: Path, stage: int, gib: float) -> None:
    """Of 2^31 parameters on 4 ranks: Adam is sharded from stage 1 on, gradients from 2 on, weights in 3."""
    text = SMALL.replace("n_gpus = 2", f"n_gpus = 4\nzero_stage = {stage}")
    assert rows(written(tmp_path, text.replace("[model]", f"[model]\nn_parameters = {2**31}")))[
        "policy memory"
    ].startswith(f"{gib:.1f} GiB")


def test_activations_are_estimated_where_the_model_s_shape_is_known(tmp_path: Path) -> None:
    """The paper's 14B model by hand: 8192 tokens of width 5120 in 48 layers."""
    assert rows(CONFIGS / "paper-14b.toml")["activations"].startswith("up to some 5.1 GiB a GPU with")
    full = (CONFIGS / "paper-14b.toml").read_text().replace("gradient_checkpointing = true", "")
    assert rows(written(tmp_path, full))["activations"].startswith("up to some 63.8 GiB a GPU without")
    assert rows(written(tmp_path))["activations"].startswith("unknown")
    model = tmp_path / "model"
    model.mkdir()
    of_folder = SMALL.replace("path = 'm'", "").replace('path = "m"', f'path = "{model}"')
    for content in ("{", "[]", '{"num_hidden_layers": "many"}', "{}"):
        (model / "config.json").write_text(content)
        assert rows(written(tmp_path, of_folder))["activations"].startswith("unknown")
    (model / "config.json").write_text('{"num_hidden_layers": 48, "hidden_size": 5120}')
    assert rows(written(tmp_path, of_folder))["activations"].startswith("up to some 63.8 GiB")


def test_settings_without_effect_are_noted(tmp_path: Path) -> None:
    base = "[model]\npath = 'm'\n[[tasks]]\nenvironment = 'a'"
    wide = rows(written(tmp_path, f"{base}\n[queue]\nb_max = 64\nmax_staleness = 0"))
    assert "b_max 64 has no effect: 32 groups" in wide["note"] and wide["batch"].startswith("32 to 32 groups")
    few = rows(written(tmp_path, f"{base}\n[engines]\nn = 2\nstale_ratio = 0.25"))
    assert "stale_ratio 0.25 of 2 engines" in few["note"] and "note" not in rows(written(tmp_path, base))


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
    for flag in plan(config).flags:
        if flag.startswith("--") and flag != "--ckpt.output_dir":
            with pytest.raises(ConfigError, match=rf"^{flag} follows from the configuration"):
                plan(config, extra=(flag,))
    for flag in (
        "--train.async_enable=1", "--logger.wandb.key", "--logger.wandb.key=hunter2", "--logger.tensorboard_dir",
        "--algo.kl.use_loss", "--critic.num_nodes", "--ckpt.load_enable", "--actor.dual_clip",
    ):  # fmt: skip
        with pytest.raises(ConfigError, match="follows from the configuration") as caught:
            plan(config, extra=("--actor.max_norm", "0.5", flag))
        assert "hunter2" not in str(caught.value)


def test_the_beginning_of_a_flag_is_refused_like_the_flag(tmp_path: Path) -> None:
    """As OpenRLHF's argparse would read it."""
    config = load(written(tmp_path))
    for word, flag in (
        ("--train.batch_s", "--train.batch_size"), ("--algo.dynamic_filtering_e", "--algo.dynamic_filtering_enable"),
        ("--train.dynamic_b", "--train.dynamic_batch_enable"), ("--ds.ring_attn_s=2", "--ds.ring_attn_size"), ("--", ""),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=f"{word.partition('=')[0]} may be read as {flag}"):
            plan(config, extra=(word,))
    assert plan(config, extra=("--ds.packing_samples", "-1", "train")).flags[-3:] == (
        "--ds.packing_samples",
        "-1",
        "train",
    )


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


def test_a_dry_run_says_what_a_run_would_begin_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "checkpoints"
    small = SMALL.replace("[train]\n", f"[train]\ncheckpoint = '{folder}'\n")
    file = written(tmp_path, f"{small}\n[hub]\nurl = 'http://127.0.0.1:9'")
    train.main(["--config", str(file), "--dry-run"])
    assert "training begins anew" in capsys.readouterr().out
    (folder / "final").mkdir(parents=True)
    assert train.main(["--config", str(file), "--dry-run"]) == 2
    assert "holds what an earlier run saved (final)" in capsys.readouterr().out


def test_the_command_says_what_is_wrong_and_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert train.main(["--config", str(tmp_path / "none.toml"), "--dry-run"]) == 2
    assert "none.toml" in capsys.readouterr().out.replace("\n", "")
    down = written(tmp_path, f"{SMALL}\n[hub]\nurl = 'http://127.0.0.1:9'")
    monkeypatch.setattr(train, "_RETRY_FOR_S", 0.0)
    assert train.main(["--config", str(down), "--dry-run"]) == 2
    shown = capsys.readouterr().out
    assert "hermes: not looked at" in shown and "error: hub.url http://127.0.0.1:9: " in shown
    assert "1 fresh, 1 stale" in shown and "`envhub up -e calculator` starts a hub" in shown


@asynccontextmanager
async def server(answer: bytes | None) -> AsyncIterator[str]:
    """Of HTTP, and no hub: it gives one answer to everything, or none at all. The address."""

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if answer is not None:
                await reader.readuntil(b"\r\n\r\n")
                head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(answer)}\r\nConnection: close\r\n\r\n"
                writer.write(head.encode() + answer)
            await reader.read()
        finally:
            writer.close()

    serving = await asyncio.start_server(answered, "127.0.0.1", 0)
    async with serving:
        yield f"http://127.0.0.1:{serving.sockets[0].getsockname()[1]}"


async def test_an_address_that_accepts_and_says_nothing_does_not_hold_the_check_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "_ANSWER_LIMIT_S", 0.05)
    async with server(None) as url:
        with pytest.raises(UnavailableError, match=r"no answer within 0\.05 s"):
            await train.check_hub(load(written(tmp_path, f"{SMALL}\n[hub]\nurl = '{url}'")))


@pytest.mark.parametrize("answer", [b"<html>", b"{}", b"[]", b"1", b'{"environments": [{"name": 1}]}'])
async def test_a_web_server_that_is_no_hub_is_named(
    tmp_path: Path, answer: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    async with server(answer) as url:
        file = written(tmp_path, f"{SMALL}\n[hub]\nurl = '{url}'")
        assert await asyncio.to_thread(train.main, ["--config", str(file), "--dry-run"]) == 2
    assert f"error: hub.url {url}: what answers is no hub" in capsys.readouterr().out


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
