"""Every shipped task is proved: solved by its reference solution, and by nothing less."""

from __future__ import annotations

import pytest

from envhub.bench.verify import ProofReport, VerifyOptions, lines, verify
from envhub.envs import registry
from envhub.testing.hub import local_hub

DB_SPLITS = {"train": 2000, "dev": 200, "test": 300}


async def prove(split: str, n_tasks: int) -> ProofReport:
    environment = registry.create("db")
    async with local_hub({"db": environment}) as local:
        return await verify(local.hub, environment, split, VerifyOptions(tasks=tuple(range(n_tasks))))


@pytest.mark.parametrize("split", DB_SPLITS)
async def test_the_first_db_tasks_hold(split: str) -> None:
    report = await prove(split, 8)
    assert report.ok, "\n".join(lines(report))
    assert {each.agent for each in report.agents} == {
        *("oracle", "null", "empty_answer", "zero", "echo", "first_cell", "all_rows")
    }


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("split", "n_tasks"), DB_SPLITS.items())
async def test_all_db_tasks_hold(split: str, n_tasks: int) -> None:
    report = await prove(split, n_tasks)
    assert report.ok, "\n".join(lines(report))
