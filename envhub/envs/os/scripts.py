"""Running a task's own programs in a sandbox: set-up, reference commands, checks.

Invariant: a script runs beside the agent's shell, in a process of its own; what it gets from the agent are arguments, never code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from envhub.core.sandbox import ProcessResult, Sandbox, View
from envhub.envs.os.tasks import Script

MAX_ARGUMENT_BYTES = 64 << 10
BROKEN = 70
"""Exit code of a python check that broke, so that it is not taken for a verdict."""

Style = Literal["plain", "check"]
"""``check``: python is isolated from what lies around, and only a failed ``assert`` exits with 1."""

_CHECKED_PYTHON = f"""\
import sys, traceback
code = sys.argv.pop(1)
try:
    exec(compile(code, "check", "exec"), {{"__name__": "__main__"}})
except AssertionError:
    sys.exit(1)
except Exception:
    traceback.print_exc()
    sys.exit({BROKEN})
"""
_COMPILED = """\
folder=$(mktemp -d) && cat > "$folder/main.$1" && "$2" -O1 -o "$folder/main" "$folder/main.$1" || exit 1
shift 2
"$folder/main" "$@"
code=$?
rm -rf "$folder"
exit $code
"""
_COMPILERS = {"c": ("c", "cc"), "c++": ("cc", "c++")}


async def run_script(
    sandbox: Sandbox,
    script: Script,
    arguments: Sequence[str] = (),
    *,
    timeout_s: float,
    view: View = "session",
    style: Style = "plain",
) -> ProcessResult:
    """Run to its end or its time limit. Raises SandboxLostError."""
    argv, stdin = command(script, arguments, style=style)
    return await sandbox.exec(argv, timeout_s=timeout_s, stdin=stdin, view=view)


def command(script: Script, arguments: Sequence[str] = (), *, style: Style = "plain") -> tuple[list[str], bytes]:
    """The argv and stdin that run a script with its params and ``arguments``."""
    params = [argument(text) for text in (*script.params, *arguments)]
    if script.language == "python":
        return (_checked(script.code) if style == "check" else ["python3", "-c", script.code]) + params, b""
    if script.language in _COMPILERS:
        return ["bash", "-c", _COMPILED, "--", *_COMPILERS[script.language], *params], script.code.encode()
    return ["bash", "-c", script.code, "--", *params], b""


def _checked(code: str) -> list[str]:
    return ["python3", "-I", "-S", "-c", _CHECKED_PYTHON, code]


def argument(text: str) -> str:
    """As an argument of a process: no NUL, and cut to what the kernel takes."""
    data = text.replace("\0", "\ufffd").encode("utf-8", "replace")
    return data[:MAX_ARGUMENT_BYTES].decode("utf-8", "ignore")


def printed(result: ProcessResult) -> str:
    """What a process wrote to stdout, as text."""
    return result.stdout.decode("utf-8", "replace")


def complaint(result: ProcessResult, *, max_chars: int = 300) -> str:
    """How a process failed, in a few words for a log."""
    said = (result.stderr.strip() or result.stdout.strip()).decode("utf-8", "replace")[-max_chars:]
    how = "ran into its time limit" if result.timed_out else f"exited with {result.exit_code}"
    return f"{how}: {said}" if said else how
