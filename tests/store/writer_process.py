"""Program: writes episodes ``first`` to ``last`` through an EpisodeWriter and prints each session id once it is stored."""

from __future__ import annotations

import asyncio
import hashlib
import sys

from envhub.store.episodes import EpisodeStore
from envhub.store.writer import EpisodeWriter, WriterLimits
from envhub.wire import EpisodeRecord, dumps


def record(number: int) -> EpisodeRecord:
    """The same for the same number, in every process; its trace does not compress well and fills many database pages."""
    noise = "".join(hashlib.sha256(f"{number}-{block}".encode()).hexdigest() for block in range(400))
    return EpisodeRecord(
        session_id=f"s-{number}",
        environment="db",
        split="test",
        task=number,
        seed=number,
        worker="w",
        identity={"digest": "d"},
        tags={"run": "kill", "n": str(number)},
        started_at=1.0,
        ended_at=2.0,
        turns=1,
        episode_return=1.0,
        terminated=True,
        truncated=False,
        stop_reason=None,
        error=None,
        reason=None,
        info={},
        trace=dumps({"messages": [{"role": "tool", "content": noise}]}),
    )


async def main(url: str, first: int, last: int) -> None:
    store = EpisodeStore(url)
    writer = EpisodeWriter(store, limits=WriterLimits(batch=7, flush_after_s=0.001))
    for number in range(first, last):
        each = record(number)

        def stored(session_id: str = each.session_id) -> None:
            sys.stdout.write(f"{session_id}\n")
            sys.stdout.flush()

        while not writer.submit(each, stored):
            await writer.flush()
        await asyncio.sleep(0)
    await writer.close()
    store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
