"""Numbers of the controller in Prometheus' text format. Labels are environments and error codes, never sessions or tasks."""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from envhub.controller.workers import Workers

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


CALLS = ("start", "interact", "renew", "cancel", "fork")
"""The calls of the fast lane."""


class Metrics:
    """One registry per controller; gauges are read from the workers when they are scraped."""

    def __init__(self, workers: Workers, n_unstored: Callable[[], int]) -> None:
        self._workers = workers
        self._n_unstored = n_unstored
        self._registry = CollectorRegistry()
        self._calls = Histogram(
            "envhub_call_seconds", "Time of public calls.", ["call"], registry=self._registry, buckets=_BUCKETS
        )
        self._errors = Counter("envhub_errors", "Calls answered with an error.", ["code"], registry=self._registry)
        self._episodes = Counter(
            "envhub_episodes", "Finished episodes.", ["environment", "outcome"], registry=self._registry
        )
        self._sessions = Gauge("envhub_sessions", "Live sessions.", ["environment"], registry=self._registry)
        self._waiting = Gauge(
            "envhub_starts_waiting", "Starts waiting for a slot.", ["environment"], registry=self._registry
        )
        self._slots = Gauge("envhub_slots", "Slots of linked workers.", ["state"], registry=self._registry)
        self._linked = Gauge("envhub_workers", "Workers by state.", ["state"], registry=self._registry)
        self._unstored = Gauge("envhub_episodes_unstored", "Finished episodes not yet stored.", registry=self._registry)
        self._timers = {name: self._calls.labels(name) for name in CALLS}

    def observe(self, call: str, seconds: float) -> None:
        self._timers[call].observe(seconds)

    def error(self, code: str) -> None:
        self._errors.labels(code).inc()

    def finished(self, environment: str, outcome: str) -> None:
        self._episodes.labels(environment, outcome).inc()

    def render(self) -> bytes:
        """The page of ``GET /metrics``."""
        workers = self._workers.all()
        live = Count(note.environment for worker in workers for note in worker.sessions.values())
        self._linked.clear()
        for state, number in Count(worker.state for worker in workers).items():
            self._linked.labels(state).set(number)
        for environment in self._workers.environments():
            self._sessions.labels(environment).set(live[environment])
            self._waiting.labels(environment).set(self._workers.n_waiting(environment))
        taken = sum(len(worker.sessions) + worker.reserved for worker in workers)
        self._slots.labels("taken").set(taken)
        self._slots.labels("free").set(sum(worker.capacity for worker in workers) - taken)
        self._unstored.set(self._n_unstored())
        return generate_latest(self._registry)
