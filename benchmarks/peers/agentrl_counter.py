# mypy: disable-error-code="import-not-found,misc"
"""The counter as an AgentRL task, in its fastest form: a coroutine on the worker's own event loop."""

from __future__ import annotations

import json

from agentrl.worker.task import Session, Task
from agentrl.worker.typings import AgentCancelledException, SampleIndex, SampleStatus, TaskSampleExecutionResult

NUMBER = {"type": "number"}
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"]},
    },
}


class Counter(Task):
    def __init__(self, concurrency: int) -> None:
        super().__init__(name="counter", concurrency=concurrency, tools=[ADD], full_async=True)

    def get_indices(self) -> list[SampleIndex]:
        return list(range(1000))

    async def start_sample(self, index: SampleIndex, session: Session) -> TaskSampleExecutionResult:
        session.inject({"role": "user", "content": f"Task {index}: add numbers with the tool."})
        try:
            while True:
                (call,) = (await session.action()).messages[0]["tool_calls"]
                numbers = json.loads(call["function"]["arguments"])
                total = f"{numbers['a'] + numbers['b']:g}"
                session.inject({"role": "tool", "content": total, "tool_call_id": call["id"]})
        except AgentCancelledException:
            return TaskSampleExecutionResult(status=SampleStatus.CANCELLED)
