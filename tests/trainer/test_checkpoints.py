"""What a run begins with, decided on folders as runs leave them."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from trainer_adapter.config import Config, ConfigError, ModelSection, TaskSection
from trainer_adapter.openrlhf.checkpoints import _tags, start_of


def config(
    folder: Path, *, resume: bool = True, n_gpus: int = 2, zero_stage: int = 2, baseline: str = "grpo"
) -> Config:
    made = Config(model=ModelSection(path="m"), tasks=(TaskSection(environment="db"),))
    values = msgspec.to_builtins(made)
    values["train"] |= {"checkpoint": str(folder), "resume": resume, "n_gpus": n_gpus, "zero_stage": zero_stage}
    values["algorithm"]["baseline"] = baseline
    return msgspec.convert(values, Config)


def saved(part: Path, tag: str, *, n_gpus: int = 2, zero_stage: int = 2) -> Path:
    """A checkpoint with the files that DeepSpeed 0.19 and the policy write, named last."""
    models = (
        [f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt" for rank in range(n_gpus)]
        if zero_stage == 3
        else ["mp_rank_00_model_states.pt"]
    )
    states = [f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in range(n_gpus if zero_stage else 0)]
    randoms = [f"random_rank{rank}.pt" for rank in range(n_gpus)] if part.name == "_actor" else []
    (part / tag).mkdir(parents=True)
    for name in (*models, *states, *randoms):
        with zipfile.ZipFile(part / tag / name, "w") as file:
            file.writestr("data", "weights")
    (part / "latest").write_text(tag)
    return part / tag


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return tmp_path / "_actor"


def test_without_a_checkpoint_a_resumed_run_begins_anew(tmp_path: Path, policy: Path) -> None:
    """Also when it was killed before it wrote its first one."""
    for folder in (tmp_path / "absent", tmp_path):
        assert start_of(config(folder)).tag is None
    policy.mkdir()
    start = start_of(config(tmp_path))
    assert start.tag is None and f"{tmp_path} holds no checkpoint" in start.text


@pytest.mark.parametrize("zero_stage", [0, 1, 2, 3])
def test_a_complete_checkpoint_that_was_the_last_is_taken(tmp_path: Path, policy: Path, zero_stage: int) -> None:
    """Whether or not there is one of a later step."""
    for tag in ("global_step8", "best_global_step5", "global_step4"):
        saved(policy, tag, zero_stage=zero_stage)
    assert start_of(config(tmp_path, zero_stage=zero_stage)).tag == "global_step4"
    assert (policy / "latest").read_text() == "global_step4"


def cut_short(checkpoint: Path) -> None:
    file = checkpoint / "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"
    file.write_bytes(file.read_bytes()[:-30])


def lost(name: str) -> Callable[[Path], None]:
    return lambda checkpoint: (checkpoint / name).unlink()


def evicted(checkpoint: Path) -> None:
    for file in checkpoint.iterdir():
        file.unlink()
    checkpoint.rmdir()


DAMAGES = {
    "is not there": evicted,
    "1 of them whole": cut_short,
    "has 1 random_rank*.pt": lost("random_rank0.pt"),
    "has 0 *model_states.pt": lost("mp_rank_00_model_states.pt"),
    "has 1 *optim_states.pt": lost("bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"),
}


@pytest.mark.parametrize("told", DAMAGES)
def test_one_that_is_not_whole_is_told_and_the_newest_whole_one_taken(tmp_path: Path, policy: Path, told: str) -> None:
    for tag in ("global_step9", "best_global_step11", "global_step11", "global_step12"):
        saved(policy, tag)
    DAMAGES[told](policy / "global_step12")
    start = start_of(config(tmp_path))
    assert start.tag == "global_step11" and (policy / "latest").read_text() == "global_step12"
    start.note()
    assert (policy / "latest").read_text() == "global_step11"
    assert "training goes on from global_step11" in start.text and "global_step12" in start.text and told in start.text
    assert not list(policy.glob("*.new"))
    assert start_of(config(tmp_path)).tag == "global_step11"


def test_without_a_note_of_the_last_the_newest_is_taken(tmp_path: Path, policy: Path) -> None:
    for tag in ("global_step10", "global_step9"):
        saved(policy, tag)
    (policy / "latest").unlink()
    start = start_of(config(tmp_path))
    assert start.tag == "global_step10" and "not noted" in start.text


def test_when_none_is_whole_the_run_is_refused_by_what_they_lack(tmp_path: Path, policy: Path) -> None:
    cut_short(saved(policy, "global_step2"))
    (policy / "global_step4").mkdir()
    with pytest.raises(
        ConfigError, match=r"global_step4 has 0 \*model_states.*global_step2 has 2 \*optim_states.*delete it"
    ):
        start_of(config(tmp_path))


@pytest.mark.parametrize("other", [{"n_gpus": 4}, {"n_gpus": 1}, {"zero_stage": 3}])
def test_one_of_other_ranks_or_another_stage_is_refused(tmp_path: Path, policy: Path, other: dict[str, int]) -> None:
    saved(policy, "global_step2")
    with pytest.raises(ConfigError, match=r"the train\.n_gpus and train\.zero_stage it was made with"):
        start_of(config(tmp_path, **other))


def test_a_critic_goes_on_from_the_same_step(tmp_path: Path, policy: Path) -> None:
    """The two are saved at the same time, and either may have been the first."""
    critic = tmp_path / "_critic"
    for part in (policy, critic):
        saved(part, "global_step2")
    saved(policy, "global_step4")
    assert start_of(config(tmp_path)).tag == "global_step4"
    both = start_of(config(tmp_path, baseline="gae"))
    both.note()
    assert both.tag == "global_step2"
    assert [(part / "latest").read_text() for part in (policy, critic)] == ["global_step2"] * 2


@pytest.mark.parametrize("left", ["_actor/global_step2", "_actor/best_global_step7"])
def test_a_run_that_begins_anew_spares_what_another_one_saved(tmp_path: Path, left: str) -> None:
    (tmp_path / left).mkdir(parents=True)
    with pytest.raises(ConfigError, match=rf"train\.checkpoint.*{left}.*train\.resume = true.*another folder.*delete"):
        start_of(config(tmp_path, resume=False))
    assert (tmp_path / left).is_dir()


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("left", ["final", "final_critic", "global_step2_hf", "_critic/global_step2"])
def test_what_cannot_be_gone_on_from_is_spared_too(tmp_path: Path, left: str, resume: bool) -> None:
    """And nobody is told to go on from it."""
    (tmp_path / left).mkdir(parents=True)
    with pytest.raises(ConfigError, match=rf"holds what an earlier run saved \({left}\).*: name another folder"):
        start_of(config(tmp_path, resume=resume))


def test_a_run_that_begins_anew_takes_a_folder_with_other_things(tmp_path: Path, policy: Path) -> None:
    (tmp_path / "notes").mkdir()
    policy.mkdir()
    assert start_of(config(tmp_path, resume=False)).tag is None
    assert start_of(config(tmp_path / "absent", resume=False)).tag is None


def test_checkpoints_are_tried_from_the_newest_on_and_the_ordinary_one_of_a_step_first(policy: Path) -> None:
    wanted = [f"{kind}global_step{step}" for step in range(12, 0, -1) for kind in ("", "best_")]
    for tag in reversed(wanted):
        (policy / tag).mkdir(parents=True)
    (policy / "latest").write_text("global_step3")
    (policy / "global_step3.old").mkdir()
    assert _tags(policy) == wanted
