"""How often the engine differs from what the original code and Lucene were recorded to do with the published 1,000 products."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from envhub.core.types import JSON
from envhub.envs.webshop.analyser import terms
from envhub.envs.webshop.build import build
from envhub.envs.webshop.fuzzy import token_set_ratio
from envhub.envs.webshop.published import TextEpisode
from envhub.envs.webshop.reward import judge
from envhub.envs.webshop.shop import ObservationMode, Shop
from envhub.envs.webshop.store import Store
from tests.webshop.published_data import FOLDER, Published, as_goal, published, read


def there() -> bool:
    return (FOLDER / "golden_env.json.gz").is_file()


def build_published(out: Path) -> Path:
    data = published()
    return build(data.products.values(), {"all": data.synthetic}, out, meta={"name": "published"})


def mismatches(store: Store) -> dict[str, tuple[int, int]]:
    """What was compared -> how many of how many differ."""
    data = published()
    compared = {
        "terms": list(_terms()),
        "searches": list(_searches(store)),
        "fuzzy_ratios": [token_set_ratio(a, b) == ratio for a, b, ratio in read("golden_token_set_ratio.json.gz")],
        "prices": [data.products[asin].price == price for asin, price in data.golden["product_prices"].items()],
        "goals": [
            goal == as_goal(recorded)
            for goal, recorded in zip(store.goals("all"), data.golden["synthetic_goals"], strict=True)
        ],
        "rewards": list(_rewards(data)),
        "steps": [equal for mode in ("text", "text_rich") for equal in _steps(store, data, mode)],
    }
    return {what: (equal.count(False), len(equal)) for what, equal in compared.items()}


def _terms() -> Iterator[bool]:
    for text, recorded in read("golden_analyzer.json.gz"):
        yield terms(text) == recorded


def _searches(store: Store) -> Iterator[bool]:
    for recorded in read("golden_search_lucene.json.gz")["results"]:
        found = store.heads(store.search(recorded["query"].split(" ")))
        yield [head.asin for head in found] == [asin for asin, _ in recorded["hits"]]


def _rewards(data: Published) -> Iterator[bool]:
    for kind in ("synthetic", "human"):
        goals = [as_goal(goal) for goal in data.golden[f"{kind}_goals"]]
        for index, asin, options, reward, info in data.golden[f"rewards_{kind}"]:
            score = judge(data.products[asin], options, goals[index], data.products[goals[index].asin])
            yield score.total == reward and score.info() == info


def _steps(store: Store, data: Published, mode: ObservationMode) -> Iterator[bool]:
    shop = Shop(store)
    for recorded in data.golden["episodes_text" if mode == "text" else "episodes_text_rich"]:
        episode = TextEpisode(shop, data.synthetic[recorded["goal_idx"]], mode=mode)
        first, *steps = recorded["steps"]
        yield (episode.page, episode.available_actions) == (first["obs"], first["avail"])
        for step in steps:
            yield _plays(episode, step)


def _plays(episode: TextEpisode, recorded: Mapping[str, JSON]) -> bool:
    got = episode.step(recorded["action"])
    expected = tuple(recorded[key] for key in ("obs", "reward", "done", "avail"))
    return (got.observation, got.reward, got.done, episode.available_actions) == expected
