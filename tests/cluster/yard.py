"""A cluster in this process: workers that a test starts, breaks and lets end, linked to a real controller on a test's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from envhub.cluster.fleet import Fleet, Plan
from envhub.cluster.place import Order, WorkerGoneError
from envhub.cluster.scaling import Limits
from envhub.config import Settings
from envhub.controller.archive import MemoryArchive
from envhub.controller.local import LocalLink
from envhub.controller.service import ControllerService
from envhub.envs import registry
from envhub.testing.clock import FakeClock, settle
from envhub.worker import main as worker_main
from envhub.worker.service import WorkerService


class YardWorker:
    """Implements ``PlacedWorker``."""

    def __init__(self, yard: Yard, order: Order) -> None:
        self._yard = yard
        self.order = order
        self.stopped = False
        self.service: WorkerService | None = None
        self._link: LocalLink | None = None
        self._node: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._end: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @property
    def id(self) -> str:
        assert self.order.settings.worker_id is not None
        return self.order.settings.worker_id

    async def run_on(self, node: str) -> None:
        """Its process starts on that node."""
        self._node.set_result(node)
        await settle()

    async def link(self) -> None:
        environments = {"calculator": registry.create("calculator")}
        self.service = worker_main.build(environments, self.order.settings, clock=self._yard.clock)
        self._link = LocalLink(self._yard.controller.workers, self.service, clock=self._yard.clock)
        await self._link.open()
        await settle()

    async def unlink(self) -> None:
        assert self._link is not None
        await self._link.close()

    async def end(self, why: str) -> None:
        """Its process ends."""
        self._end.set_result(why)
        await settle()

    async def lose(self, why: str) -> None:
        """Its node is gone."""
        for future in (self._node, self._end):
            if not future.done():
                future.set_exception(WorkerGoneError(why))
                future.exception()
        await settle()

    async def started(self) -> str:
        return await asyncio.shield(self._node)

    async def ended(self) -> str:
        return await asyncio.shield(self._end)

    async def stop(self, limit_s: float) -> None:
        self.stopped = True
        if self._link is not None:
            await self._link.close()
        if not self._end.done():
            self._end.set_result("it was stopped")


class Yard:
    """Implements ``Cluster``; ``placed`` in order of placing."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.controller = ControllerService(clock=self.clock, archive=MemoryArchive())
        self.placed: list[YardWorker] = []
        self.why = "it needs 1 sandbox, and no node has more than 0 sandbox"

    def place(self, order: Order) -> YardWorker:
        self.placed.append(YardWorker(self, order))
        return self.placed[-1]

    async def shortage(self, resources: Mapping[str, float]) -> str:
        return self.why

    def fleet(self, *, low: int = 1, high: int = 3, capacity: int = 2, place_within_s: float = 60.0) -> Fleet:
        settings = Settings(environments=("calculator",), capacity=capacity, drain_s=5.0)
        limits = Limits(low, high, capacity, grow_after_s=2.0, shrink_after_s=30.0)
        plan = Plan("calculator", Order("calculator", settings, {"CPU": 1.0}), limits, place_within_s)
        return Fleet(plan, cluster=self, controller=self.controller, clock=self.clock, new_id=worker_main.new_worker_id)

    async def arrive(self) -> None:
        """Every worker that was placed and not stopped starts and links."""
        for worker in self.placed:
            if worker.service is None and not worker.stopped:
                await worker.run_on("10.0.0.1")
                await worker.link()
