"""Where the server is and who may administer it, read from ``mysql://user:password@host:port?socket=...``.

Invariant: a password never appears in the text form of a Server.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from envhub.core.errors import InvalidRequestError

PARAMETERS = ("socket", "ssl_ca")


@dataclass(frozen=True, slots=True)
class Server:
    """``socket`` (a Unix socket's path) wins over host and port; ``ssl_ca`` (a PEM file) turns TLS on."""

    host: str = "127.0.0.1"
    port: int = 3306
    user: str = "root"
    password: str = field(default="", repr=False)
    socket: str | None = None
    ssl_ca: str | None = None

    @property
    def address(self) -> str:
        return self.socket or f"{self.host}:{self.port}"


def parse_url(url: str, *, password: str | None = None, password_file: str | Path | None = None) -> Server:
    """``password``, or the text of ``password_file``, takes the place of the url's.

    Raises InvalidRequestError, without repeating the url since it may hold a password.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or 3306
    except ValueError as error:
        raise InvalidRequestError("the database url is malformed; want mysql://user:password@host:port") from error
    if parts.scheme != "mysql":
        raise InvalidRequestError(
            f"the database url starts with {parts.scheme!r}; want mysql://user:password@host:port"
        )
    if parts.path.strip("/"):
        raise InvalidRequestError("the database url names a database; every episode gets its own, leave it out")
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(set(parameters) - set(PARAMETERS))
    if unknown:
        raise InvalidRequestError(f"the database url has unknown parameters {unknown}; valid: {list(PARAMETERS)}")
    server = Server(
        host=parts.hostname or "127.0.0.1",
        port=port,
        user=unquote(parts.username or "root"),
        password=unquote(parts.password or "") if password is None else password,
        socket=parameters.get("socket"),
        ssl_ca=parameters.get("ssl_ca"),
    )
    return server if password_file is None else replace(server, password=_read_password(Path(password_file)))


def _read_password(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise InvalidRequestError(f"cannot read the password file {path}: {error.strerror}") from error
