"""The words every other part speaks: records, errors and protocols. Standard library only."""
