"""What a command writes, on its way to an observation: escape sequences removed, head and tail kept, the rest counted.

Invariant: memory stays within the cap and one escape sequence, however much is written; the result does not depend on how the
bytes were cut into chunks.
"""

from __future__ import annotations

import re

_STRING_BYTES = 4096
"""A control string (OSC, DCS, ...) that is not ended within so many bytes is not one."""

_SEQUENCE = re.compile(
    rb"\x1b(?:"
    rb"\[[0-?]{0,256}+[ -/]{0,16}+[@-~]"  # CSI, bracketed paste among them
    rb"|\][^\x07\x18\x1a\x1b]{0,%(n)d}+(?:\x07|\x1b\\)"  # OSC
    rb"|[PX^_][^\x18\x1a\x1b]{0,%(n)d}+\x1b\\"  # DCS, SOS, PM, APC
    rb"|[ -/]{1,16}+[0-~]"  # character sets and the like
    rb"|[0-OQ-WYZ\\`-~]"
    rb")?+|\x07" % {b"n": _STRING_BYTES}
)
_UNFINISHED = re.compile(
    rb"\x1b(?:"
    rb"\[[0-?]{0,256}+[ -/]{0,16}+"
    rb"|\][^\x07\x18\x1a\x1b]{0,%(n)d}+\x1b?+"
    rb"|[PX^_][^\x18\x1a\x1b]{0,%(n)d}+\x1b?+"
    rb"|[ -/]{0,16}+"
    rb")\Z" % {b"n": _STRING_BYTES}
)
_MAX_SEQUENCE_BYTES = _STRING_BYTES + 4


class EscapeFilter:
    """Removes terminal escape sequences and bells (ECMA-48 7-bit forms); everything else passes byte for byte."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        data = self._held + data
        self._held = b""
        if b"\x1b" in data:
            unfinished = _UNFINISHED.search(data, max(0, len(data) - _MAX_SEQUENCE_BYTES))
            if unfinished is not None:
                self._held = data[unfinished.start() :]
                data = data[: unfinished.start()]
        elif b"\x07" not in data:
            return data
        return _SEQUENCE.sub(b"", data)

    def finish(self) -> bytes:
        """What was held back: a sequence that never ended loses only its escape byte."""
        held, self._held = self._held, b""
        return _SEQUENCE.sub(b"", held)


class Output:
    """Keeps the first and the last half of ``max_bytes`` of what is fed, and counts all of it."""

    def __init__(self, max_bytes: int) -> None:
        self._filter = EscapeFilter()
        self._max_bytes = max_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._kept_bytes = 0
        self.total_bytes = 0

    def feed(self, data: bytes) -> None:
        self.total_bytes += len(data)
        self._keep(self._filter.feed(data))

    def finish(self) -> tuple[str, bool]:
        """The text, at most ``max_bytes`` of UTF-8, and whether something of it is missing."""
        self._keep(self._filter.finish())
        if self._kept_bytes <= self._max_bytes:
            text = (self._head + self._tail).decode("utf-8", "replace")
            if len(text.encode()) <= self._max_bytes:
                return text, False
        return self._shortened(), True

    def _keep(self, data: bytes) -> None:
        self._kept_bytes += len(data)
        room = self._max_bytes - len(self._head)
        if not self._tail and room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data[-self._max_bytes :]
            del self._tail[: -self._max_bytes]

    def _shortened(self) -> str:
        note = f"\n[... shortened: {self.total_bytes} bytes in all ...]\n"
        room = self._max_bytes - len(note)
        kept = bytes(self._head + self._tail)
        if room < len(note):
            return _first_bytes(kept, self._max_bytes)
        return _first_bytes(kept[: room // 2], room // 2) + note + _last_bytes(kept[-(room // 2) :], room // 2)


def _first_bytes(data: bytes, max_bytes: int) -> str:
    """The longest beginning that decodes to at most ``max_bytes`` of UTF-8, whole characters only."""
    data = data[:max_bytes]
    for back in range(1, min(4, len(data)) + 1):
        if data[-back] >= 0xC0:
            if back < _character_bytes(data[-back]):
                data = data[:-back]
            break
    return data.decode("utf-8", "replace").encode()[:max_bytes].decode("utf-8", "ignore")


def _last_bytes(data: bytes, max_bytes: int) -> str:
    """The longest end that decodes to at most ``max_bytes`` of UTF-8, whole characters only."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:].decode("utf-8", "replace").encode()[-max_bytes:].decode("utf-8", "ignore")


def _character_bytes(lead: int) -> int:
    return 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
