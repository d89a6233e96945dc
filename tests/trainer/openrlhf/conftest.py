"""A hub of real processes, a tiny model, and whole training runs whose log and metrics can be read afterwards."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HUB_PYTHON = Path(os.environ.get("TRAINER_HUB_PYTHON", ROOT / ".venv" / "bin" / "python"))
MARK = "TRAINER_TEST_RUN"
CONFIG = """
[hub]
url = "{url}"
[model]
path = "{model}"
format = "plain"
n_parameters = 150000
[[tasks]]
environment = "calculator"
indices = [0]
options = {{ max_turns = 4 }}
[[tasks]]
environment = "db"
indices = [0]
options = {{ max_turns = 4 }}
[rollout]
group_size = 4
temperature = 1.0
context_tokens = 2560
turn_tokens = 8
on_rewrite = "refuse"
max_live = 32
[queue]
b_min = 4
b_max = {b_max}
max_staleness = 3
failure_window = {failure_window}
n_retries = {n_retries}
[engines]
n = 2
stale_ratio = 0.5
stale_every = 3
call_limit_s = {call_limit_s}
[algorithm]
learning_rate = 1e-3
baseline = "{baseline}"
kl_coef = {kl_coef}
task_normalization = "{normalization}"
correction = {{ level = "token", mode = "clip", threshold = [0.5, 5.0] }}
[train]
device = "cpu"
n_steps = {n_steps}
n_gpus = {n_gpus}
micro_batch = {micro_batch}
zero_stage = 2
checkpoint = "{folder}/checkpoint"
save_every = {save_every}
resume = {resume}
tensorboard = "{folder}/tensorboard{n_steps}"
{wandb}
"""
WANDB = 'wandb = {{ project = "tests", group = "async", offline = true, folder = "{folder}/runs" }}'
EVALUATE = """
[evaluate]
every = 3
n_samples = 4
n_tasks = 1
temperature = 1.0
tasks = [{ environment = "calculator", split = "train", indices = [0], options = { max_turns = 4 } }]
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = [name for name in ("openrlhf", "vllm", "ray", "deepspeed") if importlib.util.find_spec(name) is None]
    if missing and "trainer" in os.environ.get("ENVHUB_REQUIRE", "").split(","):
        pytest.fail(f"the trainer's packages are required and missing: {', '.join(missing)}")
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.trainer)
            if missing:
                reason = f"needs the trainer's virtual environment: {', '.join(missing)} missing"
                item.add_marker(pytest.mark.skip(reason=reason))


@dataclass
class HubProcesses:
    """A controller and workers, each a process of its own."""

    folder: Path
    port: int
    environments: tuple[str, ...] = ("calculator", "db")
    controller: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start_controller(self) -> None:
        store = f"sqlite:///{self.folder / 'hub.db'}"
        self.controller = self._spawn("controller", "--port", str(self.port), "--store", store)
        wait_for(lambda: self._page() is not None, 180, "the controller answers")

    def start_worker(self) -> None:
        names = [word for name in self.environments for word in ("-e", name)]
        n_before = self.count("envhub_workers", state="ready")
        named = {"ENVHUB_WORKER_ID": f"worker{len(self.workers)}"}
        self.workers.append(self._spawn("worker", "-c", self.url, *names, **named))
        wait_for(lambda: self.count("envhub_workers", state="ready") > n_before, 180, "the worker is linked")

    def count(self, name: str, **labels: str) -> float:
        """Sum of a metric over the series that have these labels."""
        return _sum(self._page() or "", name, labels)

    def ends(self, *outcomes: str) -> dict[str, int]:
        """Finished episodes of these outcomes and, as ``all``, of any: what was true at one moment."""
        page = self._page() or ""
        found = {outcome: int(_sum(page, "envhub_episodes", {"outcome": outcome})) for outcome in outcomes}
        return {**found, "all": int(_sum(page, "envhub_episodes", {}))}

    def sessions(self, number: int) -> int:
        """Of one of ``workers``."""
        with urllib.request.urlopen(f"{self.url}/v1/workers", timeout=30) as answer:
            return sum(each["sessions"] for each in json.load(answer)["workers"] if each["id"] == f"worker{number}")

    def wait_for_episodes(self, n: int) -> None:
        """Workers tell the controller of finished episodes a little later."""
        wait_for(lambda: self.count("envhub_episodes") >= n, 60, f"{n} finished episodes")

    def close(self) -> None:
        for process in (*self.workers, self.controller):
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(30)
                process.kill()
                process.wait()

    def _spawn(self, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        plain = {name: value for name, value in os.environ.items() if not name.startswith("ENVHUB_")}
        with open(self.folder / f"{arguments[0]}-{secrets.token_hex(3)}.log", "wb") as out:
            return subprocess.Popen(
                [HUB_PYTHON, "-m", "envhub.cli", *arguments],
                cwd=self.folder,
                stdout=out,
                stderr=out,
                env=plain | variables,
            )

    def _page(self) -> str | None:
        try:
            with urllib.request.urlopen(f"{self.url}/metrics", timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            return None


@dataclass
class Run:
    """A training run in a process of its own."""

    folder: Path
    process: subprocess.Popen[bytes]
    mark: str
    began: float

    @property
    def log(self) -> str:
        return log_of(self.folder, self.mark).read_text("utf-8", "replace")

    @property
    def last_step(self) -> int:
        """The training step that the log tells of last; 0 before the first."""
        return max(map(int, re.findall(r" step (\d+)/", self.log)), default=0)

    def wait(self, limit_s: float = 900) -> int:
        """The exit status; whatever the run left behind has ended."""
        try:
            status = self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"the run did not end within {limit_s} s:\n{self.tail()}")
        finally:
            self.end()
        return status

    def wait_for_step(self, step: int, limit_s: float = 600) -> None:
        def reached() -> bool:
            assert self.process.poll() is None, f"the run ended early:\n{self.tail()}"
            return self.last_step >= step

        wait_for(reached, limit_s, f"step {step}")

    def end(self) -> None:
        """End the processes of this run, and no others: they carry its mark in their environment."""
        for _ in range(20):
            found = marked(self.mark)
            for number in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            if not found:
                break
            time.sleep(0.25)
        self.process.wait(10)

    def held(self, version: int) -> list[str]:
        """The checksum of the weights in each engine when a version had been sent."""
        found = re.search(rf"version {version}: held (.*)", self.log)
        assert found, f"version {version} was not sent:\n{self.tail()}"
        return [each.partition(":")[2] for each in found[1].split()]

    def sent(self) -> list[tuple[int, str, str]]:
        """Version, checksum and kind of engines, update by update."""
        pattern = r"version (\d+): sent (\w+) \(\d+ tensors\) to (\w+) engines"
        return [(int(version), digest, kind) for version, digest, kind in re.findall(pattern, self.log)]

    def metrics(self, n_steps: int, group: str = "train") -> dict[str, list[float]]:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        (folder,) = (self.folder / f"tensorboard{n_steps}").iterdir()
        events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
        events.Reload()
        names = [name for name in events.Tags()["scalars"] if name.startswith(f"{group}/")]
        return {name.removeprefix(f"{group}/"): [each.value for each in events.Scalars(name)] for name in names}

    def tail(self) -> str:
        return "\n".join(self.log.splitlines()[-60:])


def _sum(page: str, name: str, labels: dict[str, str]) -> float:
    total = 0.0
    for line in page.splitlines():
        if re.match(rf"{name}(_total)?[{{ ]", line) and all(f'{k}="{v}"' in line for k, v in labels.items()):
            total += float(line.rsplit(" ", 1)[1])
    return total


def wait_for(reached: Callable[[], bool], limit_s: float, what: str) -> None:
    until = time.monotonic() + limit_s
    while not reached():
        assert time.monotonic() < until, f"not within {limit_s} s: {what}"
        time.sleep(0.2)


def marked(mark: str) -> list[int]:
    """Processes with this mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                state = (folder / "stat").read_text().rsplit(")", 1)[1].split()[0]
                if state != "Z":
                    found.append(int(folder.name))
    return found


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny model that calls tools."""
    return made_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def endless_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny model that hardly ever ends a turn."""
    return made_model(tmp_path_factory.mktemp("endless"), "--endless")


def made_model(folder: Path, *arguments: str) -> Path:
    script = Path(__file__).with_name("tiny_model.py")
    quiet = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, script, folder, *arguments], check=True, capture_output=True, env=quiet, timeout=400
    )
    return folder


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[HubProcesses]:
    with running_hub(tmp_path) as processes:
        yield processes


@contextlib.contextmanager
def running_hub(folder: Path) -> Iterator[HubProcesses]:
    """With one worker."""
    if not HUB_PYTHON.exists():
        stop = pytest.fail if "trainer" in os.environ.get("ENVHUB_REQUIRE", "").split(",") else pytest.skip
        stop(f"needs the hub's interpreter at {HUB_PYTHON} (make venv), or TRAINER_HUB_PYTHON")
    with held_port() as port:
        processes = HubProcesses(folder, port)
        try:
            processes.start_controller()
            processes.start_worker()
            yield processes
        finally:
            processes.close()


@contextlib.contextmanager
def held_port() -> Iterator[int]:
    """A port that no other process gets meanwhile: it stays bound, and a server may listen on it all the same."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server's own socket has
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture
def port() -> Iterator[int]:
    """A free port."""
    with held_port() as port:
        yield port


@pytest.fixture
def start(tmp_path: Path, model: Path, hub: HubProcesses) -> Iterator[Callable[..., Run]]:
    """``start(*flags, n_steps=6, ...)`` begins a training run in the test's folder; the flags are OpenRLHF's."""
    with starting(tmp_path, model, hub) as begin:
        yield begin


@dataclass(frozen=True)
class Workshop:
    """A hub, and what begins runs on it in a folder: for tests that go on from each other's runs."""

    hub: HubProcesses
    start: Callable[..., Run]


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Iterator[Workshop]:
    folder = tmp_path_factory.mktemp("workshop")
    with running_hub(folder) as hub, starting(folder, model, hub) as begin:
        yield Workshop(hub, begin)


@contextlib.contextmanager
def starting(folder: Path, model: Path, hub: HubProcesses) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def begin(*flags: str, evaluate: bool = False, wandb: bool = False, **values: object) -> Run:
        known: dict[str, object] = {
            "url": hub.url, "model": model, "folder": folder, "n_steps": 6, "n_gpus": 1, "micro_batch": 4, "kl_coef": 0.0,
            "save_every": 1000, "resume": "false", "normalization": "batch", "failure_window": 256, "n_retries": 3, "call_limit_s": 60,
            "baseline": "grpo", "b_max": 8, "wandb": WANDB.format(folder=folder) if wandb else "",
        }  # fmt: skip
        text = CONFIG.format_map(known | values) + (EVALUATE if evaluate else "")
        tomllib.loads(text)
        (folder / "run.toml").write_text(text)
        command = [sys.executable, "-m", "trainer_adapter.train", "--config", folder / "run.toml", "--", *flags]
        runs.append(started(command, folder))
        return runs[-1]

    try:
        yield begin
    finally:
        for run in runs:
            run.end()


def started(command: list[object], folder: Path) -> Run:
    mark = secrets.token_hex(8)
    with open(log_of(folder, mark), "wb") as out:
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=folder,
            stdout=out,
            stderr=out,
            env={**os.environ, MARK: mark, "COLUMNS": "200"},
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # whoever is in the background ignores it
        )
    return Run(folder, process, mark, time.monotonic())


def log_of(folder: Path, mark: str) -> Path:
    return folder / f"train-{mark}.log"


@pytest.fixture
def until() -> Callable[[Callable[[], bool], float, str], None]:
    """``until(reached, limit_s, what)`` waits for something that can be seen."""
    return wait_for


@pytest.fixture
def started_run() -> Iterator[Callable[[list[object], Path], Run]]:
    """Any command as a run."""
    runs: list[Run] = []

    def begin(command: list[object], folder: Path) -> Run:
        runs.append(started(command, folder))
        return runs[-1]

    yield begin
    for run in runs:
        run.end()
