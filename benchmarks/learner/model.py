"""The benchmark's policy: a decoder-only transformer of about a million parameters.

Invariant: whether a sequence is read at once or piece by piece through a cache, its next-token scores are the same up to rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Shape:
    """``n_kv_heads`` serve ``n_heads`` queries: a smaller cache."""

    vocabulary: int
    width: int = 128
    n_layers: int = 4
    n_heads: int = 4
    n_kv_heads: int = 2
    hidden: int = 512
    context: int = 1024

    @property
    def head_width(self) -> int:
        return self.width // self.n_heads


class Cache:
    """Keys and values by slot, one slot for each conversation: (layers, slots, kv heads, context, head width)."""

    def __init__(self, shape: Shape, n_slots: int, dtype: torch.dtype = torch.float32) -> None:
        size = (shape.n_layers, n_slots, shape.n_kv_heads, shape.context, shape.head_width)
        self.keys, self.values = torch.zeros(size, dtype=dtype), torch.zeros(size, dtype=dtype)


@dataclass(frozen=True, slots=True)
class Piece:
    """What is read next, through a cache. Row i of ``ids`` (B, C) goes to ``slots[i]``, behind the ``begins[i]`` tokens there, the
    last of which is ``before[i]`` (0 where there is none)."""

    ids: Tensor
    before: Tensor
    slots: Tensor
    begins: Tensor


class Policy(nn.Module):  # type: ignore[misc]  # types are checked where PyTorch is not installed
    """Tied embeddings, rotary positions, RMS norms before each part, grouped-query attention."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.previous = nn.Linear(shape.width, shape.width, bias=False)
        self.layers = nn.ModuleList(_Layer(shape) for _ in range(shape.n_layers))
        self.norm = nn.RMSNorm(shape.width)
        cosine, sine = _angles(shape)
        self.register_buffer("cosine", cosine, persistent=False)
        self.register_buffer("sine", sine, persistent=False)
        self._start()

    def hidden(self, ids: Tensor) -> Tensor:
        """(B, T) ids, padded behind -> (B, T, width): what the next token is guessed from."""
        state = self._embedded(ids, torch.zeros_like(ids[:, 0]))
        n = ids.shape[1]
        angles = self.cosine[:n], self.sine[:n]
        mask = _added(torch.ones(n, n, dtype=torch.bool).tril(), self.embedding.weight.dtype)
        for layer in self.layers:
            state = layer(state, angles, mask)
        return self.norm(state)

    def scores(self, hidden: Tensor) -> Tensor:
        """(..., width) -> (..., vocabulary)."""
        return functional.linear(hidden, self.embedding.weight)

    def read(self, piece: Piece, cache: Cache) -> Tensor:
        """The same as ``hidden`` for the rest of conversations; (B, C, width). The cache then holds it."""
        n_new = piece.ids.shape[1]
        positions = (piece.begins[:, None] + torch.arange(n_new)).clamp(max=self.shape.context - 1)
        n_seen = int(positions.max()) + 1
        mask = _added(torch.arange(n_seen) <= positions[:, :, None], self.embedding.weight.dtype)[:, None, None]
        angles = self.cosine[positions][:, None], self.sine[positions][:, None]
        state = self._embedded(piece.ids, piece.before)
        for number, layer in enumerate(self.layers):
            state = layer.read(state, angles, _Past(cache, number, piece.slots, positions, n_seen, mask))
        return self.norm(state)

    def _embedded(self, ids: Tensor, before: Tensor) -> Tensor:
        """Each token with the one before it: then a single layer can look up what followed a token earlier on."""
        shifted = torch.cat((before[:, None], ids[:, :-1]), 1)
        return self.embedding(ids) + self.previous(self.embedding(shifted))

    def _start(self) -> None:
        for name, weight in self.named_parameters():
            if weight.ndim > 1:
                out = name.endswith(("output.weight", "down.weight"))
                nn.init.normal_(weight, std=0.02 / (2 * self.shape.n_layers) ** 0.5 if out else 0.02)


@dataclass(frozen=True, slots=True)
class _Past:
    """The cache as one layer sees it. ``mask`` (B, 1, 1, C, n_seen)."""

    cache: Cache
    layer: int
    slots: Tensor
    positions: Tensor
    n_seen: int
    mask: Tensor

    def extended(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Stores (B, kv heads, C, head width); all keys and values of these slots up to ``n_seen``."""
        rows = self.slots[:, None]
        every_key, every_value = self.cache.keys[self.layer], self.cache.values[self.layer]
        every_key[rows, :, self.positions] = keys.transpose(1, 2)
        every_value[rows, :, self.positions] = values.transpose(1, 2)
        seen = (every[:, :, : self.n_seen].index_select(0, self.slots) for every in (every_key, every_value))
        return next(seen), next(seen)


class _Layer(nn.Module):  # type: ignore[misc]  # types are checked where PyTorch is not installed
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self._n_heads, self._n_kv_heads = shape.n_heads, shape.n_kv_heads
        self.before_attention = nn.RMSNorm(shape.width)
        self.before_mlp = nn.RMSNorm(shape.width)
        self.input = nn.Linear(shape.width, shape.head_width * (shape.n_heads + 2 * shape.n_kv_heads), bias=False)
        self.output = nn.Linear(shape.width, shape.width, bias=False)
        self.up = nn.Linear(shape.width, shape.hidden, bias=False)
        self.down = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, state: Tensor, angles: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        queries, keys, values = self._projected(state, angles)
        return self._finished(state, self._attended(queries, keys, values, mask))

    def read(self, state: Tensor, angles: tuple[Tensor, Tensor], past: _Past) -> Tensor:
        queries, keys, values = self._projected(state, angles)
        keys, values = past.extended(keys, values)
        return self._finished(state, self._attended(queries, keys, values, past.mask))

    def _projected(self, state: Tensor, angles: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        every = _heads(self.input(self.before_attention(state)), self._n_heads + 2 * self._n_kv_heads)
        turned = _turned(every[:, : self._n_heads + self._n_kv_heads], *angles)
        queries, keys = turned[:, : self._n_heads], turned[:, self._n_heads :]
        return queries, keys, every[:, self._n_heads + self._n_kv_heads :]

    def _attended(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        """Written out: on a CPU the fused kernel is slower, backwards most of all. ``mask`` is added to (B, kv heads, group, C, T)."""
        n_rows, _, n_new, width = queries.shape
        grouped = queries.reshape(n_rows, self._n_kv_heads, -1, width) * width**-0.5
        scores = torch.matmul(grouped, keys.transpose(-1, -2)).unflatten(2, (-1, n_new)) + mask
        mixed = torch.matmul(scores.softmax(-1).flatten(2, 3), values)
        return mixed.reshape(n_rows, self._n_heads, n_new, width).transpose(1, 2).flatten(2)

    def _finished(self, state: Tensor, mixed: Tensor) -> Tensor:
        state = state + self.output(mixed)
        return state + self.down(functional.gelu(self.up(self.before_mlp(state))))


def _heads(values: Tensor, n: int) -> Tensor:
    """(B, T, n * w) -> (B, n, T, w)."""
    return values.unflatten(-1, (n, -1)).transpose(1, 2)


def _added(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where it is true, and next to nothing elsewhere."""
    dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else dtype
    return torch.zeros(mask.shape, dtype=dtype).masked_fill_(~mask, -1e9)


def _turned(values: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary positions (arXiv 2104.09864), halves paired."""
    first, second = values.chunk(2, -1)
    return values * cosine.to(values.dtype) + torch.cat((-second, first), -1) * sine.to(values.dtype)


def _angles(shape: Shape) -> tuple[Tensor, Tensor]:
    half = shape.head_width // 2
    rates = 10_000.0 ** (-torch.arange(half) / half)
    angles = (torch.arange(shape.context)[:, None] * rates).repeat(1, 2)
    return angles.cos(), angles.sin()
