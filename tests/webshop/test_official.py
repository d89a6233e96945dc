"""The official files: what is skipped, parsed and refused, and that no file is held in memory."""

from __future__ import annotations

import gzip
import json
import random
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from envhub.core.types import JSON
from envhub.envs.webshop.goals import HumanInstruction, Listing
from envhub.envs.webshop.json_stream import stream_array, stream_members
from envhub.envs.webshop.nouns import title_nouns
from envhub.envs.webshop.official import (
    OfficialFiles,
    OptionValue,
    find_official,
    parse_options,
    parse_pricing,
    read_listings,
)

ITEM: dict[str, Any] = {
    "asin": "B01",
    "name": "Ann's Red Mug, 12oz",
    "full_description": "A mug",
    "pricing": "$7.80",
    "images": ["https://example.org/1.jpg", "https://example.org/2.jpg"],
    "product_category": "Home › Mugs",
    "small_description": ["One", "Two"],
    "customization_options": "",
    "category": "garden",
    "query": " Red Mugs ",
    "average_rating": "",
}


def write(
    folder: Path, items: Sequence[JSON], attributes: JSON, human: JSON = None, nouns: JSON = None
) -> OfficialFiles:
    (folder / "items_shuffle_1000.json").write_text(json.dumps(items))
    with gzip.open(folder / "items_ins_v2_1000.json.gz", "wt") as target:
        json.dump(attributes, target)
    for name, content in (("items_human_ins", human), ("nouns", nouns)):
        if content is not None:
            (folder / f"{name}.json").write_text(json.dumps(content))
    return find_official(folder)


def load(folder: Path, items: Sequence[JSON], **files: Any) -> list[Listing]:
    return list(read_listings(write(folder, items, **{"attributes": {}} | files), random.Random(0)))


def test_an_item_becomes_a_product(tmp_path: Path) -> None:
    about = {"B01": {"attributes": ["red"], "instruction": "Find me a mug", "instruction_attributes": ["red"]}}
    worker = {
        "asin": "B01",
        "instruction": "a mug.",
        "instruction_attributes": ["red"],
        "instruction_options": ["12oz"],
    }
    (listing,) = load(tmp_path, [ITEM], attributes=about, human={"B01": [worker]}, nouns={"B01": ["mug"]})
    product = listing.product
    assert (product.title, product.price, product.price_tag) == ("Ann's Red Mug, 12oz", 7.8, "$7.8")
    assert (product.query, product.categories, product.category) == ("red mugs", "Home › Mugs", "garden")
    assert (product.bullets, product.options, product.image) == (("One", "Two"), {}, "https://example.org/1.jpg")
    assert (product.attributes, product.nouns) == (("red",), ("mug",))
    assert (listing.template, listing.template_attributes) == ("Find me a mug", ("red",))
    assert listing.human == (HumanInstruction("a mug.", ("red",), ("12oz",)),)


def test_an_item_without_attributes_images_or_list_of_bullets(tmp_path: Path) -> None:
    (listing,) = load(tmp_path, [ITEM | {"small_description": "One", "images": []}])
    assert (listing.product.attributes, listing.product.bullets) == (("DUMMY_ATTR",), ("One",))
    assert (listing.product.image, listing.template, listing.human) == ("", None, ())
    assert listing.product.nouns == ("ann", "red", "mug", "12oz") == title_nouns(ITEM["name"])


def test_nan_long_and_repeated_asins_are_skipped(tmp_path: Path) -> None:
    asins = ["nan", "B0123456789", "B01", "B02", "B01"]
    items = [ITEM | {"asin": asin, "name": f"Mug {position}"} for position, asin in enumerate(asins)]
    assert [listing.product.title for listing in load(tmp_path, items)] == ["Mug 2", "Mug 3"]


def test_limit_cuts_the_file_before_anything_is_skipped(tmp_path: Path) -> None:
    files = write(tmp_path, [ITEM | {"asin": asin} for asin in ("nan", "B01", "B02")], {})
    listings = read_listings(files, random.Random(0), limit=2)
    assert [listing.product.asin for listing in listings] == ["B01"]


def test_only_ranges_draw_a_price(tmp_path: Path) -> None:
    items = [
        ITEM | {"asin": f"B{n}", "pricing": pricing} for n, pricing in enumerate(("$1", "$1 - $2", None, "$3.0 - $9"))
    ]
    rng = random.Random(0)
    drawn = [1.0, rng.uniform(1.0, 2.0), 100.0, rng.uniform(3.0, 9.0)]
    assert [listing.product.price for listing in load(tmp_path, items)] == drawn


@pytest.mark.parametrize(
    ("pricing", "prices", "tag"),
    [
        (None, (), "$100.0"),
        ("", (), "$100.0"),
        ("free", (), "$100.0"),
        ("$7.80", (7.8,), "$7.8"),
        ("$1,234.50", (1234.5,), "$1234.5"),
        ("$5 - $6.25 - $9", (5.0, 6.25), "$5.0 to $6.25"),
    ],
)
def test_pricing(pricing: str | None, prices: tuple[float, ...], tag: str) -> None:
    assert parse_pricing(pricing) == (prices, tag)


def test_a_price_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="not a price"):
        parse_pricing("$1.2.3")


WRONG: dict[str, Sequence[JSON]] = {
    "name": [None, 3, []],
    "full_description": [3, ["a"]],
    "small_description": [None, 3, [None], ["a", 1], {"a": "b"}],
    "query": [None, 3, ["a"]],
    "product_category": [None, ["a"]],
    "pricing": [7.8, ["$1"], "$1.2.3", "$" + "9" * 400],
    "images": ["i.jpg", [None], [1], {"a": 1}],
    "category": [3],
    "customization_options": [
        3,
        ["red"],
        {"color": "red"},
        {"color": ["red"]},
        {"color": [None]},
        {"color": [{}]},
        {"color": [{"value": None}]},
        {"color": [{"value": 3}]},
        {"color": [{"value": "red", "image": 3}]},
    ],
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in WRONG.items() for value in values])
def test_a_field_of_another_type_is_refused_with_its_place(tmp_path: Path, field: str, value: JSON) -> None:
    with pytest.raises(ValueError, match=r"items_shuffle_1000\.json, position 1 \(asin 'B02'\): "):
        load(tmp_path, [ITEM, ITEM | {"asin": "B02", field: value}])


@pytest.mark.parametrize("field", ["name", "full_description", "small_description", "query", "product_category"])
def test_a_missing_field_is_named_with_its_place(tmp_path: Path, field: str) -> None:
    item = {name: value for name, value in ITEM.items() if name != field}
    with pytest.raises(ValueError, match=rf"position 0 \(asin 'B01'\): .*missing required field `{field}`"):
        load(tmp_path, [item])


@pytest.mark.parametrize("item", [None, 3, "B01", [], {}, {"asin": None}, {"asin": 7}, {"asin": ""}, {"asin": ["B01"]}])
def test_an_item_without_an_asin_is_refused_with_its_place(tmp_path: Path, item: JSON) -> None:
    with pytest.raises(ValueError, match=r"items_shuffle_1000\.json, position 1 \(asin "):
        load(tmp_path, [ITEM, item])


def test_half_a_surrogate_pair_is_refused_with_its_place(tmp_path: Path) -> None:
    """JSON can say it, no file can hold it."""
    with pytest.raises(ValueError, match=r"position 0 \(asin 'B01'\)"):
        load(tmp_path, [ITEM | {"name": "lamp \ud83d"}])
    with pytest.raises(ValueError, match=r"items_ins_v2_1000\.json\.gz, position 0"):
        load(tmp_path, [ITEM], attributes={"\ud83d": {}})


@pytest.mark.parametrize(
    "about",
    [
        3,
        [],
        {"attributes": None},
        {"attributes": "red"},
        {"attributes": [None]},
        {"instruction": 3},
        {"instruction_attributes": [1]},
    ],
)
def test_attributes_of_another_type_are_refused_with_their_place(tmp_path: Path, about: JSON) -> None:
    with pytest.raises(ValueError, match=r"items_ins_v2_1000\.json\.gz, position 1 \(asin 'B02'\): "):
        load(tmp_path, [ITEM], attributes={"B01": {}, "B02": about})


WORKER: dict[str, JSON] = {"instruction": "a mug", "instruction_attributes": ["red"], "instruction_options": []}


@pytest.mark.parametrize(
    "instructions",
    [
        None,
        WORKER,
        [None],
        ["a mug"],
        [{}],
        [WORKER | {"instruction": None}],
        [WORKER | {"instruction_attributes": None}],
        [WORKER | {"instruction_attributes": "red"}],
        [WORKER | {"instruction_options": [1]}],
        [WORKER | {"instruction_options": {"a": 1}}],
    ],
)
def test_instructions_of_another_type_are_refused_with_their_place(tmp_path: Path, instructions: JSON) -> None:
    with pytest.raises(ValueError, match=r"items_human_ins\.json, position 1 \(asin 'B01'\): "):
        load(tmp_path, [ITEM], human={"B02": [WORKER], "B01": instructions})


def test_nouns_of_another_type_are_refused_with_their_place(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nouns\.json, position 0 \(asin 'B01'\): "):
        load(tmp_path, [ITEM], nouns={"B01": "mug"})


@pytest.mark.parametrize("value", ["[" * 100_000, "[" * 5_000 + "]" * 5_000, '{"a":' * 100_000, "9" * 5_000])
def test_what_nests_too_deeply_or_is_too_long_a_number_is_refused(tmp_path: Path, value: str) -> None:
    (tmp_path / "a.json").write_text(f'[{{"asin": {value}}}]')
    with pytest.raises(ValueError, match=r"a\.json, character 1: expected a JSON value"):
        list(stream_array(tmp_path / "a.json"))


@pytest.mark.parametrize("text", ["[] x", "[1]]", "[1] [2]", "[1],"])
def test_what_follows_an_array_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match=r"a\.json, character \d+: expected the end of the file"):
        list(stream_array(tmp_path / "a.json"))


@pytest.mark.parametrize("text", ["{} x", '{"a": 1}}', '{"a": 1} {"b": 2}'])
def test_what_follows_an_object_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match=r"a\.json, character \d+: expected the end of the file"):
        list(stream_members(tmp_path / "a.json"))


def test_a_damaged_gzip_file_is_refused(tmp_path: Path) -> None:
    content = bytearray(gzip.compress(json.dumps(list(range(100_000))).encode()))
    content[len(content) // 2 : len(content) // 2 + 200] = b"\xff" * 200
    (tmp_path / "a.json.gz").write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.json\.gz"):
        list(stream_array(tmp_path / "a.json.gz"))


def test_options_are_lower_cased_and_slashes_spread() -> None:
    sizes, colours = (OptionValue(" S/M "), OptionValue("L")), (OptionValue("Red", "r.jpg"),)
    assert parse_options({"Size": sizes, "Color": colours, "Style": None}) == (
        {"size": ("s | m", "l"), "color": ("red",)},
        {"red": "r.jpg"},
    )
    assert parse_options("") == parse_options(None) == ({}, {})


def test_absent_files_say_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"(?s)items_ins_v2\.json.*setup\.sh.*gdown"):
        find_official(tmp_path)


def test_the_full_set_comes_before_the_small_one(tmp_path: Path) -> None:
    for name in ("items_shuffle", "items_shuffle_1000", "items_ins_v2", "items_ins_v2_1000", "items_human_ins"):
        (tmp_path / f"{name}.json").touch()
    files = find_official(tmp_path)
    assert (files.products.name, files.attributes.name) == ("items_shuffle.json", "items_ins_v2.json")
    assert files.human == tmp_path / "items_human_ins.json"
    (tmp_path / "items_shuffle.json").unlink()
    assert find_official(tmp_path).products.name == "items_shuffle_1000.json"


def test_nouns_of_a_title_are_its_words_but_function_words_numbers_and_single_letters() -> None:
    assert title_nouns("The 2 Mugs of Ann's: 12oz & 24 oz MUGS_XL") == ("mugs", "ann", "12oz", "oz", "mugs_xl")


@pytest.mark.parametrize("chunk_chars", [1, 2, 7, 1000])
def test_streams_do_not_depend_on_the_chunk(tmp_path: Path, chunk_chars: int) -> None:
    values = [{"a": ']\\"}, é'}, [1, [2]], 12345, -1.5e3, True, None, "x", {}]
    path = tmp_path / "a.json"
    path.write_text("\ufeff\n" + json.dumps(values, indent=1) + "\n", encoding="utf-8")
    assert list(stream_array(path, chunk_chars=chunk_chars)) == values
    members = {str(position): value for position, value in enumerate(values)}
    path.write_text(json.dumps(members, ensure_ascii=False), encoding="utf-8")
    assert dict(stream_members(path, chunk_chars=chunk_chars)) == members


@pytest.mark.parametrize(("text", "values"), [("[]", []), (" [ ] ", []), ("[1]", [1])])
def test_short_arrays(tmp_path: Path, text: str, values: list[int]) -> None:
    (tmp_path / "a.json").write_text(text)
    assert list(stream_array(tmp_path / "a.json")) == values


@pytest.mark.parametrize("text", ["", "{}", "[", "[1", "[1,", '[{"a": 1', '["a', "[1 2]", "[1,]", "[nul, 1]"])
def test_a_cut_or_malformed_array_is_refused_with_its_place(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match=r"a\.json, character \d+: expected"):
        list(stream_array(tmp_path / "a.json"))


@pytest.mark.parametrize("text", ["[]", "{", '{"a"', '{"a": 1', '{"a" 1}', "{1: 2}"])
def test_a_cut_or_malformed_object_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match=r"a\.json, character \d+: expected"):
        list(stream_members(tmp_path / "a.json"))


def test_a_cut_gzip_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(json.dumps(list(range(100_000))).encode())[:-2000])
    with pytest.raises(ValueError, match=r"a\.json\.gz"):
        list(stream_array(path))


def test_reading_holds_neither_file(tmp_path: Path) -> None:
    n_items = 3000
    items = [ITEM | {"asin": f"B{number}", "full_description": "word " * 800} for number in range(n_items)]
    about = {f"B{number}": {"attributes": ["word " * 400]} for number in range(n_items)}
    files = write(tmp_path, items, about)
    del items, about
    assert files.products.stat().st_size > 12_000_000
    tracemalloc.start()
    try:
        n_read = sum(1 for _ in read_listings(files, random.Random(0)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert n_read == n_items
    assert peak < 8_000_000
