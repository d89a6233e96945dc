"""Colour words of the published reward (WebShop, Princeton NLP, MIT licence): which words, and in which order, is part of it.

Invariant: the order is alphabetical and never changes; the first word found in an option value stands for the value.
"""

from __future__ import annotations

_IN_ORDER = """
alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel camo
caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry cream
crystal dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey heather
indigo ivory ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha
multicolor mushroom mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal
rust sand sapphire seashell silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise
violet walnut wheat white wine yellow
"""

COLOUR_WORDS: tuple[str, ...] = tuple(_IN_ORDER.split())
