"""One sandbox without a spawner, to see whether this machine can have any: becomes bwrap, which prints ``ready``."""

from __future__ import annotations

import json
import os
import sys

from envhub.core.sandbox import SandboxLimits
from envhub.sandbox import stage
from envhub.sandbox.stage import Stage


def main() -> None:
    request = json.load(sys.stdin)
    place = Stage.from_json(request["stage"])
    limits = SandboxLimits(**request["limits"])
    seccomp = bytes.fromhex(request["seccomp"]) if request["seccomp"] else None
    stage.enter(identity=place.identity)
    stage.mount_disk(place, limits, copy_from=None)
    stage.forbid_more_namespaces()
    isolation = stage.isolation_argv({"PATH": "/usr/bin:/bin"}, hostname="trial", cwd="/", seccomp=seccomp)
    os.execv(place.bwrap, [place.bwrap, *stage.session_argv(place), *isolation, "--", "/bin/bash", "-c", "echo ready"])
