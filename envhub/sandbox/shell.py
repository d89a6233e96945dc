"""The shell of a session: one bash whose state lasts from command to command, driven over the two pipes of a sandbox.

Invariant: when a call returns, the reader inside has said that it is ready, so no byte of one command can reach the next; when it
cannot be brought to say so, the sandbox is lost and every later call says so.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from collections.abc import Callable
from typing import Any, Protocol

from envhub.core.clock import Clock
from envhub.core.errors import EpisodeFailedError, SandboxLostError
from envhub.core.sandbox import CommandResult, CommandStatus
from envhub.sandbox import program
from envhub.sandbox.channel import Channel
from envhub.sandbox.output import Output

log = logging.getLogger(__name__)

FLOOD_BYTES = 32 << 20
MAX_SCRIPT_BYTES = 4 << 20
MAX_STATE_BYTES = 8 << 20
BOOT_S = 30.0
START_S = 5.0
"""How long a reader may take to fork a child. Beyond it, the last command left no room, or killed or stopped the reader."""
SETTLE_S = 2.0
"""How long it may take from the end of a script until the reader answers."""
RESTART_S = 15.0
CHECKPOINT_S = 15.0
SPAM_BYTES, SPAM_S = 1 << 20, 0.1
"""So much in so short a time after a flood was cut off: an older process writes it, and everything is killed."""
MAX_DEPTH = 400
"""Scripts that one reader runs before a new one takes over: each leaves it one level deeper, until its stack is full after some
1,400."""
RENEWAL_RETRY = 50
MARKER_BYTES = 1 << 10
"""As how much output a marker counts that only a session can have made up: it is dearer to take in than its few bytes."""

NOT_COPIED = "this system cannot be copied"
"""How the error of a fork begins that fails for what the agent has made of its system."""
_NO_ROOM = (
    "[What the last command left running was killed: nothing else could start. The shell is as before that command.]\n"
)


class Shell:
    """Owns nothing: the channel belongs to the driver. Calls come one at a time."""

    def __init__(self, channel: Channel, *, clock: Clock) -> None:
        self._channel = channel
        self._clock = clock
        self._token = secrets.token_hex(16)
        self._stream = program.MarkerStream(self._token)
        self._receiving: asyncio.Task[bytes] | None = None
        self._last_runner: int | None = None
        self._unfinished: _Run | None = None
        self._cwd = "/"
        self._depth = 0
        self._moving: bytes | None = None
        self._lost: str | None = None

    @staticmethod
    def program(bash: str = "/bin/bash") -> tuple[str, ...]:
        """The argv of the first process of a sandbox, stdin and stdout being the channel's pipes."""
        return (bash, *program.arguments())

    async def start(self, restore: bytes | None = None) -> None:
        """Bring the program up, in the state that ``checkpoint`` of another shell gave. Raises SandboxLostError."""
        boot = _Run(_Discard())
        await self._send(program.first_record(self._token) + program.ping(boot.ping), BOOT_S)
        if not await self._until(boot, boot.is_ready, BOOT_S):
            raise self._gone(f"the shell did not start within {BOOT_S:g} s")
        if restore is not None:
            await self._execute(restore, RESTART_S, _Discard())

    async def run(self, script: str, *, timeout_s: float, max_bytes: int) -> CommandResult:
        """Run a script. ``timeout_s`` counts from its first instruction; ``max_bytes`` bounds the output as UTF-8.

        Raises ValueError (a limit that is not positive and finite), SandboxLostError.
        """
        if not (timeout_s > 0 and math.isfinite(timeout_s)):
            raise ValueError(f"timeout_s must be positive and finite, not {timeout_s}")
        if max_bytes <= 0:
            raise ValueError(f"max_bytes must be positive, not {max_bytes}")
        if self._lost is not None:
            raise SandboxLostError(self._lost)
        data = script.encode("utf-8", "replace")
        refusal = _refusal(data)
        if refusal is not None:
            return CommandResult(CommandStatus.OK, 2, refusal, len(refusal), False, self._cwd)
        restarted = (self._depth >= MAX_DEPTH or self._moving is not None) and not await self._renewed()
        output = Output(max_bytes)
        run = await self._execute(data, timeout_s, output)
        run.restarted |= restarted
        text, truncated = output.finish()
        return CommandResult(run.status(), run.exit_code, text, output.total_bytes, truncated, self._cwd)

    async def checkpoint(self) -> bytes:
        """The state as a script for ``start``: cwd, umask, variables, functions, options, aliases, positional parameters."""
        if self._moving is not None:
            await self._renewed()
        run, state = await self._told()
        if state.overflowed:
            raise EpisodeFailedError(
                f"{NOT_COPIED}: the variables and functions of its shell hold more than {MAX_STATE_BYTES >> 20} MiB"
            )
        if not run.is_state():
            raise EpisodeFailedError(f"{NOT_COPIED}: its shell does not tell its variables ({run.status()})")
        return bytes(state.data)

    async def _told(self) -> tuple[_Run, _Collected]:
        state = _Collected(MAX_STATE_BYTES)
        return await self._execute(program.CHECKPOINT, CHECKPOINT_S, state), state

    async def close(self) -> None:
        """Stop listening. Idempotent; the channel stays the driver's to close."""
        self._lost = self._lost or "the sandbox is closed"
        if self._receiving is not None:
            self._receiving.cancel()
            await asyncio.gather(self._receiving, return_exceptions=True)

    async def _execute(self, script: bytes, timeout_s: float, sink: _Sink) -> _Run:
        if self._unfinished is not None:
            await self._recover(self._unfinished)
        run = await self._begin(script, sink)
        if not await self._until(run, run.is_over, timeout_s):
            run.cut = CommandStatus.TIMEOUT
        elif run.total_bytes > FLOOD_BYTES:
            run.cut = CommandStatus.FLOOD
        run.stop_collecting()
        if run.cut is not None or not run.is_ended() or not await self._settled(run):
            await self._recover(run)
        self._unfinished = None
        if run.restarted:
            self._depth = 0
        elif run.status() is CommandStatus.OK:
            self._depth += 1
        return run

    async def _renewed(self) -> bool:
        """Go on in a new reader, with the state that ``checkpoint`` keeps; descriptors and jobs of the old one are not part of it,
        what they run lives on. A state that cannot be told stays where it is, for now; one on its way when a caller goes away is
        brought there by the next call. False when any of this was lost."""
        if self._moving is None:
            telling, state = await self._told()
            if state.overflowed or not telling.is_state():
                log.info("a shell is not renewed: %s", telling.status(), extra={"n_bytes": len(state.data)})
                self._depth = max(0, self._depth - RENEWAL_RETRY)
                return not telling.restarted
            self._moving = bytes(state.data)
        elif self._unfinished is not None:
            await self._recover(self._unfinished)
        run = self._unfinished = _Run(_Discard())
        await self._send(program.renew(run.nonce) + program.ping(run.ping), START_S)
        is_there = await self._until(run, run.is_ready, SETTLE_S) or await self._answers(run)
        if not is_there:
            await self._restart(run)
        self._unfinished = None
        self._last_runner = None
        restoring = await self._execute(self._moving, RESTART_S, _Discard())
        self._moving, self._depth = None, 0
        return is_there and restoring.status() is CommandStatus.OK

    async def _settled(self, run: _Run) -> bool:
        if not await self._until(run, lambda: run.is_ready() or run.is_rolled_back(), SETTLE_S):
            return False
        return run.is_ready() or await self._answers(run)

    async def _begin(self, script: bytes, sink: _Sink) -> _Run:
        """Hand the script over and wait for its first instruction, making room for it once if it cannot start."""
        run = await self._request(script, sink)
        if run.runner is None:
            log.info("a script could not start: making room", extra={"last_runner": self._last_runner})
            restarted = await self._make_room(run)
            run = await self._request(script, sink) if run.runner is None else run
            if run.runner is None:
                raise self._gone("the shell does not start scripts any more")
            run.restarted |= restarted
            if not run.restarted:
                sink.feed(_NO_ROOM.encode())
        self._last_runner = run.runner
        return run

    async def _request(self, script: bytes, sink: _Sink) -> _Run:
        run = self._unfinished = _Run(sink)
        await self._send(program.command(run.nonce, script) + program.ping(run.ping), START_S)
        await self._until(run, run.is_begun, START_S)
        return run

    async def _make_room(self, run: _Run) -> bool:
        """Kill what the last command left, its shell included; if that is not enough, everything. Whether it was everything."""
        if self._last_runner is not None and not run.restarted and not run.is_ready():
            await self._reap(self._last_runner)
            if await self._until(run, run.is_begun, SETTLE_S):
                return run.restarted
        if not run.is_ready():
            await self._restart(run)
        return run.restarted

    async def _recover(self, run: _Run) -> None:
        """Kill what the script started, so that the shell before it answers; if it does not, start a new one."""
        run.stop_collecting()
        if not run.restarted:  # who was cut off early has not heard yet that it began
            await self._until(run, run.is_begun, START_S)
        if run.runner is not None and not run.restarted:
            await self._reap(run.runner)
        if await self._answers(run) and not (run.cut is CommandStatus.FLOOD and await self._floods_on(run)):
            return
        await self._restart(run)

    async def _answers(self, run: _Run) -> bool:
        run.expect_new_ping()
        await self._send(program.ping(run.ping), START_S)
        return await self._until(run, run.is_ready, SETTLE_S)

    async def _floods_on(self, run: _Run) -> bool:
        """Whether it was an older process that wrote without end. What was in flight has come before the reader's answer."""
        run.dropped_bytes = 0
        return await self._until(run, lambda: run.dropped_bytes > SPAM_BYTES, SPAM_S)

    async def _restart(self, run: _Run) -> None:
        log.info("restarting a shell", extra={"runner": run.runner})
        await self._reap(None)
        run.restarted = True
        run.expect_new_ping()
        await self._send(program.ping(run.ping), START_S)
        if not await self._until(run, run.is_begun if run.runner is None else run.is_ready, RESTART_S):
            raise self._gone(f"the shell did not come back within {RESTART_S:g} s")

    async def _until(self, run: _Run, condition: Callable[[], bool], seconds: float) -> bool:
        """Take in what arrives until the condition holds; False when the time is over first."""
        if condition():
            return True
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            while not condition():
                chunk = await self._receive(timer)
                if chunk is None:
                    return False
                for event in self._stream.feed(chunk):
                    run.take(event)
            return True
        finally:
            timer.cancel()
            self._cwd = run.cwd or self._cwd

    async def _receive(self, timer: asyncio.Future[None]) -> bytes | None:
        """The next chunk; None when the timer is first. A chunk on its way is not lost by that, nor by cancellation."""
        if self._receiving is None:
            self._receiving = asyncio.create_task(self._channel.receive())
        both: set[asyncio.Future[Any]] = {self._receiving, timer}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if timer.done() or not self._receiving.done():
            return None
        if self._receiving.cancelled():
            raise self._gone("the sandbox is closed")
        chunk = self._receiving.result()
        self._receiving = None
        if not chunk:
            raise self._gone("the first process of the sandbox has ended")
        return chunk

    async def _send(self, data: bytes, seconds: float) -> None:
        """Raises SandboxLostError also when the time is over: half a record cannot be taken back."""
        sending = asyncio.create_task(self._channel.send(data))
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            both: set[asyncio.Future[Any]] = {sending, timer}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                raise self._gone(f"the shell took no input for {seconds:g} s")
            sending.result()
        except SandboxLostError as error:
            self._lost = self._lost or error.message
            raise
        finally:
            timer.cancel()
            if not sending.done():
                self._lost = self._lost or "a request to the shell was cut off"
                sending.cancel()

    async def _reap(self, runner: int | None) -> None:
        try:
            await self._channel.reap(runner)
        except SandboxLostError as error:
            self._lost = error.message
            raise

    def _gone(self, why: str) -> SandboxLostError:
        self._lost = why
        return SandboxLostError(why)


class _Sink(Protocol):
    def feed(self, data: bytes) -> None: ...


class _Discard:
    def feed(self, data: bytes) -> None:
        pass


class _Collected:
    def __init__(self, max_bytes: int) -> None:
        self.data = bytearray()
        self._max_bytes = max_bytes

    @property
    def overflowed(self) -> bool:
        return len(self.data) > self._max_bytes

    def feed(self, data: bytes) -> None:
        """What others write meanwhile is no part of the state."""

    def add(self, piece: bytes) -> None:
        if not self.overflowed:
            self.data += piece


class _Run:
    """What is known of one script: built up from the events of the stream, whatever order an agent brings them into."""

    def __init__(self, sink: _Sink) -> None:
        self.nonce = secrets.token_hex(16)
        self.ping = self.nonce
        self.runner: int | None = None
        self.exit_code: int | None = None
        self.restarted = False
        self.cut: CommandStatus | None = None
        self.cwd = ""
        self.total_bytes = 0
        self.dropped_bytes = 0
        self._sink: _Sink | None = sink
        self._ended = False
        self._died = False
        self._ready = False

    def is_begun(self) -> bool:
        return self.runner is not None or self._ready

    def is_ended(self) -> bool:
        return self._ended or self._died

    def is_rolled_back(self) -> bool:
        """Its shell died as the reader, and may have taken the ping with it."""
        return self._ended and self._died

    def is_over(self) -> bool:
        return (
            self.is_ended() or self._ready or self.total_bytes > FLOOD_BYTES or (self.restarted and self._sink is None)
        )

    def is_ready(self) -> bool:
        return self._ready

    def is_state(self) -> bool:
        """Whether the shell has told its state whole."""
        return self.status() is CommandStatus.DIED and self.exit_code == 0

    def status(self) -> CommandStatus:
        if self.restarted:
            return CommandStatus.RESTARTED
        if self.cut is not None:
            return self.cut
        return CommandStatus.OK if self._ended and not self._died else CommandStatus.DIED

    def stop_collecting(self) -> None:
        self._sink = None

    def expect_new_ping(self) -> None:
        self.ping = secrets.token_hex(16)
        self.dropped_bytes = 0
        self._ready = False

    def take(self, event: bytes | program.Marker) -> None:
        if isinstance(event, bytes):
            self._take_bytes(event)
        elif event.kind == "X" and not self.restarted:
            self.restarted = True
            if self.runner is not None:
                self.stop_collecting()
        elif event.kind == "R" and event.nonce == self.ping:
            self._ready = True
            self._at(event.cwd)
        elif event.kind == "T" and event.nonce == self.nonce and isinstance(self._sink, _Collected):
            self.total_bytes += len(event.data)
            self._sink.add(event.data)
        elif event.nonce != self.nonce or not self._take_marker(event):
            self.total_bytes += MARKER_BYTES

    def _take_bytes(self, data: bytes) -> None:
        if self._sink is None or self.runner is None or self.is_ended():
            self.dropped_bytes += len(data)
            return
        self.total_bytes += len(data)
        self._sink.feed(data)

    def _take_marker(self, marker: program.Marker) -> bool:
        """False for one that no shell writes at this point."""
        if marker.kind == "S" and self.runner is None:
            self.runner = marker.value
        elif marker.kind == "E" and not self.is_ended():
            self._ended = True
            self.exit_code = marker.value
        elif marker.kind == "D" and not self._died:
            if not self.is_ended() and self.cut is None:
                self.exit_code = marker.value
            self._died = True
            self._at(marker.cwd)
        else:
            return False
        return True

    def _at(self, cwd: str) -> None:
        if cwd.startswith("/"):
            self.cwd = cwd


def _refusal(script: bytes) -> str | None:
    if b"\0" in script:
        return "bash: the script holds a NUL byte, which no shell can read; nothing was run\n"
    if len(script) > MAX_SCRIPT_BYTES:
        return f"bash: the script has {len(script)} bytes, more than the {MAX_SCRIPT_BYTES} allowed; nothing was run\n"
    return None
