"""The client: sessions on a hub, and the one rollout loop."""

from envhub.client.hub import Hub, HubSession
from envhub.client.rollout import Policy, Trajectory, rollout

__all__ = ["Hub", "HubSession", "Policy", "Trajectory", "rollout"]
