"""What grading concludes. A verdict is about the agent; a grader that breaks raises instead of giving one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """``reason`` says what was wrong without giving the expected answer away."""

    correct: bool
    reason: str = ""

    @property
    def reward(self) -> float:
        return 1.0 if self.correct else 0.0
