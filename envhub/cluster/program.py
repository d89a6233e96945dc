"""The worker process of an actor: ``python -m envhub.cluster.program PARENT PIPE LABEL=VALUE...``.

Settings come as JSON on standard input.

Invariant: it ends soon after its parent; when it cannot serve, it says why on the file descriptor ``PIPE``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import msgspec
import uvloop

from envhub import logs
from envhub.config import ConfigError, Settings
from envhub.core.errors import EnvhubError
from envhub.worker import main as worker_main

_MOST_BYTES = 4096


def main(parent: int, pipe: int, labels: Sequence[str]) -> int:
    os.set_inheritable(pipe, False)
    settings = msgspec.json.decode(sys.stdin.buffer.read(), type=Settings)
    own = dict(each.split("=", 1) for each in labels)
    digest = os.environ.get("ENVHUB_IMAGE_DIGEST")  # the image is the node's, not the command's
    settings = msgspec.structs.replace(settings, labels={**own, **settings.labels}, image_digest=digest)
    logs.set_up(settings.log_level, settings.log_format)
    try:
        uvloop.run(worker_main.run(settings, parent=parent))
    except (ConfigError, EnvhubError, ValueError, OSError) as error:
        os.write(pipe, f"{type(error).__name__}: {error}".encode()[:_MOST_BYTES])
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
