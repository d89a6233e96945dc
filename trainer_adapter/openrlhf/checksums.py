"""Checksums of tensors where they lie, and a process group that takes them of everything it broadcasts.

Invariant: equal bytes give equal checksums on every device; a swapped, shifted or changed value gives another.
"""

from __future__ import annotations

from typing import Any

import torch

_CHUNK = 1 << 22
_SCATTER = 0x9E3779B97F4A7C15 - (1 << 64)
"""Odd: every place of a word has a factor of its own, whose lowest bits say little about the place."""


def checksum(tensor: torch.Tensor) -> str:
    """Of a tensor of any shape and type; 64-bit sums that wrap around, so the order of adding does not matter."""
    raw = tensor.detach().contiguous().view(-1).view(torch.uint8)
    n_words, rest = divmod(raw.numel(), 8)
    words = (
        raw[: n_words * 8].view(torch.int64)
        if raw.storage_offset() % 8 == 0
        else raw[: n_words * 8].clone().view(torch.int64)
    )
    if rest:
        tail = torch.zeros(8, dtype=torch.uint8, device=raw.device)
        tail[:rest] = raw[n_words * 8 :]
        words = torch.cat((words, tail.view(torch.int64)))
    plain = torch.zeros((), dtype=torch.int64, device=raw.device)
    weighted = torch.zeros((), dtype=torch.int64, device=raw.device)
    for begin in range(0, words.numel(), _CHUNK):
        chunk = words[begin : begin + _CHUNK]
        places = torch.arange(begin + 1, begin + 1 + chunk.numel(), device=raw.device) * _SCATTER
        places = places ^ (places >> 29)
        mixed = chunk ^ (chunk >> 29)
        plain += mixed.sum()
        weighted += (mixed * places).sum()
    mask = (1 << 64) - 1
    return f"{raw.numel():x}-{int(plain) & mask:016x}{int(weighted) & mask:016x}"


class RecordingGroup:
    """Passes broadcasts on to a process group and keeps their checksums in order."""

    def __init__(self, group: Any, *, sends: bool) -> None:
        self._group = group
        self._sends = sends
        self.checksums: list[str] = []

    def broadcast(self, tensor: torch.Tensor, src: int, stream: Any = None) -> None:
        if self._sends:
            self.checksums.append(checksum(tensor))
        self._group.broadcast(tensor, src=src, stream=stream)
        if not self._sends:
            self.checksums.append(checksum(tensor))
