"""The tree of errors and its wire form."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from envhub import wire
from envhub.core import errors
from envhub.core.errors import (
    EnvhubError,
    EpisodeError,
    EpisodeFailedError,
    InternalError,
    InvalidRequestError,
    NoCapacityError,
    RequestError,
    ToolError,
    UnavailableError,
    from_code,
)


def _all(root: type[EnvhubError]) -> Iterator[type[EnvhubError]]:
    for child in root.__subclasses__():
        yield child
        yield from _all(child)


CLASSES = sorted(
    (each for each in _all(EnvhubError) if each.__module__ == errors.__name__), key=lambda each: each.__name__
)
LEAVES = [each for each in CLASSES if not each.__subclasses__()]


@pytest.mark.parametrize("cls", LEAVES, ids=lambda cls: cls.__name__)
def test_a_leaf_has_its_own_line_with_status_and_code_in_the_docstring(cls: type[EnvhubError]) -> None:
    assert errors.__doc__ is not None
    line = next(line for line in errors.__doc__.splitlines() if re.search(rf"\b{cls.__name__}\b", line))
    assert re.search(rf"\b{cls.__name__}\s+{cls.status} {cls.code}\b", line), line


@pytest.mark.parametrize("cls", [EnvhubError, *CLASSES, ToolError], ids=lambda cls: cls.__name__)
def test_every_class_is_drawn_in_the_docstring(cls: type[Exception]) -> None:
    assert errors.__doc__ is not None and re.search(rf"\b{cls.__name__}\b", errors.__doc__)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_class_has_a_code_and_a_status_of_its_kind(cls: type[EnvhubError]) -> None:
    assert re.fullmatch(r"[a-z_]+", cls.code)
    if issubclass(cls, RequestError):
        assert 400 <= cls.status < 500
    elif issubclass(cls, UnavailableError):
        assert cls.status == 503
    elif issubclass(cls, EpisodeError):
        assert cls.status in (410, 502, 504)
    else:
        assert cls is InternalError and cls.status == 500


def test_codes_of_leaves_are_distinct() -> None:
    codes = [cls.code for cls in LEAVES]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("cls", LEAVES, ids=lambda cls: cls.__name__)
def test_the_client_raises_the_class_that_the_hub_raised(cls: type[EnvhubError]) -> None:
    raised = cls("it broke", current_turn=3)
    rebuilt = wire.error_from_body(cls.status, wire.error_body(raised))
    assert type(rebuilt) is cls
    assert (rebuilt.message, dict(rebuilt.details)) == (raised.message, dict(raised.details))


@pytest.mark.parametrize(
    ("base", "rebuilt"),
    [
        (RequestError, InvalidRequestError),
        (EpisodeError, EpisodeFailedError),
        (UnavailableError, UnavailableError),
        (EnvhubError, InternalError),
    ],
)
def test_the_code_of_a_base_class_is_rebuilt_as_a_class_of_that_kind(
    base: type[EnvhubError], rebuilt: type[EnvhubError]
) -> None:
    assert type(from_code(base.code, "text", {})) is rebuilt


def test_an_unknown_code_keeps_its_text() -> None:
    error = from_code("from_the_future", "what it said", {"key": 1})
    assert type(error) is InternalError
    assert error.message == "from_the_future: what it said" and error.details == {"key": 1}


def test_unavailable_always_says_when_to_try_again() -> None:
    assert UnavailableError("x").details["retry_after_s"] == 1.0
    assert NoCapacityError("x", retry_after_s=2.5, queue=3).details == {"retry_after_s": 2.5, "queue": 3}
    assert from_code("no_capacity", "x", {"retry_after_s": 7.0}).details["retry_after_s"] == 7.0


def test_a_tool_error_is_no_error_of_the_hub() -> None:
    assert not issubclass(ToolError, EnvhubError)


@pytest.mark.parametrize(
    ("status", "expected"),
    [(502, UnavailableError), (503, UnavailableError), (504, UnavailableError), (429, UnavailableError)],
)
@pytest.mark.parametrize("body", [b"", b"<html>Bad Gateway</html>", b"\xff\xfe", b"[]", b'{"error": "text"}', b"null"])
def test_a_proxys_page_is_an_error_by_its_status(status: int, expected: type[EnvhubError], body: bytes) -> None:
    error = wire.error_from_body(status, body, retry_after_s=4.0)
    assert type(error) is expected and error.details["retry_after_s"] == 4.0
    assert str(status) in error.message


@pytest.mark.parametrize(
    ("status", "expected"), [(400, InvalidRequestError), (404, InvalidRequestError), (500, InternalError)]
)
def test_other_foreign_answers_are_not_retried(status: int, expected: type[EnvhubError]) -> None:
    assert type(wire.error_from_body(status, b"nothing of ours")) is expected


@pytest.mark.parametrize("record", ['{"code": 5, "message": "x"}', '{"code": "internal"}', '{"message": "x"}', "7"])
def test_a_broken_envelope_never_raises_anything_else(record: str) -> None:
    error = wire.error_from_body(500, f'{{"error": {record}}}'.encode())
    assert isinstance(error, EnvhubError)


def test_an_envelope_with_odd_details_never_raises_anything_else() -> None:
    for details in ('"text"', "[1]", '{"message": "twice"}', '{"self": 1}'):
        body = f'{{"error": {{"code": "no_capacity", "message": "x", "details": {details}}}}}'.encode()
        assert isinstance(wire.error_from_body(503, body), EnvhubError)
