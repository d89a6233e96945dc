"""envhub: a function-call environment hub for language-model agents."""

__version__ = "0.1.0"
