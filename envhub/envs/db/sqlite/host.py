"""A host process: many databases, each with its own connection, answering one driver over a socket.

Invariant: a statement can only stop its own database; the process ends when its driver does.
"""

from __future__ import annotations

import gc
import os
import resource
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from envhub.envs.db.sqlite.engine import Bounds, Engine, Outcome
from envhub.envs.db.sqlite.errors import MySQLError
from envhub.envs.db.sqlite.frames import HEADER, Block, Reply, Request, pack, read_request, type_frames

MAX_THREADS, DESK_THREADS = 64, 2


class Host:
    def __init__(self, channel: socket.socket, max_pages: int) -> None:
        self.channel = channel
        self.max_pages = max_pages
        self.sending = threading.Lock()
        self.engines: dict[int, Engine] = {}
        self.dropped: set[int] = set()
        """Closed before their opening was over."""
        self.pool = ThreadPoolExecutor(MAX_THREADS)
        self.desk = ThreadPoolExecutor(DESK_THREADS)
        """Opens and dumps, which are short, never wait behind everyone's statements."""

    def serve(self) -> None:
        """Until the driver's end of the socket is gone."""
        stream = self.channel.makefile("rb")
        try:
            while len(header := stream.read(HEADER.size)) == HEADER.size:
                self._accept(read_request(stream.read(HEADER.unpack(header)[0])))
        except ConnectionError:
            pass
        os._exit(0)

    def _accept(self, request: Request) -> None:
        if request.op in ("cancel", "close"):
            self._interrupt(request.database)
        if request.op == "execute" and (engine := self.engines.get(request.database)) is not None:
            engine.expect()
        if request.op != "cancel":
            pool = self.desk if request.op in ("open", "dump") else self.pool
            pool.submit(self._answer, request)

    def _interrupt(self, database: int) -> None:
        engine = self.engines.get(database)
        if engine is not None:
            engine.interrupt()

    def _answer(self, request: Request) -> None:
        try:
            reply = self._reply(request)
        except MySQLError as error:
            reply = Reply(request.number, "error", error_code=error.code, message=error.message)
        except MemoryError:
            reply = Reply(request.number, "error", error_code=1037, message="1037 (HY001): Out of memory")
        except Exception as error:  # boundary: a bug of ours must answer its request, not hang it
            reply = Reply(
                request.number,
                "error",
                error_code=1105,
                message=f"1105 (HY000): Unknown error ({type(error).__name__})",
            )
        data = pack(reply)
        with self.sending:
            self.channel.sendall(data)

    def _reply(self, request: Request) -> Reply:
        if request.op == "open":
            return self._open(request)
        if request.op == "close":
            engine = self.engines.pop(request.database, None)
            if engine is not None:
                engine.close()
            else:
                self.dropped.add(request.database)
            return Reply(request.number, "ok")
        engine = self.engines.get(request.database)
        if engine is None:
            return Reply(request.number, "lost")
        if request.op == "dump":
            blocks = [Block(name, [], type_frames(types), rows) for name, (types, rows) in engine.dump().items()]
            return Reply(request.number, "ok", blocks)
        bounds = Bounds(request.timeout_s, request.max_rows, request.max_bytes)
        return _frame(request.number, engine.execute(request.sql, request.now, request.seed, bounds))

    def _open(self, request: Request) -> Reply:
        engine = Engine(self.max_pages)
        try:
            for table in request.tables:
                engine.load(table.name, table.columns, table.rows)
        except BaseException:
            engine.close()
            raise
        self.engines[request.database] = engine
        if request.database in self.dropped:
            self.dropped.discard(request.database)
            self.engines.pop(request.database).close()
        return Reply(request.number, "ok")


def _frame(number: int, outcome: Outcome) -> Reply:
    blocks = [Block("", outcome.columns, type_frames(outcome.types), outcome.rows)] if outcome.status == "rows" else []
    return Reply(
        number,
        outcome.status,
        blocks,
        outcome.affected,
        outcome.truncated,
        outcome.error_code,
        outcome.message,
        outcome.logged,
    )


def main() -> None:
    """Arguments: socket file descriptor, page limit of a database, address-space limit in bytes (0: none)."""
    descriptor, max_pages, memory = (int(argument) for argument in sys.argv[1:4])
    if memory:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    sys.setrecursionlimit(20_000)
    sys.setswitchinterval(0.001)
    threading.stack_size(8 << 20)
    gc.freeze()
    Host(socket.socket(fileno=descriptor), max_pages).serve()


if __name__ == "__main__":
    main()
