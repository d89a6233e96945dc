"""The shell's protocol against a plain bash: what persists, what is rolled back, and that no command can reach the next one."""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from envhub.core.clock import SystemClock
from envhub.core.errors import SandboxLostError
from envhub.core.sandbox import CommandResult, CommandStatus
from envhub.sandbox import program, shell
from envhub.sandbox.shell import Shell
from tests.sandbox.local_channel import LocalChannel, local_channel, local_shell

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(
        not Path("/proc/self/ns/pid").exists() or not shutil.which("unshare"), reason="needs pid namespaces"
    ),
]

STATUS = CommandStatus
UNTIL_IT_SLEEPS = "until [[ $(</proc/$!/comm) == sleep ]]; do :; done"
"""After a ``sleep`` in the background, which looks like its shell at first."""


class Session:
    def __init__(self, channel: LocalChannel, shell: Shell) -> None:
        self.channel, self.shell = channel, shell

    async def run(self, script: str, *, timeout_s: float = 20.0, max_bytes: int = 4000) -> CommandResult:
        return await self.shell.run(script, timeout_s=timeout_s, max_bytes=max_bytes)

    async def said(self, script: str) -> str:
        result = await self.run(script)
        assert result.status is STATUS.OK, result
        return result.output

    async def until_said(self, script: str, holds: Callable[[str], bool]) -> None:
        """For what was killed and ends a moment after the shell has answered. Raises TimeoutError."""
        async with asyncio.timeout(20):
            while not holds(await self.said(script)):  # noqa: ASYNC110  # it asks a shell
                await asyncio.sleep(0.02)


async def until_there(path: Path) -> None:
    async with asyncio.timeout(20):
        while not path.exists():  # noqa: ASYNC110, ASYNC240  # a process of the session makes it
            await asyncio.sleep(0.01)


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    try:
        async with local_channel(str(tmp_path)) as channel:
            shell = Shell(channel, clock=SystemClock())
            await shell.start()
            yield Session(channel, shell)
            await shell.close()
    except SandboxLostError as error:
        pytest.skip(f"no pid namespace may be made here: {error}")


async def test_state_persists(session: Session, tmp_path: Path) -> None:
    await session.run("cd /; v=1; export e=2; a=(x y); f() { echo f; }; set -u; exec 7>here; false")
    result = await session.run("echo $? $PWD $v $e ${a[1]} $-; f; echo seven >&7")
    assert result.cwd == "/" and result.output.startswith("0 / 1 2 y ") and result.output.endswith("f\n")
    await session.run("set +u; (exit 7)")
    assert await session.said("echo $?; declare -p __envhub_t >/dev/null; set -- p q") == "7\n"
    assert await session.said("echo $1-$2") == "p-q\n"


async def test_declarations_of_a_script_are_global(session: Session) -> None:
    await session.run("declare -A m=([k]=v); declare -i n=3; local x=1; return 4; break")
    assert await session.said("n+=4; echo ${m[k]} $n") == "v 7\n"


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 3", 3), ("exec false", 1), ("set -e; false", 1), ("kill -9 $BASHPID", 137), ("exec bash -c 'exit 5'", 5),
     ("set -u; echo $nope", 1), ("exec /none/such", 127)],
)  # fmt: skip
async def test_death_is_told_and_rolled_back(session: Session, script: str, code: int) -> None:
    await session.run("v=old; cd /usr")
    result = await session.run(f"v=new; cd /; echo said; {script}")
    assert (result.status, result.exit_code, result.cwd) == (STATUS.DIED, code, "/usr"), result
    assert result.output.startswith("said\n")
    assert await session.said("echo $v $PWD") == "old /usr\n"


async def test_messages_name_the_lines_of_the_script(session: Session) -> None:
    for _ in range(3):
        result = await session.run("\nnone_such\n echo $LINENO")
    assert result.output == "bash: line 2: none_such: command not found\n3\n"


async def test_traces_look_the_same_after_many_commands(session: Session) -> None:
    await session.run("set -x")
    for _ in range(5):
        await session.run(":")
    assert await session.said("echo a") == "+ echo a\na\n"


@pytest.mark.parametrize("bad", [0, 0.0, -1, -0.5, math.nan, math.inf, -math.inf])
async def test_B020_bad_time_limits_are_refused(session: Session, bad: float) -> None:
    with pytest.raises(ValueError, match="positive and finite"):
        await session.run("echo", timeout_s=bad)


@pytest.mark.parametrize(
    "script",
    [
        "sleep 600",
        "while :; do date; sleep 1; done",
        "trap '' TERM; sleep 600",
        "setsid sleep 600 & wait",
        "kill -STOP $BASHPID",
    ],
)
async def test_B020_timeouts_answer_in_time_and_leave_no_process(session: Session, script: str) -> None:
    await session.said(f"v=1; sleep 599 & {UNTIL_IT_SLEEPS}")
    began = asyncio.get_running_loop().time()
    result = await session.run(f"v=2; echo part; {script}", timeout_s=2.0)
    assert asyncio.get_running_loop().time() - began < 20.0
    assert result.status is STATUS.TIMEOUT and result.exit_code is None and result.output.startswith("part\n")
    assert await session.said("echo $v; pgrep -f 'sleep 60[0]'; pgrep -fc 'sleep 59[9]'") == "1\n1\n"


async def test_B021_background_jobs_do_not_hold_the_answer_and_their_late_output_is_dropped(
    session: Session, tmp_path: Path
) -> None:
    late = "(until [[ -e go ]]; do sleep 0.01; done; echo LATE; : >said)"
    result = await session.run(f"{late} & setsid sleep 300 & (sleep 300 &) ; echo now")
    assert result.output == "now\n"
    (tmp_path / "go").touch()
    await until_there(tmp_path / "said")
    assert await session.said("echo next") == "next\n"


async def test_B022_a_flood_is_cut_off_and_the_state_kept(session: Session) -> None:
    await session.run("v=1")
    result = await session.run("v=2; yes")
    assert result.status is STATUS.FLOOD and result.truncated and "bytes in all" in result.output
    assert len(result.output) <= 4000 and result.total_bytes > 32 << 20
    assert await session.said("echo $v") == "1\n"


async def test_a_flood_of_an_older_process_ends_in_a_new_shell(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "SPAM_S", 20.0)  # on a busy machine a flood takes its time
    await session.run("(until [[ -e go ]]; do sleep 0.01; done; exec yes) & echo")
    result = await session.run(": >go; sleep 600")
    assert result.status is STATUS.RESTARTED
    assert await session.said("echo ok") == "ok\n"


@pytest.mark.parametrize("n_bytes", [1 << 16, 1 << 20])
async def test_long_scripts_arrive_whole(session: Session, n_bytes: int) -> None:
    assert await session.said(f"x={'a' * n_bytes}; echo ${{#x}}") == f"{n_bytes}\n"


async def test_what_no_shell_can_read_is_refused_as_an_observation(session: Session) -> None:
    for script in ("echo a\0b", "#" * (5 << 20)):
        result = await session.run(script)
        assert result.status is STATUS.OK and result.exit_code == 2 and "nothing was run" in result.output
    assert await session.said("echo ok") == "ok\n"


async def test_B023_text_that_is_no_text_is_survived(session: Session) -> None:
    assert await session.said("echo '\ud800'") == "?\n"
    assert await session.said("printf '\\xff\\xfe\\x00'; printf '\\xe2\\x82'") == "\ufffd\ufffd\0\ufffd"
    assert await session.said("head -c 300 /bin/ls | wc -c") == "300\n"


KEPT = r"""
exec 1>&-|exec >/dev/null; echo lost|exec 2>&-|exec 10>&- 11>&- 12>&- 13>&- 14>&- 15>&-|exec 250<&- 251>&- 252>&- 253>&-
exec 10</etc/passwd 11</etc/passwd|eval() { echo forged; }|read() { sleep 600; }|builtin() { echo forged; }|command() { :; }
builtin() { command "$@"; }; readonly -f builtin|kill() { :; }; exit() { :; }|enable -n builtin|enable -n read printf eval trap set
readonly __envhub_n|readonly REPLY|readonly PWD IFS PATH|unset __envhub_n __envhub_t __envhub_l|__envhub_p=1 __envhub_g=1
set -n|set -t|set -f; set -C; set -a; set -k|set -o posix|set -m|set -r|shopt -s extdebug; trap false DEBUG|trap 'exit 4' DEBUG; :
trap 'echo dbg' DEBUG ERR RETURN|trap '' TERM INT HUP PIPE CHLD|alias builtin=echo while=echo; shopt -s expand_aliases
ulimit -n 5|ulimit -f 0|ulimit -v 10000|umask 777|readonly TMOUT=1; sleep 1.2|LC_ALL=none LANG=none|POSIXLY_CORRECT=1
kill -STOP $$; kill -9 $$; for s in {1..64}; do kill -$s 1; done|a='('; for i in {1..12}; do a+=$a; done; eval "$a"
builtin printf '\0%s:X:%s:\0' $__envhub_t $__envhub_n|builtin printf '\0%s:D:%s:0:/\0' $__envhub_t $__envhub_n
builtin printf '\0%s:E:%s' $__envhub_t $__envhub_n|builtin printf '\0%s:S:%s:1\0' $__envhub_t $__envhub_n
builtin printf '\0%s:E:%s:0:/\0' $__envhub_t $__envhub_n; sleep 600|cat /proc/*/fd/250|coproc cat|wait; fg; jobs
mkdir gone; cd gone; rmdir ../gone; cd /usr|f() { f; }; ulimit -s 1024; f|kill -9 -1|exec 3<>/dev/null 4>&1 5>&1
"""


SABOTAGE = [part for line in KEPT.strip().splitlines() for part in line.split("|")]
QUICK = SABOTAGE[::8]


@pytest.mark.parametrize(
    "script", [part if part in QUICK else pytest.param(part, marks=pytest.mark.slow) for part in SABOTAGE]
)
async def test_sabotage_is_survived_with_the_state(session: Session, script: str) -> None:
    await session.run("kept=1; cd /usr; f_kept() { echo here; }")
    await session.run(script, timeout_s=2.0)
    result = await session.run("echo $kept $PWD; f_kept", timeout_s=10.0)
    assert result.status is STATUS.OK and result.output.endswith("1 /usr\nhere\n"), result


@pytest.mark.parametrize(
    "script",
    [
        "kill -9 0",
        "bash -c 'kill -9 -1'",
        *(pytest.param(f"pkill -{s} bash", marks=pytest.mark.slow) for s in ("9", "STOP")),
    ],
)
async def test_killing_every_process_gives_a_new_shell(session: Session, script: str) -> None:
    await session.run("v=1; cd /usr; sleep 300 &")
    result = await session.run(f"{script}; sleep 600", timeout_s=2.0)
    assert result.status is STATUS.RESTARTED, result
    assert await session.said("echo [$v]") == "[]\n"
    await session.until_said("pgrep -c sleep", lambda said: said == "0\n")


@pytest.mark.slow
async def test_a_forged_end_costs_the_forger_alone(session: Session) -> None:
    forged = r"builtin printf '\0%s:E:%s:0:/\0\0%s:R:%s:/\0' $__envhub_t $__envhub_n $__envhub_t $__envhub_n; sleep 600"
    await session.run(forged, timeout_s=2.0)
    await session.run("echo 1", timeout_s=2.0)
    assert await session.said("echo 2") == "2\n"


async def test_the_number_of_shells_is_bounded(session: Session) -> None:
    for _ in range(60):
        await session.run(":")
    await session.until_said("pgrep -c bash", lambda said: int(said) <= 4)


async def test_a_shell_is_renewed_before_it_nests_too_deep(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "MAX_DEPTH", 5)
    await session.run("cd /usr; f() { (( n += $1 )); }; declare -A m=([a]=1); sleep 577 >/dev/null & n=0")
    await session.run(UNTIL_IT_SLEEPS)
    first = await session.said("echo $BASHPID $(pgrep -f 'sleep 57[7]')")
    for _ in range(30):
        assert (await session.run("f 2; (exit 3)")).exit_code == 3
    assert await session.said("echo $? $n ${m[a]} $PWD") == "3 60 1 /usr\n"
    assert (await session.said("echo $BASHPID $(pgrep -f 'sleep 57[7]')")).split()[1] == first.split()[1]
    await session.until_said("pgrep -c bash", lambda said: int(said) <= 4)


async def test_a_shell_that_does_not_tell_its_state_goes_on_as_it_is(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "MAX_DEPTH", 5)
    monkeypatch.setattr(shell, "MAX_STATE_BYTES", 1000)
    await session.run("v=$(printf %2000s x); n=0")
    for _ in range(12):
        await session.run("(( n += 1 ))")
    assert await session.said("echo ${#v} $n") == "2000 12\n"


async def test_what_others_write_is_no_part_of_the_state(
    session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shell, "MAX_DEPTH", 3)
    await session.run('for i in {1..200}; do eval "f$i() { echo a; echo b; }"; done; n=0')
    await session.run("while :; do echo ')'; done & p=$!")
    for _ in range(12):
        await session.run("(( n += 1 ))")
    state = await session.shell.checkpoint()
    assert (await session.said("kill $p; wait; declare -F | wc -l; f200; echo $n")).endswith("200\na\nb\n12\n")
    async with local_shell(str(tmp_path), restore=state) as other:
        assert (await other.run("declare -F | wc -l; f200", timeout_s=9, max_bytes=99)).output == "200\na\nb\n"


async def test_a_renewal_that_is_cancelled_is_made_good_by_the_next_call(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shell, "MAX_DEPTH", 2)
    real = program.renew

    def renew(nonce: str) -> bytes:
        asyncio.get_running_loop().call_later(0.001, running.cancel)
        return real(nonce)

    await session.run("v=1; f() { echo f; }")
    await session.run("cd /usr")
    monkeypatch.setattr(program, "renew", renew)
    running = asyncio.ensure_future(session.run("v=2"))
    with pytest.raises(asyncio.CancelledError):
        await running
    monkeypatch.setattr(program, "renew", real)
    assert await session.said("echo $v $PWD; f") == "1 /usr\nf\n"


async def test_a_forged_renewal_costs_nothing_and_a_loss_by_it_is_said(session: Session) -> None:
    forge = "for p in /proc/[0-9]*/fd/252; do echo N >$p; done 2>/dev/null"
    killing = f"{forge}; for p in /proc/[0-9]*; do [[ -e $p/fd/252 ]] && kill -9 ${{p#/proc/}}; done; kill -9 $BASHPID"

    held = "echo $(( $(ls /proc/1/fd | wc -l) + $(ps ax | wc -l) ))"  # descriptors of the first process, and processes
    await session.run("v=1")
    before = min([int(await session.said(held)) for _ in range(5)])
    for _ in range(20):
        await session.run(forge)
    assert await session.said("echo $v") == "1\n"
    await session.until_said(held, lambda said: int(said) <= before)
    assert (await session.run(killing)).status is STATUS.RESTARTED
    assert await session.said("echo ${v-none}") == "none\n"
    await session.until_said(held, lambda said: int(said) <= before)


async def test_a_state_that_is_lost_on_its_way_is_said(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "MAX_DEPTH", 2)
    await session.run("v=1")
    await session.run("echo")
    monkeypatch.setattr(
        program, "CHECKPOINT", program.CHECKPOINT.replace(b"builtin declare -f", b"echo 'kill -9 $BASHPID'")
    )
    assert (await session.run("echo")).status is STATUS.RESTARTED
    assert await session.said("echo ${v-none}") == "none\n"


@pytest.mark.slow
async def test_two_thousand_commands_leave_the_state_and_the_memory(session: Session) -> None:
    await session.run("n=0")
    early = int(await session.said("(sed -n 's/VmRSS:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/$BASHPID/status)"))
    for _ in range(2000):
        await session.run("(( n += 1 ))")
    late = int(await session.said("(sed -n 's/VmRSS:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/$BASHPID/status)"))
    assert await session.said("echo $n") == "2000\n"
    assert late < early + 40_000, (early, late)


@pytest.mark.parametrize("is_heard", [True, False])
async def test_a_cancelled_command_is_cleaned_up_by_the_next(session: Session, tmp_path: Path, is_heard: bool) -> None:
    """Also where it is cut off before it is heard that it began."""
    await session.run("v=1")
    if not is_heard:
        session.channel.listening.clear()
    running = asyncio.ensure_future(session.run("v=2; : >begun; sleep 598"))
    await until_there(tmp_path / "begun")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    session.channel.listening.set()
    assert await session.said("echo $v; pgrep -f 'sleep 59[8]'") == "1\n"


async def test_a_checkpoint_restores_into_another_shell(session: Session, tmp_path: Path) -> None:
    await session.run(
        "odd=$'a^b^a\\nb\\001\\377\\200^x'\n"
        "cd /usr; plain='a b'; export shown=$'x\\ny'; declare -A m=([k 1]='v\"2'); declare -i n=3; declare -r fixed=1; unset HOME\n"
        "f() { echo \"f $1\"; }; export -f f; declare -n ref=plain; alias ll='ls -l'\n"
        "shopt -s extglob expand_aliases; set -ufo pipefail\n"
        "g() { case $1 in +(a)) echo as;; esac; }; umask 027; set -- one 'two three'; PATH=/usr/bin:/bin"
    )
    await session.run("h() { cat <<X\n^a^b\n  é ^\nX\n}")
    state = await session.shell.checkpoint()
    assert await session.said("echo $n; printenv shown") == "3\nx\ny\n"
    async with local_shell(str(tmp_path), restore=state) as other:
        result = await other.run(
            'echo "$PWD|$plain|${m[k 1]}|$n|$fixed|${HOME-none}|$ref|$2|$-|$(umask)"; f 1; bash -c "f 2"; g aaa; printenv shown; '
            "alias ll; echo *; [[ $odd == $'a^b^a\\nb\\001\\377\\200^x' ]] && echo odd; h | tr '\\n' ,; fixed=2",
            timeout_s=20, max_bytes=4000,
        )  # fmt: skip
    first, *rest = result.output.splitlines()
    fields = first.split("|")
    assert fields[:8] == ["/usr", "a b", 'v"2', "3", "1", "none", "a b", "two three"] and fields[9] == "0027", result
    assert {"u", "f"} <= set(fields[8])
    assert rest[:7] == ["f 1", "f 2", "as", "x", "y", "alias ll='ls -l'", "*"], rest
    assert rest[7] == "odd" and rest[8].startswith("^a^b,  é ^,") and "readonly variable" in rest[-1], rest


async def test_a_command_that_runs_when_the_shell_is_closed_is_told_so(session: Session, tmp_path: Path) -> None:
    running = asyncio.ensure_future(session.run(": >begun; sleep 596"))
    await until_there(tmp_path / "begun")
    await session.shell.close()
    with pytest.raises(SandboxLostError, match="closed"):
        await running


async def test_a_lost_sandbox_stays_lost(session: Session) -> None:
    os.kill(session.channel.first(), signal.SIGKILL)
    await session.channel.process.wait()
    for _ in range(2):
        with pytest.raises(SandboxLostError):
            await session.run("echo")
