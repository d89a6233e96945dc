"""Logging of the programs: one line per event, as text or as JSON. Secrets and message bodies never come here."""

from __future__ import annotations

import json
import logging
import sys

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class JsonFormatter(logging.Formatter):
    """One JSON object a line; what a call passes as ``extra`` becomes fields."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {key: value for key, value in vars(record).items() if key not in _PLAIN}
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **fields,
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def set_up(level: str, format_name: str) -> None:
    """Configure the root logger once. Raises ValueError for an unknown level."""
    out = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")
    out.setFormatter(JsonFormatter() if format_name == "json" else text)
    root = logging.getLogger()
    root.setLevel(level.upper())
    root.handlers[:] = [out]
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
