"""Why there is no room, in words that name what is missing."""

from __future__ import annotations

from envhub.cluster.shortage import explain

MIB = 1 << 20


def test_a_resource_that_no_node_has_is_named() -> None:
    said = explain({"CPU": 1, "sandbox": 1}, [{"CPU": 4.0}, {"CPU": 8.0}], {"CPU": 12.0})
    assert said == "it needs 1 sandbox, and no node has more than 0 sandbox"


def test_memory_is_told_in_mib() -> None:
    said = explain({"memory": 4096 * MIB}, [{"memory": 1024 * MIB}], {})
    assert said == "it needs 4096 MiB memory, and no node has more than 1024 MiB memory"


def test_resources_that_no_single_node_has_together() -> None:
    said = explain({"CPU": 4, "sandbox": 1}, [{"CPU": 4.0}, {"CPU": 1.0, "sandbox": 2.0}], {})
    assert said == "it needs 4 CPU and 1 sandbox, and no single node has all of that"


def test_full_nodes() -> None:
    said = explain({"CPU": 2}, [{"CPU": 2.0}], {"CPU": 0.5})
    assert said == "it needs 2 CPU, and the nodes that have it are full: free in the whole cluster are 0.5 CPU"


def test_no_node_at_all() -> None:
    assert explain({"CPU": 2}, [], {}) == "the cluster has no live node"
