"""Sandboxes: drivers, the shell inside, the warm pool."""
