"""A sandbox that answers from a script and records what was asked of it; and a source of such sandboxes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from envhub.core.sandbox import CommandResult, CommandStatus, ProcessResult, SandboxSpec, View

Reply = Callable[[Sequence[str], View], ProcessResult]


def exited(code: int | None = 0, stdout: str = "", stderr: str = "") -> ProcessResult:
    return ProcessResult(code, stdout.encode(), stderr.encode())


def ran(output: str = "", status: CommandStatus = CommandStatus.OK, exit_code: int | None = 0) -> CommandResult:
    return CommandResult(status, exit_code, output, len(output.encode()), False, "/root")


@dataclass
class FakeSandbox:
    """``commands`` maps the code of an exec to its result; what is not in it exits with 0. ``outputs`` answer ``run`` in order."""

    commands: Mapping[str, ProcessResult] = field(default_factory=dict)
    outputs: list[CommandResult] = field(default_factory=list)
    execs: list[tuple[tuple[str, ...], View]] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)
    n_closed: int = 0

    async def run(self, script: str, *, timeout_s: float, max_bytes: int) -> CommandResult:
        self.scripts.append(script)
        return self.outputs.pop(0) if self.outputs else ran()

    async def exec(
        self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"", view: View = "session"
    ) -> ProcessResult:
        self.execs.append((tuple(argv), view))
        for code, result in self.commands.items():
            if any(code in each for each in argv):
                return result
        return exited()

    async def put(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        raise AssertionError("an OS episode puts nothing")

    async def get(self, path: str, *, max_bytes: int) -> bytes:
        raise AssertionError("an OS episode gets nothing")

    async def close(self) -> None:
        self.n_closed += 1


class ForkableFake(FakeSandbox):
    doubles: tuple[FakeSandbox, ...] = ()

    async def fork(self) -> FakeSandbox:
        double = FakeSandbox(self.commands)
        self.doubles = (*self.doubles, double)
        return double


@dataclass
class FakeSandboxes:
    make: Callable[[], FakeSandbox] = FakeSandbox
    given: list[FakeSandbox] = field(default_factory=list)
    specs: list[SandboxSpec] = field(default_factory=list)

    async def acquire(self, spec: SandboxSpec) -> FakeSandbox:
        self.specs.append(spec)
        self.given.append(self.make())
        return self.given[-1]

    async def close(self) -> None:
        return None
