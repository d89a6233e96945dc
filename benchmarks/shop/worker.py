"""A worker of ``webshop.py``: opens a store, answers the queries of its input, tells what it cost, and stays until told to end.

Input: one JSON object {"store", "compiled", "queries"}, then an empty line for each report. Output: one JSON object for each line:
first the latencies, then the memory (in MiB), with the store still open.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from envhub.envs.webshop.store import open_store


def main() -> None:
    order = json.loads(sys.stdin.readline())
    began = time.perf_counter()
    store = open_store(Path(order["store"]), compiled=order["compiled"])
    open_s = time.perf_counter() - began
    store.search(["warm", "up"])
    wall_s, cpu_s, page_s = [], [], []
    for query in order["queries"]:
        words = query.split(" ")
        wall, cpu = time.perf_counter(), time.process_time()
        rows = store.search(words)
        cpu_s.append(time.process_time() - cpu)
        wall_s.append(time.perf_counter() - wall)
        wall = time.perf_counter()
        heads = store.heads(rows[:10])
        page_s.append(time.perf_counter() - wall)
        store.product(heads[0].asin)
    print(json.dumps({"open_s": open_s, "wall_s": wall_s, "cpu_s": cpu_s, "page_s": page_s}), flush=True)
    while sys.stdin.readline():
        print(json.dumps(memory_mib()), flush=True)


def memory_mib() -> dict[str, float]:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
    fields = {name: int(value.split()[0]) / 1024 for name, value in (line.split(":") for line in lines)}
    return {name: fields[name] for name in ("Rss", "Pss", "Private_Clean", "Private_Dirty", "Swap")}


if __name__ == "__main__":
    main()
