"""
A leased log in a directory that several machines reach; files cannot fence, so everything is asked.

The holder writes and syncs, and then reads `current` anew: a taker writes `current` first, and then
reads what was written. So one of them always sees the other, whatever pauses in between.

A directory may be replaced by a copy of it at any moment. So the holder asks by the path, and finds
`current` and its own files in one directory; and nobody goes on with an older state of the log than
was seen before a newer one was waited for.

Invariants:
    Whatever carries an epoch is written by the process that won that epoch, and by no other.
    What is confirmed was synced before `current` still named us, in the directory that the path
    led to then and that had what we wrote.
    A take copies what may not be durable yet into a segment of its own epoch: it trusts no sync
    but its own.
    After a failed write or sync a segment is left as it is; the same goes on in a new one, whose
    cut is the last confirmed entry.

Every call waits for the disk as long as that takes: `SharedLog` bounds them. One thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from holdfast.environment.disk import NoRoomError
from holdfast.environment.shared_disk import SharedDisk
from holdfast.errors import AppendRefusedError, StoreError, UnreachableError
from holdfast.journal.entry import Entry, verify_chain
from holdfast.leases.contract import Claimant, Holding, Outcome, Place
from holdfast.leases.copies import CopyPlan, epochs_used_up
from holdfast.shared import copy_file
from holdfast.shared.age import Age, Look
from holdfast.shared.held_epoch import HeldEpoch, least_segment_bytes
from holdfast.shared.lease_files import Begun, CurrentFile, claim, read_claim
from holdfast.shared.log_view import LogView
from holdfast.shared.places import Places, parse_segment_name
from holdfast.shared.reserve import Reserve
from holdfast.shared.settings import SharedSettings
from holdfast.shared.store_file import Origin, find, find_or_lay_out

DROPPED_AT_ONCE: Final = 8
TAKES_LEFT_MIN: Final = 2
"""With room for fewer takes a lease is not given up on a share that is nearly full."""
RESERVED_SEGMENTS: Final = 4
"""So many of the smallest segments have room in what is kept for one take."""


class DirectoryLog:
    """The log, its lease and its holder, as one process has them."""

    def __init__(
        self,
        disk: SharedDisk,
        places: Places,
        settings: SharedSettings,
        *,
        monotonic: Callable[[], float],
        draw: Callable[[int], bytes],
    ) -> None:
        """Take what to work with; `monotonic` is of this machine, `draw` gives random bytes."""
        self._disk = disk
        self._places = places
        self._settings = settings
        self._monotonic = monotonic
        self._draw = draw
        self._origin = Origin("")
        self._current = CurrentFile(disk, places)
        self._age = Age(places.root, monotonic)
        self._view = LogView(disk, places, self._origin, self._current)
        self._claimed = Begun(0, None)
        """The newest epoch that was found won, whether or not it has begun."""
        self.is_coherent = False
        """See `HeldEpoch`; told by who knows what is mounted there, before the lease is taken."""
        self._held: HeldEpoch | None = None
        size = RESERVED_SEGMENTS * least_segment_bytes(settings)
        self._reserve = Reserve(disk, places, settings.takes_with_room, size)
        self._plan: CopyPlan | None = None
        """Of the copy that is to be finished yet."""

    @property
    def identity(self) -> str:
        """The log's own id; empty before it was opened."""
        return self._origin.identity

    @property
    def is_half_copy(self) -> bool:
        """Whether what was begun with `begin_copy` is to be finished yet."""
        return self._plan is not None

    def open(self, *, may_lay_out: bool = True) -> Holding:
        """Find what the directory is, or lay it out; see the contract."""
        draw = self._draw if may_lay_out else None
        return self._begin_with(find_or_lay_out(self._disk, self._places, draw))

    def open_existing(self) -> Holding:
        """Find what the directory is; see `leases.copies`."""
        return self._begin_with(find(self._disk, self._places))

    def begin_copy(self, plan: CopyPlan) -> Holding:
        """Lay the directory out for a copy, or go on with what was begun; see the contract."""
        origin, is_half = copy_file.begin(self._disk, self._places, plan, self._draw)
        self._plan = plan if is_half else None
        return self._begin_with(origin)

    def finish_copy(self) -> Outcome:
        """Make the copy an ordinary log, and give the lease back; see the contract."""
        held, plan = self._held, self._plan
        if plan is None:
            return Outcome.STORED
        if held is None or self._judge(held) is Outcome.DEPOSED:
            return Outcome.DEPOSED
        if held.epoch <= plan.epoch:
            raise epochs_used_up(str(self._places.root))
        if held.confirmed != plan.end:
            raise StoreError(
                f"the copy in {self._places.root} ends with entry {held.confirmed.index:,}, and"
                f" should end with entry {plan.end.index:,}: empty it, and copy again"
            )
        # First the link: with the lease given back another process may go on with the same copy.
        copy_file.finish(self._disk, self._places, self._origin, self._draw)
        self._plan = None
        self.release()
        return Outcome.STORED

    def _begin_with(self, origin: Origin) -> Holding:
        self._origin = origin
        self.look_anew()
        return self.observe()

    def look_anew(self) -> None:
        """Forget what was read: another directory of this log may be in the place of that one."""
        origin = self._origin
        self._current = CurrentFile(self._disk, self._places, origin.epoch_before)
        self._view = LogView(self._disk, self._places, origin, self._current)
        self._claimed = Begun(0, None)

    def observe(self) -> Holding:
        """Read the lease as it is now."""
        begun = self._current.newest()
        view = self._view
        view.refresh(begun.epoch)
        try:
            # Where less is there than is called sure it is damaged, and no older for that.
            there = max(view.end.index, view.sure.index)
            beat = 0 if view.beat is None else view.beat.counter
            self._age.require_none_older(Look(begun.epoch, beat, there))
            self._age.saw(Look(begun.epoch, beat, view.sure.index))
        except UnreachableError:
            self.look_anew()  # What was read before may not be in there.
            raise
        counter, is_released = 0, False
        epoch, claimant = begun.epoch, begun.claimant
        if self._claimed.epoch > epoch:
            # Won by somebody who has not begun it, and may never.
            epoch, claimant = self._claimed.epoch, self._claimed.claimant
        elif view.beat is not None:
            counter, is_released = view.beat.counter, view.beat.is_released
            counter += view.end.index
        if epoch > self._origin.epoch_before and claimant is None:
            claimant = read_claim(self._disk, self._places, epoch) or _NOBODY
        return Holding(
            epoch=epoch,
            beat=counter,
            claimant=claimant,
            is_released=is_released,
            first_index=view.first_index,
            end=view.end,
            sure=view.sure,
        )

    def take(self, seen: Holding, claimant: Claimant) -> Holding | None:
        """Begin the epoch after the one `seen`; see the contract."""
        now = self.observe()
        if (now.epoch, now.beat) != (seen.epoch, seen.beat):
            return None
        self._let_go()
        epoch = seen.epoch + 1
        is_won = self._reserve.use_for(lambda: claim(self._disk, self._places, epoch, claimant))
        self._claimed = Begun(
            epoch, claimant if is_won else read_claim(self._disk, self._places, epoch)
        )
        if not is_won:
            return None
        held = HeldEpoch(
            self._disk,
            self._places,
            self._settings,
            epoch=epoch,
            claimant=claimant,
            identity=self.identity,
        )
        held.is_coherent = self.is_coherent
        try:
            taken = self._begin(held, now)
        except NoRoomError:
            held.close()
            raise
        except OSError:
            held.close()
            # Files of ours that are gone were dropped by who took over from us meanwhile.
            if not self._is_current(held):
                return None
            raise
        except BaseException:
            held.close()
            raise
        if taken is None:
            held.close()
        else:
            self._held = held
        return taken

    def _begin(self, held: HeldEpoch, before: Holding) -> Holding | None:
        """Begin the epoch that was won; None if a later one has begun."""
        use = self._reserve.use_for
        use(lambda: held.give_first_beat(before.sure, before.first_index))
        # From here on nobody of an earlier epoch confirms anything: what they have confirmed was
        # synced before they last read `current`, so it can be read now.
        use(lambda: self._current.begin(held.epoch, held.claimant))
        found = self._view.find_end(held.epoch - 1)
        use(lambda: held.begin(found, self._view.first_index))
        if self._judge(held) is Outcome.DEPOSED:
            return None
        # What was copied is sure from now on.
        held.note_confirmed()
        held.give_beat(self._monotonic())
        self._reserve.note_taken()
        taken = self.observe()
        return taken if taken.epoch == held.epoch else None

    def renew(self) -> Outcome:
        """Give a sign of life."""
        held = self._held
        if held is None:
            return Outcome.DEPOSED
        held.give_beat(self._monotonic())
        outcome = self._judge(held)
        if outcome is Outcome.STORED and not held.is_low:
            self._reserve.make_one()
        return outcome

    def release(self) -> None:
        """Give the lease back if it is still ours."""
        held = self._held
        if held is not None:
            self._held = None
            try:
                held.give_back()
            finally:
                held.close()

    def append(self, entries: list[Entry]) -> Outcome:
        """Store these entries; see the contract."""
        held = self._held
        if held is None:
            return Outcome.DEPOSED
        last = entries[-1]
        if Place(last.index, last.chain) != held.end:
            outcome = self._write(held, entries)
            if outcome is not None:
                return outcome
        outcome = self._judge(held)
        if outcome is Outcome.STORED:
            held.note_confirmed()
            now = self._monotonic()
            if now - held.last_beat >= self._settings.beat_seconds:
                held.try_to_give_beat(now)
        return outcome

    def _write(self, held: HeldEpoch, entries: list[Entry]) -> Outcome | None:
        """Write entries that are not there yet; None: they are, and may be judged."""
        if held.end != held.confirmed:
            # An earlier append whose outcome was not known is given up for another one, so it
            # must be told first what it was; or it was sent again with more behind it.
            outcome = self._judge(held)
            if outcome is Outcome.DEPOSED:
                return outcome
            held.note_confirmed()
        first = entries[0]
        end = held.end
        if first.index != end.index + 1 or not verify_chain(first, end.chain):
            raise StoreError(
                f"entries from {first.index:,} on do not follow on entry {end.index:,}, the last of"
                f" {self._places.root} under epoch {held.epoch:,}: restart this broker, which reads"
                f" the log anew, and report it"
            )
        try:
            held.write(entries)
        except NoRoomError as error:
            raise self._refusal(held, error) from error
        except OSError as error:
            if self._judge(held) is Outcome.DEPOSED:
                return Outcome.DEPOSED
            raise UnreachableError(
                f"{self._places.root} could not be written: {error.strerror}"
            ) from error
        return None

    def _refusal(self, held: HeldEpoch, error: NoRoomError) -> AppendRefusedError:
        """Say that there is no room; whoever gives up the lease for it must get it again."""
        made = AppendRefusedError(
            f"there is no room in {self._places.root} (make some): {error.strerror}"
        )
        held.look_for_room()
        made.keeps_lease = held.is_low
        with suppress(OSError):  # What cannot be seen is not counted upon.
            # One take for who gives it up, and one for who follows if that one is lost.
            made.keeps_lease = held.is_low and self._reserve.takes_left() < TAKES_LEFT_MIN
        return made

    @property
    def low_room(self) -> str:
        """Why nothing more is to be published; empty while there is room enough."""
        held = self._held
        if held is None or not held.is_low:
            return ""
        return f"{self._places.root} has less than {held.reserve_bytes:,} bytes left"

    def entries(self, after: int, through: int, bytes_max: int) -> list[Entry]:
        """Read entries in order; see the contract."""
        if after < through and self._view.end.index < through:
            self._view.refresh(self._current.newest().epoch)
        return self._view.read(after, through, bytes_max)

    def drop_before(self, index: int) -> bool:
        """Forget the oldest entries; see the contract."""
        held = self._held
        if held is None:
            return False
        first_index = min(index, held.confirmed.index + 1)
        if first_index > held.first_index:
            held.note_first_index(first_index, self._monotonic())
        with self._disk.within(self._places.root):
            # Who takes over reads our first index after this, or has made us see it by now.
            if self._judge_here(held) is Outcome.DEPOSED:
                return False
            self._view.refresh(held.epoch)
            names = self._names_to_drop(held)
            for name in names[:DROPPED_AT_ONCE]:
                self._disk.unlink(self._places.journal / name)
            if names:
                self._disk.sync_directory(self._places.journal)
        return len(names) > DROPPED_AT_ONCE

    def _names_to_drop(self, held: HeldEpoch) -> list[str]:
        """Files that begin before the log does and are no part of it any more, the oldest first."""
        kept = self._view.names_from(held.first_index)
        found = [
            (parsed, name)
            for name in self._disk.list_directory(self._places.journal)
            if name not in kept and (parsed := parse_segment_name(name)) is not None
        ]
        return [
            name
            for parsed, name in sorted(found)
            if parsed.epoch <= held.epoch and parsed.base < held.first_index
        ]

    def is_holder_gone(self, seen: Holding) -> bool:
        """Whether nobody holds the lock of the epoch that has begun last: a hint, no more."""
        if seen.epoch <= self._origin.epoch_before or not self._current.has_begun(seen.epoch):
            return False
        return not self._disk.is_held(self._places.claim(seen.epoch))

    def close(self) -> None:
        """Let go of all files."""
        self._let_go()

    def _judge(self, held: HeldEpoch) -> Outcome:
        """Tell whether what is durable by now may be confirmed, by what the path leads to now."""
        with self._disk.within(self._places.root):
            return self._judge_here(held)

    def _judge_here(self, held: HeldEpoch) -> Outcome:
        """Tell it by one directory: what another one says of the epoch is no fence of this one."""
        if self._is_current(held):
            held.require_standing()
            self._age.saw(held.look())
            return Outcome.STORED
        if not self._current.has_begun(held.epoch):
            # An older state has come in its place, unless only this file is one.
            held.require_standing()
        self._let_go()
        return Outcome.DEPOSED

    def _is_current(self, held: HeldEpoch) -> bool:
        return self._current.is_newest(held.epoch, held.claimant.holder)

    def _let_go(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None


_NOBODY: Final = Claimant(holder="0" * 32, name="?", admin="", stomp="")
"""Where both the claim and its page are damaged."""
