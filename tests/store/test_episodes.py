"""Storing and reading episodes, on every engine."""

from __future__ import annotations

import io
import json
import math
import os
import threading
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envhub.core.errors import InvalidRequestError, UnavailableError
from envhub.core.types import StopReason
from envhub.store import episodes
from envhub.store.episodes import EpisodeFilter, EpisodeStore
from envhub.wire import EpisodeRecord, dumps


def sessions(store: EpisodeStore, where: EpisodeFilter = episodes.ALL) -> set[str]:
    return {each.session_id for each in store.find(where, limit=1000).episodes}


def test_record_comes_back_as_it_was(
    store: EpisodeStore, make_record: Any, make_failure: Any, make_cancelled: Any
) -> None:
    result, failure, cancelled = make_record(1), make_failure(2, reason="broke \u0000 你好 😀"), make_cancelled(3)
    store.put([result, failure, cancelled])
    assert store.get("w1-3") == cancelled
    assert store.get("w1-1") == result
    assert store.get("w1-2") == failure
    assert store.get("nobody") is None


def test_putting_nothing_is_fine(store: EpisodeStore) -> None:
    store.put([])
    assert store.find().episodes == ()
    assert store.summary() == ()


def test_repeated_record_is_stored_once_and_the_last_counts(store: EpisodeStore, make_record: Any) -> None:
    store.put([make_record(1), make_record(2)])
    before = store.find().episodes
    store.put([make_record(1), make_record(1)])
    assert store.find().episodes == before
    changed = make_record(1, episode_return=1.0, tags={"other": "tag"}, trace=b'{"messages":[]}')
    store.put([make_record(1), changed])
    assert store.get("w1-1") == changed
    assert sessions(store, EpisodeFilter(tags={"run": "r1"})) == {"w1-2"}
    assert sessions(store, EpisodeFilter(tags={"other": "tag"})) == {"w1-1"}
    assert [each.cursor for each in store.find().episodes] == [each.cursor for each in before]


def test_failure_or_cancellation_never_replaces_a_result(
    store: EpisodeStore, make_record: Any, make_failure: Any, make_cancelled: Any
) -> None:
    store.put([make_failure(1)])
    store.put([make_cancelled(1)])
    assert store.get("w1-1") == make_cancelled(1)
    store.put([make_record(1)])
    store.put([make_failure(1)])
    store.put([make_cancelled(1)])
    store.put([make_record(2), make_failure(2), make_cancelled(2)])
    assert store.get("w1-1") == make_record(1)
    assert store.get("w1-2") == make_record(2)


def test_one_bad_record_keeps_the_whole_call_out(store: EpisodeStore, make_record: Any) -> None:
    with pytest.raises(InvalidRequestError):
        store.put([make_record(1), make_record(2, episode_return=math.nan)])
    assert sessions(store) == set()


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"episode_return": math.nan}, "episode_return"),
        ({"episode_return": math.inf}, "episode_return"),
        ({"ended_at": math.nan}, "ended_at"),
        ({"error": {"code": "x"}}, "episode_return"),
        ({"seed": 2**63}, "seed"),
        ({"session_id": "é" * 128}, "session_id"),
        ({"environment": "x" * 513}, "environment"),
        ({"worker": "\ud800"}, "worker"),
        ({"tags": {"k": "v" * 1025}}, "tags"),
        ({"info": {"bad": object()}}, "info"),
        ({"trace": b""}, "trace"),
        ({"trace": b"[]"}, "trace"),
        ({"trace": b'{"a": NaN}'}, "trace"),
        ({"trace": b'{"a": "\xff"}'}, "trace"),
        ({"trace": b'{"a": ' + b"[" * 100_000}, "trace"),
    ],
)
def test_record_that_cannot_be_stored_is_refused_by_name(make_record: Any, changes: dict[str, Any], names: str) -> None:
    with closing(EpisodeStore("sqlite://")) as store:
        with pytest.raises(InvalidRequestError, match=rf"episode\.{names}"):
            store.put([make_record(1, **changes)])
        assert store.get(make_record(1).session_id) is None


def test_nan_in_info_becomes_null_and_broken_text_is_repaired(store: EpisodeStore, make_record: Any) -> None:
    store.put([make_record(1, info={"score": math.nan}, reason="half \ud83d emoji")])
    record = store.get("w1-1")
    assert record is not None
    assert record.info == {"score": None}
    assert record.reason == "half \ufffd emoji"


def test_ten_megabyte_traces_survive(store: EpisodeStore, make_record: Any) -> None:
    noise = os.urandom(5 * 1024**2).hex()  # compresses to half: more than one part
    big = dumps({"messages": [{"role": "tool", "content": noise}]})
    flat = dumps({"messages": [{"role": "tool", "content": "😀字\x00" * 1_500_000}]})
    assert min(len(big), len(flat)) > 10_000_000
    store.put([make_record(1, trace=big), make_record(2, trace=flat), make_record(3)])
    store.put([make_record(2, trace=big)])
    for number in (1, 2):
        record = store.get(f"w1-{number}")
        assert record is not None
        assert record.trace == big
    assert store.get("w1-3") == make_record(3)


def test_names_that_differ_in_case_or_trailing_space_stay_apart(store: EpisodeStore, make_record: Any) -> None:
    names = ["a", "A", "a ", "a\u0000", "á"]
    store.put([make_record(session_id=name, tags={"run": name}, environment=name) for name in names])
    for name in names:
        assert store.get(name) == make_record(session_id=name, tags={"run": name}, environment=name)
        assert sessions(store, EpisodeFilter(tags={"run": name})) == {name}
        assert sessions(store, EpisodeFilter(environment=name)) == {name}
    assert len(store.summary()) == len(names)


def test_filters_narrow_what_is_found(store: EpisodeStore, make_record: Any, make_failure: Any) -> None:
    store.put(
        [
            make_record(1, environment="os", tags={"run": "r1", "kind": "a"}),
            make_record(2, split="dev"),
            make_failure(3, tags={}),
            make_record(4, identity={"digest": "other"}, tags={"run": "r1", "kind": "b"}),
        ]
    )

    def found(**filters: Any) -> list[int]:
        return sorted(each.task for each in store.find(EpisodeFilter(**filters)).episodes)

    assert found() == [1, 2, 3, 4]
    assert found(environment="os") == [1]
    assert found(split="dev") == [2]
    assert found(state="error") == [3]
    assert found(state="ok") == [1, 2, 4]
    assert found(tags={"run": "r1"}) == [1, 2, 4]
    assert found(tags={"run": "r1", "kind": "b"}) == [4]
    assert found(identity_digest="other") == [4]
    assert found(since=make_record(3).ended_at) == [3, 4]
    assert found(before=make_record(3).ended_at) == [1, 2]
    assert found(environment="os", state="error") == []


def test_pages_cover_everything_once_newest_first(store: EpisodeStore, make_record: Any) -> None:
    store.put([make_record(number, session_id=f"s{number:03}") for number in range(25)])
    seen: list[int] = []
    after = None
    while True:
        page = store.find(limit=10, after=after)
        seen += [each.task for each in page.episodes]
        after = page.next
        if after is None:
            break
    assert seen == list(range(24, -1, -1))
    assert store.find(limit=25).next is None


def test_summary_keeps_identities_errors_and_cancellations_apart(
    store: EpisodeStore, make_record: Any, make_failure: Any, make_cancelled: Any
) -> None:
    store.put([make_record(1, episode_return=1.0), make_record(2, episode_return=0.0), make_failure(3)])
    store.put([make_record(4, identity={"digest": "other"}, episode_return=0.5), make_failure(5, identity={})])
    store.put([make_cancelled(6), make_cancelled(7)])
    groups = [(each.identity_digest, each.n, each.mean_return, each.errors, each.cancelled) for each in store.summary()]
    assert groups == [("", 0, None, 1, 0), ("0123456789ab", 2, 0.5, 1, 2), ("other", 1, 0.5, 0, 0)]
    assert [each.n for each in store.summary(EpisodeFilter(state="error"))] == [0, 0]


def test_identities_without_a_digest_are_told_apart_by_their_content(store: EpisodeStore, make_record: Any) -> None:
    store.put([make_record(1, identity={"version": "1", "b": 1}), make_record(2, identity={"version": "2", "b": 1})])
    store.put([make_record(3, identity={"b": 1, "version": "1"})])
    assert sorted(each.n for each in store.summary()) == [1, 2]


def test_export_writes_one_json_object_a_line_oldest_first(
    store: EpisodeStore, make_record: Any, make_failure: Any
) -> None:
    trace = {"messages": [{"role": "user", "content": "two\nlines\u2028 😀"}]}
    pretty = json.dumps(trace, indent=2, ensure_ascii=False).encode()
    store.put([make_record(1, trace=pretty), make_failure(2), make_record(3, environment="os")])
    stream = io.BytesIO()
    assert store.export(stream, EpisodeFilter(environment="db")) == 2
    lines = stream.getvalue().split(b"\n")
    assert lines.pop() == b""
    first, second = (json.loads(line) for line in lines)
    assert first["trace"] == trace
    assert first["session_id"] == "w1-1"
    assert second["error"]["code"] == "session_lost"
    assert second["episode_return"] is None
    assert set(first) == set(EpisodeRecord.__struct_fields__)


def test_old_episodes_are_deleted_with_all_that_belongs_to_them(
    store: EpisodeStore, make_record: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(episodes, "PAGE", 3)
    store.put([make_record(number) for number in range(10)])
    newest = store.find().episodes[0].cursor
    assert store.delete_before(make_record(7).ended_at) == 7
    assert sessions(store) == {"w1-7", "w1-8", "w1-9"}
    assert store.get("w1-1") is None
    assert sessions(store, EpisodeFilter(tags={"run": "r1"})) == {"w1-7", "w1-8", "w1-9"}
    assert store.delete_before(1e18) == 3
    store.put([make_record(1)])
    assert store.get("w1-1") == make_record(1)
    assert store.find().episodes[0].cursor > newest
    assert len(list(store.records())) == 1


def test_many_threads_share_a_store(store: EpisodeStore, make_record: Any) -> None:
    problems: list[BaseException] = []

    def work(thread: int) -> None:
        try:
            for number in range(10):
                store.put([make_record(thread * 100 + number), make_record(9999)])
                assert store.get(f"w1-{thread * 100 + number}") is not None
                store.summary()
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert problems == []
    assert len(sessions(store)) == 41


def test_unreachable_database_is_unavailable_and_keeps_its_password(make_record: Any) -> None:
    pytest.importorskip("mysql.connector")
    with closing(EpisodeStore("mysql://someone:hunter2@127.0.0.1:1/nowhere")) as store:
        with pytest.raises(UnavailableError) as caught:
            store.put([make_record(1)])
        assert "hunter2" not in str(caught.value) + store.url
        assert "127.0.0.1:1" in str(caught.value)


def test_locked_database_is_unavailable_and_then_usable(sqlite_url: str, make_record: Any) -> None:
    with closing(EpisodeStore(f"{sqlite_url}?timeout=0.05")) as store, closing(EpisodeStore(sqlite_url)) as other:
        store.open()
        connection = other._write_engine.connect()
        transaction = connection.begin()
        with pytest.raises(UnavailableError, match="locked"):
            store.put([make_record(1)])
        transaction.rollback()
        connection.close()
        store.put([make_record(1)])
        assert sessions(store) == {"w1-1"}


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**100), 2**100)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(st.text(max_size=8), json_values, max_size=4)
finite = st.floats(allow_nan=False, allow_infinity=False)
names = st.text(min_size=1, max_size=60)
results = st.fixed_dictionaries(
    {
        "session_id": names,
        "environment": names,
        "split": names,
        "task": st.integers(0, 2**53),
        "seed": st.integers(0, 2**63 - 1),
        "worker": names,
        "identity": json_objects,
        "tags": st.dictionaries(st.text(max_size=64), st.text(max_size=256), max_size=4),
        "started_at": finite,
        "ended_at": finite,
        "turns": st.integers(0, 2**31),
        "episode_return": finite,
        "terminated": st.booleans(),
        "truncated": st.booleans(),
        "stop_reason": st.none() | st.sampled_from(StopReason),
        "error": st.none(),
        "reason": st.none() | st.text(),
        "info": json_objects,
        "trace": json_objects.map(dumps),
    }
)
outcomes: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"episode_return": st.none(), "error": st.none() | json_objects}
) | st.just({})
records = st.builds(lambda result, outcome: EpisodeRecord(**(result | outcome)), results, outcomes)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batch=st.lists(records, max_size=4, unique_by=lambda record: record.session_id))
def test_any_records_survive_the_round_trip(store: EpisodeStore, batch: list[EpisodeRecord]) -> None:
    store.delete_before(1.7e308)
    before = {each.session_id for each in store.find(limit=1000).episodes}
    fresh = [record for record in batch if record.session_id not in before]
    store.put(fresh)
    for record in fresh:
        assert store.get(record.session_id) == record
        assert record.session_id in sessions(store, EpisodeFilter(environment=record.environment, tags=record.tags))
    stream = io.BytesIO()
    store.export(stream)
    for line in stream.getvalue().splitlines():
        exported = json.loads(line)
        record = store.get(exported["session_id"])
        assert record is not None
        assert exported["trace"] == json.loads(record.trace)
