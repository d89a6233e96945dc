"""A SPARQL 1.1 server over an N-Triples file, which can also misbehave: ``python sparql_server.py GRAPH.nt`` prints its port.

``/sparql`` answers as it should. ``/broken/KIND`` misbehaves always, and ``/flaky/KIND/N/NAME`` for the first N requests of
that NAME. ``/count/NAME`` tells how many requests a name has had.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path

import pyoxigraph
from aiohttp import web

JSON = "application/sparql-results+json"


class Server:
    def __init__(self, graph: Path) -> None:
        self._store = pyoxigraph.Store()
        self._store.bulk_load(graph.read_bytes(), pyoxigraph.RdfFormat.N_TRIPLES)
        self._seen: Counter[str] = Counter()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        query = (await request.post()).get("query")
        try:
            rows = self._store.query(str(query))
        except SyntaxError as error:
            return web.Response(status=400, text=str(error))
        body = rows.serialize(format=pyoxigraph.QueryResultsFormat.JSON)
        return web.Response(body=body, content_type=JSON)

    async def broken(self, request: web.Request) -> web.StreamResponse:
        return await self._misbehave(request, request.match_info["kind"])

    async def flaky(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        self._seen[name] += 1
        if self._seen[name] > int(request.match_info["n"]):
            return await self.answer(request)
        return await self._misbehave(request, request.match_info["kind"])

    async def count(self, request: web.Request) -> web.Response:
        return web.Response(text=str(self._seen[request.match_info["name"]]))

    async def _misbehave(self, request: web.Request, kind: str) -> web.StreamResponse:
        if kind.isdigit() and int(kind) >= 300:
            return web.Response(status=int(kind), text="<html>Virtuoso is busy</html>")
        if kind in ("partial", "nothing") or kind.isdigit():
            body = b'{"head": {"vars": ["x"]}, "results": {"bindings": []}}'
            headers = {"X-SQL-State": "S1TAT"} if kind == "partial" else {}
            status = int(kind) if kind.isdigit() else 200
            return web.Response(body=body, content_type=JSON, headers=headers, status=status)
        if kind == "garbage":
            return web.Response(body=b"\x00<html>", content_type=JSON)
        if kind == "shape":
            return web.Response(body=b'{"results": {"bindings": [{"y": 1}]}}', content_type=JSON)
        if kind == "slow":
            await asyncio.sleep(60)
        if kind == "drip":
            return await self._drip(request)
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async def _drip(self, request: web.Request) -> web.StreamResponse:
        """A byte now and then, so that the connection never looks dead."""
        response = web.StreamResponse(headers={"Content-Type": JSON})
        await response.prepare(request)
        for _ in range(600):
            await response.write(b" ")
            await asyncio.sleep(0.05)
        return response


async def serve(graph: Path) -> None:
    server = Server(graph)
    app = web.Application()
    app.router.add_post("/sparql", server.answer)
    app.router.add_post("/broken/{kind}", server.broken)
    app.router.add_post("/flaky/{kind}/{n}/{name}", server.flaky)
    app.router.add_get("/count/{name}", server.count)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
