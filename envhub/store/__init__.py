"""Finished episodes and their traces in a database. It knows records, not sessions, workers or HTTP."""
