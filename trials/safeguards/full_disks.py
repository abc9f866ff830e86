"""
What a writer does about a disk without room, switched off.

That it waits is one thing, that it writes all of what found no room once more is another.
"""

from __future__ import annotations

from typing import Any

from holdfast.environment.disk import NoRoomError
from holdfast.journal.writer import JournalWriter
from trials.safeguards.ablation import Ablation, Patch
from trials.troubles.full_disks import NO_ROOM, QUOTA


def _take_it_for_a_failure() -> list[Patch]:
    def fail(_self: Any, error: NoRoomError) -> None:
        raise error

    return [(JournalWriter, "_wait_for_room", fail)]


def _take_it_for_stored() -> list[Patch]:
    write = JournalWriter.__dict__["_write"]

    def claim(self: Any, run: Any, complete: Any) -> None:
        try:
            write(self, run, complete)
        except NoRoomError:
            self._journal.tail.durable_index = run.last_index
            for job in complete:
                job.is_done = True

    return [(JournalWriter, "_write", claim)]


ABLATIONS = [
    Ablation("wait for room", _take_it_for_a_failure, (QUOTA, "crash")),
    Ablation(
        "write again what found no room",
        _take_it_for_stored,
        (NO_ROOM, "crash", "partition", "heal network"),
    ),
]
