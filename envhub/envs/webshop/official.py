"""The official WebShop files: which they are, how to get them, and what the original makes of them.

Invariant: products come in file order, one at a time, and no file is held in memory (attributes wait in a temporary database
on disk); with ``random.Random(0)`` and the published 1,000 products, every price and every goal equals the original's.
"""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from envhub.core.types import JSON
from envhub.envs.webshop.catalogue import Product
from envhub.envs.webshop.goals import HumanInstruction, Listing, purchase_price
from envhub.envs.webshop.json_stream import stream_array, stream_members
from envhub.envs.webshop.nouns import title_nouns

MAX_ASIN_CHARS = 10
HOW_TO_GET = """\
WebShop's official files are product texts scraped from a shop, so envhub cannot ship them. Get them once, from the links in setup.sh
of https://github.com/princeton-nlp/WebShop (`pip install gdown`, then in one folder):
  1,000 products: gdown 1EgHdxQ_YxqIQlvvq5iKlCrkEKR6-j0Ib   (items_shuffle_1000.json)
                  gdown 1IduG0xl544V_A_jv3tHXC0kyFi7PnyBu   (items_ins_v2_1000.json)
  all products:   gdown 1A2whVgOO0euk5O13n2iYDM0bQRkkRduB   (items_shuffle.json, about 5 GB)
                  gdown 1s2j6NgHljiZzQNL3veZaAiyW_qDEgBNi   (items_ins_v2.json)
  instructions:   gdown 14Kb5SPBk_jfdLZ_CDBNitW98QLDlKR5O   (items_human_ins.json)
They may be gzipped (.json.gz). Nothing else is needed; the built-in catalogues need none of this."""

_NO_ATTRIBUTES = ("DUMMY_ATTR",)
_NOT_PRICE = re.compile(r"[^\d.]")


@dataclass(frozen=True, slots=True)
class OfficialFiles:
    """``nouns`` is ``{asin: [noun, ...]}``, made with a tagger of one's choice; without it ``title_nouns`` stands in."""

    products: Path
    attributes: Path
    human: Path | None = None
    nouns: Path | None = None


@dataclass(frozen=True, slots=True)
class OptionValue:
    value: str
    image: str | None = None


_Options = (
    dict[str, tuple[OptionValue, ...] | None] | Annotated[tuple[Any, ...], msgspec.Meta(max_length=0)] | str | None
)


@dataclass(frozen=True, slots=True)
class _Named:
    asin: Annotated[str, msgspec.Meta(min_length=1)]


@dataclass(frozen=True, slots=True)
class _Item:
    """An element of the products' file, as far as it is looked at."""

    asin: str
    name: str
    full_description: str | None
    small_description: tuple[str, ...] | str
    query: str
    product_category: str
    pricing: str | None = None
    customization_options: _Options = None
    images: tuple[str, ...] | None = None
    category: str | None = None


@dataclass(frozen=True, slots=True)
class _About:
    """What the attributes' file says of a product."""

    attributes: tuple[str, ...] = _NO_ATTRIBUTES
    instruction: str | None = None
    instruction_attributes: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Instruction:
    instruction: str
    instruction_attributes: tuple[str, ...]
    instruction_options: tuple[str, ...]


_T = TypeVar("_T")


def find_official(folder: Path) -> OfficialFiles:
    """The files of a folder, the full set before the small one. Raises FileNotFoundError that says how to get them."""
    for size in ("", "_1000"):
        products, attributes = _file(folder, f"items_shuffle{size}"), _file(folder, f"items_ins_v2{size}")
        if products and attributes:
            human = _file(folder, "items_human_ins") or _file(folder, f"items_human_ins{size}")
            return OfficialFiles(products, attributes, human, _file(folder, "nouns*"))
    raise FileNotFoundError(
        f"{folder}: no items_shuffle.json with items_ins_v2.json, nor items_shuffle_1000.json with items_ins_v2_1000.json.\n"
        + HOW_TO_GET
    )


def _file(folder: Path, pattern: str) -> Path | None:
    return next((path for suffix in (".json", ".json.gz") for path in sorted(folder.glob(pattern + suffix))), None)


def read_listings(
    files: OfficialFiles, rng: random.Random, *, limit: int | None = None
) -> Generator[Listing, None, None]:
    """Products in file order with their instructions; ``limit`` cuts the file before anything is skipped.

    Each price range draws once from ``rng``. Draw goals from the same ``rng`` when the last product has come. Raises ValueError
    that names the file, the position and the asin of what is malformed.
    """
    human = _human_instructions(files.human) if files.human else {}
    with (
        closing(_AsinTable(files.attributes, _About)) as attributes,
        closing(_AsinTable(files.nouns, tuple[str, ...])) as nouns,
    ):
        seen: set[str] = set()
        for position, raw in enumerate(stream_array(files.products)):
            if limit is not None and position >= limit:
                return
            place = _Place(files.products, position, raw.get("asin") if isinstance(raw, dict) else None)
            asin = place.checked(raw, _Named).asin
            if asin == "nan" or len(asin) > MAX_ASIN_CHARS or asin in seen:
                continue
            seen.add(asin)
            about = attributes.get(asin) or _About()
            item = place.checked(raw, _Item)
            try:
                product = _product(item, about, nouns.get(asin), rng)
            except ValueError as error:
                raise place.malformed(error) from error
            yield Listing(
                product=product,
                template=about.instruction,
                template_attributes=about.instruction_attributes or (),
                human=human.get(asin, ()),
            )


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the official files something stands; positions count from 0."""

    path: Path
    position: int
    asin: JSON

    def checked(self, raw: JSON, kind: type[_T]) -> _T:
        """Raises ValueError. What passes can be stored: half a surrogate pair cannot."""
        try:
            found = msgspec.convert(raw, kind)
            msgspec.json.encode((self.asin, found))
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            raise self.malformed(error) from error
        return found

    def malformed(self, error: Exception) -> ValueError:
        return ValueError(f"{self.path}, position {self.position} (asin {str(self.asin)[:40]!r}): {error}")


def _product(item: _Item, about: _About, nouns: Sequence[str] | None, rng: random.Random) -> Product:
    """Raises ValueError."""
    bullets = item.small_description
    prices, price_tag = parse_pricing(item.pricing)
    options, option_images = parse_options(item.customization_options)
    return Product(
        asin=item.asin,
        title=item.name,
        price_tag=price_tag,
        price=purchase_price(prices, rng),
        description=item.full_description or "",
        bullets=(bullets,) if isinstance(bullets, str) else bullets,
        options=options,
        attributes=about.attributes,
        query=item.query.lower().strip(),
        categories=item.product_category,
        nouns=tuple(nouns) if nouns is not None else title_nouns(item.name),
        image=next(iter(item.images or ()), ""),
        option_images=option_images,
        category=item.category or "",
    )


def parse_pricing(pricing: str | None) -> tuple[tuple[float, ...], str]:
    """Numbers after dollar signs: none (shown as $100.0), one, or the first two as a range. Raises ValueError."""
    pieces = pricing.split("$")[1:] if pricing else []
    try:
        prices = tuple(float(Decimal(_NOT_PRICE.sub("", piece))) for piece in pieces[:2])
    except InvalidOperation as error:
        raise ValueError(f"not a price: {pricing!r}") from error
    if not all(map(isfinite, prices)):
        raise ValueError(f"not a price: {pricing!r}")
    if not prices:
        return (), "$100.0"
    return prices, " to ".join(f"${price}" for price in prices)


def parse_options(raw: _Options) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Values by group, both in lower case and in their order, and the image of a value where it has one."""
    options: dict[str, tuple[str, ...]] = {}
    images: dict[str, str] = {}
    for group, contents in raw.items() if isinstance(raw, dict) else ():
        if contents is None:
            continue
        values = tuple(content.value.strip().replace("/", " | ").lower() for content in contents)
        options[group.lower()] = values
        found = zip(values, contents, strict=True)
        images |= {value: content.image for value, content in found if content.image}
    return options, images


def _human_instructions(path: Path) -> dict[str, tuple[HumanInstruction, ...]]:
    """Raises ValueError."""
    found: dict[str, tuple[HumanInstruction, ...]] = {}
    for position, (asin, raw) in enumerate(stream_members(path)):
        instructions = _Place(path, position, asin).checked(raw, tuple[_Instruction, ...])
        found[asin] = tuple(
            HumanInstruction(each.instruction, each.instruction_attributes, each.instruction_options)
            for each in instructions
        )
    return found


class _AsinTable(Generic[_T]):
    """A large ``{asin: value}`` file as a database in a temporary file, which SQLite removes when it is closed."""

    def __init__(self, path: Path | None, kind: type[_T]) -> None:
        """Raises ValueError for a value of another kind; null counts as no entry."""
        self._decoder = msgspec.json.Decoder(kind)
        self._database = sqlite3.connect("")
        self._database.execute("CREATE TABLE entry (asin TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID")
        if path is not None:
            rows = (
                (asin, msgspec.json.encode(_Place(path, position, asin).checked(value, kind)))
                for position, (asin, value) in enumerate(stream_members(path))
                if value is not None
            )
            self._database.executemany("INSERT OR REPLACE INTO entry VALUES (?, ?)", rows)

    def get(self, asin: str) -> _T | None:
        """None when there is no entry."""
        row = self._database.execute("SELECT value FROM entry WHERE asin = ?", (asin,)).fetchone()
        return None if row is None else self._decoder.decode(row[0])

    def close(self) -> None:
        self._database.close()
