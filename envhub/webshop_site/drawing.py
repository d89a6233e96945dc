"""How the site's pages are drawn: templates over the state of a session.

Invariant: every text is escaped, whoever wrote it; a page holds no script and no style of its own.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from envhub.envs.webshop import pages
from envhub.envs.webshop.pages import PAGE_SIZE, Page, State
from envhub.webshop_site import forms
from envhub.webshop_site.forms import Form
from envhub.webshop_site.sessions import Visit

_TEMPLATES = {
    Page.SEARCH: "search.html",
    Page.RESULTS: "results.html",
    Page.ITEM: "item.html",
    Page.SUB_PAGE: "sub_page.html",
    Page.DONE: "done.html",
}
_REASONS = {
    "turn_limit": "All the steps of this task are used up, and nothing was bought: the score is 0.",
    "time_limit": "The time for this task is over, and nothing was bought: the score is 0.",
}
_COLOURS = (
    ("#dbe8e4", "#2f6b60"),
    ("#e6e2f0", "#5b4b8a"),
    ("#f3e6d8", "#97602a"),
    ("#dfe7f2", "#355f95"),
    ("#f2dfe3", "#97405a"),
    ("#e7ecd9", "#5d7130"),
)


@dataclass(frozen=True, slots=True)
class Part:
    """A line of the score; ``share`` is None for what multiplies the rest."""

    name: str
    text: str
    met: float
    share: float | None


class Drawing:
    def __init__(self) -> None:
        self._templates = Environment(
            loader=PackageLoader("envhub.webshop_site"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.globals.update(picture=_picture, capital=_capital)

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        text = self._templates.get_template(template).render(**values)
        return HTMLResponse(text, status, {"cache-control": "no-store"})

    def problem(self, status: int, title: str, text: str) -> Response:
        return self.page("problem.html", status=status, title=title, text=text)

    def visit(self, visit: Visit, *, notice: str = "", form: Form | None = None, status: int = 200) -> Response:
        """The page of a session; ``form`` is one that could not be carried out and is shown again."""
        state = visit.state
        over = not visit.live and state.page is not Page.DONE
        return self.page(
            "over.html" if over else _TEMPLATES[state.page],
            status=status,
            visit=visit,
            state=state,
            notice=notice or _refusal(visit),
            keywords=(form or {}).get("keywords", " ".join(state.keywords))[: forms.MAX_KEYWORDS_CHARS],
            max_keywords=forms.MAX_KEYWORDS_CHARS,
            offered=forms.offered(state),
            sub_pages=[name for key, name in pages.SUB_PAGES.items() if key in forms.offered(state)],
            groups=forms.groups(state) if state.page is Page.ITEM else {},
            n_pages=-(-len(state.rows) // PAGE_SIZE),
            first=(state.number - 1) * PAGE_SIZE + 1,
            ending=_REASONS.get(str(visit.reason), f"It ended before anything was bought: {visit.reason}."),
            parts=_parts(state),
        )


def _refusal(visit: Visit) -> str:
    """Tools may send what a page does not offer; then nothing changes, and the page says so."""
    if visit.turn and visit.live and visit.past[-1] == visit.past[-2]:
        return "The last step changed nothing."
    return ""


def _parts(state: State) -> list[Part]:
    score = state.score
    if score is None or state.page is not Page.DONE:
        return []
    parts = []
    if score.r_att is not None:
        parts.append(Part("Attributes", "Wanted properties that the product has", score.r_att, score.w_att))
    if score.r_option is not None:
        parts.append(Part("Options", "Wanted options that were chosen", score.r_option, score.w_option))
    if score.r_price is not None:
        parts.append(Part("Price", "The price is within the limit", float(score.r_price), score.w_price))
    parts.append(Part("Kind of product", "As wanted; multiplies the rest", score.r_type, None))
    return parts


def _picture(asin: str) -> Mapping[str, str | int]:
    """The colours and the shape that stand for a product which has no picture here."""
    number = zlib.crc32(asin.encode())
    back, front = _COLOURS[number % len(_COLOURS)]
    return {"back": back, "front": front, "shape": number // 7 % 4}


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
