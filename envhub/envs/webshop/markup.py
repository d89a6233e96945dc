"""The ``html`` observation: a page as a small document, with the element names that the original's agents look for.

Invariant: its visible text is that of ``pages.nodes``, in the same order; every text is escaped. ``btn`` and ``product-link`` classes
mark what can be clicked, radio inputs the options, ``search_input`` the search bar.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from envhub.envs.webshop.pages import Role, State, nodes

if TYPE_CHECKING:
    from jinja2 import Template


def page_html(state: State, *, show_attributes: bool = False) -> str:
    groups = {
        value: group for group, values in (state.product.options.items() if state.product else ()) for value in values
    }
    shown = nodes(state, show_attributes=show_attributes)
    return _template().render(state=state, nodes=shown, groups=groups, Role=Role)


@cache
def _template() -> Template:
    """Imported here: the other observations need no template engine."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("envhub.envs.webshop"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html")
