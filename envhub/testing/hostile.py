"""Hostile inputs: scripts that break shells, and what must hold after each of them. Third parties run them on their own drivers.

::

    @pytest.mark.parametrize("hostile", HOSTILE, ids=lambda hostile: hostile.name)
    async def test_survives(hostile, driver):
        await survive(await driver.start(SandboxSpec()), hostile)

Invariant: whatever an input does, the sandbox is still there and its next command works.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

from envhub.core.sandbox import CommandResult, CommandStatus, Sandbox

LIMIT_S = 1.5
"""For an input that may not end; one that must end by itself may take ENDS_S, however busy the machine."""
ENDS_S = 20.0
MAX_BYTES = 64 << 10
N_BASH = 4
"""The shell itself: its first process, the reader, the one before it, and the one that runs the question."""

OK, DIED, TIMEOUT = CommandStatus.OK, CommandStatus.DIED, CommandStatus.TIMEOUT
FLOOD, RESTARTED = CommandStatus.FLOOD, CommandStatus.RESTARTED


@dataclass(frozen=True, slots=True)
class HostileInput:
    """``ends``: how the script may end. ``output``: what it must have shown. ``leaves``: programs that go on in the background.
    ``keeps_state``: whether the shell must be as before the script; otherwise it may also be a fresh one."""

    name: str
    script: str
    ends: tuple[CommandStatus, ...] = (OK,)
    output: str = ""
    leaves: tuple[str, ...] = ()
    keeps_state: bool = True


HOSTILE: tuple[HostileInput, ...] = (
    HostileInput("fork bomb", ":(){ :|:& };:", (OK, TIMEOUT, DIED, RESTARTED), leaves=("bash",), keeps_state=False),
    HostileInput(
        "fork bomb of daemons",
        "for i in 1 2 3 4; do setsid bash -c 'while :; do setsid sleep 600 & done' & done",
        (OK, TIMEOUT, DIED, RESTARTED),
        leaves=("bash", "sleep", "setsid"),
        keeps_state=False,
    ),
    HostileInput("yes", "yes", (FLOOD, TIMEOUT), output="y\ny\n"),
    HostileInput("random bytes", "cat /dev/urandom", (FLOOD, TIMEOUT)),
    HostileInput("zeros", "cat /dev/zero", (FLOOD, TIMEOUT)),
    HostileInput("one line of 200 MB", "head -c 200M /dev/zero | tr '\\0' x", (FLOOD, TIMEOUT), output="xxxx"),
    HostileInput("10 MB of output", "head -c 10000000 /dev/zero | tr '\\0' x; echo end", output="xend\n"),
    HostileInput("background job", "sleep infinity & echo started", output="started\n", leaves=("sleep",)),
    HostileInput("nohup daemon", "nohup sleep infinity & echo started", output="started\n", leaves=("sleep",)),
    HostileInput("setsid daemon", "setsid sleep infinity & echo started", output="started\n", leaves=("sleep",)),
    HostileInput("orphan", "(sleep infinity &); echo started", output="started\n", leaves=("sleep",)),
    HostileInput("busy daemon", "nohup yes >/dev/null 2>&1 & echo started", output="started\n", leaves=("yes",)),
    HostileInput(
        "background job that writes",
        "while :; do echo SPAM; sleep 0.05; done & echo started",
        output="started\n",
        leaves=("bash", "sleep"),
    ),
    HostileInput("cat", "cat; echo over", output="over\n"),
    HostileInput("read", "read -r line; echo over", output="over\n"),
    HostileInput("interpreter", "python3; python3 -c 'input()'; bash; echo over", output="over\n"),
    HostileInput("editor", "vim; vi /etc/passwd; nano; echo over", (OK, TIMEOUT)),
    HostileInput("pager", "less /etc/passwd; more /etc/passwd; echo over", output="root:"),
    HostileInput("full-screen program", "top; htop; echo over", (OK, TIMEOUT)),
    HostileInput("kill everything", "kill -9 -1", (OK, RESTARTED), keeps_state=False),
    HostileInput("kill everything from a child", "bash -c 'kill -9 -1'", (RESTARTED,), keeps_state=False),
    HostileInput("exit", "echo before; exit 3", (DIED,), output="before\n"),
    HostileInput("exec", "exec false", (DIED,)),
    HostileInput("errexit", "set -e; false; echo never", (DIED,)),
    HostileInput("full disk", "head -c 8G /dev/zero >/root/full; rm -f /root/full; echo over", (OK, TIMEOUT)),
    HostileInput(
        "no inodes",
        "(mkdir /root/many; cd /root/many; i=0; while : >f$((i++)); do :; done); rm -rf /root/many; echo over",
        (OK, TIMEOUT),
    ),
    HostileInput("2 GiB of memory", "head -c 2G /dev/zero | tail -n 1 | wc -c", (OK, DIED, TIMEOUT)),
    HostileInput("binary", "printf '\\377\\376\\000\\200\\342\\202'; echo; echo end", output="end\n"),
    HostileInput("escape sequences", "printf '\\033[31mred\\033[0m\\033]0;t\\007\\033[?2004h\\n'", output="red\n"),
    HostileInput(
        "here-document and unicode", "cat <<'E'\n$x `y` \\ 'z' \"q\" žluť 🐍\nE", output="$x `y` \\ 'z' \"q\" žluť 🐍\n"
    ),
    HostileInput("open quote", "echo 'never closed"),
    HostileInput("open here-document", "cat <<E\nno end", output="no end\n"),
    HostileInput("deaf loop", "trap '' TERM INT HUP QUIT; while :; do :; done", (TIMEOUT,)),
    HostileInput("long sleep", "echo before; sleep 1000", (TIMEOUT,), output="before\n"),
    HostileInput("stopped shell", "kill -STOP $$; kill -STOP $BASHPID", (TIMEOUT,)),
    HostileInput("closed output", "exec 1>&- 2>&-; echo lost"),
    HostileInput(
        "replaced builtins",
        "builtin() { :; }; read() { sleep 600; }; eval() { sleep 600; }; enable -n printf",
        (OK, DIED),
    ),
    HostileInput("frozen variables", "readonly PATH PWD IFS REPLY; PS4='$(sleep 600)'; set -n", (OK, DIED, TIMEOUT)),
)


async def survive(sandbox: Sandbox, hostile: HostileInput) -> CommandResult:
    """Play an input against a new sandbox; its result. Raises AssertionError when something does not hold afterwards."""
    await sandbox.run("cd /tmp; export MARK=kept; keep() { echo here; }", timeout_s=10.0, max_bytes=MAX_BYTES)
    limit_s = LIMIT_S if TIMEOUT in hostile.ends else ENDS_S
    result = await sandbox.run(hostile.script, timeout_s=limit_s, max_bytes=MAX_BYTES)
    assert result.status in hostile.ends, f"{hostile.name}: {result.status} {result.output[:200]!r}"
    assert hostile.output in result.output, f"{hostile.name}: {result.output[-200:]!r}"
    assert len(result.output.encode()) <= MAX_BYTES, f"{hostile.name}: more output than allowed"
    await _next_command_works(sandbox, hostile)
    await _no_process_is_left(sandbox, hostile)
    return result


async def _next_command_works(sandbox: Sandbox, hostile: HostileInput) -> None:
    answer = await sandbox.run('echo "$MARK in $PWD"; keep', timeout_s=10.0, max_bytes=MAX_BYTES)
    fresh_allowed = not hostile.keeps_state
    assert answer.status in ((OK, RESTARTED) if fresh_allowed else (OK,)), f"after {hostile.name}: {answer}"
    is_kept = "kept in /tmp\n" in answer.output and "here\n" in answer.output  # what is left running may write too
    is_fresh = " in /" in answer.output and "keep: command not found" in answer.output
    assert is_kept or (fresh_allowed and is_fresh), f"after {hostile.name}: {answer}"
    again = await sandbox.run("echo $((6 * 7))", timeout_s=10.0, max_bytes=MAX_BYTES)
    assert again.status is OK and "42\n" in again.output, f"after {hostile.name}: {again}"


async def _no_process_is_left(sandbox: Sandbox, hostile: HostileInput) -> None:
    """What was killed a moment ago may still be on its way out: asked for some ten seconds."""
    for attempt in range(32):
        await asyncio.sleep(0.02 * attempt)
        running = await _running(sandbox)
        for program in hostile.leaves:
            running.pop(program, None)
        n_bash = running.pop("bash", 0)
        if not running and n_bash <= N_BASH:
            return
    raise AssertionError(f"after {hostile.name} there still run {n_bash} shells and {dict(running)}")


async def _running(sandbox: Sandbox) -> Counter[str]:
    script = (
        'for f in /proc/[0-9]*; do read -r s <$f/stat && [[ ${s##*) } != [ZX]* ]] && read -r c <$f/comm && echo "@$c"; '
        "done 2>/dev/null"
    )
    answer = await sandbox.run(script, timeout_s=10.0, max_bytes=MAX_BYTES)
    return Counter(line[1:] for line in answer.output.splitlines() if line.startswith("@"))
