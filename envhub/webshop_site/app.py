"""The pages of the site and where they lie.

Invariant: reading a page changes nothing; what changes something is a form that names its turn, and is answered by the way to
the page that it led to. Every answer is a whole page that says where the session stands.
"""

from __future__ import annotations

import logging
import secrets
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from envhub.core.errors import EnvhubError, SessionEndedError, SessionNotFoundError, TaskNotFoundError
from envhub.core.types import TaskRef
from envhub.envs.webshop.env import NAME, WebShopEnvironment
from envhub.webshop_site import forms
from envhub.webshop_site.drawing import Drawing
from envhub.webshop_site.forms import Form, WrongForm
from envhub.webshop_site.sessions import Sessions, Visit

log = logging.getLogger(__name__)

_STATIC = Path(__file__).parent / "static"
_STYLE, _ICON = ((_STATIC / name).read_bytes() for name in ("shop.css", "icon.svg"))
_MOVED_ON = "This session has moved on since that page was shown. Here is where it stands now; nothing was done twice."
_NOT_DONE = "That was not done: the session had already moved on. Here is where it stands now."


class Pages:
    """``task`` is what the start page offers first."""

    def __init__(self, sessions: Sessions, environment: WebShopEnvironment, *, task: TaskRef) -> None:
        self._sessions = sessions
        self._environment = environment
        self._info = environment.info()
        self._task = task
        self._drawing = Drawing()

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/", self._start_page, methods=["GET"]),
                Route("/sessions", self._start, methods=["POST"]),
                Route("/open", self._open, methods=["GET"]),
                Route("/s/{session_id}", self._show, methods=["GET"]),
                Route("/s/{session_id}", self._play, methods=["POST"]),
                Route("/s/{session_id}/leave", self._leave, methods=["POST"]),
                Route("/s/{session_id}/{turn:int}", self._show, methods=["GET"]),
                Route("/shop.css", _style, methods=["GET"]),
                Route("/icon.svg", _icon, methods=["GET"]),
            ],
            exception_handlers={
                WrongForm: self._wrong_form,
                EnvhubError: self._hub_error,
                HTTPException: self._http_error,
                Exception: self._own_error,
            },
        )

    # --- choosing a task --------------------------------------------------------------------------------------------

    async def _start_page(self, request: Request) -> Response:
        task = self._asked(request.query_params)
        return self._drawing.page(
            "start.html",
            task=task,
            goal=self._environment.goal(task),
            splits=self._info.splits,
            n_tasks=self._info.splits[task.split],
            max_turns=self._info.max_turns,
            request_key=secrets.token_urlsafe(16),
        )

    async def _start(self, request: Request) -> Response:
        form = await _form(request)
        task = self._asked(form)
        session_id = await self._sessions.start(task.split, task.index, form.get("request_key"))
        return _go(_address(session_id))

    async def _open(self, request: Request) -> Response:
        session_id = request.query_params.get("session", "").strip()
        if not session_id:
            raise WrongForm("Type the id of a session first.")
        return _go(_address(session_id))

    def _asked(self, form: Form) -> TaskRef:
        """Raises WrongForm, TaskNotFoundError."""
        split = form.get("split") or self._task.split
        default = self._task.index if split == self._task.split else 0
        index = forms.number(form["task"].strip(), name="task number") if form.get("task") else default
        if index >= self._info.splits.get(split, 0):
            raise TaskNotFoundError(f"there is no task {index} in the split {split[:40]!r}")
        return TaskRef(NAME, split, index)

    # --- playing ----------------------------------------------------------------------------------------------------

    async def _show(self, request: Request) -> Response:
        visit = await self._sessions.look(request.path_params["session_id"])
        turn = request.path_params.get("turn", visit.turn)
        return self._drawing.visit(visit, notice="" if turn == visit.turn else _MOVED_ON)

    async def _play(self, request: Request) -> Response:
        session_id = request.path_params["session_id"]
        form = await _form(request)
        turn = forms.number(form.get("turn", ""), name="turn")
        visit = await self._sessions.look(session_id)
        try:
            calls = forms.calls(form, visit.state_at(turn))
        except WrongForm as wrong:
            if turn != visit.turn or not visit.live:
                return self._stale(visit)
            return self._drawing.visit(visit, notice=str(wrong), form=form, status=422)
        if await self._sessions.play(session_id, turn, calls):
            return _go(_address(session_id, turn + 1))
        return self._stale(await self._sessions.look(session_id))

    async def _leave(self, request: Request) -> Response:
        session_id = request.path_params["session_id"]
        try:
            await self._sessions.leave(session_id)
        except SessionEndedError:
            log.debug("left session %s, which is over", session_id)
        return _go(_address(session_id))

    def _stale(self, visit: Visit) -> Response:
        notice = _NOT_DONE if visit.live else "That was not done: this session is over."
        return self._drawing.visit(visit, notice=notice, status=409)

    # --- what went wrong --------------------------------------------------------------------------------------------

    async def _wrong_form(self, request: Request, error: Exception) -> Response:
        return self._drawing.problem(400, "That did not work", str(error))

    async def _hub_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, EnvhubError)
        if isinstance(error, (SessionNotFoundError, SessionEndedError)):
            return self._drawing.problem(
                404, "There is no such session", "It may have ended long ago, or its address is not complete."
            )
        if error.status in (503, 429):
            return self._drawing.problem(503, "The shop is busy", "Please try again in a moment.")
        return self._drawing.problem(error.status, "That did not work", error.message)

    async def _http_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        title = "There is no such page" if error.status_code == 404 else HTTPStatus(error.status_code).phrase
        answer = self._drawing.problem(error.status_code, title, "Go back to the start to choose a task.")
        answer.headers.update(error.headers or {})
        return answer

    async def _own_error(self, request: Request, error: Exception) -> Response:
        return self._drawing.problem(500, "The shop broke", "This was not your fault; the session is still there.")


async def _form(request: Request) -> Form:
    """Raises WrongForm."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > forms.MAX_BODY_BYTES:
            raise HTTPException(413)
    return forms.parse(body)


async def _style(request: Request) -> Response:
    return Response(_STYLE, media_type="text/css", headers={"cache-control": "no-cache"})


async def _icon(request: Request) -> Response:
    return Response(_ICON, media_type="image/svg+xml", headers={"cache-control": "max-age=86400"})


def _address(session_id: str, turn: int | None = None) -> str:
    return f"/s/{quote(session_id, safe='')}" + ("" if turn is None else f"/{turn}")


def _go(address: str) -> Response:
    return RedirectResponse(address, 303, headers={"cache-control": "no-store"})
