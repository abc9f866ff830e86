"""
A journal on several simulated disks under faults, from a seed: nothing that was stored is missing.

Each disk may fail a write or sync, have no room once, lose power in the middle of any operation
(and the machine with it), rot, be taken out, be replaced by an empty one, and by a copy of itself
while it is in use. After each start the
log is read to its end and held against what the writer told to be stored.

    python -m trials.mirrors.logs --count 500
"""

from __future__ import annotations

import errno
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.environment.bounded_disk import CallsInTurn
from holdfast.environment.standing_disk import StandingDisk
from holdfast.errors import (
    CorruptEntryError,
    JournalFailedError,
    MirrorError,
    MirrorsMissingError,
    StoreError,
    UnreachableError,
)
from holdfast.journal.reading import is_entry
from holdfast.journal.rescue import rescued
from holdfast.journal.settings import JournalSettings, KiB
from holdfast.mirrors.caretaker import Caretaker
from holdfast.mirrors.lanes import InTurn, Lanes
from holdfast.mirrors.mirror import Mirror
from holdfast.mirrors.opening import Equalize, MirrorOpening
from holdfast.mirrors.set_file import FILE_NAME
from holdfast.mirrors.settings import MirrorSettings
from holdfast.server.mirrored_log import equalize
from trials.mirrors.seeds import run_seeds
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import PowerCut, SimulatedDisk

STEPS = 120


class LostError(Exception):
    """What was stored is not there, or not right."""


class HangingCalls(CallsInTurn):
    """
    Calls to one directory, made at a start; from one of them on they may hang.

    The one that hangs is done when it is let, which may be long after others are answered again.
    """

    def __init__(self) -> None:
        self.count = 0
        self.hang_at = 0
        self.under_way: Callable[[], object] | None = None

    def run(
        self,
        call: Callable[[], Any],
        seconds_max: float,
        what: str,
        told: Callable[[float], None] | None = None,
    ) -> Any:
        """Make a call and give what it gave; UnreachableError if it hangs."""
        del seconds_max, told
        self.count += 1
        if not self.hang_at or self.count < self.hang_at:
            return call()
        if self.under_way is None:
            self.under_way = call
            call.__self__.is_begun = True  # type: ignore[attr-defined] # it hangs in the midst of it
        raise UnreachableError(f"{what} hangs")

    def end(self) -> None:
        """What hangs is done now."""
        self.hang_at = 0
        call, self.under_way = self.under_way, None
        if call is not None:
            with suppress(PowerCut):
                call()


class LanesThatHang(InTurn):
    """One after the other in the caller's thread, but for calls at a start."""

    def __init__(self) -> None:
        self.each: dict[str, HangingCalls] = defaultdict(HangingCalls)

    def calls(self, key: str) -> HangingCalls:
        """Give those of one directory; a process that starts anew meets the same disk."""
        return self.each[key]


class Machine:
    """Simulated disks by directory, and the journal that is mirrored on them."""

    def __init__(self, *names: str, seed: int = 0) -> None:
        self.directories = [Path("/") / name for name in names]
        self.disks = {
            path: SimulatedDisk(seed * 100 + place) for place, path in enumerate(self.directories)
        }
        self._ids = 0
        self.lanes: Lanes = InTurn()
        self.settings = MirrorSettings()
        self.equalize: Equalize = equalize
        self.caretaker: Caretaker
        self.log: LocalJournal

    def open_disk(self, *directories: Path) -> Caretaker:
        """Take these directories, all if none is named, and give the disk they make."""
        self.caretaker = MirrorOpening(
            directories or self.directories,
            lambda path: StandingDisk(self.disks[path]),
            self.settings,
            equalize=self.equalize,
            rescued=rescued,
            lanes=self.lanes,
            new_id=self._new_id,
        ).open()
        return self.caretaker

    def open(self, *directories: Path) -> LocalJournal:
        """The same, and the journal on it."""
        caretaker = self.open_disk(*directories)
        try:
            self.log = LocalJournal(
                caretaker.disk,
                directory=caretaker.disk.base,
                settings=JournalSettings(
                    segment_bytes=16 * KiB, tail_cache_bytes=0, read_cache_bytes=0
                ),
            )
        except BaseException:
            for disk in self.disks.values():
                disk.locks.clear()
            raise
        return self.log

    def fill(self) -> None:
        """Let the caretaker work until there is nothing to do."""
        while self.caretaker.turn() >= 0:
            pass

    def hanging(self) -> Iterable[HangingCalls]:
        """What may hang at a start, and what still does."""
        return self.lanes.each.values() if isinstance(self.lanes, LanesThatHang) else ()

    def kill(self) -> None:
        """The process is gone, and with it its locks, once what hangs is done."""
        for it in self.hanging():
            it.end()
        for disk in self.disks.values():
            disk.kill_process()

    def cut_power(self) -> None:
        """All disks lose what was not synced, and what hangs is never done."""
        for it in self.hanging():
            it.hang_at, it.under_way = 0, None
        for disk in self.disks.values():
            disk.power_cut()

    def states(self) -> list[str]:
        """How the mirrors are, in the order of their directories."""
        views = {it.directory: it.state for it in self.caretaker.views()}
        return [views.get(str(it), "?") for it in self.directories]

    def _new_id(self) -> str:
        self._ids += 1
        return "".join(it.name for it in self.directories) + f"{self._ids:014x}"


class World:
    """One seed's life of a machine."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - to be repeated from a seed
        self.machine = Machine(*"abc"[: self.chance.choice((2, 2, 3))], seed=seed)
        self.lanes = self.machine.lanes = LanesThatHang()
        self.stored: dict[int, bytes] = {}
        self.happened: Counter[str] = Counter()
        self.failing = self.chance.choice((0.0, 0.05, 0.15))

    def run(self) -> None:
        """Live; raises LostError if something stored is missing or wrong."""
        self._start()
        for _ in range(STEPS):
            try:
                self._step()
                if self.machine.caretaker.disk.keeper.is_lost:
                    raise PowerCut  # The process ends.
            except PowerCut:
                self._note()
                self.happened["power cut"] += 1
                self.machine.cut_power()
                self._start()
        for disk in self.machine.disks.values():
            disk.cut_at = 0
        if not self.machine.caretaker.disk.keeper.is_lost:
            self._check()

    def _step(self) -> None:
        draw = self.chance.random()
        machine = self.machine
        if draw < 0.5:
            self._append()
        elif draw < 0.6:
            self._take_turns()
        elif draw < 0.6 + self.failing:
            disk = self.chance.choice(list(machine.disks.values()))
            kind = self.chance.choice(["write", "sync", "rename", "create", "sync_directory"])
            disk.fail_next[kind] = self.chance.choice([errno.EIO, errno.EIO, errno.ENOSPC])
        elif draw < 0.80:
            disk = self.chance.choice(list(machine.disks.values()))
            disk.cut_at = disk.operations + self.chance.randint(1, 12)
        elif draw < 0.82:
            self._put_copy_in_place()
        elif draw < 0.84:
            self._rot()
        elif draw < 0.86:
            self._bring_back()
        elif draw < 0.88:
            self._answer_again()
        elif draw < 0.91:
            self._note()
            machine.kill()
            self._start()
        elif draw < 0.94:
            self._rot_while_away()
        else:
            self._check()

    def _take_turns(self) -> None:
        try:
            for _ in range(self.chance.randint(1, 30)):
                self.machine.caretaker.turn()
        except OSError:
            self._end_with_too_few()

    def _end_with_too_few(self) -> None:
        self.happened["too few left"] += 1
        self._note()
        self.machine.kill()
        self._start()

    def _append(self) -> None:
        log = self.machine.log
        body = self.chance.randbytes(self.chance.choice((10, 600, 3000)))
        try:
            log.append(body)
        except (JournalFailedError, CorruptEntryError):
            pass
        self._note()
        if log.writer.failure is not None:
            self.happened["process ended"] += 1
            self.machine.kill()
            self._start()

    def _note(self) -> None:
        """Take up what the writer told to be stored."""
        for index, entry in self.machine.log.stored.items():
            self.stored[index] = entry.raw

    def _rot(self) -> None:
        """Bits of one mirror rot, in a segment; the others have the entry whole."""
        active = self._those_in_place()  # One that is away has nothing to mend another by.
        if len(active) < 2:
            return
        mirror = self.chance.choice(active)
        disk = self.machine.disks[mirror.directory]
        paths = [it for it in disk.durable_paths() if it.name.endswith(".segment")]
        if paths:
            path = self.chance.choice(paths)
            size = len(disk.durable_content(path) or b"")
            disk.flip_bit(path, self.chance.randrange(4096 * 8, max(size, 4097) * 8))
            self.happened["rot"] += 1
            self._scrub()  # Before it comes to the others.
            for each in self.machine.disks.values():
                each.fail_next.pop("write", None)  # What found no room is tried in the next round.
            self._scrub()

    def _put_copy_in_place(self) -> None:
        """A mirror's path leads to a copy of it from now on; what is open there stays the old."""
        active = self._those_in_place()
        if len(active) > 1:
            self.happened["copy in place"] += 1
            self.machine.disks[self.chance.choice(active).directory].put_copy_in_place()
            self.machine.caretaker.disk.rest = self._end_of_patience

    def _those_in_place(self) -> tuple[Mirror, ...]:
        """Have it looked where the paths lead to, as each second; give who is active then."""
        try:
            self.machine.caretaker.look()
        except OSError:
            self._end_with_too_few()
        return self.machine.caretaker.disk.keeper.active

    def _end_of_patience(self, _seconds: float) -> None:
        """All that are left are away: the machine is switched off."""
        self.happened["all away"] += 1
        raise PowerCut

    def _rot_while_away(self) -> None:
        """
        Runs of bytes go bad while no process is there, in places of their own on each mirror: every
        entry is whole on one of those that are active.
        """
        machine = self.machine
        self._note()
        active = [it.directory for it in machine.caretaker.disk.keeper.active]
        machine.kill()
        if len(active) > 1:
            paths = {it.relative_to(active[0]) for it in machine.disks[active[0]].durable_paths()}
            names = sorted(it for it in paths if it.suffix == ".segment")
            self.chance.shuffle(names)
            # Of each file one mirror stays whole: rot of two could meet in one entry.
            for name in names[: self.chance.randint(1, 3)]:
                self._spoil(self.chance.choice(active), name)
            if self.chance.random() < 0.5:
                for disk in machine.disks.values():
                    disk.fail_next.clear()
                self._start(all_given=True, may_hang=False)
                return
        self._start(may_hang=False)  # The only whole copy is on one of those that are given.

    def _spoil(self, directory: Path, name: Path) -> None:
        disk, path = self.machine.disks[directory], directory / name
        content = disk.durable_content(path)
        if not content:
            return
        self.happened["run of rot"] += 1
        start = self.chance.choice((0, 4096, self.chance.randrange(len(content))))
        length = self.chance.choice((1, 64, 700, 5000))
        for byte in range(start, min(start + length, len(content))):
            disk.flip_bit(path, byte * 8 + self.chance.randrange(8))

    def _scrub(self) -> None:
        """Hold all copies of each entry against each other."""
        journal, disk = self.machine.log.journal, self.machine.caretaker.disk
        for index in range(1, journal.durable_index + 1):
            path, start, size = journal.place_of(index)
            disk.mend(path, start, size, is_entry(index))

    def _bring_back(self) -> None:
        """A mirror that failed comes back as it was, or empty."""
        machine = self.machine
        for mirror in machine.caretaker.disk.keeper.mirrors:
            if mirror.state != "failed":
                continue
            if self.chance.random() < 0.5:
                self.happened["replaced"] += 1
                machine.disks[mirror.directory] = SimulatedDisk(self.chance.getrandbits(30))
            self.happened["brought back"] += 1
            try:
                machine.caretaker.enable(mirror.directory)
            except (OSError, MirrorError):
                self.happened["enable failed"] += 1
            except StoreError:
                self.happened["refused while it hangs"] += 1
            return

    def _answer_again(self) -> None:
        """What hung at the start answers; what was under way there is done by now, or later."""
        for it in self.machine.hanging():
            it.hang_at = 0
            if self.chance.random() < 0.5:
                it.end()

    def _start(self, *, all_given: bool = False, may_hang: bool = True) -> None:
        machine = self.machine
        for _ in range(100):
            for calls in machine.hanging():
                calls.end()
            for disk in machine.disks.values():
                disk.cut_at = 0
                disk.locks.clear()
                disk.fail_next.clear()
            given = machine.directories
            known = [it for it in given if machine.disks[it].exists(it / FILE_NAME)]
            if (
                known and not all_given and self.chance.random() < 0.3
            ):  # Empty ones alone are another store.
                others = [it for it in given if it not in known[:1]]
                self.chance.shuffle(known)
                given = [known[0], *(it for it in others if it != known[0])]
                given = given[: self.chance.randint(1, len(given))]
                if self.chance.random() < 0.3:
                    disk = machine.disks[self.chance.choice(given)]
                    disk.cut_at = disk.operations + self.chance.randint(1, 30)
            hanging = self.lanes.calls(str(self.chance.choice(given)))
            if may_hang and self.chance.random() < 0.2:
                hanging.hang_at = hanging.count + self.chance.randint(1, 60)
            try:
                machine.open(*given)
            except MirrorsMissingError:
                self.happened["refused"] += 1
            except PowerCut:
                self.happened["power cut at start"] += 1
                machine.cut_power()
            except JournalFailedError:
                machine.kill()
            except (StoreError, OSError):
                if hanging.under_way is None:
                    raise
                self.happened["refused while it hangs"] += 1
                machine.kill()
            else:
                self.happened["started"] += 1
                if hanging.under_way is not None:
                    self.happened["started though one hangs"] += 1
                    hanging.hang_at *= self.chance.random() < 0.5
                else:
                    hanging.hang_at = 0
                self._check()
                return
        raise LostError("no start succeeds")

    def _check(self) -> None:
        if self.machine.caretaker.disk.keeper.is_lost:
            return
        journal = self.machine.log.journal
        for index, raw in sorted(self.stored.items()):
            if index > journal.last_index:
                raise LostError(f"entry {index} of {len(self.stored)} is missing")
            try:
                found = journal.entry(index).raw
            except CorruptEntryError as error:
                raise LostError(f"entry {index}: {error}") from error
            if found != raw:
                raise LostError(f"entry {index} is another one")
        # What was written and never told may be there; from now on it is stored.
        for index in range(len(self.stored) + 1, journal.durable_index + 1):
            self.stored[index] = journal.entry(index).raw


def lost_by(seed: int) -> str:
    """What a seed lost; empty if nothing is."""
    try:
        World(seed).run()
    except LostError as error:
        return str(error)
    return ""


def main() -> int:
    """Run many seeds and tell what they met."""
    return run_seeds("A mirrored journal under faults.", World, LostError, "lost", count=200)


if __name__ == "__main__":
    raise SystemExit(main())
