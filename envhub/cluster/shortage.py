"""Why a worker finds no place on a cluster, in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Resources = Mapping[str, float]
_MIB = 1 << 20


def explain(needed: Resources, nodes: Sequence[Resources], free: Resources) -> str:
    """``nodes``: what each live node has in total; ``free``: what is free in the whole cluster; memory is in bytes."""
    if not nodes:
        return "the cluster has no live node"
    lacking = {
        name: most for name, amount in needed.items() if (most := max(node.get(name, 0.0) for node in nodes)) < amount
    }
    if lacking:
        parts = [
            f"{_amount(name, needed[name])}, and no node has more than {_amount(name, most)}"
            for name, most in lacking.items()
        ]
        return f"it needs {'; '.join(parts)}"
    if not any(all(node.get(name, 0.0) >= amount for name, amount in needed.items()) for node in nodes):
        return f"it needs {_all(needed)}, and no single node has all of that"
    at_hand = {name: free.get(name, 0.0) for name in needed}
    return (
        f"it needs {_all(needed)}, and the nodes that have it are full: free in the whole cluster are {_all(at_hand)}"
    )


def _all(amounts: Resources) -> str:
    return " and ".join(_amount(name, amount) for name, amount in amounts.items())


def _amount(name: str, amount: float) -> str:
    return f"{amount / _MIB:.0f} MiB memory" if name == "memory" else f"{amount:g} {name}"
