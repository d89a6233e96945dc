"""What grading concludes. A verdict is about the agent; a grader that breaks raises instead of giving one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from envhub.core.types import JSON


@dataclass(frozen=True, slots=True)
class Verdict:
    """``reason`` says what was wrong without giving the expected answer away; ``metrics`` are JSON-ready."""

    correct: bool
    reason: str = ""
    metrics: Mapping[str, JSON] = field(default_factory=dict)

    @property
    def reward(self) -> float:
        return 1.0 if self.correct else 0.0
