"""Who may call: one key for clients, one for workers, required as soon as the hub listens beyond loopback."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from envhub.core.errors import AuthenticationError


@dataclass(frozen=True, slots=True)
class Keys:
    """The expected keys; None where none is asked for."""

    client: str | None = None
    worker: str | None = None

    def check_client(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Raises AuthenticationError."""
        _check("client", self.client, headers)

    def check_worker(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Raises AuthenticationError."""
        _check("worker", self.worker, headers)


def check_exposure(host: str, keys: Keys) -> None:
    """Raises ValueError when ``host`` is reachable from elsewhere and a key is missing."""
    if is_loopback(host) or (keys.client and keys.worker):
        return
    missing = " and ".join(
        name for name, key in (("ENVHUB_CLIENT_KEY", keys.client), ("ENVHUB_WORKER_KEY", keys.worker)) if not key
    )
    raise ValueError(f"refusing to listen on {host} without keys: set {missing} (or the same name with _FILE)")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check(who: str, expected: str | None, headers: Iterable[tuple[bytes, bytes]]) -> None:
    if expected is None:
        return
    given = next((value for name, value in headers if name == b"authorization"), b"")
    scheme, _, key = given.partition(b" ")
    if scheme.lower() != b"bearer" or not hmac.compare_digest(key.strip(), expected.encode()):
        wrong = "the key that was sent is not the hub's" if given else "none was sent"
        raise AuthenticationError(
            f"a {who} key is needed, and {wrong}: set ENVHUB_{who.upper()}_KEY (or the same name with _FILE), or send "
            "'Authorization: Bearer <key>'"
        )
