"""Environments. They know nothing of HTTP and meet the hub through ``envhub.core.protocols``."""
