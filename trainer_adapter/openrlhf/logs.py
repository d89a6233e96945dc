"""Makes the adapter's log visible in the processes that Ray starts, where nobody else configures it.

Invariant: other programs' logs are left as they are.
"""

from __future__ import annotations

import logging
import sys

_FORMAT = "%(levelname)s %(asctime)s %(name)s: %(message)s"


def show() -> None:
    """Idempotent."""
    log = logging.getLogger("trainer_adapter")
    if not log.handlers:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter(_FORMAT))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False
