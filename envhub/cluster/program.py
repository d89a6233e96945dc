"""The worker process of an actor: ``python -m envhub.cluster.program PARENT LAST_WORDS LABEL=VALUE...``.

Settings come as JSON on standard input.

Invariant: it ends soon after its parent; when it cannot serve, the file ``LAST_WORDS`` says why.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import uvloop

from envhub import logs
from envhub.config import ConfigError, Settings
from envhub.core.errors import EnvhubError
from envhub.worker import main as worker_main


def main(parent: int, last_words: Path, labels: Sequence[str]) -> int:
    settings = msgspec.json.decode(sys.stdin.buffer.read(), type=Settings)
    own = dict(each.split("=", 1) for each in labels)
    settings = msgspec.structs.replace(settings, labels={**own, **settings.labels})
    logs.set_up(settings.log_level, settings.log_format)
    try:
        uvloop.run(worker_main.run(settings, parent=parent))
    except (ConfigError, EnvhubError, ValueError, OSError) as error:
        last_words.write_text(f"{type(error).__name__}: {error}", "utf-8")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
