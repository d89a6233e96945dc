"""Settings: where they come from, which one wins, and how a wrong one is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envhub.config import ConfigError, Settings, load

NAMES = ("calculator", "db")


def read(environ: dict[str, str] | None = None, file: Path | None = None) -> Settings:
    return load(environ or {}, environment_names=NAMES, file=file)


def toml(folder: Path, text: str) -> Path:
    file = folder / "envhub.toml"
    file.write_text(text)
    return file


def test_without_anything_the_defaults_hold() -> None:
    assert read() == Settings()
    assert read().host == "127.0.0.1"


def test_other_variables_are_none_of_ours() -> None:
    others = {"PATH": "/bin", "ENVHUBX": "1", "ENVHUB_REQUIRE": "mysql", "ENVHUB_SHARED": "/x", "ENVHUB_MYSQL_URL": "x"}
    assert read(others) == Settings()


def test_a_variable_wins_over_the_file_and_the_file_over_the_default(tmp_path: Path) -> None:
    file = toml(tmp_path, 'port = 9000\ncapacity = 8\nenvironments = ["db"]\n[environment_settings.db]\nsize = 4\n')
    settings = read({"ENVHUB_PORT": "9001", "ENVHUB_DB_URL": "mysql://x"}, file)
    assert (settings.port, settings.capacity, settings.environments) == (9001, 8, ("db",))
    assert settings.environment_settings == {"db": {"size": 4, "url": "mysql://x"}}


def test_the_file_may_be_named_by_a_variable_and_an_argument_wins(tmp_path: Path) -> None:
    file = toml(tmp_path, "port = 9000\n")
    other = tmp_path / "other.toml"
    other.write_text("port = 9002\n")
    assert read({"ENVHUB_CONFIG": str(file)}).port == 9000
    assert read({"ENVHUB_CONFIG": str(file)}, other).port == 9002


def test_a_key_can_come_from_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "key"
    secret.write_text("s3cret\n")
    settings = read({"ENVHUB_CLIENT_KEY_FILE": str(secret), "ENVHUB_DB_URL_FILE": str(secret)})
    assert settings.client_key == "s3cret"
    assert settings.environment_settings == {"db": {"url": "s3cret"}}


@pytest.mark.parametrize("key", ["s3cret\r\n", " s3cret ", "s3cret\r"])
def test_what_an_editor_or_a_shell_leaves_around_a_key_is_not_part_of_it(tmp_path: Path, key: str) -> None:
    secret = tmp_path / "key"
    secret.write_bytes(key.encode())
    assert read({"ENVHUB_WORKER_KEY_FILE": str(secret)}).worker_key == "s3cret"
    assert read({"ENVHUB_WORKER_KEY": key}).worker_key == "s3cret"


@pytest.mark.parametrize("key", ["", " ", "two\nlines", "two words", "schl\u00fcssel", "a\x00b"])
def test_a_key_that_no_header_can_carry_is_refused_by_name(tmp_path: Path, key: str) -> None:
    secret = tmp_path / "key"
    secret.write_text(key)
    with pytest.raises(ConfigError, match="ENVHUB_CLIENT_KEY"):
        read({"ENVHUB_CLIENT_KEY_FILE": str(secret)})
    with pytest.raises(ConfigError, match="ENVHUB_WORKER_KEY"):
        read({"ENVHUB_WORKER_KEY": key})


def test_the_password_of_the_database_can_come_from_a_file_as_keys_do(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("s3cret\n")
    settings = read({"ENVHUB_DB_URL": "mysql://root@db", "ENVHUB_DB_PASSWORD_FILE": str(secret)})
    assert settings.environment_settings == {"db": {"url": "mysql://root@db", "password": "s3cret"}}
    with pytest.raises(ConfigError, match="ENVHUB_DB_PASSWORD_FILE: cannot read /nowhere"):
        read({"ENVHUB_DB_PASSWORD_FILE": "/nowhere"})


def test_numbers_and_lists_are_read_from_text() -> None:
    settings = read(
        {"ENVHUB_MAX_STEP_S": "2.5", "ENVHUB_CONTROLLERS": "http://a:1, http://b:2,", "ENVHUB_ENVIRONMENTS": "db"}
    )
    assert settings.max_step_s == 2.5
    assert settings.controllers == ("http://a:1", "http://b:2") and settings.environments == ("db",)


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"ENVHUB_PORT": "many"}, "$.port"),
        ({"ENVHUB_PORT": "70000"}, "$.port"),
        ({"ENVHUB_CAPACITY": "0"}, "$.capacity"),
        ({"ENVHUB_LOG_FORMAT": "xml"}, "$.log_format"),
        ({"ENVHUB_WORKER_ID": "Worker 1"}, "$.worker_id"),
        ({"ENVHUB_DRAIN_S": "-1"}, "$.drain_s"),
        ({"ENVHUB_PROT": "9000"}, "ENVHUB_PROT"),
        ({"ENVHUB_CHESS_URL": "x"}, "ENVHUB_CHESS_URL"),
        ({"ENVHUB_ENVIRONMENT_SETTINGS": "{}", "ENVHUB_DB_URL": "x"}, "ENVHUB_ENVIRONMENT_SETTINGS"),
        ({"ENVHUB_CLIENT_KEY_FILE": "/nowhere/key"}, "ENVHUB_CLIENT_KEY_FILE"),
        ({"ENVHUB_CONFIG": "/nowhere/envhub.toml"}, "/nowhere/envhub.toml"),
    ],
)
def test_a_wrong_variable_is_refused_by_its_name(environ: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(environ)
    assert named in str(caught.value)


def test_an_unknown_variable_is_told_the_valid_ones() -> None:
    with pytest.raises(ConfigError, match="ENVHUB_HOST, ENVHUB_PORT"):
        read({"ENVHUB_PROT": "9000"})


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("prot = 1\n", "prot"),
        ('port = "many"\n', "$.port"),
        ("port = 1.5\n", "$.port"),
        ("port =\n", "envhub.toml"),
        ('environments = "db"\n', "$.environments"),
        ("environment_settings = 3\n", "$.environment_settings"),
    ],
)
def test_a_wrong_file_is_refused_by_the_name_of_its_key(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(file=toml(tmp_path, text))
    assert named in str(caught.value)


@pytest.mark.parametrize("value", [b"\xff\xfe", b""])
def test_a_file_that_is_no_text_is_refused_or_empty(tmp_path: Path, value: bytes) -> None:
    file = tmp_path / "envhub.toml"
    file.write_bytes(value)
    if value:
        with pytest.raises(ConfigError, match=r"cannot read settings from .*envhub\.toml"):
            read(file=file)
    else:
        assert read(file=file) == Settings()


@pytest.mark.parametrize("text", ["environment_settings = 3\n", "[environment_settings]\ndb = 3\n"])
def test_a_variable_over_a_broken_table_is_refused_too(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError):
        read({"ENVHUB_DB_URL": "x"}, toml(tmp_path, text))


def test_settings_cannot_be_changed() -> None:
    settings: Any = Settings()
    with pytest.raises(AttributeError):
        settings.port = 1
