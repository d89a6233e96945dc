"""The supervised warm start: the hub's reference solutions, and a policy that has read some of them.

Invariant: the same seed and settings give the same demonstrations and the same tokenizer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from learner.environments import Course, demonstration, environments, hub_of
from learner.model import Policy, Shape
from learner.text import END, CompactFamily, Tokenizer, written
from torch import Tensor
from torch.nn import functional

from envhub.core.types import Message, TaskRef

Conversation = tuple[Message, ...]
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class WarmStart:
    """``n_demonstrations`` of each environment. It ends when so much of the validation tasks of each environment in ``until`` is
    solved, looked at every ``look_every`` steps, and at the latest after ``n_tokens``, when the rates have fallen to 0; a step has
    ``step_tokens``. ``prediction``: weight of the loss on what the environment says, of which a ``share`` is looked at; the rest is
    the loss on what the solution says."""

    n_demonstrations: Mapping[str, int]
    n_tokens: int
    until: Mapping[str, float]
    look_every: int = 100
    seed: int = 1
    step_tokens: int = 3072
    learning_rate: float = 3e-3
    matrix_learning_rate: float = 0.02
    prediction: float = 0.3
    share: float = 0.3
    vocabulary: int = 2500
    n_looks: tuple[int, ...] = (0, 1, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class Lesson:
    """A conversation in tokens; ``mask`` where the solution speaks."""

    ids: tuple[int, ...]
    mask: tuple[bool, ...]


async def demonstrations(courses: Sequence[Course], settings: WarmStart) -> list[Conversation]:
    """Reference solutions of tasks that are drawn from those to learn from, as they are played on the hub."""
    made: list[Conversation] = []
    known = environments(courses)
    async with hub_of(known) as hub:
        for course in courses:
            rng = random.Random(f"{settings.seed}/{course.environment}")
            for task in _drawn(course.demonstrated, settings.n_demonstrations[course.environment], rng):
                n_looks = rng.choice(settings.n_looks)
                made.append(await demonstration(hub, known[course.environment], course, task, n_looks=n_looks, rng=rng))
    return made


def _drawn(tasks: Sequence[TaskRef], n: int, rng: random.Random) -> Iterator[TaskRef]:
    """``n`` of them; all of them once, in a new order every time, before any comes again."""
    while n > 0:
        drawn = rng.sample(tasks, min(n, len(tasks)))
        yield from drawn
        n -= len(drawn)


def tokenizer_of(conversations: Sequence[Conversation], size: int) -> Tokenizer:
    family = CompactFamily()
    return Tokenizer.made_from((family.render(each, (), generate=False) for each in conversations), size)


def lesson(conversation: Conversation, tokenizer: Tokenizer) -> Lesson:
    family = CompactFamily()
    ids: list[int] = []
    mask: list[bool] = []
    for message in conversation:
        if message.role == "assistant":
            begin = tokenizer.encode(family.render((), (), generate=True))
            said = tokenizer.encode(written(message) + END)
            ids += begin + said
            mask += [False] * len(begin) + [True] * len(said)
        else:
            seen = tokenizer.encode(family.render((message,), (), generate=False))
            ids += seen
            mask += [False] * len(seen)
    last = max(place for place, said in enumerate(mask) if said)
    return Lesson(tuple(ids[: last + 1]), tuple(mask[: last + 1]))


def train(
    policy: Policy, lessons: Sequence[Lesson], settings: WarmStart, *, enough: Callable[[], bool], report: Report
) -> int:
    """Tokens read. Matrices by Muon (kellerjordan.github.io/posts/muon), the rest by AdamW; both rates fall to 0 over the second half.
    ``enough`` is asked whether to end."""
    rng = random.Random(settings.seed)
    matrices = [value for name, value in policy.named_parameters() if value.ndim == 2 and "embedding" not in name]
    others = [value for name, value in policy.named_parameters() if value.ndim != 2 or "embedding" in name]
    optimizers: list[tuple[torch.optim.Optimizer, float]] = [
        (
            torch.optim.Muon(matrices, lr=settings.matrix_learning_rate, weight_decay=0.01),
            settings.matrix_learning_rate,
        ),
        (torch.optim.AdamW(others, lr=settings.learning_rate, betas=(0.9, 0.95), fused=True), settings.learning_rate),
    ]
    n_read = n_steps = 0
    while n_read < settings.n_tokens:
        for part in parts(lessons, settings.step_tokens, rng):
            left = 1 - n_read / settings.n_tokens
            if left <= 0:
                break
            for optimizer, rate in optimizers:
                optimizer.param_groups[0]["lr"] = rate * min(1.0, (n_steps + 1) / 30, 2 * left)
            loss = _loss(policy, part, settings)
            policy.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            for optimizer, _ in optimizers:
                optimizer.step()
            n_steps += 1
            n_read += sum(len(each.ids) for each in part)
            if n_steps % settings.look_every == 0:
                report(f"warm start: step {n_steps}, {n_read} tokens, loss {float(loss.detach()):.3f}")
                if enough():
                    return n_read
    return n_read


def parts(lessons: Sequence[Lesson], n_tokens: int, rng: random.Random) -> Iterator[list[Lesson]]:
    """All of them once, those of like length together, in a random order."""
    ordered = sorted(lessons, key=lambda each: len(each.ids) * rng.uniform(0.9, 1.1))
    made: list[list[Lesson]] = [[]]
    for each in ordered:
        if made[-1] and (len(made[-1]) + 1) * max(len(other.ids) for other in (*made[-1], each)) > n_tokens:
            made.append([])
        made[-1].append(each)
    rng.shuffle(made)
    yield from made


def _loss(policy: Policy, part: Sequence[Lesson], settings: WarmStart) -> Tensor:
    width = max(len(each.ids) for each in part)
    ids = torch.zeros((len(part), width), dtype=torch.long)
    said, seen = torch.zeros(ids.shape, dtype=torch.bool), torch.zeros(ids.shape, dtype=torch.bool)
    for row, each in enumerate(part):
        ids[row, : len(each.ids)] = torch.tensor(each.ids)
        said[row, : len(each.ids)] = torch.tensor(each.mask)
        seen[row, : len(each.ids)] = ~torch.tensor(each.mask)
    seen &= torch.rand(seen.shape) < settings.share
    with torch.autocast("cpu", torch.bfloat16):
        hidden = policy.hidden(ids[:, :-1])
        scores = [policy.scores(hidden[mask[:, 1:]]).float() for mask in (said, seen)]
    losses = [
        functional.cross_entropy(each, ids[:, 1:][mask[:, 1:]]) for each, mask in zip(scores, (said, seen), strict=True)
    ]
    return losses[0] + settings.prediction * losses[1]


def new_policy(tokenizer: Tokenizer, *, seed: int) -> Policy:
    torch.manual_seed(seed)
    return Policy(Shape(tokenizer.size))
