"""What a step costs on envhub, on OpenEnv and on AgentRL's worker: the same sessions, 64 at a time, in interleaved rounds.

Every subject has its servers and its client in processes of their own. OpenEnv is behind its websocket client, with a plain
``step`` as its template writes it (``openenv``, which the claims compare with) and with a coroutine (``openenv_async``, its
fastest form, no claim). AgentRL's worker is behind ``standin_controller.py``. The peers live in ``.venv-peers``, made on first
use (under a minute to a few, not part of any measurement; exit code 2 when pip cannot install it). Claims, each envhub's
advantage: ``cpu_ratio_openenv``, ``cpu_ratio_agentrl``, ``throughput_ratio_openenv``, ``throughput_ratio_agentrl``.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness import Claim, Latency, Process, arguments, finish, process, wait_for
from hub import STEPS, free_port

HERE = Path(__file__).parent
PEERS = HERE / "peers"
REQUIREMENTS = HERE / "requirements-peers.txt"
PEERS_VENV = HERE.parent / ".venv-peers"
PEERS_PYTHON = str(PEERS_VENV / "bin" / "python")
CONCURRENCY = 64
START_LIMIT_S = 120.0


class CannotInstall(Exception):
    """pip could not make the peers' environment."""


@dataclass(frozen=True, slots=True)
class Round:
    """One measured round of one subject."""

    sessions_per_s: float
    steps_per_s: float
    step: Latency
    start: Latency
    cpu_ms_per_step: float
    cpu_ms_by_process: dict[str, float]
    rss_mib: float
    lost: int


class Client:
    """A client process: plays a round when told to."""

    def __init__(self, popen: subprocess.Popen[str]) -> None:
        self._popen = popen
        self._read()

    def play(self, sessions: int) -> dict[str, Any]:
        assert self._popen.stdin
        order = {"concurrency": CONCURRENCY, "sessions": sessions, "n_steps": STEPS}
        self._popen.stdin.write(json.dumps(order) + "\n")
        self._popen.stdin.flush()
        found: dict[str, Any] = self._read()
        return found

    def _read(self) -> Any:
        assert self._popen.stdout
        line = self._popen.stdout.readline()
        if not line:
            raise RuntimeError(f"the client ended with exit code {self._popen.wait()}")
        return json.loads(line)


@contextmanager
def client(python: str, script: str, url: str) -> Iterator[Client]:
    popen = subprocess.Popen(
        [python, str(PEERS / script), url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Client(popen)
    finally:
        popen.terminate()
        popen.wait()


@dataclass(frozen=True, slots=True)
class Subject:
    name: str
    servers: Sequence[Process]
    client: Client

    def measure(self, sessions: int) -> Round:
        before = [server.cpu_s() for server in self.servers]
        found = self.client.play(sessions)
        used = {server.name: server.cpu_s() - first for server, first in zip(self.servers, before, strict=True)}
        steps = found["steps"]
        for error in found["lost"][:3]:
            print(f"{self.name}: lost a session: {error}", file=sys.stderr)
        if not steps:
            raise RuntimeError(f"{self.name} played no step")
        by_process = {name: 1000 * seconds / len(steps) for name, seconds in used.items()}
        return Round(
            sessions_per_s=(sessions - len(found["lost"])) / found["wall_s"],
            steps_per_s=len(steps) / found["wall_s"],
            step=Latency.of(steps),
            start=Latency.of(found["starts"]),
            cpu_ms_per_step=sum(by_process.values()),
            cpu_ms_by_process=by_process,
            rss_mib=sum(server.rss_kib() for server in self.servers) / 1024,
            lost=len(found["lost"]),
        )


def install_peers() -> None:
    """Make the peers' environment unless it holds these requirements. Raises CannotInstall."""
    stamp = PEERS_VENV / "installed.txt"
    wanted = REQUIREMENTS.read_text()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"installing the peers into {PEERS_VENV.name}", file=sys.stderr)
    began = time.monotonic()
    shutil.rmtree(PEERS_VENV, ignore_errors=True)
    try:
        venv.create(PEERS_VENV, with_pip=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CannotInstall(f"no virtual environment: {error}") from None
    pip = [PEERS_PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(REQUIREMENTS)]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotInstall(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "pip failed")
    stamp.write_text(wanted)
    print(f"installed in {time.monotonic() - began:.0f} s, which no measurement includes", file=sys.stderr)


def start_envhub(stack: ExitStack, folder: Path) -> Callable[[], Subject]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    store = f"sqlite:///{folder}/episodes.db"
    controller = ["-m", "envhub.cli", "controller", "--port", str(port), "--store", store]
    worker = ["-m", "envhub.cli", "worker", "-c", url, "-e", "calculator", "--capacity", "256"]
    servers = [
        stack.enter_context(process("controller", controller, log=folder / "controller.log")),
        stack.enter_context(process("worker", worker, log=folder / "worker.log")),
    ]

    def ready() -> Subject:
        wait_for(f"{url}/readyz", limit_s=START_LIMIT_S)
        return Subject("envhub", servers, stack.enter_context(client(sys.executable, "envhub_client.py", url)))

    return ready


def start_openenv(stack: ExitStack, folder: Path, name: str = "openenv", form: str = "plain") -> Callable[[], Subject]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [str(PEERS / "openenv_counter.py"), str(port), form]
    server = stack.enter_context(process("server", command, log=folder / f"{name}.log", python=PEERS_PYTHON))

    def ready() -> Subject:
        wait_for(f"{url}/health", limit_s=START_LIMIT_S)
        return Subject(name, [server], stack.enter_context(client(PEERS_PYTHON, "openenv_client.py", url)))

    return ready


def start_openenv_async(stack: ExitStack, folder: Path) -> Callable[[], Subject]:
    return start_openenv(stack, folder, "openenv_async", "coroutine")


def start_agentrl(stack: ExitStack, folder: Path) -> Callable[[], Subject]:
    port, worker_port = free_port(), free_port()
    url = f"http://127.0.0.1:{port}"
    controller = [str(HERE / "standin_controller.py"), str(port)]
    servers = [stack.enter_context(process("standin", controller, log=folder / "standin.log"))]
    wait_for(f"{url}/api/version", limit_s=START_LIMIT_S)
    config = str(PEERS / "agentrl_counter.yaml")
    worker = ["-m", "agentrl.worker", "counter", "--config", config, "--controller", f"{url}/api"]
    worker += ["--self", f"http://127.0.0.1:{worker_port}/api", "--host", "127.0.0.1", "--port", str(worker_port)]
    worker += ["--log-level", "warning"]
    servers.append(
        stack.enter_context(
            process(
                "worker",
                worker,
                log=folder / "agentrl.log",
                python=PEERS_PYTHON,
                environ={"PYTHONPATH": str(PEERS)},
            )
        )
    )

    def ready() -> Subject:
        wait_for(f"{url}/api/get_indices?name=counter", limit_s=START_LIMIT_S)
        return Subject("agentrl", servers, stack.enter_context(client(PEERS_PYTHON, "agentrl_client.py", url)))

    return ready


STARTS = (start_agentrl, start_openenv, start_openenv_async, start_envhub)  # slowest to start first


def show(name: str, rounds: Sequence[Round]) -> None:
    def median(of: Callable[[Round], float]) -> float:
        return statistics.median(of(each) for each in rounds)

    by_process = ", ".join(
        f"{server} {statistics.median(each.cpu_ms_by_process[server] for each in rounds):.3f}"
        for server in rounds[0].cpu_ms_by_process
    )
    print(
        f"{name:13} {median(lambda r: r.sessions_per_s):6.1f} sessions/s {median(lambda r: r.steps_per_s):7.1f} steps/s   "
        f"step p50 {median(lambda r: r.step.p50_ms):6.1f} p99 {median(lambda r: r.step.p99_ms):6.1f} ms   "
        f"start p50 {median(lambda r: r.start.p50_ms):6.1f} p99 {median(lambda r: r.start.p99_ms):6.1f} ms   "
        f"server CPU {median(lambda r: r.cpu_ms_per_step):.3f} ms/step ({by_process})   "
        f"RSS {median(lambda r: r.rss_mib):.0f} MiB   lost {sum(r.lost for r in rounds)}"
    )


def advantage(envhub: Sequence[Round], peer: Sequence[Round]) -> tuple[float, float]:
    """How many times less CPU, and how many times more steps per second: medians over rounds that ran side by side."""
    pairs = list(zip(envhub, peer, strict=True))
    cpu = statistics.median(theirs.cpu_ms_per_step / ours.cpu_ms_per_step for ours, theirs in pairs)
    return cpu, statistics.median(ours.steps_per_s / theirs.steps_per_s for ours, theirs in pairs)


def measure(n_rounds: int, sessions: int) -> dict[str, list[Round]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        starting = [start(stack, folder) for start in STARTS]
        subjects = [ready() for ready in starting]
        for subject in subjects:
            subject.measure(CONCURRENCY)
        rounds: dict[str, list[Round]] = {subject.name: [] for subject in subjects}
        for _ in range(n_rounds):
            for subject in subjects:
                rounds[subject.name].append(subject.measure(sessions))
    return rounds


def main() -> int:
    args = arguments(__doc__ or "").parse_args()
    try:
        install_peers()
    except CannotInstall as error:
        print(f"the peers cannot be installed from {REQUIREMENTS.name}: {error}", file=sys.stderr)
        return 2
    rounds = measure(3, 200) if args.quick else measure(15, 200)
    for name, played in rounds.items():
        show(name, played)
    ratios = {peer: advantage(rounds["envhub"], played) for peer, played in rounds.items() if peer != "envhub"}
    for peer, (cpu, throughput) in ratios.items():
        print(f"{peer} to envhub: {cpu:.2f} times the CPU per step; envhub plays {throughput:.2f} times its steps/s")
    claims: dict[str, Claim] = {}
    for peer, (cpu_goal, throughput_goal) in {"openenv": (1, 1), "agentrl": (4, 2)}.items():
        cpu, throughput = ratios[peer]
        claims[f"cpu_ratio_{peer}"] = Claim(cpu, cpu_goal, at_least=True)
        claims[f"throughput_ratio_{peer}"] = Claim(throughput, throughput_goal, at_least=True)
    details = {
        "peers": requirements(),
        "ratios": ratios,
        "rounds": {name: [asdict(r) for r in all_] for name, all_ in rounds.items()},
    }
    return finish("peers", args, claims, details)


def requirements() -> list[str]:
    return [line for line in REQUIREMENTS.read_text().splitlines() if line and not line.startswith("#")]


if __name__ == "__main__":
    sys.exit(main())
