"""Unpacks an archive of official games (zip or tar).

Invariant: the folder of games appears whole or not at all; an unpacking that was interrupted leaves nothing that could be taken
for it, and the next one starts afresh.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import lzma
import os
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from envhub.envs.alfworld.official import FOLDER, GAME_FILE
from envhub.envs.alfworld.tasks import SPLITS

log = logging.getLogger(__name__)

_DRAFT = f".{FOLDER}.unpacking"
_REPORT_EVERY = 500
_DAMAGE = (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError)


def unpack(archive: Path, root: Path, *, sha256: str | None = None) -> int:
    """Put the games of the archive below ``root``; the number of games.

    Raises FileNotFoundError; FileExistsError when there are games already; ValueError when the archive has another sha256, is
    damaged or holds no games.
    """
    if not archive.is_file():
        raise FileNotFoundError(f"no archive {archive}")
    if (root / FOLDER).exists():
        raise FileExistsError(f"{root / FOLDER} is there already; remove it to unpack {archive.name} again")
    if sha256 is not None:
        _check(archive, sha256)
    draft = root / _DRAFT
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        n_games = _fill(draft, archive)
        os.replace(draft / FOLDER, root / FOLDER)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    log.info("alfworld: %d games unpacked to %s", n_games, root / FOLDER)
    return n_games


def _check(archive: Path, sha256: str) -> None:
    with archive.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != sha256.lower():
        raise ValueError(f"{archive} has sha256 {found}, not {sha256}: remove it and download it again")


def _fill(draft: Path, archive: Path) -> int:
    n_games = 0
    for path, content in _games(archive):
        target = draft / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        n_games += 1
        if n_games % _REPORT_EVERY == 0:
            log.info("alfworld: %d games unpacked", n_games)
    if not n_games:
        raise ValueError(f"{archive} holds no {FOLDER}/SPLIT/TASK/TRIAL/{GAME_FILE}")
    return n_games


def _games(archive: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    """The game files of the archive with their paths from FOLDER on; nothing else of it is read."""
    try:
        yield from _zipped(archive) if zipfile.is_zipfile(archive) else _tarred(archive)
    except _DAMAGE as error:
        raise ValueError(f"{archive} is damaged or cut short ({error}): remove it and download it again") from error


def _zipped(archive: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    with zipfile.ZipFile(archive) as opened:
        for name in opened.namelist():
            if path := _game_path(name):
                yield path, opened.read(name)


def _tarred(archive: Path) -> Iterator[tuple[PurePosixPath, bytes]]:
    with tarfile.open(archive) as opened:
        for member in opened:
            path = _game_path(member.name)
            stream = opened.extractfile(member) if path and member.isfile() else None
            if path and stream is not None:
                yield path, stream.read()


def _game_path(name: str) -> PurePosixPath | None:
    parts = PurePosixPath(name).parts[-5:]
    if len(parts) == 5 and parts[0] == FOLDER and parts[1] in SPLITS and parts[4] == GAME_FILE and ".." not in parts:
        return PurePosixPath(*parts)
    return None
