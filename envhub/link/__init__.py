"""The controller-worker link: calls, replies and events over one WebSocket that the worker opens, or in process."""
