"""The WebShop environment: find and buy, in a shop of pages, the product that an instruction asks for.

Invariant: an episode is one immutable state of the shop and shares nothing that changes; an action is carried out or refused
with a reason, and only a purchase earns anything. Goals and price bounds are stored, so a task is the same in every worker.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypedDict, get_args

from envhub.core.errors import InvalidRequestError
from envhub.core.protocols import Script
from envhub.core.types import JSON, Defect, EnvironmentInfo, Message, Observation, TaskRef, ToolCall
from envhub.envs.toolkit import End, Outcome, ToolEpisode, tool
from envhub.envs.webshop import oracle, prompts, tasks
from envhub.envs.webshop.catalogue import Goal
from envhub.envs.webshop.exploits import EXPLOITS
from envhub.envs.webshop.pages import Page, State
from envhub.envs.webshop.reward import RewardMode
from envhub.envs.webshop.shop import Move, ObservationMode, Shop
from envhub.envs.webshop.tasks import Tasks, open_tasks

NAME = "webshop"
VERSION = "1"
MAX_TURNS = 20
MAX_CHARS = 4_000
"""Of keywords, and of a value to click."""

OPTIONS: Mapping[str, JSON] = {"reward_mode": "webshop", "observation": "text"}


@dataclass(frozen=True, slots=True)
class WebShopOptions:
    reward_mode: RewardMode
    observation: ObservationMode

    @staticmethod
    def of(options: Mapping[str, JSON]) -> WebShopOptions:
        """Raises InvalidRequestError."""
        for name, valid in (("reward_mode", get_args(RewardMode)), ("observation", get_args(ObservationMode))):
            if options[name] not in valid:
                raise InvalidRequestError(f"option {name!r} of webshop must be one of {', '.join(valid)}")
        return WebShopOptions(options["reward_mode"], options["observation"])


class _Available(TypedDict):
    can_search: bool
    clickables: tuple[str, ...]


class WebShopEpisode(ToolEpisode):
    def __init__(self, shop: Shop, state: State, *, observation: ObservationMode, catalogue: str) -> None:
        self._shop = shop
        self._state = state
        self._observation = observation
        self._catalogue = catalogue

    @property
    def state(self) -> State:
        """Where the episode stands."""
        return self._state

    async def reset(self) -> Observation:
        text = prompts.first_message(self._shop.observe(self._state, self._observation), **self._available())
        info = {"catalogue": self._catalogue, "n_products": self._shop.catalogue.n_products}
        return Observation((Message.system(prompts.SYSTEM), Message.user(text)), self.tools, info)

    async def fork(self) -> WebShopEpisode:
        """An independent episode that goes on from here; it needs no reset."""
        return WebShopEpisode(self._shop, self._state, observation=self._observation, catalogue=self._catalogue)

    @tool
    def search_action(self, keywords: Annotated[str, "What to search for."]) -> Outcome:
        """Search the shop for keywords; the best results come first."""
        if len(keywords) > MAX_CHARS:
            return self._too_long("search", "Keywords", keywords)
        return self._moved(f"search[{keywords}]", self._shop.search(self._state, keywords))

    @tool
    def click_action(self, value: Annotated[str, "One of the clickables of the page."]) -> Outcome:
        """Click a button, a product or an option that is listed in the available actions."""
        if len(value) > MAX_CHARS:
            return self._too_long("click", "A value", value)
        return self._moved(f"click[{value}]", self._shop.click(self._state, value))

    async def close(self) -> None:
        pass

    def _too_long(self, action: str, what: str, said: str) -> Outcome:
        reason = f"{what} may have at most {MAX_CHARS} characters; these are {len(said)}."
        return prompts.refused(f"{action}[{said[:80]}...]", reason, **self._available())

    def _moved(self, action: str, move: Move) -> Outcome:
        if not move.valid:
            return prompts.refused(action, move.problem, **self._available())
        self._state = move.state
        if move.bought:
            text = prompts.bought(action, move.state.item.asin, move.reward)
            return End(move.reward, text, info=self._verdict())
        return prompts.page(action, self._shop.observe(self._state, self._observation), **self._available())

    def _available(self) -> _Available:
        return {
            "can_search": self._state.page is Page.SEARCH,
            "clickables": self._shop.clickables(self._state),
        }

    def _verdict(self) -> Mapping[str, JSON]:
        score = self._state.score
        assert score is not None, "a purchase is judged"
        return {
            "score": score.total,
            "success": score.total == 1.0,
            "r_type": score.r_type,
            "r_att": score.r_att,
            "r_option": score.r_option,
            "r_price": score.r_price,
            "asin": self._state.item.asin,
            "options": dict(self._state.options),
            "catalogue": self._catalogue,
            "n_products": self._shop.catalogue.n_products,
        }


class WebShopEnvironment:
    """``tasks`` are closed with the environment."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._shops: dict[RewardMode, Shop] = {
            mode: Shop(tasks.catalogue, reward_mode=mode) for mode in get_args(RewardMode)
        }

    def info(self) -> EnvironmentInfo:
        found = self._tasks
        return EnvironmentInfo(
            name=NAME,
            version=f"{VERSION}-{found.name}-{found.catalogue.n_products}",
            description="Shopping by instruction: search, choose and buy the right product with the right options.",
            splits={split: len(goals) for split, goals in found.splits.items()},
            dataset_hash=found.dataset_hash,
            options=OPTIONS,
            max_turns=MAX_TURNS,
            default_split=found.default_split,
        )

    def goal(self, task: TaskRef) -> Goal:
        """``task`` must be one of the environment's."""
        return self._tasks.splits[task.split][task.index]

    async def open(self, task: TaskRef, *, seed: int, options: Mapping[str, JSON]) -> WebShopEpisode:
        checked = WebShopOptions.of(options)
        shop = self._shops[checked.reward_mode]
        state = shop.enter(self.goal(task))
        return WebShopEpisode(shop, state, observation=checked.observation, catalogue=self._tasks.name)

    def solution(self, task: TaskRef) -> Sequence[Message] | None:
        plan = oracle.plan(self._shops["webshop"], self.goal(task))
        if plan is None or plan.reward < 1.0 or len(plan.actions) > MAX_TURNS:
            return None
        return [_message(turn, action) for turn, action in enumerate(plan.actions)]

    def lint(self, split: str) -> Iterable[Defect]:
        for index, problem in tasks.unreachable(self._tasks, split):
            yield Defect(TaskRef(NAME, split, index), problem)

    def exploits(self) -> Mapping[str, Callable[[Observation], Script]]:
        return EXPLOITS

    async def close(self) -> None:
        self._tasks.close()


def _message(turn: int, action: oracle.Action) -> Message:
    argument = {"search": "keywords", "click": "value"}[action.name]
    arguments = json.dumps({argument: action.value}, ensure_ascii=False)
    return Message.assistant(None, ToolCall(f"call_{turn}", f"{action.name}_action", arguments))


_SETTINGS = ("catalogue", "cache", "compiled")


def create(settings: Mapping[str, JSON]) -> WebShopEnvironment:
    """Composition root of the environment.

    Settings: ``catalogue`` (tiny, small, medium, large, or the folder of a converted one), ``cache`` (folder for named
    catalogues, by default below $XDG_CACHE_HOME) and ``compiled`` (search with numba, of the extra ``fast``). A named catalogue is
    made when it is first asked for. Raises InvalidRequestError, MissingExtraError.
    """
    for key in settings:
        if key not in _SETTINGS:
            raise InvalidRequestError(f"environment webshop has no setting {key!r}; valid: {', '.join(_SETTINGS)}")
    compiled = str(settings.get("compiled", False)).lower()
    if compiled not in ("true", "false"):
        raise InvalidRequestError("setting 'compiled' of webshop must be true or false")
    cache = Path(_text(settings, "cache")) if "cache" in settings else None
    catalogue = _text(settings, "catalogue") if "catalogue" in settings else tasks.DEFAULT_CATALOGUE
    return WebShopEnvironment(open_tasks(catalogue, cache=cache, compiled=compiled == "true"))


def _text(settings: Mapping[str, JSON], key: str) -> str:
    value = settings[key]
    if isinstance(value, Path):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise InvalidRequestError(f"setting {key!r} of webshop must be a text that is not empty, not {value!r}")
    return value
