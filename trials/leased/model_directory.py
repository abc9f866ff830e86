"""
A directory on a shared drive as a model: it judges nothing, so what is written is looked at again.

A holder writes its entries into the segment of its epoch, syncs them, and only then looks whether
another epoch was claimed; a taker claims first, and only then reads where the log ends. What is
written under an epoch that was cut already goes where nobody reads. What was read of a claim may be
old: caches of names and attributes are.

Invariants:
    What was synced before a later epoch was claimed is in every later log.
    An end that was never synced may be read, and be cut off by the next take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from holdfast.errors import StoreError
from holdfast.journal.entry import Entry
from holdfast.leases.contract import Claimant, Holding, Outcome, Place
from trials.leased.model_log import ModelLog
from trials.leased.model_medium import NOTHING, ModelMedium


class ModelDirectory(ModelMedium):
    """The files. `epoch` is the newest that was claimed."""

    def __init__(self, identity: str = "5" * 32) -> None:
        super().__init__(identity)
        self.cut_epoch = 0
        """Whose segment is the newest: those of earlier epochs are read up to where it begins."""
        self.sure = NOTHING
        self.unsynced: list[tuple[int, int]] = []
        """First and last entry of each write that was not synced, in order."""
        self.clock: Callable[[], float] = lambda: 0.0
        self.claims: list[tuple[float, int]] = []
        """When each epoch was claimed."""
        self.cut_unsynced: Callable[[int], int] = lambda count: count
        """Of so many writes that were not synced, how many the next taker finds."""
        self.happened: Counter[str] = Counter()

    def read(self) -> Holding:
        """The newest claim, and what can be seen of the log."""
        holding = super().read()
        return Holding(
            epoch=holding.epoch,
            beat=holding.beat,
            claimant=holding.claimant,
            is_released=holding.is_released,
            first_index=holding.first_index,
            end=holding.end,
            sure=self.sure,
        )

    def claim(self, seen: Holding, claimant: Claimant) -> bool:
        """Link the next claim's name: one of all is first."""
        if super().take(seen, claimant) is None:
            return False
        self.claims.append((self.clock(), self.epoch))
        return True

    def cut(self, epoch: int) -> Holding | None:
        """Read where the older segments end, and begin a new one there; None if claimed further."""
        if self.epoch != epoch:
            return None
        kept = self.cut_unsynced(len(self.unsynced))
        for first, last in reversed(self.unsynced[kept:]):
            for index in range(last, first - 1, -1):
                del self.rows[index], self.history[index]
                self.happened["unsynced entry cut"] += 1
            self.end = self._place_of(first - 1)
        self.unsynced.clear()
        self.cut_epoch, self.sure = epoch, self.end
        return self.read()

    def _place_of(self, index: int) -> Place:
        return Place(index, self.history[index]) if index else NOTHING

    def write(self, epoch: int, entries: list[Entry]) -> None:
        """Put entries behind the last one of this epoch's segment, without a sync."""
        self._require_the_row()
        first, last = entries[0], entries[-1]
        if epoch != self.cut_epoch:
            self.happened["entry written where nobody reads"] += len(entries)
            return
        if first.index != self.end.index + 1:
            if self.history.get(last.index) == last.chain:
                return  # It stands there since the first attempt.
            raise StoreError(f"the log ends with {self.end.index}, not before {first.index}")
        beat = self.beat
        self.keep(entries)
        self.beat = beat
        self.unsynced.append((first.index, last.index))

    def sync(self, epoch: int) -> None:
        """Make what this epoch has written durable."""
        if epoch == self.cut_epoch:
            self.unsynced.clear()

    def look(self, epoch: int, stale_seconds: float) -> bool:
        """Whether no later epoch was claimed, as far as a cache of this age tells."""
        self._require_the_row()
        until = self.clock() - stale_seconds
        newest = max((it for when, it in self.claims if when <= until), default=0)
        if newest <= epoch < self.epoch:
            self.happened["look at an old claim"] += 1
        return newest <= epoch

    def confirm(self, epoch: int, place: Place) -> None:
        """The holder has seen that it may confirm up to here."""
        if epoch == self.epoch == self.cut_epoch and place.index > self.sure.index:
            self.sure = place

    def beat_of(self, epoch: int) -> None:
        """Write the beat of this epoch's own file."""
        if epoch == self.epoch:
            self.beat += 1


class ModelDirectoryLog(ModelLog):
    """A broker's way to it: each call is several operations, and others are at work in between."""

    low_room = ""
    is_fence = False
    medium: ModelDirectory
    stale_seconds: Callable[[], float] = staticmethod(lambda: 0.0)
    """How old what is read of the claims is."""

    def take(self, seen: Holding, claimant: Claimant, seconds_max: float) -> Holding | None:
        """Claim, then read where the log ends."""
        share = seconds_max / 2
        if not self._ask("claim", share, lambda: self.medium.claim(seen, claimant)):
            return None
        epoch = seen.epoch + 1
        holding: Holding | None = self._ask("cut", share, lambda: self.medium.cut(epoch))
        if holding is not None:
            self._epoch, self._holder = epoch, claimant.holder
        return holding

    def append(self, entries: list[Entry], seconds_max: float) -> Outcome:
        """Write, sync, and only then look at the claims."""
        epoch, given, share = self._epoch, list(entries), seconds_max / 3
        place = Place(given[-1].index, given[-1].chain)
        self._ask("write", share, lambda: self.medium.write(epoch, given))
        self._ask("sync", share, lambda: self.medium.sync(epoch))
        return self._look(epoch, share, place)

    def _look(self, epoch: int, seconds_max: float, place: Place | None = None) -> Outcome:
        stale = self.stale_seconds()
        if not self._ask("look", seconds_max, lambda: self.medium.look(epoch, stale)):
            return Outcome.DEPOSED
        if place is not None:
            self.medium.confirm(epoch, place)
        return Outcome.STORED

    def renew(self, seconds_max: float) -> Outcome:
        """Write the own beat, then look."""
        epoch, share = self._epoch, seconds_max / 2
        self._ask("beat", share, lambda: self.medium.beat_of(epoch))
        return self._look(epoch, share)
