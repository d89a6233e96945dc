"""The public HTTP API, version 1: a FastAPI app that documents it, with a fast lane for the calls of a running episode.

Invariant: every answer is JSON in the documented shape, every error the one envelope; nothing a client sends gives a 500.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from envhub import __version__, wire
from envhub.controller.accept import LinkEndpoint
from envhub.controller.asgi import (
    ClientGoneError,
    ClientWatch,
    Receive,
    Scope,
    Send,
    error_headers,
    read_body,
    send_answer,
    send_error,
)
from envhub.controller.auth import Keys
from envhub.controller.metrics import CALLS, Metrics
from envhub.controller.openapi import complete, documented
from envhub.controller.service import Answered, ControllerService
from envhub.core.clock import Clock
from envhub.core.errors import EnvhubError, InternalError, InvalidRequestError, RequestError, ShuttingDownError
from envhub.link.frames import LINK_PATH, LINKED, NOT_LINKED

log = logging.getLogger(__name__)

_LANES = frozenset(CALLS) - {"start"}
_SESSIONS = "/v1/sessions"
_OPEN_PATHS = ("/healthz", "/readyz")


class HubApp:
    """ASGI application of the controller."""

    def __init__(
        self,
        service: ControllerService,
        *,
        keys: Keys,
        clock: Clock,
        lifespan: Callable[[FastAPI], Any] | None = None,
    ) -> None:
        self._service = service
        self._keys = keys
        self._clock = clock
        self.metrics = Metrics(service.workers, lambda: service.n_unstored)
        service.count_outcomes(self.metrics.finished)
        self._link = LinkEndpoint(service.workers, keys)
        self._reading: set[asyncio.Task[Any]] = set()
        self._closing = False
        service.workers.on_shut_down(self._stop_reading)
        self.api = _api(service, self.metrics, lifespan)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket" and scope["path"] == LINK_PATH:
            await self._link(scope, receive, send)
        else:
            await self.api(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        try:
            if path.startswith("/v1/workers/") and path.endswith("/heartbeat"):
                self._keys.check_worker(scope["headers"])
                await self._heartbeat(path, send)
                return
            if path not in _OPEN_PATHS:
                self._keys.check_client(scope["headers"])
            if scope["method"] == "POST" and (call := _lane(path)) is not None:
                await self._fast(*call, receive, send)
                return
        except EnvhubError as error:
            self.metrics.error(error.code)
            await send_error(send, error)
            return
        await self.api(scope, receive, send)

    async def _fast(self, call: str, session_id: str, receive: Receive, send: Send) -> None:
        started = self._clock.now()
        try:
            body = await self._body(receive)
            async with ClientWatch(receive):
                answer = await self._run(call, session_id, body)
        except ClientGoneError:
            if call == "interact":
                self._service.detach(session_id)
            return
        except EnvhubError as error:
            self.metrics.error(error.code)
            await send_error(send, error)
            return
        except Exception as error:  # boundary: a bug of ours must still answer in the envelope
            log.exception("%s failed", call)
            await send_error(send, InternalError(f"{type(error).__name__}: {error}"))
            return
        if answer.status >= 400:
            self.metrics.error(wire.error_from_body(answer.status, answer.body).code)
        self.metrics.observe(call, self._clock.now() - started)
        await send_answer(send, answer.status, answer.body, _headers(answer))

    async def _body(self, receive: Receive) -> bytes:
        """The whole body. Raises BodyTooLargeError, ClientGoneError, and ShuttingDownError for one that is still arriving then."""
        task = asyncio.current_task()
        assert task is not None
        self._reading.add(task)
        try:
            return await read_body(receive)
        except asyncio.CancelledError:
            if self._closing and task.uncancel() == 0:
                raise ShuttingDownError("the controller is shutting down") from None
            raise
        finally:
            self._reading.discard(task)

    def _stop_reading(self) -> None:
        self._closing = True
        for task in self._reading:
            task.cancel()

    def _run(self, call: str, session_id: str, body: bytes) -> Awaitable[Answered]:
        if call == "start":
            return self._service.start(body)
        if call == "fork":
            return self._service.fork(session_id, body)
        return self._service.call(session_id, call, body)

    async def _heartbeat(self, path: str, send: Send) -> None:
        linked = self._service.workers.heartbeat(path.split("/")[3])
        await send_answer(send, 200, LINKED if linked else NOT_LINKED)


def _lane(path: str) -> tuple[str, str] | None:
    """Call and session id of a path served by the fast lane."""
    if path == _SESSIONS:
        return "start", ""
    if not path.startswith(_SESSIONS + "/"):
        return None
    session_id, _, verb = path[len(_SESSIONS) + 1 :].partition("/")
    return (verb, session_id) if verb in _LANES else None


def _headers(answer: Answered) -> list[tuple[bytes, bytes]]:
    if answer.status != 503:
        return []
    return error_headers(wire.error_from_body(answer.status, answer.body))


def _response(answer: Answered) -> Response:
    headers = {key.decode(): value.decode() for key, value in _headers(answer)}
    return Response(answer.body, answer.status, headers, "application/json")


def _json(value: object, status: int = 200) -> Response:
    return Response(wire.dumps(value), status, media_type="application/json")


def _api(service: ControllerService, metrics: Metrics, lifespan: Callable[[FastAPI], Any] | None) -> FastAPI:
    app = FastAPI(
        title="envhub",
        version=__version__,
        description=__doc__,
        lifespan=lifespan or _nothing,
        redoc_url=None,
        redirect_slashes=False,
    )
    _errors(app)
    _documented_fast_lane(app, service)

    @app.get(
        "/v1/environments", tags=["environments"], **documented(list[dict[str, Any]], "Environments with a worker.")
    )
    async def environments() -> Response:
        infos = service.workers.environments().values()
        return _json({"environments": [wire.info_to_json(info) for info in infos]})

    @app.get("/v1/environments/{environment}/tasks", tags=["environments"], **documented(dict[str, Any]))
    async def tasks(environment: str) -> Response:
        info = service.environment(environment)
        return _json({"environment": info.name, "splits": info.splits, "dataset_hash": info.dataset_hash})

    @app.get("/v1/sessions", tags=["sessions"], **documented(dict[str, Any], "Live sessions, oldest first."))
    async def sessions(
        environment: str | None = None,
        tag: Annotated[str | None, Query(pattern="^[^=]+=.*$", description="`name=value`")] = None,
        limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    ) -> Response:
        pair = tag.partition("=") if tag else None
        found = service.sessions(environment, (pair[0], pair[2]) if pair else None, limit)
        return _json({"sessions": found})

    @app.get("/v1/sessions/{session_id}", tags=["sessions"], **documented(wire.SessionState))
    async def session(session_id: str) -> Response:
        return _response(await service.describe(session_id))

    @app.get("/v1/sessions/{session_id}/trace", tags=["sessions"], **documented(dict[str, Any]))
    async def trace(session_id: str) -> Response:
        return _response(await service.trace(session_id))

    @app.delete("/v1/sessions", tags=["sessions"], **documented(dict[str, Any], "The start is given up."))
    async def delete_start(request_key: Annotated[str, Query(min_length=1, max_length=256)]) -> Response:
        return _response(await service.cancel_start(request_key))

    @app.delete("/v1/sessions/{session_id}", tags=["sessions"], **documented(wire.SessionState))
    async def delete(session_id: str) -> Response:
        return _response(await service.call(session_id, "cancel", b""))

    @app.get("/v1/workers", tags=["workers"], **documented(dict[str, Any]))
    async def workers() -> Response:
        return _json({"workers": [worker.to_json(service.now()) for worker in service.workers.all()]})

    @app.post("/v1/workers/{worker_id}/drain", tags=["workers"], **documented(dict[str, Any]))
    async def drain(worker_id: str) -> Response:
        return _response(await service.drain(worker_id))

    @app.get("/healthz", tags=["operation"], **documented(dict[str, Any]))
    async def healthz() -> Response:
        failures = service.failures
        of_workers = {worker.id: worker.failures for worker in service.workers.all() if worker.failures}
        health = {"ok": not failures, "version": __version__, "failures": failures, "worker_failures": of_workers}
        return _json(health, 500 if failures else 200)

    @app.get("/readyz", tags=["operation"], **documented(dict[str, Any]))
    async def readyz() -> Response:
        ready = [worker.id for worker in service.workers.all() if worker.state == "ready"]
        return _json({"ready": bool(ready), "workers": len(ready)}, 200 if ready else 503)

    @app.get(
        "/metrics",
        tags=["operation"],
        response_class=Response,
        **documented(str, "Prometheus' text format.", media="text/plain"),
    )
    async def prometheus() -> Response:
        return Response(metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")

    complete(app)
    return app


def _documented_fast_lane(app: FastAPI, service: ControllerService) -> None:
    """The calls that HubApp answers itself, for the documentation and for whoever mounts ``api`` alone."""

    @app.post("/v1/sessions", tags=["sessions"], **documented(wire.Started, body=wire.StartRequest))
    async def start(request: Request) -> Response:
        return _response(await service.start(await request.body()))

    @app.post("/v1/sessions/{session_id}/fork", tags=["sessions"], **documented(wire.Forked, body=wire.ForkRequest))
    async def fork(session_id: str, request: Request) -> Response:
        return _response(await service.fork(session_id, await request.body()))

    for verb, body, answer in (
        ("interact", wire.InteractRequest, wire.Stepped),
        ("renew", wire.RenewRequest, dict[str, Any]),
        ("cancel", wire.CancelRequest, wire.SessionState),
    ):
        app.post(f"/v1/sessions/{{session_id}}/{verb}", tags=["sessions"], name=verb, **documented(answer, body=body))(
            _passing(service, verb)
        )


def _passing(service: ControllerService, verb: str) -> Callable[..., Awaitable[Response]]:
    async def pass_on(session_id: str, request: Request) -> Response:
        return _response(await service.call(session_id, verb, await request.body()))

    return pass_on


def _errors(app: FastAPI) -> None:
    @app.exception_handler(EnvhubError)
    async def ours(request: Request, error: EnvhubError) -> Response:
        headers = {key.decode(): value.decode() for key, value in error_headers(error)}
        return Response(wire.error_body(error), error.status, headers, "application/json")

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return await ours(request, InvalidRequestError(f"{where}: {first['msg']}"))

    @app.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> Response:
        return await ours(request, InternalError(f"{type(error).__name__}: {error}"))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        text = f"{request.method} {request.url.path[:200]}: {error.detail}"
        body = wire.dumps({"error": {"code": RequestError.code, "message": text, "details": {}}})
        return Response(body, error.status_code, error.headers, "application/json")


@asynccontextmanager
async def _nothing(app: FastAPI) -> AsyncIterator[None]:
    yield
