"""Programs under ``stop_signals``: no signal is lost, none kills, and the process ends whatever is stuck in it (B032)."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

pytestmark = pytest.mark.timeout(90)

PROGRAM = """
import asyncio, subprocess, sys, threading, time
import uvloop
from envhub import stopping

def say(text):
    print(text, flush=True)

async def main():
    {before}
    with stopping.stop_signals() as stopped:
        say("up")
        {inside}
        await stopped.wait()
        {after}
    say("over")

{run}(main())
say("end")
{end}
"""
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(params=["asyncio.run", "uvloop.run"])
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    """Runs the program with these parts; returns once it is up."""
    started: list[subprocess.Popen[str]] = []

    def run(**parts: str) -> subprocess.Popen[str]:
        own = dict.fromkeys(("before", "inside", "after", "end"), "pass") | parts
        command = [sys.executable, "-c", PROGRAM.format(run=request.param, **own)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        return process

    yield run
    for process in started:
        with suppress(ProcessLookupError):
            process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str], *, limit_s: float = 30.0) -> tuple[int, str, str]:
    out, error = process.communicate(timeout=limit_s)
    return process.returncode, out, error


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_signal_ends_a_program_in_its_own_time(start: Start, number: signal.Signals) -> None:
    process = start(after="await asyncio.sleep(0.3)")
    process.send_signal(number)
    assert ended(process) == (0, "over\nend\n", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_without_end_change_nothing_to_the_last_moment(start: Start, number: signal.Signals) -> None:
    process = start(after="await asyncio.sleep(0.2)", end="time.sleep(0.2)")
    until = time.monotonic() + 10
    while process.poll() is None and time.monotonic() < until:
        process.send_signal(number)
        time.sleep(0.001)
    assert ended(process) == (0, "over\nend\n", "")


def test_a_signal_while_the_program_starts_is_not_lost(start: Start) -> None:
    process = start(inside="time.sleep(1.0)")
    process.send_signal(signal.SIGTERM)
    assert ended(process) == (0, "over\nend\n", "")


def test_a_thread_that_does_not_end_is_left_behind(start: Start) -> None:
    threads = "asyncio.ensure_future(asyncio.to_thread(time.sleep, 60)); threading.Thread(target=time.sleep, args=(60,)).start()"
    process = start(before="stopping._LEAVE_S = 0.5", inside=threads)
    process.send_signal(signal.SIGTERM)
    code, _, error = ended(process)
    assert code == 0 and "left behind" in error


@pytest.mark.parametrize("stuck", ["await asyncio.sleep(60)", "time.sleep(60)"])
def test_a_program_that_does_not_come_to_its_end_says_where_it_is_stuck(start: Start, stuck: str) -> None:
    process = start(before="stopping._STUCK_S = 0.5", after=stuck)
    process.send_signal(signal.SIGTERM)
    code, out, error = ended(process)
    assert code == 1 and out == "" and "Timeout" in error and "most recent call first" in error


def test_what_a_stopping_program_starts_can_still_be_told_to_stop(start: Start) -> None:
    """Sessions go on while a worker drains: their processes must not ignore what the worker has been told."""
    show = "say(subprocess.run(['grep', 'SigIgn', '/proc/self/status'], capture_output=True, text=True).stdout.strip())"
    process = start(after=show)
    process.send_signal(signal.SIGTERM)
    code, out, _ = ended(process)
    ignored = int(out.split()[1], 16)
    assert code == 0 and not ignored & (1 << signal.SIGTERM - 1) and not ignored & (1 << signal.SIGINT - 1)


def test_an_error_of_the_program_is_its_own(start: Start) -> None:
    process = start(inside="raise ValueError('broken')")
    code, out, error = ended(process)
    assert code == 1 and out == "" and error.rstrip().endswith("ValueError: broken")
