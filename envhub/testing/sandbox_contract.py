"""What every sandbox driver must do, as checks that any test runner can call. Third parties run them on their own drivers.

::

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    async def test_contract(check, driver):
        await check(driver)

Invariant: a check closes every sandbox it starts and leaves the driver usable.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from envhub.core.errors import SandboxFileError, SandboxLostError
from envhub.core.sandbox import (
    CommandResult,
    CommandStatus,
    ForkableSandbox,
    ProcessResult,
    Sandbox,
    SandboxDriver,
    SandboxLimits,
    SandboxSpec,
)

Check = Callable[[SandboxDriver], Awaitable[None]]

MAX_BYTES = 64 << 10


async def state_lasts_from_command_to_command(driver: SandboxDriver) -> None:
    async with _started(driver) as box:
        await _ok(box, "cd /tmp; plain=1; export shown='a b'; f() { echo f$1; }; shopt -s extglob; false || true")
        result = await _ok(box, 'echo "$PWD $plain $shown"; f 2; printenv shown; shopt -q extglob && echo on')
        assert (result.output, result.cwd) == ("/tmp 1 a b\nf2\na b\non\n", "/tmp"), result


async def a_command_starts_in_the_folder_and_environment_of_the_spec(driver: SandboxDriver) -> None:
    async with _started(driver, SandboxSpec(cwd="/tmp", environment={"COLOUR": "blue"})) as box:
        assert (await _ok(box, "pwd; echo $COLOUR; cat")).output == "/tmp\nblue\n"


async def a_script_that_ends_its_shell_is_rolled_back(driver: SandboxDriver) -> None:
    async with _started(driver) as box:
        await _ok(box, "kept=1")
        result = await _run(box, "kept=2; cd /tmp; echo said; exit 7")
        assert (result.status, result.exit_code, result.output) == (CommandStatus.DIED, 7, "said\n"), result
        assert (await _ok(box, "echo $kept")).output == "1\n"


async def exit_codes_and_output_are_exact(driver: SandboxDriver) -> None:
    async with _started(driver) as box:
        result = await _run(box, "echo out; echo err >&2; printf 'žluť\\377'; (exit 9)")
        assert (result.status, result.exit_code) == (CommandStatus.OK, 9), result
        assert (result.output, result.truncated) == ("out\nerr\nžluť\ufffd", False), result
        result = await _run(box, "head -c 300000 /dev/zero | tr '\\0' x; echo end", max_bytes=1000)
        assert result.total_bytes == 300_004 and result.truncated, result
        assert len(result.output.encode()) <= 1000 and result.output.endswith("xend\n"), result


async def B020_a_timeout_leaves_no_process_and_partial_output(driver: SandboxDriver) -> None:
    async with _started(driver) as box:
        await _ok(box, f"kept=1; sleep 4001 & {_UNTIL_IT_SLEEPS}")
        for script in (
            "echo part; sleep 4002",
            "echo part; trap '' TERM; setsid sleep 4002 & wait",
            "echo part; (sleep 4002)",
        ):
            result = await _run(box, script, timeout_s=2.0)
            assert (result.status, result.exit_code, result.output) == (CommandStatus.TIMEOUT, None, "part\n"), result
            left = (await _ok(box, _COMMAND_LINES)).output
            assert "sleep 4002" not in left, f"{script}: {left}"
            assert "sleep 4001" in left, "an older background job must survive"
        assert (await _ok(box, "echo $kept")).output == "1\n"


async def B020_time_limits_must_be_positive_and_finite(driver: SandboxDriver) -> None:
    async with _started(driver) as box:
        for limit in (0, 0.0, -1, math.nan, math.inf):
            try:
                await box.run("echo", timeout_s=limit, max_bytes=100)
            except ValueError:
                continue
            raise AssertionError(f"a time limit of {limit} must be refused")
        await _ok(box, "echo")


async def B021_background_jobs_go_on_and_hold_nothing(driver: SandboxDriver) -> None:
    async with _started(driver) as box:
        await _ok(
            box, "mkfifo /tmp/asked /tmp/told; (while read -r x </tmp/asked; do echo got $x >/tmp/told; done) & echo"
        )
        result = await _ok(box, "echo hello >/tmp/asked; read -r x </tmp/told; echo $x")
        assert result.output == "got hello\n", result


async def a_script_with_a_nul_is_refused_as_an_observation(driver: SandboxDriver) -> None:
    async with _started(driver) as box:
        result = await _run(box, "echo a\0; echo b")
        assert result.exit_code != 0 and "NUL" in result.output, result
        assert (await _ok(box, "echo ok")).output == "ok\n"


async def exec_runs_beside_the_shell(driver: SandboxDriver) -> None:
    async with _started(driver) as box:
        await _ok(box, "export LEAK=1; cd /tmp; echo data >/root/file")
        result = await box.exec(["sh", "-c", "cat; pwd; echo $LEAK >&2; cat file; exit 5"], timeout_s=20, stdin=b"in\n")
        assert (result.exit_code, result.stdout, result.stderr) == (5, b"in\n/root\ndata\n", b"\n"), result
        assert (await box.exec(["sleep", "60"], timeout_s=0.5)).timed_out
        assert (await box.exec(["sh", "-c", "kill -9 $$"], timeout_s=20)).exit_code == 137


async def files_go_in_and_out(driver: SandboxDriver) -> None:
    data = bytes(range(256)) * 100
    async with _started(driver) as box:
        await box.put("/srv/a/b.bin", data, mode=0o755)
        assert await box.get("/srv/a/b.bin", max_bytes=1 << 20) == data
        assert (await _ok(box, "stat -c %a /srv/a/b.bin")).output == "755\n"
        await _ok(box, "mkfifo /tmp/fifo; ln -s /tmp /srv/link; echo x >/tmp/target")
        assert await box.get("/srv/link/target", max_bytes=10) == b"x\n"
        for path in ("/none", "/tmp", "/tmp/fifo", "/dev/zero", "/srv/a/b.bin"):
            await _refused(box, path)


async def B051_the_judge_sees_the_files_and_trusts_no_program(driver: SandboxDriver) -> None:
    async with _started(driver) as box:
        await _ok(box, _FORGERY)
        for argv in (["/bin/ls", "/root"], ["sh", "-c", "ls /root"], ["/usr/bin/env", "ls", "/root"]):
            result = await box.exec(argv, timeout_s=60, view="judge")
            assert result.exit_code == 0 and b"real" in result.stdout and b"FORGED" not in _both(result), (argv, result)
        result = await box.exec(["sh", "-c", "echo x >/root/new; ls /run/session/root"], timeout_s=60, view="judge")
        assert b"real" in result.stdout and b"new" not in result.stdout, result
        assert "new" not in (await _ok(box, "command -p echo /root/*")).output


async def B051_the_judge_sees_no_process_of_the_session(driver: SandboxDriver) -> None:
    async with _started(driver) as box:
        await _ok(box, f"sleep 4003 & {_UNTIL_IT_SLEEPS}")
        result = await box.exec(["sh", "-c", _COMMAND_LINES], timeout_s=60, view="judge")
        assert b"sleep 4003" not in result.stdout, result


async def there_is_no_network(driver: SandboxDriver) -> None:
    async with _started(driver) as box:
        result = await _run(box, "(exec 9<>/dev/tcp/1.1.1.1/53) 2>&1 && echo reached; cat /proc/net/dev")
        interfaces = {
            line.split(":")[0].strip() for line in result.output.splitlines() if ":" in line and "|" not in line
        }
        assert "reached" not in result.output and not interfaces & {"eth0", "ens3", "docker0"}, result


async def sandboxes_do_not_see_each_other(driver: SandboxDriver) -> None:
    async with _started(driver) as one, _started(driver) as other:
        await _ok(one, f"echo secret >/tmp/mine; sleep 4004 & {_UNTIL_IT_SLEEPS}")
        result = await _ok(other, f"{_COMMAND_LINES}; ls /tmp /dev/shm")
        assert "4004" not in result.output and "mine" not in result.output, result
        await _ok(other, "kill -9 -1 2>/dev/null; true", statuses=(CommandStatus.OK, CommandStatus.RESTARTED))
        assert "4004" in (await _ok(one, _COMMAND_LINES)).output


async def limits_are_enforced(driver: SandboxDriver) -> None:
    limits = SandboxLimits(memory_bytes=256 << 20, n_processes=64, disk_bytes=32 << 20, n_inodes=2000)
    async with _started(driver, SandboxSpec(limits=limits)) as box:
        for folder in ("/root", "/tmp", "/var/tmp", "/etc"):
            result = await _run(
                box, f"head -c 200M /dev/zero >{folder}/big; stat -c %s {folder}/big; rm -f {folder}/big"
            )
            sizes = [int(line) for line in result.output.splitlines() if line.isdecimal()]
            assert sizes and sizes[-1] <= limits.disk_bytes, f"{folder}: {result}"
        result = await _run(
            box,
            "(mkdir /root/m && cd /root/m && for i in {1..4000}; do : >$i || break; done) 2>/dev/null; ls /root/m | wc -l",
        )
        n_files = int(result.output.split()[-1])
        assert n_files <= 1.05 * limits.n_inodes, f"{n_files} files"
        await _ok(box, "rm -rf /root/m")
        result = await _run(box, "head -c 1G /dev/zero | tail -n 1 | wc -c")
        assert result.output.strip() != str(1 << 30), result
        result = await _run(box, "for i in {1..100}; do sleep 30 & done; wait", timeout_s=3.0)
        assert "fork" in result.output or result.status is not CommandStatus.OK, result
        await _ok(box, "echo alive", statuses=(CommandStatus.OK, CommandStatus.RESTARTED))


async def a_fork_has_the_files_and_the_state_and_goes_its_own_way(driver: SandboxDriver) -> None:
    async with _started(driver) as box:
        if not isinstance(box, ForkableSandbox):
            return
        await _ok(
            box,
            "cd /tmp; n=1; export e='x y'; declare -A m=([k]=v); f() { echo f; }; shopt -s nullglob; set -u; umask 027",
        )
        await _ok(box, "echo one >/root/file; alias g=f")
        copy = await box.fork()
        try:
            result = await _ok(
                copy, 'echo "$PWD $n $e ${m[k]} $-"; f; umask; shopt -q nullglob && cat /root/file; alias g; printenv e'
            )
            assert result.output.startswith("/tmp 1 x y v ") and "u" in result.output.split("\n")[0].split()[-1], result
            assert result.output.split("\n", 1)[1] == "f\n0027\none\nalias g='f'\nx y\n", result
            await _ok(copy, "n=2; echo two >/root/file")
            assert (await _ok(box, "echo $n; cat /root/file")).output == "1\none\n"
            await _ok(box, "echo three >/root/file")
            assert (await _ok(copy, "echo $n; cat /root/file")).output == "2\ntwo\n"
        finally:
            await copy.close()


async def a_session_that_ends_its_system_is_told_from_others(driver: SandboxDriver) -> None:
    async with _started(driver) as box:
        for script in (_END_OF_ALL, "echo"):
            try:
                await box.run(script, timeout_s=10, max_bytes=100)
            except SandboxLostError as error:
                assert error.by_session, error
                continue
            raise AssertionError("a sandbox without its first process must raise SandboxLostError")


async def close_is_final_and_idempotent(driver: SandboxDriver) -> None:
    box = await driver.start(SandboxSpec())
    await _ok(box, "sleep 4005 & echo")
    await box.close()
    await box.close()
    for call in (
        box.run("echo", timeout_s=5, max_bytes=10),
        box.exec(["true"], timeout_s=5),
        box.get("/etc/passwd", max_bytes=99),
    ):
        try:
            await call
        except SandboxLostError:
            continue
        raise AssertionError("a closed sandbox must raise SandboxLostError")


CHECKS: Sequence[Check] = (
    state_lasts_from_command_to_command,
    a_command_starts_in_the_folder_and_environment_of_the_spec,
    a_script_that_ends_its_shell_is_rolled_back,
    exit_codes_and_output_are_exact,
    B020_a_timeout_leaves_no_process_and_partial_output,
    B020_time_limits_must_be_positive_and_finite,
    B021_background_jobs_go_on_and_hold_nothing,
    a_script_with_a_nul_is_refused_as_an_observation,
    exec_runs_beside_the_shell,
    files_go_in_and_out,
    B051_the_judge_sees_the_files_and_trusts_no_program,
    B051_the_judge_sees_no_process_of_the_session,
    there_is_no_network,
    sandboxes_do_not_see_each_other,
    limits_are_enforced,
    a_fork_has_the_files_and_the_state_and_goes_its_own_way,
    a_session_that_ends_its_system_is_told_from_others,
    close_is_final_and_idempotent,
)

_END_OF_ALL = "for p in /proc/[0-9]*/fd/252; do echo Q >$p; done 2>/dev/null; sleep 9"
"""Tells the first process, in the words of its readers, that there is nothing left to do."""

_UNTIL_IT_SLEEPS = "until [[ $(</proc/$!/comm) == sleep ]]; do :; done"
"""After a ``sleep`` in the background, which looks like its shell at first."""

_COMMAND_LINES = "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$f; echo; done 2>/dev/null"

_FORGERY = r"""
touch /root/real
printf '#!/bin/sh\necho FORGED\n' >/tmp/forged; chmod 755 /tmp/forged
for p in /bin/ls /usr/bin/ls /bin/sh /usr/bin/python3 /usr/bin/env; do rm -f $p; cp /tmp/forged $p; done 2>/dev/null
mkdir -p /usr/local/bin; cp /tmp/forged /usr/local/bin/ls
echo /tmp/none.so >/etc/ld.so.preload
echo 'echo FORGED' >/etc/profile; echo 'echo FORGED' >/root/.bashrc
export LD_PRELOAD=/tmp/none.so BASH_ENV=/root/.bashrc ENV=/root/.bashrc PATH=/usr/local/bin:$PATH
true
"""


@asynccontextmanager
async def _started(driver: SandboxDriver, spec: SandboxSpec | None = None) -> AsyncIterator[Sandbox]:
    sandbox = await driver.start(spec or SandboxSpec())
    try:
        yield sandbox
    finally:
        await sandbox.close()


async def _run(box: Sandbox, script: str, *, timeout_s: float = 20.0, max_bytes: int = MAX_BYTES) -> CommandResult:
    return await box.run(script, timeout_s=timeout_s, max_bytes=max_bytes)


async def _ok(box: Sandbox, script: str, *, statuses: tuple[CommandStatus, ...] = (CommandStatus.OK,)) -> CommandResult:
    result = await _run(box, script)
    assert result.status in statuses, f"{script!r}: {result}"
    return result


async def _refused(box: Sandbox, path: str) -> None:
    try:
        await box.get(path, max_bytes=100)
    except SandboxFileError:
        return
    raise AssertionError(f"{path} must not be readable as a file of at most 100 bytes")


def _both(result: ProcessResult) -> bytes:
    return result.stdout + result.stderr
