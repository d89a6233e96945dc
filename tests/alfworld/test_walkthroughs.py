"""Every official game there is can be won by its own walkthrough, natively.

pytest -m slow tests/alfworld/test_walkthroughs.py
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator

import pytest

from envhub.envs.alfworld.game import decode, encode
from envhub.envs.alfworld.pddl import GameFile, parse_game
from envhub.envs.alfworld.play import Play
from envhub.envs.alfworld.world import build
from tests.alfworld.real import shared

N_ARCHIVED = 3693


def official_files() -> Iterator[tuple[str, str]]:
    """Names and contents: the archive, and the games that lie beside it."""
    folder = shared() / "data" / "alfworld"
    with tarfile.open(folder / "official_2.1.2_train_seen.tar.xz") as archive:
        for member in archive:
            if member.name.endswith("game.tw-pddl") and (content := archive.extractfile(member)):
                yield member.name, content.read().decode()
    for path in sorted(folder.glob("json_2.1.1/valid_unseen/*/*/game.tw-pddl")):
        yield str(path), path.read_text()


@pytest.mark.slow
def test_every_official_walkthrough_wins() -> None:
    n_games = 0
    for name, content in official_files():
        game = parse_game(GameFile.of(content), name="/".join(name.split("/")[-3:-1]))
        assert decode(json.loads(json.dumps(encode(game)))) == game, name
        play = Play(build(game))
        assert not play.won, name
        for command in game.walkthrough:
            assert not play.won and play.step(command), f"{name}: {command}"
        assert play.won, name
        n_games += 1
    assert n_games > N_ARCHIVED
