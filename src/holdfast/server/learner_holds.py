"""
Each learner's place in the log is held, so that a far site can be cut off for hours and go on.

A learner counts in no quorum, so nothing else keeps the leader from cleaning what it has not taken
yet; then it would have to begin its log anew. The leader keeps a hold for each in the log, under
`learner:NAME`, and moves it on as the learner does: so every later leader knows it too. It has a
bound, as a reader's hold has, and the same alarm; where the disk is almost full it gives way. It
never expires: it ends with the learner's membership.

Owned by the loop; used on the leader.
"""

from __future__ import annotations

from typing import Final

from holdfast.broker.broker import Broker
from holdfast.model.records import HoldRecord, Record
from holdfast.server.settings import ServerSettings
from holdfast.store.contract import LogStore

LEARNER_PREFIX: Final = "learner:"
"""How the hold of a learner is named; no reader may have such a name."""


class LearnerHolds:
    """Keeps one hold for each learner where it is."""

    __slots__ = ("_broker", "_look_at", "_settings", "_store")

    def __init__(self, broker: Broker, store: LogStore, settings: ServerSettings) -> None:
        self._broker = broker
        self._store = store
        self._settings = settings
        self._look_at = 0.0

    def step(self, now: float) -> None:
        """Look where the learners are, every few seconds."""
        if now < self._look_at:
            return
        self._look_at = now + self._settings.learner_look_seconds
        matches = self._store.learner_matches()
        holds = self._broker.state.holds
        records: list[Record] = []
        for name, match in matches.items():
            record = self._moved(LEARNER_PREFIX + name, match)
            if record is not None:
                records.append(record)
        records += [
            HoldRecord(name, 0, 0)
            for name in holds
            if name.startswith(LEARNER_PREFIX) and name[len(LEARNER_PREFIX) :] not in matches
        ]
        if records:
            self._broker.receipts.add_records(records)

    def _moved(self, name: str, match: int) -> HoldRecord | None:
        """Return the hold as it should be; None if it is near enough."""
        bound = self._settings.learner_hold_bytes_max
        known = self._broker.state.holds.get(name)
        first = self._store.first_index
        if known is None:
            return HoldRecord(name, max(match + 1, first), bound)
        if match < known.lost_through:
            return None  # It has to begin anew first, and nothing is known of how far that is.
        # The log goes by whole segments: within one the hold may stay where it is.
        is_behind = self._store.segment_base(match + 1) > max(known.index, first)
        if not is_behind and known.bytes_max == bound and not known.lost_through:
            return None
        return HoldRecord(name, max(match + 1, known.index), bound)
