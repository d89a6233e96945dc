"""An engine that samples in this process: many conversations at once, each with a cache of what was read of it.

Invariants: the version of a completion is that of the weights when it was asked for; a cache is read again only by the weights
that made it, except within a completion that an update interrupted; weights are in use only after their checksums were reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from learner.model import Cache, Piece, Policy
from learner.text import Tokenizer
from torch import Tensor

from trainer_adapter.tokens import Completion, FinishReason, SamplerError
from trainer_adapter.versions import checksum
from trainer_adapter.weight_sync import Progress

_PATIENCE = 24
"""Turns of the event loop without a new request after which no more are waited for."""
_APART = 24
"""Conversations that are read apart from longer ones: as many as pay for reading twice."""


@dataclass(slots=True)
class _Request:
    ids: Sequence[int]
    max_tokens: int
    version: int
    answer: asyncio.Future[Completion]
    slot: int = -1
    sampled: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


@dataclass(slots=True)
class _Slot:
    """``ids``: what the cache holds, read with the weights of ``version``."""

    ids: list[int] = field(default_factory=list)
    version: int = -1
    busy: bool = False
    used: int = 0


class Engine:
    """A Sampler and a SyncedEngine of the adapter. ``async with engine:`` runs it. With ``temperature`` 0 it is greedy.

    While it is paused, what is being sampled keeps its place and its cache, and goes on with the new weights.
    """

    def __init__(
        self, number: int, tokenizer: Tokenizer, policy: Policy, *, n_slots: int, temperature: float, seed: int
    ) -> None:
        """``policy`` gives the weights to begin with, version 0."""
        self.number, self.version = number, 0
        self.tokenizer, self._temperature = tokenizer, temperature
        (self._end,) = tokenizer.encode(tokenizer.eos_token)
        self._policy = Policy(policy.shape)
        self._policy.load_state_dict(policy.state_dict())
        self._policy.to(torch.bfloat16)
        self._weights = dict(self._policy.named_parameters())
        self._cache = Cache(policy.shape, n_slots, torch.bfloat16)
        self._slots = [_Slot() for _ in range(n_slots)]
        self._random = torch.Generator().manual_seed(seed)
        self._waiting: list[_Request] = []
        self._active: list[_Request] = []
        self._received: dict[str, str] = {}
        self._wake, self._paused = asyncio.Event(), False
        self._running: asyncio.Task[None] | None = None
        self._failure: SamplerError | None = None
        self.n_read = self.n_sampled = 0

    async def __aenter__(self) -> Engine:
        self._running = asyncio.create_task(self._run(), name=f"engine {self.number}")
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._running is not None, "an engine is left after it was entered"
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    # --- as a sampler -----------------------------------------------------------------------------------------------

    async def sample(self, ids: Sequence[int], *, max_tokens: int) -> Completion:
        """Raises SamplerError when the engine has failed."""
        if self._failure is not None:
            raise self._failure
        request = _Request(ids, max_tokens, self.version, asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        self._wake.set()
        return await request.answer

    # --- as weights see it ------------------------------------------------------------------------------------------

    async def pause(self) -> None:
        self._paused = True

    async def resume(self) -> None:
        self._paused = False
        self._wake.set()

    def receive(self, name: str, tensor: Tensor) -> None:
        """One tensor of an update."""
        held = self._weights[name].data
        held.copy_(tensor)
        self._received[name] = tensor_checksum(held)

    async def progress(self) -> Progress:
        return Progress(len(self._received))

    async def received(self) -> Sequence[Mapping[str, str]]:
        received, self._received = self._received, {}
        return [received]

    async def set_version(self, version: int) -> None:
        self.version = version

    # --- sampling ---------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """A failure is everybody's: nobody waits for an engine that does nothing any more."""
        try:
            await self._serve()
        except Exception as error:  # boundary: whoever asked must hear of it
            self._failure = SamplerError(f"engine {self.number} failed: {error}")
            for request in (*self._waiting, *self._active):
                if not request.answer.done():
                    request.answer.set_exception(self._failure)

    async def _serve(self) -> None:
        while True:
            await self._wake.wait()
            if self._paused or not (self._waiting or self._active):
                self._wake.clear()
                continue
            if not self._active:
                await self._gather()
            self._tick()
            await asyncio.sleep(0)

    async def _gather(self) -> None:
        """Wait until conversations that are on their way have asked, to read them together."""
        quiet = 0
        while quiet < _PATIENCE:
            n = len(self._waiting)
            await asyncio.sleep(0)
            quiet = quiet + 1 if len(self._waiting) == n else 0

    def _tick(self) -> None:
        """One piece of work: read what waits once there is as much of it as is under way, else sample a token of each."""
        if self._paused:
            return
        self._waiting = [request for request in self._waiting if not request.answer.done()]
        for request in list(self._active):
            if request.answer.done():
                self._release(request)
        with torch.no_grad():
            begun = self._begun() if len(self._waiting) >= max(1, len(self._active)) else []
            if begun:
                self._begin(begun)
            elif self._active:
                for alike in self._alike():
                    self._read(alike)

    def _begun(self) -> list[_Request]:
        """What was waiting, as far as there are slots for it."""
        begun = []
        while self._waiting and (slot := self._slot_for(self._waiting[0])) is not None:
            request = self._waiting.pop(0)
            request.slot = slot
            begun.append(request)
        return begun

    def _begin(self, begun: list[_Request]) -> None:
        """Read them, those of like length together."""
        begun.sort(key=self._n_unread)
        while begun:
            limit = max(16, 2 * self._n_unread(begun[0]))
            together = [request for request in begun if self._n_unread(request) <= limit]
            begun = begun[len(together) :]
            self._active += together
            self._read(together)

    def _alike(self) -> Iterator[list[_Request]]:
        """What is under way, parted by the length of the conversations: short ones beside long ones would cost as much as these."""
        ordered = sorted(self._active, key=self._n_read)
        begin = 0
        for end in range(1, len(ordered) + 1):
            enough = end - begin >= _APART
            if end == len(ordered) or (enough and self._n_read(ordered[end]) > 1.5 * self._n_read(ordered[begin])):
                yield ordered[begin:end]
                begin = end

    def _n_read(self, request: _Request) -> int:
        return len(self._slots[request.slot].ids)

    def _slot_for(self, request: _Request) -> int | None:
        """The free one that holds most of the conversation, else the one not used for longest; None when all are busy."""
        free = [number for number, slot in enumerate(self._slots) if not slot.busy]
        if not free:
            return None
        known = [number for number in free if self._continues(request, self._slots[number])]
        if known:
            chosen = max(known, key=lambda number: len(self._slots[number].ids))
        else:
            chosen = min(free, key=lambda number: self._slots[number].used)
            self._slots[chosen].ids = []
        slot = self._slots[chosen]
        slot.busy, slot.version = True, self.version
        return chosen

    def _continues(self, request: _Request, slot: _Slot) -> bool:
        n = len(slot.ids)
        if slot.version != self.version or not 0 < n < len(request.ids) or request.ids[n - 1] != slot.ids[-1]:
            return False
        return list(request.ids[:n]) == slot.ids

    def _n_unread(self, request: _Request) -> int:
        return len(request.ids) + len(request.sampled) - self._n_read(request)

    def _read(self, requests: Sequence[_Request]) -> None:
        """What these conversations have gained, and the next token of each."""
        slots = [self._slots[request.slot] for request in requests]
        unread = [
            request.sampled[-1:] if request.sampled else list(request.ids[len(slot.ids) :])
            for request, slot in zip(requests, slots, strict=True)
        ]
        lengths = torch.tensor([len(each) for each in unread])
        ids = torch.zeros((len(unread), int(lengths.max())), dtype=torch.long)
        for row, each in enumerate(unread):
            ids[row, : len(each)] = torch.tensor(each)
        piece = Piece(
            ids,
            before=torch.tensor([slot.ids[-1] if slot.ids else 0 for slot in slots]),
            slots=torch.tensor([request.slot for request in requests]),
            begins=torch.tensor([len(slot.ids) for slot in slots]),
        )
        hidden = self._policy.read(piece, self._cache)
        for slot, each in zip(slots, unread, strict=True):
            slot.ids += each
        self.n_read += int(lengths.sum())
        self._draw(requests, self._policy.scores(hidden[torch.arange(len(unread)), lengths - 1]).float())

    def _draw(self, requests: Sequence[_Request], scores: Tensor) -> None:
        logprobs = (scores / (self._temperature or 1.0)).log_softmax(-1)
        if self._temperature:
            drawn = _sampled(logprobs.exp(), torch.rand((len(requests), 1), generator=self._random))
        else:
            drawn = logprobs.argmax(-1, keepdim=True)
        found = logprobs.gather(1, drawn)[:, 0].tolist()
        self.n_sampled += len(requests)
        for request, token, logprob in zip(requests, drawn[:, 0].tolist(), found, strict=True):
            request.sampled.append(token)
            request.logprobs.append(logprob)
            if token == self._end or len(request.sampled) == request.max_tokens:
                self._finish(request)

    def _finish(self, request: _Request) -> None:
        self._release(request)
        ended = request.sampled[-1] == self._end
        if not request.answer.done():
            request.answer.set_result(
                Completion(
                    tuple(request.sampled),
                    tuple(request.logprobs),
                    self.tokenizer.decode(request.sampled[: -1 if ended else None]),
                    FinishReason.STOP if ended else FinishReason.LENGTH,
                    self.number,
                    request.version,
                )
            )

    def _release(self, request: _Request) -> None:
        slot = self._slots[request.slot]
        slot.busy, slot.used = False, self.n_read
        if request in self._active:
            self._active.remove(request)


def _sampled(probabilities: Tensor, uniform: Tensor) -> Tensor:
    """By inverse transform, (B, V) and (B, 1) in [0, 1) -> (B, 1); torch.multinomial takes many times as long."""
    cumulated = probabilities.cumsum(-1)
    return torch.searchsorted(cumulated, uniform * cumulated[:, -1:], right=True).clamp(max=probabilities.shape[1] - 1)


def tensor_checksum(tensor: Tensor) -> str:
    """Of a bfloat16 tensor."""
    return checksum(memoryview(tensor.detach().contiguous().view(torch.int16).numpy()).cast("B"))
