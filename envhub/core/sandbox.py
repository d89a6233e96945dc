"""What a sandbox is: a Linux of its own for one session, reached through one shell.

Invariant: a sandbox is used by one session and never again; after ``close`` no process, mount, cgroup or container of it is left.
What the agent does inside is an observation (``CommandResult``); what breaks outside is an EpisodeError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol, runtime_checkable


class CommandStatus(StrEnum):
    """How a command ended. Only ``OK`` keeps what it did to the shell (cwd, variables, functions); files always stay."""

    OK = "ok"
    """It ran to its end, with any exit code."""
    DIED = "died"
    """It ended the shell (exit, exec, set -e, a signal); the shell is as before the command."""
    TIMEOUT = "timeout"
    """It was killed at its time limit with all it had started; the shell is as before the command."""
    FLOOD = "flood"
    """It was killed because it wrote without end; the shell is as before the command."""
    RESTARTED = "restarted"
    """It killed every process of the session; the shell is a new one in the same filesystem."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """``output``: stdout and stderr interleaved as written, escape sequences removed, head and tail within the caller's cap.

    ``total_bytes`` counts all that was written; ``truncated`` says that ``output`` is not all of it. ``exit_code`` is None when
    the command did not run to its end.
    """

    status: CommandStatus
    exit_code: int | None
    output: str
    total_bytes: int
    truncated: bool
    cwd: str


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """A process beside the shell. ``exit_code`` is None when it was killed at its time limit; 128 + n when signal n ended it."""

    exit_code: int | None
    stdout: bytes
    stderr: bytes

    @property
    def timed_out(self) -> bool:
        return self.exit_code is None


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """``disk_bytes`` and ``n_inodes`` bound everything the session writes outside /dev/shm; disk counts as memory too."""

    memory_bytes: int = 512 << 20
    n_processes: int = 128
    n_cpus: float = 1.0
    disk_bytes: int = 128 << 20
    n_inodes: int = 20_000


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """``image`` is a userland by name (``default``, ``packages``, ``ubuntu``)."""

    image: str = "default"
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    cwd: str = "/root"
    environment: Mapping[str, str] = field(default_factory=dict)


View = Literal["session", "judge"]
"""Whose eyes a process has. ``session``: it runs inside the sandbox, as the agent's own would. ``judge``: the programs, libraries
and loader come from the untouched image, the files are the session's and read-only, and no process of the session sees,
signals or feeds it; the session's tree is also mounted at ``/run/session`` just as the agent left it."""


class Sandbox(Protocol):
    """Calls come one at a time. Any of them raises SandboxLostError once the sandbox is gone."""

    async def run(self, script: str, *, timeout_s: float, max_bytes: int) -> CommandResult:
        """Run a script in the session's one shell, which keeps its state from call to call; stdin is empty.

        Background processes go on after the call and never hold its answer.
        """

    async def exec(
        self, argv: Sequence[str], *, timeout_s: float, stdin: bytes = b"", view: View = "session"
    ) -> ProcessResult:
        """Run a process beside the shell, as root in /root with a clean environment; at most 1 MiB of each output is kept."""

    async def put(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file, making its folders; links of the session are resolved inside the sandbox, never outside it."""

    async def get(self, path: str, *, max_bytes: int) -> bytes:
        """Read a regular file of the session. Raises SandboxFileError: none there, not a regular file, or too large."""

    async def close(self) -> None:
        """Idempotent, also after the sandbox was lost; shielded by the caller."""


@runtime_checkable
class ForkableSandbox(Sandbox, Protocol):
    async def fork(self) -> Sandbox:
        """A sandbox with a copy of the files and of the shell's cwd, variables, functions and options.

        Running background processes are not carried over.
        """


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a driver can enforce on this machine, in words for logs and ``envhub doctor``: how each bound is kept, or "none".

    ``users``: a sandbox has all users of a Linux, not root alone; without them chown and su fail inside.
    """

    driver: str
    isolation: str
    memory: str
    processes: str
    cpu: str
    disk: str
    network: str
    notes: tuple[str, ...] = ()
    users: bool = True


class SandboxDriver(Protocol):
    """Starts sandboxes and owns them: each carries this owner's label before it starts."""

    def capabilities(self) -> Capabilities: ...

    def image_digest(self, image: str) -> str:
        """Changes when the userland does. Raises SandboxUnavailableError for an image that is not there, saying how to make it."""

    async def start(self, spec: SandboxSpec) -> Sandbox:
        """Raises UnavailableError when the machine has no room, EpisodeFailedError when the sandbox did not start."""

    async def sweep(self) -> int:
        """Remove what owners that are dead left behind, and only that; how many sandboxes it was."""

    async def close(self) -> None:
        """Close every sandbox of this owner. Idempotent."""
