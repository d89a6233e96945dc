"""Lost answers, frozen and stopped programs, several controllers: what a client sees when parts of a hub fail."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from envhub.client.hub import Hub
from envhub.core.errors import (
    EnvhubError,
    NoCapacityError,
    SessionEndedError,
    SessionLostError,
    TurnConflictError,
    UnavailableError,
)
from envhub.core.types import Message
from envhub.store.episodes import EpisodeStore
from envhub.testing.hub import served_hub
from envhub.transport import HttpAnswer, HttpTransport
from tests.hub.environments import ProbeEnvironment, records
from tests.hub.processes import (
    Processes,
    free_port,
    slots_taken,
    until,
    until_answers,
    until_idle,
    until_logged,
    until_ready,
    until_waiting,
    workers,
)

pytestmark = pytest.mark.timeout(240)

QUICK = {"heartbeat_s": 0.3, "lost_after_s": 1.5, "stalled_after_s": 20.0, "silent_after_s": 1.0, "recovery_s": 2.0}
PATIENT = {**QUICK, "recovery_s": 30.0}
"""For a controller that must find its workers again: they may dial seconds later, and on a busy machine more."""
STOP_S = 20.0
"""Far less than the 60 s for which those wait that are to be answered at once."""


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[Processes]:
    async with Processes(tmp_path) as started:
        yield started


def say(text: str) -> Message:
    return Message.assistant(text)


class LossyTransport:
    """Delivers every request, and loses the answer of every fifth start and interact."""

    def __init__(self, inner: HttpTransport) -> None:
        self._inner = inner
        self._n = 0
        self.lost = 0

    async def request(self, method: str, path: str, body: bytes, timeout_s: float) -> HttpAnswer:
        answer = await self._inner.request(method, path, body, timeout_s)
        self._n += 1
        if self._n % 5 == 0 and (path.endswith("/interact") or path == "/v1/sessions"):
            self.lost += 1
            raise UnavailableError("the answer was lost", retry_after_s=0.0)
        return answer

    async def close(self) -> None:
        await self._inner.close()


async def test_lost_answers_play_no_turn_twice_and_leave_no_second_session_b026() -> None:
    environment = ProbeEnvironment()
    async with served_hub({"probe": environment}) as served:
        assert served.url is not None
        lossy = LossyTransport(HttpTransport(served.url))
        async with Hub(transport=lossy) as hub:

            async def play() -> int:
                async with hub.session("probe") as session:
                    for turn in range(9):
                        await session.interact(say(f"turn{turn}"))
                    await session.interact(say("done"))
                    return session.turn

            assert await asyncio.gather(*(play() for _ in range(50))) == [10] * 50
        assert lossy.lost > 50
        assert environment.counts.steps == 500
        assert environment.counts.opens == environment.counts.closes == 50
        assert len(records(served)) == 50
        assert served.worker.table.n_slots_taken == 0


async def test_without_repetition_a_second_call_names_the_current_turn_b026() -> None:
    async with served_hub({"probe": ProbeEnvironment()}) as served:
        session = served.hub.session("probe")
        await session.start()
        await session.interact(say("one"))
        path = f"/v1/sessions/{session.id}/interact"
        for turn, text in ((0, "another"), (2, "early")):
            body = json.dumps({"turn": turn, "message": {"role": "assistant", "content": text}}).encode()
            with pytest.raises(TurnConflictError) as caught:
                await served.hub.request("POST", path, body)
            assert caught.value.details["current_turn"] == 1


@pytest.mark.slow
async def test_a_killed_controller_is_found_again_and_its_sessions_go_on_b034(processes: Processes) -> None:
    port = free_port()
    controller = await processes.controller(port, liveness=PATIENT)
    worker = processes.worker(port)
    async with Hub(f"http://127.0.0.1:{port}") as hub:
        await until_ready(hub, 1)
        sessions = [hub.session("probe") for _ in range(100)]
        await asyncio.gather(*(session.start() for session in sessions))
        await sessions[0].interact(say("done 0.5"))
        running = [asyncio.create_task(session.interact(say("sleep 2"))) for session in sessions[1:50]]
        await until_logged(worker, "a step begins: sleep 2", 49)
        controller.kill()
        await asyncio.sleep(1.0)
        await processes.controller(port, liveness=PATIENT)
        killed_at = time.monotonic()
        await asyncio.gather(*running)
        await asyncio.gather(*(session.interact(say("on")) for session in sessions[50:]))
        assert time.monotonic() - killed_at < 30
        assert await slots_taken(hub) == 99
        with pytest.raises(SessionEndedError) as ended:  # known to the new controller by the worker or by the store
            await hub.request("POST", f"/v1/sessions/{sessions[0].id}/renew")
        assert ended.value.details["reason"] == "completed"
        await asyncio.gather(*(session.cancel() for session in sessions))
        await until_idle(hub)


@pytest.mark.slow
async def test_ids_of_the_lost_and_of_the_ended_are_told_apart_after_everything_restarted(
    processes: Processes,
) -> None:
    port = free_port()
    controller = await processes.controller(port, liveness=QUICK)
    worker = processes.worker(port)
    async with Hub(f"http://127.0.0.1:{port}") as hub:
        await until_ready(hub, 1)
        ended, lost, failed = (hub.session("probe") for _ in range(3))
        for session in (ended, lost, failed):
            await session.start()
        await ended.interact(say("done 0.5"))
        with pytest.raises(EnvhubError):
            await failed.interact(say("raise it"))
        await until_records(processes.store_url(port), 2)
        worker.kill()
        await until_gone(hub)
        for _ in range(2):
            with pytest.raises(SessionLostError):
                await lost.interact(say("on"))
        assert json.loads(await hub.request("GET", f"/v1/sessions/{lost.id}"))["state"] == "lost"
        controller.kill()
        await processes.controller(port, liveness=QUICK)
        with pytest.raises(SessionLostError):
            await lost.renew()
        with pytest.raises(SessionEndedError) as caught:
            await ended.renew()
        assert caught.value.details["reason"] == "completed"
        with pytest.raises(EnvhubError) as broke:
            await failed.renew()
        assert broke.value.code == "episode_failed"
        state = json.loads(await hub.request("GET", f"/v1/sessions/{ended.id}"))
        assert (state["state"], state["episode_return"]) == ("ended", 0.5)
        trace = json.loads(await hub.request("GET", f"/v1/sessions/{ended.id}/trace"))
        assert trace["steps"][0]["answer"]["reward"] == 0.5


@pytest.mark.slow
async def test_a_worker_whose_loop_is_blocked_is_not_taken_for_dead_b028(processes: Processes) -> None:
    port = free_port()
    await processes.controller(port, liveness={**QUICK, "silent_after_s": 4.0})
    program = processes.worker(port)
    async with Hub(f"http://127.0.0.1:{port}") as hub:
        await until_ready(hub, 1)
        sessions = [hub.session("probe") for _ in range(5)]
        await asyncio.gather(*(session.start() for session in sessions))
        blocking = asyncio.create_task(sessions[0].interact(say("block 10")))
        await until_logged(program, "a step begins: block 10")
        others = [asyncio.create_task(session.interact(say("on"))) for session in sessions[1:]]
        await asyncio.sleep(6.0)
        (worker,) = await workers(hub)
        assert worker["state"] == "ready" and worker["sessions"] == 5
        await asyncio.gather(blocking, *others)
        assert await slots_taken(hub) == 5
        await asyncio.gather(*(session.cancel() for session in sessions))
        await until_idle(hub)


@pytest.mark.slow
async def test_a_frozen_controller_loses_nothing_when_it_goes_on_b028(processes: Processes) -> None:
    port = free_port()
    controller = await processes.controller(port, liveness=QUICK)
    program = processes.worker(port, capacity=6)
    async with Hub(f"http://127.0.0.1:{port}") as hub:
        await until_ready(hub, 1)
        sessions = [hub.session("probe") for _ in range(5)]
        await asyncio.gather(*(session.start() for session in sessions))
        running = asyncio.create_task(sessions[0].interact(say("sleep 1")))
        await until_logged(program, "a step begins: sleep 1")
        controller.signal(signal.SIGSTOP)
        await asyncio.sleep(5.0)
        controller.signal(signal.SIGCONT)
        await running
        await asyncio.gather(*(session.interact(say("on")) for session in sessions))
        (worker,) = await workers(hub)
        assert (worker["state"], worker["capacity"], worker["sessions"]) == ("ready", 6, 5)
        await asyncio.gather(*(session.cancel() for session in sessions))
        await until_idle(hub)


@pytest.mark.slow
async def test_a_frozen_worker_keeps_its_sessions_for_a_while_and_then_loses_them_once_b028(
    processes: Processes,
) -> None:
    port = free_port()
    await processes.controller(port, liveness={**QUICK, "stalled_after_s": 8.0})
    worker = processes.worker(port)
    async with Hub(f"http://127.0.0.1:{port}") as hub:
        await until_ready(hub, 1)
        kept, lost = hub.session("probe"), hub.session("probe")
        await kept.start()
        await lost.start()
        worker.signal(signal.SIGSTOP)

        async def silent() -> bool:
            return (await workers(hub))[0]["state"] == "silent"

        await until(silent)
        with pytest.raises(NoCapacityError):
            await hub.request("POST", "/v1/sessions", b'{"environment":"probe","wait_s":0}', retry_for_s=0)
        worker.signal(signal.SIGCONT)
        await kept.interact(say("on"))
        await until_ready(hub, 1)
        worker.signal(signal.SIGSTOP)
        with pytest.raises(SessionLostError):
            await lost.interact(say("on"))
        worker.signal(signal.SIGCONT)
        await until_ready(hub, 1)  # it dials again by itself, and ends what its clients were told is lost
        await until_idle(hub)
        with pytest.raises(SessionLostError):
            await kept.interact(say("on"))


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
async def test_a_stopped_worker_ends_its_sessions_and_answers_every_call_b025(
    processes: Processes, number: signal.Signals
) -> None:
    port = free_port()
    await processes.controller(port, liveness=QUICK)
    worker = processes.worker(port, drain_s=0.2)
    async with Hub(f"http://127.0.0.1:{port}") as hub:
        await until_ready(hub, 1)
        sessions = [hub.session("probe") for _ in range(30)]
        await asyncio.gather(*(session.start() for session in sessions))
        running = [asyncio.create_task(session.interact(say("sleep 60"))) for session in sessions[:15]]
        await until_logged(worker, "a step begins: sleep 60", 15)
        worker.signal(number)
        await asyncio.sleep(0.1)
        worker.signal(number)
        assert await worker.exited(STOP_S) == 0, worker.text()
        outcomes = await asyncio.gather(*running, return_exceptions=True)
        assert {type(each) for each in outcomes} == {SessionLostError}
        for session in sessions[15:]:
            with pytest.raises(SessionLostError):
                await session.interact(say("on"))
        await until_records(processes.store_url(port), 30)
        assert "Traceback" not in worker.text()


async def test_200_waiting_clients_are_answered_at_once_when_the_controller_stops_b032(processes: Processes) -> None:
    port = free_port()
    controller = await processes.controller(port)
    worker = processes.worker(port, capacity=100)
    async with Hub(f"http://127.0.0.1:{port}") as hub:
        await until_ready(hub, 1)
        sessions = [hub.session("probe") for _ in range(100)]
        await asyncio.gather(*(session.start() for session in sessions))
        waiting = [asyncio.create_task(once(hub, session.id)) for session in sessions]
        start = b'{"environment":"probe","wait_s":60}'
        waiting += [asyncio.create_task(refused(hub, "POST", "/v1/sessions", start)) for _ in range(100)]
        await until_waiting(hub, "probe", 100)
        await until_logged(worker, "a step begins: sleep 60", 100)
        stopped_at = time.monotonic()
        controller.signal(signal.SIGTERM)
        codes = await asyncio.gather(*waiting)
        again = await asyncio.gather(*(once(hub, session.id) for session in sessions))
        assert set(again) <= {"shutting_down", "unavailable"}
        answered_s = time.monotonic() - stopped_at
        controller.signal(signal.SIGTERM)
        assert set(codes) == {"shutting_down"}
        assert answered_s < STOP_S
        assert await controller.exited(STOP_S) == 0, controller.text()
        assert "Traceback" not in controller.text()


@pytest.mark.slow
async def test_the_whole_hub_in_one_program_stops_as_quickly_b032(processes: Processes, tmp_path: Path) -> None:
    port = free_port()
    store = f"sqlite:///{tmp_path}/up.db"
    hub_program = processes.command("up", "--port", str(port), "-e", "calculator", "--capacity", "2", "--store", store)
    await until_answers(f"http://127.0.0.1:{port}/readyz", hub_program)
    async with Hub(f"http://127.0.0.1:{port}") as hub:
        sessions = [hub.session("calculator") for _ in range(2)]
        await asyncio.gather(*(session.start() for session in sessions))
        start = b'{"environment":"calculator","wait_s":60}'
        waiting = [asyncio.create_task(refused(hub, "POST", "/v1/sessions", start)) for _ in range(20)]
        await until_waiting(hub, "calculator", 20)
        stopped_at = time.monotonic()
        hub_program.signal(signal.SIGTERM)
        assert set(await asyncio.gather(*waiting)) == {"shutting_down"}
        assert time.monotonic() - stopped_at < STOP_S
        assert await hub_program.exited(STOP_S) == 0, hub_program.text()
        assert "Traceback" not in hub_program.text()
    await until_records(store, 2)


@pytest.mark.slow
async def test_two_controllers_share_a_worker_and_never_exceed_its_capacity(processes: Processes) -> None:
    first, second = free_port(), free_port()
    await processes.controller(first, liveness=QUICK)
    await processes.controller(second, liveness=QUICK)
    processes.worker(first, second, capacity=10)
    async with Hub(f"http://127.0.0.1:{first}") as one, Hub(f"http://127.0.0.1:{second}") as two:
        await until_ready(one, 1)
        await until_ready(two, 1)
        outcomes = await asyncio.gather(
            *(refused(hub, "POST", "/v1/sessions", b'{"environment":"probe","wait_s":0}') for hub in (one, two) * 10)
        )
        assert sorted(set(outcomes)) == ["", "no_capacity"]
        assert outcomes.count("") == 10

        async def both_know() -> bool:
            return await slots_taken(one) == await slots_taken(two) == 10

        await until(both_know)
        listed = json.loads(await one.request("GET", "/v1/sessions"))["sessions"]
        for each in listed:  # any controller routes any session of its workers
            body = b'{"turn":0,"message":{"role":"assistant","content":"done"}}'
            assert json.loads(await two.request("POST", f"/v1/sessions/{each['session_id']}/interact", body))[
                "terminated"
            ]
        await until_idle(one)
        await until_idle(two)


async def once(hub: Hub, session_id: str) -> str:
    body = b'{"turn":0,"message":{"role":"assistant","content":"sleep 60"}}'
    return await refused(hub, "POST", f"/v1/sessions/{session_id}/interact", body)


async def refused(hub: Hub, method: str, path: str, body: bytes) -> str:
    """The code of the error that one call without repetition gets; empty for none."""
    try:
        await hub.request(method, path, body, retry_for_s=0.0)
    except EnvhubError as error:
        return error.code
    return ""


async def until_records(url: str, n_records: int) -> None:
    def count() -> int:
        store = EpisodeStore(url)
        store.open()
        try:
            return sum(1 for _ in store.records())
        finally:
            store.close()

    async def enough() -> bool:
        return await asyncio.to_thread(count) >= n_records

    await until(enough)


async def until_gone(hub: Hub) -> None:
    async def gone() -> bool:
        return not await workers(hub)

    await until(gone)
