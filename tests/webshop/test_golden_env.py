"""Whole episodes recorded from the original, step by step: text, available actions, reward, end. Searches are our own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from envhub.core.types import JSON
from envhub.envs.webshop.build import build
from envhub.envs.webshop.catalogue import Catalogue
from envhub.envs.webshop.published import TextEpisode
from envhub.envs.webshop.shop import ObservationMode, Shop
from envhub.envs.webshop.store import open_store
from tests.webshop.published_data import Published, published

EPISODES: Mapping[ObservationMode, tuple[str, int, int]] = {
    "text": ("episodes_text", 26, 318),
    "text_rich": ("episodes_text_rich", 4, 66),
}


@pytest.fixture(scope="module")
def data() -> Published:
    return published()


@pytest.fixture(scope="module", params=["recorded results", "stored catalogue"])
def catalogue(
    request: pytest.FixtureRequest, data: Published, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Catalogue]:
    if request.param == "recorded results":
        yield data.catalogue(data.recorded_results())
        return
    folder = tmp_path_factory.mktemp("webshop") / "published"
    goals = {"all": data.synthetic}
    meta = {"name": "published", "seed": 0}
    with open_store(build(data.products.values(), goals, folder, meta=meta)) as store:
        yield store


@pytest.mark.parametrize("mode", EPISODES)
def test_recorded_episodes_are_exact(mode: ObservationMode, catalogue: Catalogue, data: Published) -> None:
    key, n_episodes, n_steps = EPISODES[mode]
    episodes = data.golden[key]
    assert (len(episodes), sum(len(episode["steps"]) for episode in episodes)) == (n_episodes, n_steps)
    shop = Shop(catalogue)
    wrong = [difference for episode in episodes for difference in _differences(shop, episode, mode, data)]
    assert wrong == []


def _differences(
    shop: Shop, recorded: Mapping[str, JSON], mode: ObservationMode, data: Published
) -> Iterator[tuple[JSON, ...]]:
    episode = TextEpisode(shop, data.synthetic[recorded["goal_idx"]], mode=mode)
    first, *steps = recorded["steps"]
    if (episode.page, episode.available_actions) != (first["obs"], first["avail"]):
        yield recorded["goal_idx"], "reset", episode.page
    for number, step in enumerate(steps):
        got = episode.step(step["action"])
        expected = (step["obs"], step["reward"], step["done"], step["avail"])
        if (got.observation, got.reward, got.done, episode.available_actions) != expected:
            yield recorded["goal_idx"], number, step["action"], got
    yield from _differences_at_the_end(episode, recorded)


def _differences_at_the_end(episode: TextEpisode, recorded: Mapping[str, JSON]) -> Iterator[tuple[JSON, ...]]:
    state, final = episode.state, recorded["final"]
    asin = state.product.asin if state.product else None
    got = (list(state.keywords), state.number, asin, dict(state.options))
    if got != (final["keywords"] or [], final["page"] or 0, final["asin"], final["options"]):
        yield recorded["goal_idx"], "final", got
    if final["done"]:
        score = state.score
        if score is None or (score.total, score.info()) != (final["reward"], final["verbose_info"]):
            yield recorded["goal_idx"], "score", score
