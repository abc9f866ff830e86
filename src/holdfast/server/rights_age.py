"""
How old what a node knows of users' rights may be, where it does not lead.

A node judges who may read from it by as much of the log as it has applied. What was taken away
since then still counts here: for a moment at a member that follows, without end at one that lags or
is cut off. So before it shows to a user what takes more than to look at numbers and names, it
applies what it has heard to be committed, and shows nothing where its leader is not heard.

Invariants:
    What is judged behind `catch_up` is judged by all that this node had heard of when it began, and
    by what was true at most `SILENT_SECONDS_MAX` before; or it says why not.

Owned by the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

CATCH_UP_SECONDS_MAX: Final = 5.0
"""So long somebody waits: through an election, and until a member that lags a little has caught up.
A command gives up after ten."""

SILENT_SECONDS_MAX: Final = 10.0
"""Elections are over by then; who hears of nobody for longer is cut off."""

NEVER_HEARD: Final = "it has heard of no leader since it was started"

_LOOK_SECONDS: Final = 0.01


class Knowing(Protocol):
    """What a group knows of its log."""

    @property
    def is_leader(self) -> bool:
        """Whether what is committed is committed here."""
        ...

    @property
    def told_commit_index(self) -> int:
        """Through which entry the log is committed, as far as was heard; it may lack them."""
        ...

    @property
    def unheard_seconds(self) -> float | None:
        """How long ago it was told so; None: never since it was started."""
        ...


class RightsAge:
    """One node's rights, and how far they are true."""

    __slots__ = ("_applied_index", "_group")

    def __init__(self, group: Callable[[], Knowing], applied_index: Callable[[], int]) -> None:
        """
        Look at one node.

        Args:
            group: What knows its log.
            applied_index: Through which entry its users and roles are known.
        """
        self._group = group
        self._applied_index = applied_index

    async def catch_up(self) -> str:
        """
        Apply what is heard to be committed now; gives why that cannot be waited for, or nothing.

        Takes no time where there is nothing to wait for. Cancelled, the node goes on all the same.
        """
        told = self._group().told_commit_index
        loop = asyncio.get_running_loop()
        until = loop.time() + CATCH_UP_SECONDS_MAX
        while trouble := self._trouble(told):
            # Who was never told is alone, or starts just now: nothing says that it will be soon.
            if trouble == NEVER_HEARD or loop.time() >= until:
                return trouble
            await asyncio.sleep(_LOOK_SECONDS)
        return ""

    def _trouble(self, told: int) -> str:
        group, applied = self._group(), self._applied_index()
        if not group.is_leader:
            unheard = group.unheard_seconds
            if unheard is None:
                return NEVER_HEARD
            if unheard > SILENT_SECONDS_MAX:
                return f"it has heard of no leader for {unheard:,.0f} s"
        if applied < told:
            return f"it has {applied:,} of {told:,} entries that its leader has committed"
        return ""
