"""The OS environment: requests to a real Linux, one sandbox per episode."""
