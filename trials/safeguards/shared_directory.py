"""
What keeps a log on a shared directory from being lost, switched off one at a time.

These worlds are those of `simulation/shared_brokers.py`; a seed that notices raises there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.shared import directory_log
from holdfast.shared.age import Age
from holdfast.shared.directory_log import DirectoryLog
from holdfast.shared.held_epoch import HeldEpoch
from holdfast.shared.lease_files import CurrentFile
from holdfast.shared.log_view import FoundEnd, LogView
from holdfast.shared.places import SegmentName
from holdfast.shared.reserve import Reserve
from holdfast.shared.segments import SegmentWriter
from holdfast.shared.store_file import read_identity
from holdfast.shared.way import Way
from trials.safeguards.ablation import Ablation, Patch, without
from trials.simulation import shared_brokers
from trials.simulation.shared_brokers import BrokenPromise, Broker, Troubles, simulate_share
from trials.simulation.simulated_share import ShareClient


def _confirm_without_asking() -> list[Patch]:
    return [(CurrentFile, "is_newest", lambda *_arguments: True)]


def _ask_before_the_sync() -> list[Patch]:
    write = HeldEpoch.write
    asked: dict[int, bool] = {}

    def write_after_asking(self: HeldEpoch, entries: Any) -> None:
        asked[id(self)] = _current_of(self).is_newest(self.epoch, self.claimant.holder)
        write(self, entries)

    def is_current(_log: DirectoryLog, held: HeldEpoch) -> bool:
        found = asked.pop(id(held), None)
        if found is None:
            return _current_of(held).is_newest(held.epoch, held.claimant.holder)
        return found

    return [(HeldEpoch, "write", write_after_asking), (DirectoryLog, "_is_current", is_current)]


def _current_of(held: Any) -> CurrentFile:
    return CurrentFile(held._disk, held._places)  # noqa: SLF001 - that is what this is for


def _no_epoch_in_names() -> list[Patch]:
    def name(self: SegmentName) -> str:
        return f"{self.base:020d}-0.seg"

    def create(self: ShareClient, path: Any) -> Any:
        return self.open(path, create=True)

    return [(SegmentName, "__str__", name), (ShareClient, "create", create)]


def _read_before_the_lease() -> list[Patch]:
    begin, begin_segment = CurrentFile.begin, HeldEpoch.begin

    def later(self: CurrentFile, epoch: int, claimant: Any) -> None:
        """It is done once the data was read."""

    def begin_both(self: HeldEpoch, found: FoundEnd, first_index: int) -> None:
        begin(_current_of(self), self.epoch, self.claimant)
        begin_segment(self, found, first_index)

    return [(CurrentFile, "begin", later), (HeldEpoch, "begin", begin_both)]


def _trust_others_syncs() -> list[Patch]:
    find_end = LogView.find_end

    def all_is_sure(self: LogView, epoch: int) -> FoundEnd:
        found = find_end(self, epoch)
        if not found.behind:
            return found
        name = str(self._segments[-1].name)
        return FoundEnd(sure=self.end, sure_term=found.behind[-1].term, segment=name)

    return [(LogView, "find_end", all_is_sure)]


def _first_entry_first() -> list[Patch]:
    def write(self: Any, entries: Any) -> None:
        for entry in entries:
            self._file.write_durable([entry.raw], self._offset)
            self._offset += len(entry.raw)

    return [(SegmentWriter, "write", write)]


def _one_line_for_all_epochs() -> list[Patch]:
    begin = CurrentFile.begin

    def begin_in_place(self: Any, epoch: int, claimant: Any) -> None:
        begin(self, epoch, claimant)
        # As a file that is replaced: what a later epoch wrote there is gone.
        size = len(self._pages_from(epoch + 1))
        if size:
            file = self._disk.open_through(self._path)
            file.write(bytes(size), (epoch + 1) * 4096)
            file.sync()

    return [(CurrentFile, "begin", begin_in_place)]


def _drop_without_asking() -> list[Patch]:
    def drop_before(self: Any, index: int) -> bool:
        held = self._held
        if held is not None:
            first_index = min(index, held.confirmed.index + 1)
            if first_index > held.first_index:
                held.note_first_index(first_index, self._monotonic())
            self._view.refresh(held.epoch)
            for name in self._names_to_drop(held):
                self._disk.unlink(self._places.journal / name)
        return False

    return [(DirectoryLog, "drop_before", drop_before)]


def _lease_by_wall_clock() -> list[Patch]:
    def wall(self: Any) -> float:
        # Somebody sets it: by some seconds, now and then.
        now = self._world.now
        return float(now + 5.0 * ((int(now) // 7 + self._number) % 3))

    return [(Broker, "clock", wall)]


def _no_clock() -> list[Patch]:
    return [(shared_brokers, "MARGIN_SECONDS", -shared_brokers.LEASE_SECONDS)]


def _keep_no_room() -> list[Patch]:
    return [(Reserve, "_give_up_one", lambda *_arguments: False)]


def _give_up_the_last_room() -> list[Patch]:
    return [(directory_log, "TAKES_LEFT_MIN", 0)]


def _do_not_look_where_it_stands() -> list[Patch]:
    return [(HeldEpoch, "require_standing", lambda _self: None)]


def _follow_older_copies_at_once() -> list[Patch]:
    return [(Age, "require_none_older", lambda *_arguments: None)]


def _go_by_the_path_each_time() -> list[Patch]:
    @contextmanager
    def within(self: ShareClient, root: Any) -> Iterator[Any]:
        self.step("open")
        self.looked_at = self.machine.mount.server
        self.on_within(self.looked_at)
        with self.looked_at.within(root) as found:
            yield found

    return [(ShareClient, "within", within)]


def _end_where_all_is_well_again() -> list[Patch]:
    def is_gone(self: Any, _path: Any) -> bool:
        with self._disk.within(self._places.root):
            return bool(read_identity(self._disk, self._places))

    return [(Way, "_is_gone", is_gone)]


FULL = Troubles(pause=0.002, kill=0.0003, error=0.0, server_loss=0.0, is_coherent=True, full=0.003)
"""Brokers live long: who is killed before room for the next takes is kept gives up no lease."""

COPIES = Troubles(
    pause=0.002, kill=0.0005, error=0.0, server_loss=0.0, is_coherent=True, copy=0.002
)
FLAPS = Troubles(
    pause=0.002, kill=0.0005, error=0.002, server_loss=0.0, is_coherent=False, away=0.01
)
STAYING = replace(COPIES, is_coherent=False, stays=0.5)
SOME = Troubles(pause=0.005, kill=0.0, error=0.0, server_loss=0.0, is_coherent=False)
PAUSES = Troubles(pause=0.01, kill=0.0, error=0.0, server_loss=0.0, is_coherent=False)
LOSSES = Troubles(pause=0.002, kill=0.004, error=0.0, server_loss=0.0005, is_coherent=False)


@dataclass(frozen=True, slots=True)
class ShareAblation(Ablation):
    """A safeguard of a shared directory, and the trouble in which it matters."""

    troubles: Troubles | None = None
    seed: int = 1
    """The first that noticed when this was written: a test need not look from the beginning."""


ABLATIONS = (
    ShareAblation("no look at the lease after the sync", _confirm_without_asking, seed=3),
    ShareAblation("the lease is looked at before the sync only", _ask_before_the_sync, seed=3),
    ShareAblation("names without the epoch", _no_epoch_in_names, seed=22),
    ShareAblation(
        "a taker reads before it writes the lease", _read_before_the_lease, troubles=PAUSES, seed=11
    ),
    ShareAblation(
        "a taker trusts what others may not have synced",
        _trust_others_syncs,
        troubles=LOSSES,
        seed=8,
    ),
    ShareAblation("an append is written from its first entry on", _first_entry_first, seed=3),
    ShareAblation(
        "a late taker replaces the lease of a younger one", _one_line_for_all_epochs, seed=19
    ),
    ShareAblation("a deposed holder drops entries", _drop_without_asking, troubles=SOME, seed=76),
    ShareAblation("leases by the wall clock", _lease_by_wall_clock, seed=3),
    ShareAblation("holders that do not look at their clock", _no_clock, seed=3),
    ShareAblation("a taker leaves what room is kept alone", _keep_no_room, troubles=FULL),
    ShareAblation(
        "a lease is given up without room for the next one",
        _give_up_the_last_room,
        troubles=FULL,
        seed=4,
    ),
    ShareAblation(
        "a holder does not look where what it wrote stands",
        _do_not_look_where_it_stands,
        troubles=COPIES,
    ),
    ShareAblation(
        "an older copy is followed at once", _follow_older_copies_at_once, troubles=COPIES, seed=2
    ),
    ShareAblation(
        "a share that is away for a moment ends a broker",
        _end_where_all_is_well_again,
        troubles=FLAPS,
        seed=2,
    ),
    ShareAblation(
        "a call goes by the path each time", _go_by_the_path_each_time, troubles=COPIES, seed=7
    ),
)


def catch(ablation: ShareAblation, seeds: Sequence[int]) -> tuple[int, str] | None:
    """Return the first seed that notices, and what it says; None if none does."""
    with without(ablation):
        for seed in seeds:
            try:
                simulate_share(seed, ablation.troubles)
            except (BrokenPromise, HoldfastError) as error:
                return seed, str(error)
    return None
