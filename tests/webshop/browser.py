"""A headless Chromium, driven over its DevTools socket by what a person perceives: roles, names, the mouse and keys.

Invariant: nothing here needs JavaScript in the page; each ``Tab`` has cookies and storage of its own.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tests.require import lacking

_LIMIT_S = 40.0
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-port=0",
)
_KEYS = {"Tab": ("Tab", 9, ""), "Enter": ("Enter", 13, "\r"), "Space": (" ", 32, " ")}
_KEYS |= {name: (name, code, "") for name, code in (("ArrowRight", 39), ("ArrowDown", 40))}


@dataclass(frozen=True, slots=True)
class Seen:
    """A node of the accessibility tree."""

    role: str
    name: str
    node: int
    focused: bool
    checked: bool
    level: int


class Browser:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self.shown: dict[str, str] = {}
        """The document that each session has loaded last."""
        self._shows = asyncio.Condition()

    async def call(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        number = next(self._ids)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        request = {"id": number, "method": method, "params": parameters}
        await self._socket.send_json(request if session is None else {**request, "sessionId": session})
        async with asyncio.timeout(_LIMIT_S):
            return await answer

    async def listen(self) -> None:
        async for message in self._socket:
            said = message.json()
            waiting = self._waiting.pop(said.get("id"), None)
            if waiting is not None and not waiting.done():
                error = said.get("error")
                waiting.set_exception(RuntimeError(str(error))) if error else waiting.set_result(said.get("result"))
            elif (document := _loaded(said)) is not None:
                async with self._shows:
                    self.shown[said["sessionId"]] = document
                    self._shows.notify_all()

    async def shows_another(self, session: str, before: str | None) -> None:
        """Returns when the document that it shows is not this one."""
        async with asyncio.timeout(_LIMIT_S), self._shows:
            await self._shows.wait_for(lambda: self.shown.get(session) != before)

    async def tab(self, *, javascript: bool = False, width: int = 1000, height: int = 800) -> Tab:
        context = (await self.call("Target.createBrowserContext"))["browserContextId"]
        target = await self.call("Target.createTarget", url="about:blank", browserContextId=context)
        attached = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        tab = Tab(self, attached["sessionId"])
        for domain in ("Page", "DOM", "Accessibility"):
            await tab.call(f"{domain}.enable")
        await tab.call("Page.setLifecycleEventsEnabled", enabled=True)
        await self.shows_another(tab.session, None)  # the blank one, which must not be taken for the first page
        await tab.call("Emulation.setScriptExecutionDisabled", value=not javascript)
        await tab.resize(width, height)
        return tab


class Tab:
    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self.session = session

    async def call(self, method: str, **parameters: Any) -> Any:
        return await self._browser.call(method, self.session, **parameters)

    async def resize(self, width: int, height: int) -> None:
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    # --- going ------------------------------------------------------------------------------------------------------

    async def open(self, url: str) -> None:
        async with self.loading():
            await self.call("Page.navigate", url=url)

    async def reload(self) -> None:
        async with self.loading():
            await self.call("Page.reload")

    async def back(self) -> None:
        """To the page before, as the browser kept it or loads it anew."""
        history = await self.call("Page.getNavigationHistory")
        before = history["entries"][history["currentIndex"] - 1]
        async with self.loading():
            await self.call("Page.navigateToHistoryEntry", entryId=before["id"])

    @asynccontextmanager
    async def loading(self) -> AsyncIterator[None]:
        """Leaves when the page that the body asks for has loaded."""
        before = self._browser.shown[self.session]
        yield
        await self._browser.shows_another(self.session, before)

    async def url(self) -> str:
        history = await self.call("Page.getNavigationHistory")
        return str(history["entries"][history["currentIndex"]]["url"])

    # --- seeing -----------------------------------------------------------------------------------------------------

    async def seen(self) -> list[Seen]:
        nodes = (await self.call("Accessibility.getFullAXTree"))["nodes"]
        return [_seen(node) for node in nodes if not node.get("ignored")]

    async def find(self, role: str, name: str) -> Seen:
        """The first of this role whose name begins so."""
        nodes = await self.seen()
        for node in nodes:
            if node.role == role and node.name.startswith(name):
                return node
        raise LookupError(f"no {role} {name!r} among {[(node.role, node.name) for node in nodes]}")

    async def names(self, role: str) -> list[str]:
        return [node.name for node in await self.seen() if node.role == role]

    async def text(self) -> str:
        return "\n".join(node.name for node in await self.seen() if node.role == "StaticText")

    async def html(self) -> str:
        root = (await self.call("DOM.getDocument"))["root"]
        return str((await self.call("DOM.getOuterHTML", nodeId=root["nodeId"]))["outerHTML"])

    async def focus(self) -> Seen | None:
        return next((node for node in await self.seen() if node.focused and node.role != "RootWebArea"), None)

    async def picture(self) -> bytes:
        """PNG of what is in view."""
        return base64.b64decode((await self.call("Page.captureScreenshot", format="png"))["data"])

    # --- doing ------------------------------------------------------------------------------------------------------

    async def press(self, role: str, name: str, *, times: int = 1) -> None:
        """Click it with the mouse and wait for the page that comes."""
        async with self.loading():
            await self.point(role, name, times=times)

    async def point(self, role: str, name: str, *, times: int = 1) -> None:
        node = (await self.find(role, name)).node
        await self.call("DOM.scrollIntoViewIfNeeded", backendNodeId=node)
        quad = (await self.call("DOM.getContentQuads", backendNodeId=node))["quads"][0]
        x, y = sum(quad[::2]) / 4, sum(quad[1::2]) / 4
        clicks = [(kind, count) for count in range(1, times + 1) for kind in ("mousePressed", "mouseReleased")]
        sent = (
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=count)
            for kind, count in clicks
        )
        # none waits for another, so that the last is no click on the page that the first asks for
        await asyncio.gather(*sent)

    async def write(self, role: str, name: str, text: str) -> None:
        """Into an empty field."""
        await self.call("DOM.focus", backendNodeId=(await self.find(role, name)).node)
        await self.type(text)

    async def type(self, text: str) -> None:
        await self.call("Input.insertText", text=text)

    async def key(self, name: str) -> None:
        key, code, text = _KEYS[name]
        kind = "keyDown" if text else "rawKeyDown"
        pressed = {"key": key, "code": name, "windowsVirtualKeyCode": code}
        await self.call("Input.dispatchKeyEvent", type=kind, text=text, **pressed)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **pressed)


def _loaded(said: dict[str, Any]) -> str | None:
    """The document that has loaded, or came back whole from the browser's memory; pages have no frames."""
    match said:
        case {"method": "Page.lifecycleEvent", "params": {"name": "load", "loaderId": document}}:
            return str(document)
        case {
            "method": "Page.frameNavigated",
            "params": {"type": "BackForwardCacheRestore", "frame": {"loaderId": document}},
        }:
            return str(document)
    return None


def _seen(node: dict[str, Any]) -> Seen:
    properties = {each["name"]: each["value"].get("value") for each in node.get("properties", ())}
    return Seen(
        str(node.get("role", {}).get("value", "")),
        str(node.get("name", {}).get("value", "")),
        node.get("backendDOMNodeId", 0),
        bool(properties.get("focused")),
        properties.get("checked") == "true",
        int(properties.get("level", 0)),
    )


@asynccontextmanager
async def chromium(profile: Path) -> AsyncIterator[Browser]:
    """``profile`` is a folder of its own, made by the browser."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        lacking("browser", "no Chromium is installed")
    process = await asyncio.create_subprocess_exec(
        program, *_FLAGS, f"--user-data-dir={profile}", "about:blank", stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        url = await _endpoint(process.stderr)
        reading = asyncio.create_task(process.stderr.read())  # so that it never waits for a reader
        async with aiohttp.ClientSession() as http, http.ws_connect(url, max_msg_size=0) as socket:
            browser = Browser(socket)
            listening = asyncio.create_task(browser.listen())
            try:
                yield browser
            finally:
                await browser.call("Browser.close")
                listening.cancel()
                await asyncio.gather(listening, reading, return_exceptions=True)
    finally:
        try:
            async with asyncio.timeout(_LIMIT_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def _endpoint(said: asyncio.StreamReader) -> str:
    async with asyncio.timeout(_LIMIT_S):
        async for line in said:
            if line.startswith(b"DevTools listening on "):
                return line.decode().split()[-1]
    raise RuntimeError("Chromium ended before it was up")
