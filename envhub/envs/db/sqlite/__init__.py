"""The embedded database driver: MySQL semantics on in-memory SQLite, run in host processes that can be killed."""
