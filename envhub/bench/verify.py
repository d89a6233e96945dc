"""Proof of tasks, through real sessions: the reference solution earns everything, silence nothing, tricks hardly anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from envhub.bench.agents import Agent, AgentError, NullAgent, OracleAgent, RandomAgent, ScriptAgent
from envhub.client.hub import Hub
from envhub.client.rollout import rollout
from envhub.core.errors import EnvhubError
from envhub.core.protocols import Environment, Exploits
from envhub.core.types import TaskRef

ORACLE, NULL = "oracle", "null"
_MAX_NAMED = 20


@dataclass(frozen=True, slots=True)
class Surprise:
    """An episode that did not end as it must."""

    agent: str
    task: TaskRef
    what: str


@dataclass(frozen=True, slots=True)
class AgentProof:
    """What an agent earned. ``mean_reward`` is None when nothing was played; ``goal`` says in words what is asked of it."""

    agent: str
    goal: str
    n: int
    mean_reward: float | None
    n_paid: int
    n_failed: int
    ok: bool


@dataclass(frozen=True, slots=True)
class ProofReport:
    """``surprises`` are single episodes that are wrong by themselves: solutions not paid, silence paid, failures."""

    environment: str
    split: str
    n_tasks: int
    dataset_hash: str
    agents: tuple[AgentProof, ...]
    surprises: tuple[Surprise, ...]

    @property
    def ok(self) -> bool:
        return self.n_tasks > 0 and not self.surprises and all(each.ok for each in self.agents)


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """``max_exploit_rate`` bounds the share of tasks that one exploit may be paid for; ``tasks`` None means every task.

    ``on_episode`` is told how many episodes are done, and of how many.
    """

    tasks: tuple[int, ...] | None = None
    jobs: int = 64
    max_exploit_rate: float = 0.05
    on_episode: Callable[[int, int], None] = lambda done, total: None


@dataclass(frozen=True, slots=True)
class _Played:
    agent: str
    task: TaskRef
    reward: float | None
    failure: str | None = None


async def verify(hub: Hub, local: Environment, split: str, options: VerifyOptions | None = None) -> ProofReport:
    """Play every task of a split of ``local``, which the hub serves too, with the oracle, the null agent and the exploits.

    An environment that knows no exploits is tried with random calls. Raises AgentError when the hub serves another dataset.
    """
    options = options or VerifyOptions()
    info = local.info()
    wanted = range(info.splits[split]) if options.tasks is None else options.tasks
    tasks = [TaskRef(info.name, split, index) for index in wanted]
    agents: dict[str, Agent] = {ORACLE: OracleAgent(lambda name: local), NULL: NullAgent(), **_exploits(local)}
    played: list[_Played] = []
    queue = ((agent, task) for task in tasks for agent in agents.values())

    async def work() -> None:
        for agent, task in queue:
            played.append(await _play(hub, agent, task))
            options.on_episode(len(played), len(tasks) * len(agents))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(options.jobs):
                group.create_task(work())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    by_agent: dict[str, list[_Played]] = {name: [] for name in agents}
    for each in played:
        by_agent[each.agent].append(each)
    return ProofReport(
        info.name,
        split,
        len(tasks),
        info.dataset_hash,
        tuple(_proof(name, found, options.max_exploit_rate) for name, found in by_agent.items()),
        tuple(sorted(_surprises(played), key=lambda each: (each.task, each.agent))),
    )


def _exploits(local: Environment) -> Mapping[str, Agent]:
    if isinstance(local, Exploits):
        return {name: ScriptAgent(name, script) for name, script in local.exploits().items()}
    return {"random": RandomAgent()}


async def _play(hub: Hub, agent: Agent, task: TaskRef) -> _Played:
    try:
        async with hub.session(task.environment, task.split, task.index, seed=task.index) as session:
            player = agent.player(task, seed=task.index, identity=session.identity)
            trajectory = await rollout(session, player)
    except EnvhubError as error:
        return _Played(agent.name, task, None, f"{error.code}: {error.message}")
    except AgentError as error:
        if error.fatal:
            raise
        return _Played(agent.name, task, None, f"{error.code}: {error.message}")
    return _Played(agent.name, task, trajectory.episode_return)


def _proof(agent: str, found: Sequence[_Played], max_exploit_rate: float) -> AgentProof:
    rewards = [each.reward for each in found if each.reward is not None]
    mean = sum(rewards) / len(rewards) if rewards else None
    n_paid = sum(reward > 0 for reward in rewards)
    n_failed = len(found) - len(rewards)
    if agent == ORACLE:
        goal, met = "1.0 on every task", all(reward == 1.0 for reward in rewards)
    elif agent == NULL:
        goal, met = "0.0 on every task", n_paid == 0
    else:
        goal, met = f"paid on at most {100 * max_exploit_rate:g}% of tasks", n_paid <= max_exploit_rate * len(found)
    return AgentProof(agent, goal, len(found), mean, n_paid, n_failed, ok=met and n_failed == 0 and bool(rewards))


def _surprises(played: Sequence[_Played]) -> Iterator[Surprise]:
    for each in played:
        if each.failure is not None:
            yield Surprise(each.agent, each.task, each.failure)
        elif each.agent == ORACLE and each.reward != 1.0:
            yield Surprise(each.agent, each.task, f"the reference solution earned {each.reward:g}")
        elif each.agent == NULL and each.reward != 0.0:
            yield Surprise(each.agent, each.task, f"saying nothing earned {each.reward:g}")


def lines(report: ProofReport) -> Iterator[str]:
    """The report as text, one line each."""
    verdict = "verified" if report.ok else "NOT verified"
    yield f"{report.environment}/{report.split}: {report.n_tasks} tasks (dataset {report.dataset_hash}) {verdict}"
    for each in report.agents:
        mean = "n/a" if each.mean_reward is None else f"{each.mean_reward:.4f}"
        mark = "ok" if each.ok else "FAIL"
        failed = f", {each.n_failed} failed" if each.n_failed else ""
        yield f"  {mark:4} {each.agent:18} mean reward {mean}, paid {each.n_paid} of {each.n}{failed}  (goal: {each.goal})"
    for surprise in report.surprises[:_MAX_NAMED]:
        yield f"  {surprise.task} {surprise.agent}: {surprise.what}"
    if len(report.surprises) > _MAX_NAMED:
        yield f"  and {len(report.surprises) - _MAX_NAMED} more"
