"""The parts of the learning benchmark: what it samples, what it trains on, and what its variants differ in."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: make trainer-cpu, then make test-trainer")
pytest.importorskip("tokenizers")

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from learner import summary  # noqa: E402
from learner.engine import Engine, _sampled  # noqa: E402
from learner.environments import Course, Sizes, courses, demonstration, environments, hub_of  # noqa: E402
from learner.games import FAMILIES, MAX_RECEPTACLES  # noqa: E402
from learner.model import Cache, Piece, Policy, Shape  # noqa: E402
from learner.run import Plan, Variant, config_of  # noqa: E402
from learner.text import CompactFamily, Tokenizer, compact_format  # noqa: E402
from learner.update import Learner, Micro, micro_of, policy_loss, rows_of  # noqa: E402
from learner.warm_start import Lesson, WarmStart, train  # noqa: E402

from envhub.core.types import Message, TaskRef, ToolCall, ToolSpec  # noqa: E402
from envhub.envs.alfworld.tasks import load_split  # noqa: E402
from trainer_adapter.config import AlgorithmSection, CorrectionSection  # noqa: E402
from trainer_adapter.groups import GroupBaseline  # noqa: E402
from trainer_adapter.queue import Batch, Group  # noqa: E402
from trainer_adapter.tokens import FinishReason, SamplerError, TokenTrack, Trajectory  # noqa: E402
from trainer_adapter.weight_sync import Limits, update  # noqa: E402

pytestmark = pytest.mark.torch

TOOLS = (
    ToolSpec("get_neighbors", "", {"type": "object", "properties": {"variable": {}, "relation": {}}}),
    ToolSpec("look", "", {"type": "object", "properties": {"action": {}}}),
)
TEXTS = ["look go to shelf 1", "get_neighbors Ardfield Bears | sports.sports_team.titles", "Final Answer: #1"]
SMALL = Shape(vocabulary=300, width=32, n_layers=2, n_heads=4, n_kv_heads=2, hidden=64, context=128)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.made_from(TEXTS * 20, 300)


SIZES = Sizes(demonstrated=4, train=6, validation=3, held_out=5)


def folder_of(factory: pytest.TempPathFactory) -> Path:
    return factory.getbasetemp() / "games"


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Course, ...]:
    return courses(folder_of(tmp_path_factory), SIZES)


@pytest.fixture
def policy() -> Policy:
    torch.manual_seed(5)
    made = Policy(SMALL)
    for value in made.parameters():
        if value.ndim == 2:
            torch.nn.init.normal_(value, std=0.3)
    return made


def call(name: str, arguments: str) -> Message:
    return Message.assistant(None, ToolCall("call_0", name, arguments))


@pytest.mark.parametrize("text", [*TEXTS, "Ünïcode\n\n  two  spaces"])
def test_every_text_comes_back_from_its_tokens(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_call_that_was_written_is_read_back() -> None:
    family = CompactFamily()
    said = call("get_neighbors", '{"variable": "Ardfield Bears", "relation": "sports.sports_team.titles"}')
    text = family.render((said,), TOOLS, generate=False)
    assert text == "<|assistant|>get_neighbors Ardfield Bears | sports.sports_team.titles<|end|>"
    read = family.read(text.removeprefix("<|assistant|>").removesuffix("<|end|>"), TOOLS)
    assert (read.tool_calls[0].name, read.tool_calls[0].arguments) == ("get_neighbors", said.tool_calls[0].arguments)


@pytest.mark.parametrize("text", ["Final Answer: #1", "get_neighbors one", "look a | b", "", "unknown tool"])
def test_what_is_no_call_is_a_plain_text(text: str) -> None:
    read = CompactFamily().read(text, TOOLS)
    assert read.tool_calls == () and read.content == text


def test_the_format_never_rewrites_a_turn(tokenizer: Tokenizer) -> None:
    chat = compact_format(tokenizer)
    talk = (Message.user("go"), call("look", '{"action": "go to shelf 1"}'), Message.tool("call_0", "a shelf"))
    assert not chat.rewrites(talk, TOOLS)


def test_reading_piece_by_piece_scores_as_reading_at_once(policy: Policy) -> None:
    ids = torch.randint(0, 300, (3, 40))
    slots = torch.tensor([4, 0, 2])
    cache = Cache(SMALL, 5)
    with torch.no_grad():
        whole = policy.hidden(ids)
        pieces = []
        for begin, end in ((0, 17), (17, 18), (18, 40)):
            before = ids[:, begin - 1] if begin else torch.zeros(3, dtype=torch.long)
            pieces.append(policy.read(Piece(ids[:, begin:end], before, slots, torch.full((3,), begin)), cache))
    assert torch.allclose(torch.cat(pieces, 1), whole, atol=1e-5)


@asynccontextmanager
async def running(policy: Policy, tokenizer: Tokenizer, **options: float) -> AsyncIterator[Engine]:
    settings = {"n_slots": 4, "temperature": 0.8, "seed": 1, **options}
    async with Engine(0, tokenizer, policy, **settings) as engine:  # type: ignore[arg-type]
        yield engine


def taught(policy: Policy, ids: list[int], sampled: tuple[int, ...], temperature: float) -> list[float]:
    """The log-probs that the policy itself gives to what was sampled."""
    both = torch.tensor([[*ids, *sampled]])
    held = Policy(SMALL)
    held.load_state_dict(policy.state_dict())
    held.to(torch.bfloat16)
    with torch.no_grad():
        scores = held.scores(held.hidden(both[:, :-1])).float() / temperature
    found = scores.log_softmax(-1).gather(2, both[:, 1:, None])[0, len(ids) - 1 :, 0]
    return [float(each) for each in found]


async def test_log_probs_are_the_policys_own_over_turns_that_share_a_cache(
    policy: Policy, tokenizer: Tokenizer
) -> None:
    async with running(policy, tokenizer) as engine:
        ids = [7, 8, 9, 10]
        for _ in range(3):
            done = await engine.sample(tuple(ids), max_tokens=6)
            assert done.logprobs == pytest.approx(taught(policy, ids, done.ids, 0.8), abs=0.1)
            ids += [*done.ids, 11, 12]
        assert engine.n_read < len(ids) + 3, "what was read once is not read again"


async def test_a_completion_stops_at_the_end_of_a_turn_or_at_its_limit(policy: Policy, tokenizer: Tokenizer) -> None:
    (end,) = tokenizer.encode(tokenizer.eos_token)
    async with running(policy, tokenizer) as engine:
        done = await asyncio.gather(*(engine.sample((5, number), max_tokens=5) for number in range(40)))
    for each in done:
        assert end not in each.ids[:-1]
        assert each.finish is (FinishReason.STOP if each.ids[-1] == end else FinishReason.LENGTH)
        assert each.finish is FinishReason.STOP or len(each.ids) == 5
        assert each.text == tokenizer.decode([token for token in each.ids if token != end])


def test_tokens_are_drawn_as_often_as_their_probability_says() -> None:
    probabilities = torch.tensor([[0.0, 0.2, 0.0, 0.5, 0.3, 0.0]]).repeat(30_000, 1)
    uniform = torch.rand((30_000, 1), generator=torch.Generator().manual_seed(1))
    found = torch.bincount(_sampled(probabilities, uniform)[:, 0], minlength=6) / 30_000
    assert found.tolist() == pytest.approx([0.0, 0.2, 0.0, 0.5, 0.3, 0.0], abs=0.015)
    assert _sampled(probabilities[:1], torch.zeros(1, 1)).item() == 1, "what has no probability is never drawn"
    assert _sampled(probabilities[:1], torch.full((1, 1), 1 - 2**-24)).item() == 4


async def send(engine: Engine, policy: Policy, version: int) -> None:
    async def sent() -> dict[str, str]:
        from learner.engine import tensor_checksum

        found = {}
        for name, weight in policy.named_parameters():
            tensor = weight.detach().to(torch.bfloat16)
            found[name] = tensor_checksum(tensor)
            engine.receive(name, tensor)
        return found

    await update({0: engine}, sent, version, Limits())


async def test_new_weights_sample_with_nothing_that_old_ones_read(policy: Policy, tokenizer: Tokenizer) -> None:
    async with running(policy, tokenizer) as engine:
        first = await engine.sample((7, 8, 9, 10), max_tokens=4)
        with torch.no_grad():
            for value in policy.parameters():
                value.mul_(1.3)
        await send(engine, policy, 1)
        ids = [7, 8, 9, 10, *first.ids, 11]
        done = await engine.sample(tuple(ids), max_tokens=6)
    assert (first.version, done.version) == (0, 1)
    assert done.logprobs == pytest.approx(taught(policy, ids, done.ids, 0.8), abs=0.1)


async def test_a_paused_engine_samples_nothing_and_keeps_what_it_had_begun(
    policy: Policy, tokenizer: Tokenizer
) -> None:
    async with running(policy, tokenizer) as engine:
        await engine.pause()
        asked = asyncio.create_task(engine.sample((7, 8), max_tokens=3))
        for _ in range(50):
            await asyncio.sleep(0)
        assert engine.n_sampled == 0 and not asked.done()
        await send(engine, policy, 4)
        assert (await asked).version == 0, "of the weights when it was asked for"


async def test_a_cancelled_caller_gives_its_slot_back(policy: Policy, tokenizer: Tokenizer) -> None:
    async with running(policy, tokenizer, n_slots=1) as engine:
        first = asyncio.create_task(engine.sample((7, 8), max_tokens=60))
        for _ in range(60):
            await asyncio.sleep(0)
        assert 0 < engine.n_sampled < 60
        first.cancel()
        done = await asyncio.wait_for(engine.sample((9, 10), max_tokens=2), 30)
    assert done.ids


@pytest.mark.parametrize("cancelled", [{0}, {1}, {0, 1}, {0, 1, 2}])
async def test_callers_that_are_cancelled_together_take_nothing_from_others(
    policy: Policy, tokenizer: Tokenizer, cancelled: set[int]
) -> None:
    async with running(policy, tokenizer, n_slots=3) as engine:
        asked = [asyncio.create_task(engine.sample((7, 8 + each), max_tokens=40)) for each in range(3)]
        for _ in range(60):
            await asyncio.sleep(0)
        assert 0 < engine.n_sampled < 3 * 40
        for number in cancelled:
            asked[number].cancel()
        left = [each for number, each in enumerate(asked) if number not in cancelled]
        again = [engine.sample((9, 10), max_tokens=2) for _ in range(3)]
        done = await asyncio.wait_for(asyncio.gather(*left, *again), 30)
    assert all(each.ids for each in done)


async def test_whoever_waits_for_an_engine_hears_that_it_failed(
    policy: Policy, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("out of memory")

    async with running(policy, tokenizer) as engine:
        monkeypatch.setattr(engine._policy, "read", broken)
        for _ in range(2):
            with pytest.raises(SamplerError, match="out of memory"):
                await asyncio.wait_for(engine.sample((7, 8), max_tokens=4), 30)


def trajectory(task: TaskRef, member: int, reward: float, n_turns: int) -> Trajectory:
    track = TokenTrack()
    track.observe([5, 6, 7])
    for turn in range(n_turns):
        track.ids.extend([20 + turn, 21 + turn])
        track.mask.extend([1, 1])
        track.logprobs.extend([-0.5, -0.6])
        track.engines.extend([0, 0])
        track.versions.extend([0, 0])
        track.observe([8])
    track.trim()
    return Trajectory("g0", member, task, (track.sequence(),), reward, reward)


def batch() -> Batch:
    groups = []
    for serial, (name, n_turns) in enumerate((("alfworld", 6), ("calculator", 2), ("calculator", 3))):
        task = TaskRef(name, "train", serial)
        played = tuple(
            trajectory(task, member, float(member == 0) * (1 + serial), n_turns + member) for member in range(4)
        )
        groups.append(Group(f"g{serial}", serial, 0, task, played))
    return Batch(0, tuple(groups), (0, 0, 0))


def test_a_row_has_the_advantage_of_its_trajectory_in_its_group() -> None:
    rows = rows_of(batch(), GroupBaseline.GRPO)
    assert len(rows) == 12
    assert [round(row.advantage, 4) for row in rows[:4]] == [1.5, -0.5, -0.5, -0.5], "by the deviation over n - 1"


async def nothing() -> None:
    pass


def a_micro(advantage: float = 1.0) -> Micro:
    rows = rows_of(batch(), GroupBaseline.GRPO)
    micro = micro_of([replace(row, advantage=advantage * row.advantage) for row in rows])
    torch.manual_seed(1)
    micro.old = micro.sampled + 0.2 * torch.randn(micro.mask.shape) * micro.mask
    micro.reference = micro.sampled + 0.2 * torch.randn(micro.mask.shape) * micro.mask
    return micro


CORRECTIONS = (
    CorrectionSection(),
    CorrectionSection(level="token", mode="clip", threshold=(0.9, 1.1)),
    CorrectionSection(level="token", mode="mask", threshold=(0.9, 1.1)),
)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("correction", CORRECTIONS)
def test_the_loss_is_that_of_openrlhf(correction: CorrectionSection, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openrlhf")
    from trainer_adapter.openrlhf import cpu

    for name, value in cpu.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    cpu.setup()
    from openrlhf.models import loss as theirs
    from openrlhf.models.utils import compute_approx_kl as kl

    algorithm = AlgorithmSection(kl_coef=0.01, correction=correction)
    micro = a_micro()
    logprobs = (micro.old + 0.5 * torch.randn(micro.mask.shape)) * micro.mask
    loss = theirs.PolicyLoss(
        0.2, 0.2, 3.0, is_correction_level=correction.level, is_correction_mode=correction.mode,
        is_correction_threshold=list(correction.threshold),
    )  # fmt: skip
    mask = micro.mask.float()
    expected, *_ = loss(logprobs, micro.old, micro.advantages, mask, micro.sampled)
    distance = kl(logprobs, micro.reference, kl_estimator="k3")
    found = policy_loss(logprobs, micro, algorithm)
    assert float(found["policy_loss"] / mask.sum()) == pytest.approx(float(expected), rel=1e-4)
    assert float(found["kl_loss"] / mask.sum()) == pytest.approx(
        0.01 * float((distance * mask).sum() / mask.sum()), rel=1e-4
    )


async def test_a_step_makes_what_paid_more_likely(policy: Policy, learned: tuple[Course, ...]) -> None:
    plan = Plan(1, 1, learning_rate=1e-3, steps_per_batch=1)
    learner = Learner(policy, config_of(Variant.FULL, plan, learned, seed=1))
    micro = a_micro()
    before = learner._logprobs(policy, micro).detach()
    found = await learner.step(batch(), nothing)
    change = learner._logprobs(policy, micro).detach() - before
    assert float((change * micro.advantages).sum()) > 0
    assert found["advantage_std/calculator"] == pytest.approx(1.0) and found["advantage_std/alfworld"] == pytest.approx(
        1.0
    )


async def test_the_learning_rate_falls_to_a_tenth_over_the_second_half(
    policy: Policy, learned: tuple[Course, ...]
) -> None:
    learner = Learner(policy, config_of(Variant.FULL, Plan(4, 1, learning_rate=1e-3), learned, seed=1))
    rates = []
    for _ in range(5):
        await learner.step(batch(), nothing)
        rates.append(learner._optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([1e-3, 1e-3, 1e-3, 5.5e-4, 1e-4])


@pytest.mark.parametrize("n_steps", [1, 2])
async def test_ratios_are_of_the_policy_before_the_step_to_the_engine(
    policy: Policy, n_steps: int, learned: tuple[Course, ...]
) -> None:
    config = config_of(Variant.FULL, Plan(1, 1, steps_per_batch=n_steps), learned, seed=1)
    learner = Learner(policy, config)
    micro = micro_of(rows_of(batch(), GroupBaseline.GRPO))
    with torch.no_grad():
        logs = (learner._logprobs(policy, micro) - micro.sampled)[micro.mask]
    found = await learner.step(batch(), nothing)
    assert found["ratio/mean_abs_log"] == pytest.approx(float(logs.abs().mean()), rel=1e-3)


async def test_without_task_normalization_advantages_stay_as_the_groups_give_them(
    policy: Policy, learned: tuple[Course, ...]
) -> None:
    config = config_of(Variant.NO_TASK_NORM, Plan(1, 1, steps_per_batch=1), learned, seed=1)
    found = await Learner(policy, config).step(batch(), nothing)
    assert found["advantage_std/calculator"] != pytest.approx(1.0, abs=0.05)


DIFFERENCES: dict[Variant, Callable[[object], object]] = {
    Variant.NO_TASK_NORM: lambda config: config.algorithm,  # type: ignore[attr-defined]
    Variant.NO_CROSS_POLICY: lambda config: config.engines,  # type: ignore[attr-defined]
    Variant.SYNCHRONOUS: lambda config: config.queue,  # type: ignore[attr-defined]
}


@pytest.mark.parametrize("variant", DIFFERENCES)
def test_a_variant_differs_from_the_full_one_in_its_own_part_alone(
    variant: Variant, learned: tuple[Course, ...]
) -> None:
    plan = Plan(4, 2)
    full, other = (config_of(each, plan, learned, seed=2) for each in (Variant.FULL, variant))
    differing = [name for name in full.__struct_fields__ if getattr(full, name) != getattr(other, name)]
    assert len(differing) == 1
    assert getattr(full, differing[0]) == DIFFERENCES[variant](full)


def test_a_warm_start_ends_when_enough_is_learned_or_all_is_read(policy: Policy) -> None:
    lessons = [Lesson((1, 2, 3, 4, 5), (False, True, False, True, True))] * 8
    settings = WarmStart({}, n_tokens=1_200, until={}, look_every=2, step_tokens=40, share=1.0)
    answers, told = iter((False, True)), []
    assert train(policy, lessons, settings, enough=lambda: next(answers), report=told.append) == 4 * 40
    assert train(policy, lessons, settings, enough=lambda: False, report=told.append) == 1_200
    losses = [float(line.rsplit(" ", 1)[1]) for line in told]
    assert losses[-1] < 0.5 * losses[0]


def test_no_task_is_in_two_parts_of_a_course(
    learned: tuple[Course, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    for course in learned:
        parts = (course.demonstrated, course.train, course.validation, course.held_out)
        assert all(parts) and sum(map(len, parts)) == len({task for part in parts for task in part})
    tuned = courses(folder_of(tmp_path_factory), SIZES, validation=True)
    assert [each.held_out for each in tuned] == [each.validation for each in learned]


def test_no_game_is_in_two_splits_and_all_are_small(learned: tuple[Course, ...]) -> None:
    root = Path(str(learned[0].settings["datasets"])) / "alfworld"
    games = [game for split in asdict(SIZES) for game in load_split(root, split)]
    lying = {tuple(sorted(f"{each.kind} {each.receptacles}" for each in game.things)) for game in games}
    assert len(lying) == len(games)
    assert all(len(game.receptacles) <= MAX_RECEPTACLES and game.goal.family in FAMILIES for game in games)


async def test_a_demonstration_looks_around_before_it_finds(learned: tuple[Course, ...]) -> None:
    course, known = learned[0], environments(learned)
    async with hub_of(known) as hub:
        direct, looking = [
            await demonstration(hub, known["alfworld"], course, course.demonstrated[0], n_looks=n, rng=random.Random(3))
            for n in (0, 2)
        ]
    said, after = [[each.tool_calls[0].arguments for each in done if each.tool_calls] for done in (direct, looking)]
    assert after[-len(said) :] == said
    looks = [json.loads(each)["action"].split()[0] for each in after[: -len(said)]]
    assert looks.count("go") == 2 and set(looks) <= {"go", "open"}


def a_run(variant: str, seed: int, **success: float) -> summary.Run:
    first = {f"{kind}/{name}": 0.1 for kind in ("success", "reward") for name in summary.ENVIRONMENTS}
    last = {f"{kind}/{name}": value for kind in ("success", "reward") for name, value in success.items()}
    evaluations = [{"step": 0, **first}, {"step": 9, **last}]
    return {"variant": variant, "seed": seed, "evaluations": evaluations, "seconds": 1.0, "cpu_seconds": 1.0}


def test_the_gain_that_counts_is_that_of_the_environment_where_it_is_least() -> None:
    runs = [a_run("full", seed, alfworld=0.5, calculator=gained) for seed, gained in enumerate((0.05, 0.2, 0.3))]
    assert summary.least_gain(runs) == pytest.approx(0.1)
    found = summary.table([*runs, a_run("synchronous", 1, alfworld=0.2, calculator=0.2)])
    assert found["full"]["calculator"]["success_after"]["values"] == [0.05, 0.2, 0.3]
    assert found["synchronous"]["alfworld"]["gain"]["mean"] == pytest.approx(0.1)
