"""The folder of one run: ``run.json`` (plan and identities) and ``results.jsonl`` (one row per finished episode).

Invariant: a row is in the file whole or not at all, and of several rows of one episode the last counts. Rows are written with
one system call each, so ``kill -9`` loses none that was recorded; they are forced to the disk once a second and at the end, so
a power cut loses at most the last second, which a resume plays again. A torn last line is cut off when the folder is opened.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import msgspec

from envhub import __version__
from envhub.bench.plan import EpisodeKey, Plan, PlanError, differences, plan_from_json
from envhub.core.clock import Clock, SystemClock
from envhub.core.types import JSON, Identity, StopReason, TaskRef
from envhub.wire import identity_from_json, identity_to_json

_FSYNC_EVERY_S = 1.0
FORMAT = 1


class Status(StrEnum):
    """``graded`` rows alone have a return. ``error`` is a failure that says nothing of the agent."""

    GRADED = "graded"
    ERROR = "error"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Failure:
    """``source`` says whose failure it is: hub, model or agent (the code that plays, not what the model said)."""

    source: str
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One episode. ``episode_return`` and ``success`` are None unless the row is graded.

    ``model_s`` is the time the policy took, ``hub_s`` the rest. ``actors`` names the model of every turn when several play.
    """

    agent: str
    environment: str
    split: str
    task: int
    repeat: int
    seed: int
    status: Status
    identity: str | None = None
    session_id: str | None = None
    episode_return: float | None = None
    success: bool | None = None
    turns: int = 0
    stop_reason: StopReason | None = None
    terminated: bool = False
    truncated: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0
    hub_s: float = 0.0
    model_s: float = 0.0
    started_at: float = 0.0
    attempts: int = 1
    error: Failure | None = None
    metrics: Mapping[str, JSON] = field(default_factory=dict)
    actors: tuple[str, ...] = ()
    trace: str | None = None

    @property
    def key(self) -> EpisodeKey:
        return EpisodeKey(self.agent, TaskRef(self.environment, self.split, self.task), self.repeat)


class ResultsFolder:
    """Open by one process at a time. Use as a context manager."""

    def __init__(self, path: Path, *, clock: Clock | None = None) -> None:
        self.path = path
        self._clock = clock or SystemClock()
        self._rows: dict[EpisodeKey, Row] = {}
        self._identities: dict[str, Identity] = {}
        self._plan: Plan | None = None
        self._file = -1
        self._synced_at = 0.0

    @property
    def results_path(self) -> Path:
        return self.path / "results.jsonl"

    @property
    def run_path(self) -> Path:
        return self.path / "run.json"

    @property
    def rows(self) -> tuple[Row, ...]:
        """The row that counts of every recorded episode."""
        return tuple(self._rows.values())

    @property
    def identities(self) -> Mapping[str, Identity]:
        """By digest."""
        return self._identities

    @property
    def plan(self) -> Plan:
        if self._plan is None:
            raise PlanError(f"{self.path} has no run.json")
        return self._plan

    def __enter__(self) -> ResultsFolder:
        self.path.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self.results_path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            self._lock()
            self._load()
        except BaseException:
            os.close(self._file)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.fsync(self._file)
        os.close(self._file)

    def begin(self, plan: Plan, *, resume: bool) -> None:
        """Record the plan, or check it against the one recorded. Raises PlanError and changes nothing when they differ."""
        if self._plan is None:
            if self._rows:
                raise PlanError(f"{self.path} has results and no run.json; choose another name")
            self._plan = plan
            self._write_run()
            return
        if not resume:
            raise PlanError(f"{self.path} holds an earlier run; resume it, or choose another name")
        changed = differences(self._plan, plan)
        if changed:
            raise PlanError(f"{self.path} was made with another plan, so it cannot be resumed: {'; '.join(changed)}")

    def finished(self) -> frozenset[EpisodeKey]:
        """The episodes that a resume leaves alone: the graded ones."""
        return frozenset(key for key, row in self._rows.items() if row.status is Status.GRADED)

    def add(self, row: Row, identity: Identity | None = None) -> None:
        """Record a row. ``identity`` is what its episode was measured on."""
        if identity is not None and identity.digest not in self._identities:
            self._identities[identity.digest] = identity
            self._write_run()
        self._append(msgspec.json.encode(row) + b"\n")
        self._rows.pop(row.key, None)
        self._rows[row.key] = row
        if self._clock.now() - self._synced_at >= _FSYNC_EVERY_S:
            os.fsync(self._file)
            self._synced_at = self._clock.now()

    def _append(self, line: bytes) -> None:
        size = os.fstat(self._file).st_size
        if os.write(self._file, line) != len(line):
            os.ftruncate(self._file, size)
            raise OSError(f"{self.results_path}: a row did not fit; is the disk full?")

    def write_trace(self, key: EpisodeKey, trace: Mapping[str, JSON]) -> str:
        """Keep a conversation; returns its path inside the folder."""
        name = f"traces/{_safe(key.agent)}/{_safe(str(key.task))}-{key.repeat}.json"
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        _write_whole(target, trace)
        return name

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PlanError(f"{self.path} is in use by another process") from None

    def _load(self) -> None:
        if self.run_path.exists():
            try:
                run = json.loads(self.run_path.read_bytes())
                self._plan = plan_from_json(run["plan"])
                self._identities = {each["digest"]: identity_from_json(each) for each in run["identities"]}
            except (ValueError, KeyError, TypeError, msgspec.ValidationError) as error:
                raise PlanError(f"{self.run_path} cannot be read: {error}") from error
        content = self.results_path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.ftruncate(self._file, whole)
        for row in rows_from(content[:whole], str(self.results_path)):
            self._rows.pop(row.key, None)
            self._rows[row.key] = row

    def _write_run(self) -> None:
        identities = [identity_to_json(each) for each in self._identities.values()]
        record = {"format": FORMAT, "envhub": __version__, "plan": self.plan.to_json(), "identities": identities}
        _write_whole(self.run_path, record)


def rows_from(content: bytes, where: str) -> list[Row]:
    """Every row, in file order. Raises PlanError naming a line that is not one."""
    decoder = msgspec.json.Decoder(Row)
    rows = []
    for number, line in enumerate(content.splitlines(), 1):
        try:
            rows.append(decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise PlanError(f"{where}:{number}: not a result row: {error}") from None
    return rows


def _safe(name: str) -> str:
    return "".join(each if each.isalnum() or each in "-_." else "_" for each in name)[:100]


def _write_whole(path: Path, record: Mapping[str, JSON]) -> None:
    scratch = path.with_name(f"{path.name}.part")
    with scratch.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)
