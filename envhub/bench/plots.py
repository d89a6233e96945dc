"""Small charts as inline SVG. Every text is escaped, every chart says in words what it shows; colours are the page's CSS variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_LABEL_WIDTH = 280
_LABEL_CHARS = 34
_PLOT_WIDTH = 420
_VALUE_WIDTH = 110
_ROW_HEIGHT = 30
_WIDTH = _LABEL_WIDTH + _PLOT_WIDTH + _VALUE_WIDTH
N_COLOURS = 7


@dataclass(frozen=True, slots=True)
class Bar:
    """``share`` in [0, 1] with its interval; None draws no bar."""

    label: str
    share: float | None
    low: float | None
    high: float | None
    value: str


@dataclass(frozen=True, slots=True)
class Stack:
    """One count per series, in the order of the series."""

    label: str
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """A median and the 95th percentile above it, in one unit."""

    label: str
    median: float
    p95: float
    value: str


def bars(title: str, rows: Sequence[Bar]) -> str:
    """Horizontal bars from 0 to 100 % with interval whiskers."""
    parts = [_grid(len(rows), ("0", "25", "50", "75", "100%"))]
    for position, row in enumerate(rows):
        top = position * _ROW_HEIGHT
        middle = top + _ROW_HEIGHT / 2
        parts.append(_label(row.label, middle))
        if row.share is not None:
            parts.append(_rect(_LABEL_WIDTH, top + 7, max(row.share * _PLOT_WIDTH, 1), 16, 0))
        if row.low is not None and row.high is not None:
            low, high = (_LABEL_WIDTH + each * _PLOT_WIDTH for each in (row.low, row.high))
            parts.append(
                f'<path class="whisker" d="M{low:.1f} {middle - 5}v10M{low:.1f} {middle}H{high:.1f}M{high:.1f} {middle - 5}v10"/>'
            )
        parts.append(_value(row.value, middle))
    return _svg(title, [f"{row.label}: {row.value}" for row in rows], len(rows), parts)


def stacks(title: str, series: Sequence[str], rows: Sequence[Stack]) -> str:
    """Horizontal stacked bars, each as wide as the whole."""
    parts = []
    for position, row in enumerate(rows):
        top, left = position * _ROW_HEIGHT, float(_LABEL_WIDTH)
        total = sum(row.counts)
        parts.append(_label(row.label, top + _ROW_HEIGHT / 2))
        for number, count in enumerate(row.counts):
            width = _PLOT_WIDTH * count / total if total else 0.0
            if width:
                tip = f"{series[number]}: {count} of {total}"
                parts.append(_rect(left, top + 6, width, 18, number, tip))
                if width > 34:
                    parts.append(
                        f'<text class="on" x="{left + width / 2:.1f}" y="{top + 19}" text-anchor="middle">{count}</text>'
                    )
            left += width
        parts.append(_value(str(total), top + _ROW_HEIGHT / 2))
    words = [
        f"{row.label}: {', '.join(f'{name} {n}' for name, n in zip(series, row.counts, strict=True) if n)}"
        for row in rows
    ]
    return legend(series) + _svg(title, words, len(rows), parts, axis=False)


def spans(title: str, unit: str, rows: Sequence[Span]) -> str:
    """A dot at the median and a line to the 95th percentile, all on one linear scale from 0."""
    most = _round_up(max((row.p95 for row in rows), default=1.0))
    ticks = tuple(f"{most * step / 4:g}" for step in range(4))
    parts = [_grid(len(rows), (*ticks, f"{most:g} {unit}"))]
    for position, row in enumerate(rows):
        middle = position * _ROW_HEIGHT + _ROW_HEIGHT / 2
        median, p95 = (_LABEL_WIDTH + _PLOT_WIDTH * each / most for each in (row.median, row.p95))
        parts.append(_label(row.label, middle))
        parts.append(f'<path class="span" d="M{median:.1f} {middle}H{p95:.1f}M{p95:.1f} {middle - 5}v10"/>')
        parts.append(f'<circle class="c0" cx="{median:.1f}" cy="{middle}" r="5"/>')
        parts.append(_value(row.value, middle))
    return _svg(title, [f"{row.label}: {row.value}" for row in rows], len(rows), parts)


def histogram(title: str, values: Sequence[int]) -> str:
    """Columns of whole numbers; ranges of more than 24 numbers are put into bins of equal width."""
    low, high = min(values), max(values)
    width = max(1, -(-(high - low + 1) // 24))
    counts = [0] * ((high - low) // width + 1)
    for value in values:
        counts[(value - low) // width] += 1
    column = min(34.0, 330 / len(counts))
    tallest = max(counts)
    parts = [f'<path class="axis" d="M10 110H{10 + column * len(counts):.1f}"/>']
    for position, count in enumerate(counts):
        left, height = 10 + position * column, 84 * count / tallest
        first = low + position * width
        name = str(first) if width == 1 else f"{first}-{first + width - 1}"
        if count:
            parts.append(_rect(left + 1, 110 - height, max(column - 2, 1), height, 0, f"{name} turns: {count}"))
        if position in (0, len(counts) - 1) or counts[position] == tallest:
            parts.append(f'<text class="tick" x="{left + column / 2:.1f}" y="124" text-anchor="middle">{name}</text>')
        if count == tallest:
            parts.append(
                f'<text class="tick" x="{left + column / 2:.1f}" y="{104 - height:.1f}" text-anchor="middle">{count}</text>'
            )
    words = f"{len(values)} episodes of {low} to {high} turns"
    return (
        f'<svg viewBox="0 0 350 130" role="img" aria-label="{escape(title)}: {words}">'
        f"<title>{escape(title)}: {words}</title>{''.join(parts)}</svg>"
    )


def legend(series: Sequence[str]) -> str:
    items = "".join(
        f'<li><span class="key b{number % N_COLOURS}"></span>{escape(name)}</li>' for number, name in enumerate(series)
    )
    return f'<ul class="legend">{items}</ul>'


def _svg(title: str, words: Sequence[str], n_rows: int, parts: Sequence[str], *, axis: bool = True) -> str:
    height = n_rows * _ROW_HEIGHT + (22 if axis else 4)
    described = escape("; ".join(words))
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}: {described}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )


def _grid(n_rows: int, ticks: Sequence[str]) -> str:
    bottom = n_rows * _ROW_HEIGHT
    parts = []
    for step, tick in enumerate(ticks):
        x = _LABEL_WIDTH + _PLOT_WIDTH * step / (len(ticks) - 1)
        parts.append(f'<path class="grid" d="M{x:.1f} 0V{bottom}"/>')
        parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{escape(tick)}</text>')
    return "".join(parts)


def _label(text: str, middle: float) -> str:
    short = text if len(text) <= _LABEL_CHARS else f"{text[: _LABEL_CHARS // 2 - 1]}…{text[-_LABEL_CHARS // 2 :]}"
    return f'<text x="{_LABEL_WIDTH - 10}" y="{middle + 4}" text-anchor="end">{escape(short)}<title>{escape(text)}</title></text>'


def _value(text: str, middle: float) -> str:
    return f'<text class="value" x="{_LABEL_WIDTH + _PLOT_WIDTH + 12}" y="{middle + 4}">{escape(text)}</text>'


def _rect(left: float, top: float, width: float, height: float, colour: int, tip: str = "") -> str:
    title = f"<title>{escape(tip)}</title>" if tip else ""
    shape = f'x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2"'
    return f'<rect class="c{colour % N_COLOURS}" {shape}>{title}</rect>'


def _round_up(value: float) -> float:
    """The next of 1, 2, 4 and 8 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 1.0
    while power > value:
        power /= 10
    while power * 10 <= value:
        power *= 10
    return next(power * step for step in (1, 2, 4, 8, 10) if power * step >= value * 0.999999)
