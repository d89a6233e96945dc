"""How a program is told to stop: by SIGTERM or SIGINT, once.

Invariant: a signal while the program starts is not lost; after the first one others change nothing, to the last moment of the
process; and the process ends in bounded time, whatever does not come to an end in it.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_LEAVE_S = 10.0
_STUCK_S = 60.0


@contextmanager
def stop_signals(*, patience_s: float = 0.0) -> Iterator[asyncio.Event]:
    """Around all that a program does; the event is set by the first signal.

    A program that has not come to its end ``patience_s`` and a minute later says where it is stuck, and ends with code 1. When
    this is left, the process ends within 10 s: threads that are at work are not waited for any longer.
    """
    loop, stopped, told = asyncio.get_running_loop(), asyncio.Event(), False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal told
        if told:
            return
        told = True
        if sys.__stderr__ is not None:  # a thread of the interpreter, which needs neither the loop nor a lock
            faulthandler.dump_traceback_later(patience_s + _STUCK_S, exit=True, file=sys.__stderr__)
        loop.call_soon_threadsafe(stopped.set)

    for number in _SIGNALS:
        signal.signal(number, stop)  # the loop would take handlers of its own away before the process has ended
    try:
        yield stopped
        last = threading.Timer(_LEAVE_S, _leave)
        last.daemon = True
        last.start()
    finally:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        faulthandler.cancel_dump_traceback_later()


def _leave() -> None:
    logging.getLogger(__name__).warning("threads that are still at work are left behind")
    logging.shutdown()
    os._exit(0)
