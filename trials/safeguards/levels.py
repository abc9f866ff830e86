"""
What keeps a node from a log that it cannot read, switched off.

The trouble is a node that is taken back to the version before while the level of the log's format
is being raised.
"""

from __future__ import annotations

from holdfast.broker.destinations import Destinations
from holdfast.broker.lasting import state
from holdfast.model.records import ReturnedRecord
from holdfast.replication import format_levels
from holdfast.server.format_gate import FormatGate
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.returning_consumer import RETURNED
from trials.troubles.mixed_levels import MIXED
from trials.troubles.taken_back import TAKEN_BACK_LATE


def _tell_what_is_reached() -> list[Patch]:
    def step(self: FormatGate, now: float, *, is_leading: bool) -> None:
        reached = self._broker.state.format_level
        known = self._broker.settings.known_format_level
        if reached != self._told:
            self._told = reached
            self._levels.tell_format_level(reached)
        if is_leading and max(reached, self._asked) < known:
            self._raise(min(known, self._levels.format_level_of_all))
        if is_leading and (reached != self._seen or self._shut_until):
            self._follow(now, reached)

    return [(FormatGate, "step", step)]


def _read_any_level() -> list[Patch]:
    def nothing(*_arguments: object) -> None:
        return None

    return [
        (state, "require_known", nothing),
        (format_levels, "require_reached_known", nothing),
    ]


def _count_before_it_can_be_read() -> list[Patch]:
    def say(self: Destinations, record: ReturnedRecord) -> bool:
        self._receipts.record(record)
        return True

    return [(Destinations, "_say_returned", say)]


ABLATIONS = [
    Ablation(
        "a level is told when it is asked for, not when it is reached",
        _tell_what_is_reached,
        (TAKEN_BACK_LATE,),
    ),
    Ablation(
        "a node ends at a level that it does not know",
        _read_any_level,
        (TAKEN_BACK_LATE,),
    ),
    Ablation(
        "count what comes back before all can read it",
        _count_before_it_can_be_read,
        (MIXED, RETURNED),
    ),
]
