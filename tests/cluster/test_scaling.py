"""The scaling policy: bounds that hold whatever happens, and what makes it move."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from envhub.cluster.scaling import Decision, Limits, Load, State, Trend, decide

LIMITS = Limits(min=1, max=4, capacity=10, grow_after_s=2.0, shrink_after_s=60.0)


def ready(*taken: int) -> list[Load]:
    return [Load(f"w{number}", State.READY, each) for number, each in enumerate(taken)]


def after(workers: list[Load], seconds: list[float], *, n_waiting: int = 0, limits: Limits = LIMITS) -> list[Decision]:
    """Decisions at those times, with nothing changing."""
    trend, decisions = Trend(), []
    for now in seconds:
        decision, trend = decide(limits, workers, trend, n_waiting=n_waiting, now=now)
        decisions.append(decision)
    return decisions


def test_an_empty_fleet_gets_its_minimum_at_once() -> None:
    (decision,) = after([], [0.0], limits=Limits(3, 8, 10, 2.0, 60.0))
    assert decision == Decision(n_add=3)


def test_a_queue_must_last_before_it_brings_workers() -> None:
    first, second, third = after(ready(10), [0.0, 1.9, 2.0], n_waiting=5)
    assert (first.n_add, second.n_add, third.n_add) == (0, 0, 1)


def test_a_queue_that_empties_starts_its_time_anew() -> None:
    _, trend = decide(LIMITS, ready(10), Trend(), n_waiting=5, now=0.0)
    _, trend = decide(LIMITS, ready(10), trend, n_waiting=0, now=1.0)
    decision, _ = decide(LIMITS, ready(10), trend, n_waiting=5, now=2.5)
    assert decision.n_add == 0


def test_workers_on_their_way_count_for_the_queue() -> None:
    workers = [*ready(10), Load("new", State.PLACING)]
    assert after(workers, [0.0, 5.0], n_waiting=10)[-1].n_add == 0
    assert after(workers, [0.0, 5.0], n_waiting=11)[-1].n_add == 1


def test_a_long_queue_brings_no_more_than_the_maximum() -> None:
    workers = [*ready(10), Load("gone", State.LEAVING), Load("old", State.DRAINING, 3)]
    assert after(workers, [0.0, 5.0], n_waiting=500)[-1].n_add == 1


def test_idle_workers_are_drained_down_to_the_minimum_after_a_while() -> None:
    before, at = after(ready(0, 0, 0), [0.0, 60.0])
    assert before == Decision()
    assert at.drain == ("w0", "w1")


def test_the_emptiest_worker_goes_first_and_its_sessions_are_left_alone() -> None:
    _, decision = after(ready(3, 1), [0.0, 60.0])
    assert decision == Decision(drain=("w1",))
    _, decision = after([*ready(3), Load("w1", State.DRAINING, 1)], [0.0, 60.0])
    assert decision.stop == ()
    _, decision = after([*ready(3), Load("w1", State.DRAINING, 0)], [0.0, 60.0])
    assert decision.stop == ("w1",)


def test_load_that_would_fill_the_rest_keeps_a_worker() -> None:
    assert after(ready(4, 4), [0.0, 60.0])[-1] == Decision()  # 8 of 10 is more than the share that is allowed
    assert after(ready(4, 3), [0.0, 60.0])[-1] == Decision(drain=("w1",))


def test_a_short_peak_within_the_time_keeps_the_workers_it_needed() -> None:
    trend = Trend()
    for now, taken in ((0.0, 0), (30.0, 5), (59.0, 0)):
        _, trend = decide(LIMITS, ready(taken, taken, 0), trend, n_waiting=0, now=now)
    decision, _ = decide(LIMITS, ready(0, 0, 0), trend, n_waiting=0, now=60.0)
    assert len(decision.drain) == 1  # two were needed at 30 s


def test_nothing_is_taken_away_while_a_worker_is_on_its_way_or_cut_off() -> None:
    for state in (State.PLACING, State.AWAY):
        workers = [*ready(0, 0), Load("other", state)]
        assert after(workers, [0.0, 60.0, 120.0]) == [Decision()] * 3


class Simulation:
    """Workers that do what is decided, and a load that does what it likes."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.now = 0.0
        self.trend = Trend()
        self.workers: dict[str, Load] = {}
        self.n_waiting = 0
        self.n_made = 0

    def step(self, seconds: float) -> Decision:
        self.now += seconds
        before = dict(self.workers)
        decision, self.trend = decide(
            self.limits, list(before.values()), self.trend, n_waiting=self.n_waiting, now=self.now
        )
        for worker_id in decision.stop:
            assert before[worker_id].state is State.DRAINING and before[worker_id].taken == 0
            del self.workers[worker_id]
        for worker_id in decision.drain:
            assert before[worker_id].state is State.READY
            self.workers[worker_id] = Load(worker_id, State.DRAINING, before[worker_id].taken)
        for _ in range(decision.n_add):
            self.n_made += 1
            self.workers[f"w{self.n_made}"] = Load(f"w{self.n_made}", State.PLACING)
        serving = [each for each in self.workers.values() if each.state is not State.DRAINING]
        assert len(self.workers) <= self.limits.max
        assert not decision.drain or len(serving) >= self.limits.min
        assert decision.n_add == 0 or self.n_waiting > 0 or len(serving) <= self.limits.min
        return decision


@st.composite
def limits(draw: st.DrawFn) -> Limits:
    low = draw(st.integers(1, 4))
    high = draw(st.integers(low, 8))
    times = st.sampled_from([0.0, 2.0, 30.0])
    return Limits(low, high, draw(st.integers(1, 12)), draw(times), draw(times))


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["link", "die", "away", "open", "close", "queue"]), st.integers(0, 30), st.floats(0.0, 40.0)
    ),
    max_size=40,
)


@settings(max_examples=200, deadline=None)
@given(limits(), EVENTS)
def test_bounds_hold_whatever_happens(limits: Limits, events: list[tuple[str, int, float]]) -> None:
    simulation = Simulation(limits)
    simulation.step(0.0)
    for event, number, seconds in events:
        names = sorted(simulation.workers)
        name = names[number % len(names)] if names else ""
        load = simulation.workers.get(name)
        if event == "queue":
            simulation.n_waiting = number
        elif load is None:
            pass
        elif event == "die":
            del simulation.workers[name]
        elif event == "link" and load.state in (State.PLACING, State.AWAY):
            simulation.workers[name] = Load(name, State.READY, load.taken)
        elif event == "away" and load.state is State.READY:
            simulation.workers[name] = Load(name, State.AWAY, load.taken)
        elif event == "open" and load.state is State.READY:
            simulation.workers[name] = Load(name, State.READY, min(load.taken + number, limits.capacity))
        elif event == "close":
            simulation.workers[name] = Load(name, load.state, max(load.taken - number, 0))
        simulation.step(seconds)


@settings(max_examples=100, deadline=None)
@given(limits(), st.integers(0, 100))
def test_a_steady_load_comes_to_rest(limits: Limits, demand: int) -> None:
    """Sessions spread over the workers as the hub spreads them; after a while no decision is made any more."""
    simulation = Simulation(limits)
    last_change = 0
    for step in range(200):
        decision = simulation.step(10.0)
        if decision != Decision():
            last_change = step
        left = demand
        for name, load in simulation.workers.items():
            if load.state is State.DRAINING:
                simulation.workers[name] = Load(name, State.DRAINING, 0)
                continue
            taken = min(limits.capacity, left)
            left -= taken
            simulation.workers[name] = Load(name, State.READY, taken)
        simulation.n_waiting = left
    assert last_change < 100
    serving = [each for each in simulation.workers.values() if each.state is State.READY]
    assert simulation.n_waiting == 0 or len(serving) == limits.max
    assert len(serving) >= limits.min
