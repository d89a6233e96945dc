"""What stands between the network and the site: who may call, and what a browser may do with the answer.

Invariant: a form is accepted from the site's own pages only; no answer may run a script, be framed, or load from elsewhere.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from envhub.controller.auth import is_loopback

_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Guard:
    """Wraps the site. ``loopback_only`` refuses names that are not this machine's, against sites that rebind theirs to it."""

    def __init__(self, site: ASGIApp, *, loopback_only: bool) -> None:
        self._site = site
        self._loopback_only = loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
            return
        headers = Headers(scope=scope)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    own[name] = value
            await send(message)

        if self._loopback_only and not is_loopback(_host_name(headers.get("host", ""))):
            refused = PlainTextResponse("This site is open on this machine only.", 421)
            await refused(scope, receive, send_guarded)
        elif scope["method"] not in ("GET", "HEAD") and _from_elsewhere(headers):
            refused = PlainTextResponse("This form was sent by another site.", 403)
            await refused(scope, receive, send_guarded)
        else:
            await self._site(scope, receive, send_guarded)


def _from_elsewhere(headers: Headers) -> bool:
    """Browsers say where a form comes from; programs that are no browsers say nothing and have no one to be tricked."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return True
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != headers.get("host")


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
