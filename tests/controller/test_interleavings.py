"""Random interleavings of everything that can happen to sessions, over a controller, two workers and links without sockets.

What must hold: an episode is closed once and never stepped after its end, slots taken are live sessions, a turn has one
answer, every request is answered, and every session leaves one record.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from envhub import wire
from envhub.controller.archive import MemoryArchive
from envhub.controller.local import LocalLink
from envhub.controller.service import Answered, ControllerService
from envhub.core.errors import EnvhubError
from envhub.testing.clock import FakeClock, settle
from envhub.worker.service import WorkerService
from envhub.worker.table import TableSettings
from tests.worker.scripted import ScriptedEnvironment, ScriptedEpisode

T = TypeVar("T")
CAPACITY = 2
LIMITS = TableSettings(capacity=CAPACITY, max_open_s=15, max_step_s=20, detach_grace_s=10)
COMMANDS = ["x", "pay 0.5", "end 1", "hold", "swallow", "swallow-end", "wait 3", "raise x", "pay 7"]


class OnceArchive(MemoryArchive):
    """A record may be offered again, but never another one for the same session."""

    def submit(self, record: wire.EpisodeRecord, on_stored: Callable[[], None]) -> None:
        known = {each.session_id: each for each in self.all()}.get(record.session_id)
        assert known in (None, record), f"{record.session_id} has two different records"
        super().submit(record, on_stored)


class Place:
    """One worker and its link, which may be broken."""

    def __init__(self, number: int, clock: FakeClock) -> None:
        self.environment = ScriptedEnvironment(clock, max_turns=4, max_episode_s=60)
        self.service = WorkerService(
            {"scripted": self.environment},
            worker_id=f"wplace{number}",
            clock=clock,
            rng=random.Random(number),
            settings=LIMITS,
        )
        self.link: LocalLink | None = None
        self.opened: list[str] = []
        self.reaper = asyncio.create_task(self.service.reap())
        self.service.subscribe(self._see)

    def _see(self, frame: Any) -> None:
        if type(frame).__name__ == "Opened":
            self.opened.append(frame.note.session_id)


class Interleavings(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.archive = OnceArchive()
        self.requests: list[asyncio.Task[Any]] = []
        self.sessions: list[str] = []
        self.turns: dict[str, int] = {}
        self.answers: dict[tuple[str, int], bytes] = {}
        self.places: list[Place] = []
        self.n_places = 0
        self.run(self._set_up())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    async def _set_up(self) -> None:
        self._make_controller()
        for _ in range(2):
            self.places.append(self._new_place())
            await self._link(self.places[-1])

    def _make_controller(self) -> None:
        self.controller = ControllerService(clock=self.clock, archive=self.archive)
        self.watch = asyncio.create_task(self.controller.watch())

    def _new_place(self) -> Place:
        self.n_places += 1
        return Place(self.n_places, self.clock)

    async def _link(self, place: Place) -> None:
        if place.link is None:
            place.link = LocalLink(self.controller.workers, place.service, clock=self.clock)
            await place.link.open()

    async def _unlink(self, place: Place) -> None:
        if place.link is not None:
            link, place.link = place.link, None
            await link.close()

    # --- clients ----------------------------------------------------------------------------------------------------

    def _ask(self, work: Coroutine[Any, Any, None], ticks: int = 20) -> None:
        async def ask() -> None:
            self.requests.append(asyncio.create_task(work))
            await settle(ticks)

        self.run(ask())

    async def _start(self, body: bytes) -> None:
        answer = await self._answered(self.controller.start(body))
        if answer is not None and answer.status == 200:
            session_id = msgspec.json.decode(answer.body)["session_id"]
            self.sessions.append(session_id)
            self.turns.setdefault(session_id, 0)

    async def _say(self, session_id: str, turn: int, text: str) -> None:
        body = msgspec.json.encode({"turn": turn, "message": {"content": text}})
        answer = await self._answered(self.controller.call(session_id, "interact", body))
        if answer is not None and answer.status == 200:
            first = self.answers.setdefault((session_id, turn), answer.body)
            assert first == answer.body, f"turn {turn} of {session_id} has two answers"
            self.turns[session_id] = max(self.turns[session_id], turn + 1)

    async def _call(self, session_id: str, op: str, body: bytes) -> None:
        await self._answered(self.controller.call(session_id, op, body))

    @staticmethod
    async def _answered(asked: Coroutine[Any, Any, Answered]) -> Answered | None:
        """None for an error of ours; anything else that is raised fails the test."""
        try:
            answer = await asked
        except EnvhubError as error:
            assert error.status != 500, error
            return None
        assert answer.status != 500, answer.body
        return answer

    @rule(
        key=st.none() | st.sampled_from(["k1", "k2"]),
        slow=st.sampled_from([{}, {}, {}, {"open_s": 2.0}, {"reset_s": 30.0}, {"close_s": 3.0}, {"fail": "reset"}]),
        lease_s=st.sampled_from([5, 30, 30]),
        ticks=st.integers(0, 20),
    )
    def start(self, key: str | None, slow: dict[str, Any], lease_s: int, ticks: int) -> None:
        fields = {"environment": "scripted", "seed": 1, "task": 0, "lease_s": lease_s, "wait_s": 8, "options": slow}
        self._ask(self._start(msgspec.json.encode(fields | ({"request_key": key} if key else {}))), ticks)

    @rule(n=st.integers(1, 3))
    def starts(self, n: int) -> None:
        for _ in range(n):
            self.start(None, {}, 30, 0)

    @rule(which=st.integers(1, 4), text=st.sampled_from(COMMANDS), ticks=st.integers(0, 20))
    def play(self, which: int, text: str, ticks: int) -> None:
        """Go on with one of the latest sessions."""
        if session_id := self._latest(which):
            self._ask(self._say(session_id, self.turns[session_id], text), ticks)

    @rule(which=st.integers(1, 4))
    def play_well(self, which: int) -> None:
        self.play(which, "pay 0.5", 20)

    @rule(which=st.integers(1, 4), text=st.sampled_from(COMMANDS), off=st.sampled_from([-1, 1]))
    def play_out_of_turn(self, which: int, text: str, off: int) -> None:
        if session_id := self._latest(which):
            self._ask(self._say(session_id, max(0, self.turns[session_id] + off), text), 0)

    @rule(
        which=st.integers(1, 4), op=st.sampled_from(["renew", "cancel", "detach", "describe"]), ticks=st.integers(0, 20)
    )
    def call(self, which: int, op: str, ticks: int) -> None:
        if session_id := self._latest(which):
            self._ask(self._call(session_id, op, b""), ticks)

    def _latest(self, which: int) -> str | None:
        return self.sessions[-min(which, len(self.sessions))] if self.sessions else None

    @rule(pick=st.integers(0, 50))
    def a_client_leaves(self, pick: int) -> None:
        async def leave() -> None:
            waiting = [task for task in self.requests if not task.done()]
            if waiting:
                waiting[pick % len(waiting)].cancel()
            await settle()

        self.run(leave())

    # --- the world --------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([1, 1, 3, 6, 12]))
    def time_passes(self, seconds: int) -> None:
        self.run(self._pass_time(seconds))

    async def _pass_time(self, seconds: int) -> None:
        for _ in range(seconds):
            await self.clock.advance(1.0)

    @rule()
    def steps_are_released(self) -> None:
        async def release() -> None:
            for place in self.places:
                for episode in place.environment.log.opened:
                    episode.released.set()
            await settle()

        self.run(release())

    @rule(which=st.integers(0, 1))
    def a_link_breaks(self, which: int) -> None:
        self.run(self._unlink(self.places[which]))

    @rule(which=st.integers(0, 1))
    def a_link_comes_back(self, which: int) -> None:
        self.run(self._link(self.places[which]))

    @rule(which=st.integers(0, 1))
    def a_worker_dies(self, which: int) -> None:
        async def die() -> None:
            dead = self.places[which]
            await self._unlink(dead)
            dead.reaper.cancel()
            self.places[which] = self._new_place()
            await self._link(self.places[which])

        self.run(die())

    @rule()
    def the_controller_restarts(self) -> None:
        async def restart() -> None:
            for place in self.places:
                await self._unlink(place)
            self.watch.cancel()
            await self.controller.close()
            await settle()
            self._make_controller()
            for place in self.places:
                await self._link(place)
            await settle()

        self.run(restart())

    # --- what holds -------------------------------------------------------------------------------------------------

    @invariant()
    def episodes_are_treated_as_promised(self) -> None:
        for place in self.places:
            assert not place.environment.log.breaches, place.environment.log.breaches
            taken, live = place.service.table.n_slots_taken, place.environment.log.live
            assert len(live) <= taken <= CAPACITY
        for task in self.requests:
            if task.done() and not task.cancelled():
                task.result()
        assert not self.controller.failures

    @invariant()
    def both_sides_know_the_same_sessions(self) -> None:
        self.run(settle())
        for place in self.places:
            worker = self.controller.workers.get(place.service.worker_id)
            if place.link is not None and worker is not None:
                assert set(worker.sessions) == {note.session_id for note in place.service.table.notes()}
                assert worker.reserved >= 0

    def teardown(self) -> None:
        try:
            self.run(self._finish())
        finally:
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.run(settle())
            self.loop.close()

    async def _finish(self) -> None:
        for place in self.places:
            await self._link(place)
        await self._pass_time(140)
        assert all(task.done() for task in self.requests), "a request was never answered"
        self.episodes_are_treated_as_promised()
        recorded = {record.session_id for record in self.archive.all()}
        for place in self.places:
            assert place.service.table.n_slots_taken == 0
            assert not place.service.table.unstored()
            assert all(_closed_once(episode) for episode in place.environment.log.opened)
            assert len(set(place.opened)) == len(place.opened)
            assert set(place.opened) <= recorded, "a session left no record"
        for worker in self.controller.workers.all():
            assert not worker.sessions and not worker.reserved and not worker.pending


def _closed_once(episode: ScriptedEpisode) -> bool:
    return episode.closed == 1


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
