"""What every benchmark script shares: its flags, its claims, the processes it measures, and where full results are kept."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_KIB = os.sysconf("SC_PAGE_SIZE") / 1024


@dataclass(frozen=True, slots=True)
class Claim:
    """``at_least`` turns the goal round; without it, smaller is better."""

    value: float
    goal: float
    at_least: bool = False

    @property
    def ok(self) -> bool:
        return self.value >= self.goal if self.at_least else self.value <= self.goal


def arguments(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a smaller run, under 50 s")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON: the claims")
    return parser


def finish(name: str, args: argparse.Namespace, claims: Mapping[str, Claim], details: Mapping[str, Any]) -> int:
    """Print the claims and keep a full run's numbers; exit code 1 when a claim fails."""
    shown = {claim: {"value": round(each.value, 4), "goal": each.goal, "ok": each.ok} for claim, each in claims.items()}
    if not args.quick:
        record = {"benchmark": name, "machine": machine(), "claims": shown, "details": details}
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    for claim, each in shown.items():
        print(f"{'ok  ' if each['ok'] else 'MISS'} {claim} = {each['value']} (goal {each['goal']})")
    if args.json:
        print(json.dumps({"claims": shown}))
    return 0 if all(each.ok for each in claims.values()) else 1


def machine() -> dict[str, Any]:
    """Where the numbers come from, without naming the machine."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    return {
        "cpu": model,
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "load_average": os.getloadavg()[0],
        "date": datetime.now(UTC).date().isoformat(),
    }


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds."""

    p50_ms: float
    p99_ms: float

    @staticmethod
    def of(seconds: Sequence[float]) -> Latency:
        ordered = sorted(seconds)
        return Latency(
            1000 * statistics.median(ordered), 1000 * ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
        )


class Process:
    """A server process, observed from outside."""

    def __init__(self, name: str, popen: subprocess.Popen[bytes]) -> None:
        self.name = name
        self._popen = popen

    def cpu_s(self) -> float:
        """User and system time so far, of all its threads."""
        fields = Path(f"/proc/{self._popen.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def rss_kib(self) -> float:
        return int(Path(f"/proc/{self._popen.pid}/statm").read_text().split()[1]) * _PAGE_KIB


@contextmanager
def process(
    name: str,
    command: Sequence[str],
    *,
    log: Path,
    environ: Mapping[str, str] | None = None,
    python: str = sys.executable,
) -> Iterator[Process]:
    """Start ``python`` with the given arguments; ended at the end."""
    with log.open("wb") as out:
        popen = subprocess.Popen([python, *command], stdout=out, stderr=out, env={**os.environ, **(environ or {})})
    try:
        yield Process(name, popen)
    finally:
        popen.terminate()
        try:
            popen.wait(20)
        except subprocess.TimeoutExpired:
            popen.kill()
            popen.wait()


def wait_for(url: str, *, limit_s: float = 60.0) -> None:
    """Return once ``url`` answers 200. Raises TimeoutError."""
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            pass
        time.sleep(0.05)
    raise TimeoutError(f"{url} did not answer 200 in {limit_s:g} s")
