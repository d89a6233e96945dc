"""Benchmarks: which episodes to play, playing them, and what the results say. Talks to the hub through the client alone."""
