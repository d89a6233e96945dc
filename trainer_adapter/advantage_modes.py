"""The names of the ways to normalize advantages by task, without the tensors."""

from __future__ import annotations

from enum import StrEnum


class TaskNormalization(StrEnum):
    """``BATCH``: by the moments of the drained batch (arXiv 2510.04206, task advantage normalization). ``RUNNING``: by moments
    that are averaged over batches. ``OFF``: advantages stay as they are."""

    BATCH = "batch"
    RUNNING = "running"
    OFF = "off"
