"""Every error the hub raises, each with the code and the HTTP status it has on the wire.

::

    EnvhubError
    ├── RequestError              the caller is wrong; never retried
    │   ├── InvalidRequestError     400 invalid_request       malformed body, unknown field, bad option
    │   ├── AuthenticationError     401 authentication
    │   ├── EnvironmentNotFoundError 404 environment_not_found
    │   ├── TaskNotFoundError       404 task_not_found
    │   ├── TaskUnusableError       422 task_unusable         the task exists but cannot be played (see tasks lint)
    │   ├── SessionNotFoundError    404 session_not_found
    │   ├── TurnConflictError       409 turn_conflict         details.current_turn names the turn to send
    │   ├── SessionEndedError       410 session_ended         details.reason says why
    │   ├── BodyTooLargeError       413 body_too_large
    │   ├── MissingExtraError       424 missing_extra         names the pip extra to install
    │   └── SandboxUnavailableError 424 sandbox_unavailable   no safe sandbox on this machine; says what to install
    ├── UnavailableError          try again after details.retry_after_s
    │   ├── NoCapacityError         503 no_capacity
    │   ├── ShuttingDownError       503 shutting_down
    │   └── WorkerUnreachableError  503 worker_unreachable
    ├── EpisodeError              the environment or its sandbox broke; the episode has no reward
    │   ├── EpisodeFailedError      502 episode_failed
    │   ├── GraderError             502 grader_failed
    │   ├── EpisodeTimeoutError     504 episode_timeout       our time limit on one call
    │   ├── SandboxLostError        502 sandbox_lost          the sandbox of the session is gone
    │   └── SessionLostError        410 session_lost          its worker is gone
    ├── InternalError             500 internal               a bug in the hub
    ├── ToolError                 never on the wire: text for the model
    └── SandboxFileError          never on the wire: no such file in a sandbox, or not one that may be read
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class EnvhubError(Exception):
    """Base of all. ``details`` holds JSON-ready facts a program can act on."""

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details: Mapping[str, Any] = details


class RequestError(EnvhubError):
    """The caller is wrong; repeating the same call gives the same answer."""

    code = "invalid_request"
    status = 400


class InvalidRequestError(RequestError):
    pass


class AuthenticationError(RequestError):
    code = "authentication"
    status = 401


class EnvironmentNotFoundError(RequestError):
    code = "environment_not_found"
    status = 404


class TaskNotFoundError(RequestError):
    code = "task_not_found"
    status = 404


class TaskUnusableError(RequestError):
    code = "task_unusable"
    status = 422


class SessionNotFoundError(RequestError):
    code = "session_not_found"
    status = 404


class TurnConflictError(RequestError):
    code = "turn_conflict"
    status = 409


class SessionEndedError(RequestError):
    code = "session_ended"
    status = 410


class BodyTooLargeError(RequestError):
    code = "body_too_large"
    status = 413


class MissingExtraError(RequestError):
    code = "missing_extra"
    status = 424


class SandboxUnavailableError(RequestError):
    code = "sandbox_unavailable"
    status = 424


class UnavailableError(EnvhubError):
    """Nothing is wrong with the call; the same call may succeed after ``details["retry_after_s"]``."""

    code = "unavailable"
    status = 503

    def __init__(self, message: str, *, retry_after_s: float = 1.0, **details: Any) -> None:
        super().__init__(message, retry_after_s=retry_after_s, **details)


class NoCapacityError(UnavailableError):
    code = "no_capacity"


class ShuttingDownError(UnavailableError):
    code = "shutting_down"


class WorkerUnreachableError(UnavailableError):
    code = "worker_unreachable"


class EpisodeError(EnvhubError):
    """The environment, its sandbox or its worker broke. The episode has no reward: it must not be trained on as 0."""

    code = "episode_failed"
    status = 502


class EpisodeFailedError(EpisodeError):
    pass


class GraderError(EpisodeError):
    code = "grader_failed"


class EpisodeTimeoutError(EpisodeError):
    code = "episode_timeout"
    status = 504


class SandboxLostError(EpisodeError):
    """``by_session``: the driver knows that nobody but the session itself ended its first process."""

    code = "sandbox_lost"

    def __init__(self, message: str, *, by_session: bool = False, **details: Any) -> None:
        super().__init__(message, by_session=by_session, **details)
        self.by_session = by_session


class SessionLostError(EpisodeError):
    code = "session_lost"
    status = 410


class InternalError(EnvhubError):
    pass


class ToolError(Exception):
    """Raised by a tool function; its text becomes the tool message the model reads. It never ends an episode."""


class SandboxFileError(Exception):
    """A path of a sandbox that cannot be read or written as asked; the caller decides what it means."""


def _tree(root: type[EnvhubError]) -> dict[str, type[EnvhubError]]:
    found = {root.code: root}
    for child in root.__subclasses__():
        for code, cls in _tree(child).items():
            if code not in found or "code" in vars(cls):
                found.setdefault(code, cls)
    return found


BY_CODE: Mapping[str, type[EnvhubError]] = {
    **_tree(EnvhubError),
    "internal": InternalError,
    "invalid_request": InvalidRequestError,
    "episode_failed": EpisodeFailedError,
}
"""Wire code to class, so that a client raises what the hub raised."""


def from_code(code: str, message: str, details: Mapping[str, Any]) -> EnvhubError:
    """Rebuild an error from its wire form; an unknown code gives an InternalError that keeps the text."""
    cls = BY_CODE.get(code)
    if cls is None:
        return InternalError(f"{code}: {message}", **details)
    return cls(message, **details)
