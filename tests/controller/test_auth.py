"""Keys: who may call, and where a hub without keys may listen."""

from __future__ import annotations

import hmac

import pytest

from envhub.controller import auth
from envhub.controller.auth import Keys, check_exposure, is_loopback
from envhub.core.errors import AuthenticationError

KEYS = Keys("client-key", "worker-key")


def bearer(text: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"host", b"hub"), (b"authorization", text)]


@pytest.mark.parametrize("value", [b"Bearer client-key", b"bearer client-key", b"BEARER  client-key "])
def test_the_right_key_is_accepted(value: bytes) -> None:
    KEYS.check_client(bearer(value))


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"client-key",
        b"Bearer",
        b"Bearer ",
        b"Bearer client-ke",
        b"Bearer client-key2",
        b"Basic client-key",
        b"Bearer worker-key",
        b"Bearer \xff\xfe",
        b"Bearer CLIENT-KEY",
    ],
)
def test_any_other_key_is_refused(value: bytes) -> None:
    with pytest.raises(AuthenticationError, match="a client key is needed"):
        KEYS.check_client(bearer(value))


def test_no_header_is_refused() -> None:
    with pytest.raises(AuthenticationError, match="none was sent: set ENVHUB_WORKER_KEY"):
        KEYS.check_worker([])


def test_a_wrong_key_is_told_from_none() -> None:
    with pytest.raises(AuthenticationError, match="the key that was sent is not the hub's: set ENVHUB_CLIENT_KEY"):
        KEYS.check_client(bearer(b"Bearer other"))


def test_the_keys_of_clients_and_workers_are_not_interchangeable() -> None:
    KEYS.check_worker(bearer(b"Bearer worker-key"))
    with pytest.raises(AuthenticationError):
        KEYS.check_worker(bearer(b"Bearer client-key"))


def test_without_keys_everyone_is_let_in() -> None:
    Keys().check_client([])
    Keys().check_worker(bearer(b"Bearer anything"))


def test_a_key_that_is_not_ascii_works() -> None:
    Keys("schlüssel").check_client(bearer("Bearer schlüssel".encode()))


def test_keys_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return hmac.compare_digest(one, other)

    class Hmac:
        compare_digest = staticmethod(compare)

    monkeypatch.setattr(auth, "hmac", Hmac)
    KEYS.check_client(bearer(b"Bearer client-key"))
    with pytest.raises(AuthenticationError):
        KEYS.check_client(bearer(b"Bearer other"))
    assert compared == [(b"client-key", b"client-key"), (b"other", b"client-key")]


def test_the_refusal_does_not_tell_the_key() -> None:
    with pytest.raises(AuthenticationError) as caught:
        KEYS.check_client(bearer(b"Bearer guess"))
    assert "client-key" not in str(caught.value) and "guess" not in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_loopback_needs_no_keys(host: str) -> None:
    assert is_loopback(host)
    check_exposure(host, Keys())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "hub.example", "", "127.0.0.1.example"])
@pytest.mark.parametrize(
    ("keys", "missing"),
    [
        (Keys(), "ENVHUB_CLIENT_KEY and ENVHUB_WORKER_KEY"),
        (Keys(client="a"), "set ENVHUB_WORKER_KEY"),
        (Keys(worker="a"), "set ENVHUB_CLIENT_KEY"),
        (Keys("", ""), "ENVHUB_CLIENT_KEY and ENVHUB_WORKER_KEY"),
    ],
)
def test_a_hub_that_others_can_reach_needs_both_keys(host: str, keys: Keys, missing: str) -> None:
    with pytest.raises(ValueError, match=missing):
        check_exposure(host, keys)
    check_exposure(host, KEYS)
