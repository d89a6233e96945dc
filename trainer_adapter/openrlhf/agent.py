"""The file that OpenRLHF's ``--train.agent_func_path`` names: it tells OpenRLHF that rewards come with the episodes.

Invariant: OpenRLHF never plays an episode itself; `rollouts.py` does.
"""

from __future__ import annotations

from typing import Any

from openrlhf.utils.agent import AgentExecutorBase


class AgentExecutor(AgentExecutorBase):
    async def execute(self, *args: Any, **kwargs: Any) -> Any:
        """Raises RuntimeError: whoever calls it goes around the queue."""
        raise RuntimeError("episodes are played by the trajectory queue, not by an engine")
