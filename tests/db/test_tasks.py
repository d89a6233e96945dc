"""The native task format: what is written is read back, shared tables stay shared, damage is noticed."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path

import pytest

from envhub.envs.datasets import dataset_dir, read_manifest
from envhub.envs.db.database import Column, Table
from envhub.envs.db.tasks import (
    DBTask,
    Rows,
    State,
    decode_task,
    encode_task,
    load_split,
    typed,
    write_dataset,
)

ORDERS = Table(
    "orders",
    (Column("id", "INT", True), Column("note", "TEXT"), Column("price", "DECIMAL(10,2)"), Column("raw", "BLOB")),
    (
        (1, 'a\n\u2028\x85 "b"', "5.00", b"\x00\xff"),
        (2, None, "0.10", None),
        (2, None, "0.10", None),
        (3, "", "1.00", b""),
    ),
)
CITIES = Table("cities", (Column("name"), Column("area", "DOUBLE")), (("Győr", 174.6), ("Åre", 1e-9)))
ANSWER = Rows(("Győr", 1, Decimal("5.00"), 2.5, None, "NULL"), columns=2, ordered=True)
AFTER = Table("orders", ORDERS.columns, (*ORDERS.rows[:2], ORDERS.rows[3], (4, "new", "9.99", b"\x01")))


def question(number: int) -> DBTask:
    return DBTask(
        f"q{number}",
        f"Question {number}?",
        "ranking",
        (ORDERS, CITIES),
        ANSWER,
        ("SELECT 1",),
        "e",
        "i",
        "s",
        "easy",
        ("join",),
    )


CHANGE = DBTask(
    "w",
    "Change it.",
    "DELETE",
    (ORDERS, CITIES),
    State((AFTER, CITIES), "DELETE ...", "md5", {"orders": ("INT", "", "", "")}),
)


@pytest.mark.parametrize(
    "task", [question(1), CHANGE, DBTask("m", "Q", "other", (), Rows(()))], ids=lambda task: task.id
)
def test_task_is_read_back_as_written(task: DBTask) -> None:
    assert decode_task(json.loads(json.dumps(encode_task(task)))) == task


def test_state_without_tables_is_read_back() -> None:
    task = DBTask("s", "Q", "INSERT", (ORDERS,), State(None, "INSERT ..."))
    assert decode_task(encode_task(task)) == task


def test_state_is_stored_as_what_changed() -> None:
    assert encode_task(CHANGE)["answer"]["state"] == {
        "orders": {"remove": [2], "add": [[4, "new", "9.99", {"hex": "01"}]]}
    }


def test_change_of_type_alone_is_a_change() -> None:
    before = Table("t", (Column("a", "INT"),), ((1,), (1,)))
    after = Table("t", before.columns, ((1,), ("1",)))
    assert decode_task(encode_task(DBTask("t", "Q", "UPDATE", (before,), State((after,))))).answer == State((after,))


def test_state_with_other_columns_is_refused() -> None:
    with pytest.raises(ValueError, match="names and columns"):
        encode_task(DBTask("x", "Q", "DELETE", (ORDERS,), State((CITIES,))))


def test_ragged_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="columns"):
        Rows((1, 2, 3), columns=2)


def write(folder: Path) -> None:
    splits = {"train": [*map(question, range(50)), CHANGE], "dev": [CHANGE]}
    write_dataset(folder, splits, name="db", version="1.2.3", generator={"seed": 7})


def test_dataset_is_read_back_with_shared_tables(tmp_path: Path) -> None:
    write(tmp_path)
    train, dev = load_split(tmp_path, "train"), load_split(tmp_path, "dev")
    assert (len(train), len(dev)) == (51, 1)
    assert [train[0], train[49], train[50], dev[0]] == [question(0), question(49), CHANGE, CHANGE]
    assert list(train)[:2] == [question(0), question(1)]
    lines = gzip.decompress((tmp_path / "train.jsonl.gz").read_bytes()).split(b"\n")
    assert sum(line.startswith(b'{"table":') for line in lines) == 2
    manifest = read_manifest(tmp_path)
    assert (manifest.name, manifest.version, manifest.generator) == ("db", "1.2.3", {"seed": 7})
    assert manifest.splits["train"].n_bytes == (tmp_path / "train.jsonl.gz").stat().st_size


def test_same_tasks_give_the_same_bytes_and_hash(tmp_path: Path) -> None:
    write(tmp_path / "a")
    write(tmp_path / "b")
    assert (tmp_path / "a/train.jsonl.gz").read_bytes()[3:8] == bytes(5), "neither a name nor a time stamp"
    assert (tmp_path / "a/train.jsonl.gz").read_bytes() == (tmp_path / "b/train.jsonl.gz").read_bytes()
    assert load_split(tmp_path / "a", "train").dataset_hash == load_split(tmp_path / "b", "train").dataset_hash
    assert load_split(tmp_path / "a", "train").dataset_hash != load_split(tmp_path / "a", "dev").dataset_hash


@pytest.mark.parametrize("index", [-1, 51, 10**30])
def test_index_outside_the_split_is_refused(tmp_path: Path, index: int) -> None:
    write(tmp_path)
    with pytest.raises(IndexError, match=r"valid: 0\.\.50"):
        load_split(tmp_path, "train")[index]


def test_damage_is_noticed(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(KeyError, match="train, dev"):
        load_split(tmp_path, "test")
    (tmp_path / "train.jsonl.gz").write_bytes((tmp_path / "dev.jsonl.gz").read_bytes())
    with pytest.raises(ValueError, match="sha256"):
        load_split(tmp_path, "train")
    (tmp_path / "manifest.json").write_text('{"format": 99}')
    with pytest.raises(ValueError, match="format 99"):
        read_manifest(tmp_path)


def test_dataset_folder_is_found_below_the_given_root(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no manifest"):
        dataset_dir("db", root=tmp_path)
    write(tmp_path / "db")
    assert dataset_dir("db", root=tmp_path) == tmp_path / "db"


def test_final_answers_are_what_an_agent_writes() -> None:
    assert question(1).final_answers == ("Győr", "1", "5.00", "2.5", "NULL", "NULL")
    assert CHANGE.final_answers == ("done",)
    assert CHANGE.modifies and not question(1).modifies


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-3", -3),
        ("1.0", Decimal("1.0")),
        ("0.50", Decimal("0.50")),
        ("007", "007"),
        ("1e3", "1e3"),
        ("+5", "+5"),
        ("3,729.7", "3,729.7"),
        ("٣", "٣"),
        ("5\n", "5\n"),
        ("", ""),
        ("none", "none"),
        ("9" * 100, "9" * 100),
    ],
)
def test_plainly_written_number_is_typed_and_keeps_its_spelling(text: str, value: object) -> None:
    assert typed(text) == value
    assert type(typed(text)) is type(value)
    assert str(typed(text)) == text
