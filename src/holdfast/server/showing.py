"""
What a node has its store show to people: the queues, and the messages where that is asked for.

Owned by the loop.
"""

from __future__ import annotations

from holdfast.config.node import NodeConfig
from holdfast.server.leased_group import LeasedGroup
from holdfast.server.parts import Parts
from holdfast.server.projecting import Projecting
from holdfast.server.showing_messages import ShowingMessages
from holdfast.server.showing_walk import ShowingWalk


class Showing:
    """All that is shown, each looked over by itself."""

    def __init__(self, config: NodeConfig, parts: Parts) -> None:
        """Show what a store that is kept under a lease can show; else nothing."""
        self._conductor = parts.conductor
        self.walks = _walks(config, parts)

    @property
    def is_under_way(self) -> bool:
        """Whether anything is to be looked at or written now."""
        return any(it.is_under_way for it in self.walks)

    def step(self, now: float) -> None:
        """Do a slice of each, while this broker serves."""
        conductor = self._conductor
        if conductor.is_within_entry:
            return  # Half of one is nothing that was ever so.
        is_serving = conductor.role.is_serving and not conductor.store.is_handing_over
        for walk in self.walks:
            conductor.budget.begin()
            if walk.step(now, conductor.budget.is_spent, is_serving=is_serving):
                conductor.schedule()


def _walks(config: NodeConfig, parts: Parts) -> list[ShowingWalk]:
    group, how = parts.driver, config.sections.lease.sql_messages
    if not isinstance(group, LeasedGroup):
        return []
    walks: list[ShowingWalk] = [Projecting(parts.broker, parts.store, group)]
    if how != "off":
        with_bodies = how == "full"
        walks.append(ShowingMessages(parts.broker, parts.store, group, with_bodies=with_bodies))
    return walks
