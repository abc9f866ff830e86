"""
The rules of mirror sets under every accident there is, from a seed.

Several processes on several machines start with whatever members they find, append, lose members
whose writes fail (and may be done all the same), take others in, and end between any two writes.
Members are pulled out of a machine whose process lives on. Nothing is modelled but what the rules
speak of: each member has a copy of the set and a log.

    python -m trials.mirrors.sets --count 5000
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

from holdfast.errors import MirrorError, MirrorsMissingError
from holdfast.mirrors.mirror_set import Holding, MirrorSet, Start, accept, found_set
from trials.mirrors.seeds import run_seeds

STEPS = 400
Steps = Generator[None, None, None]


class BrokenError(Exception):
    """What was promised does not hold."""


@dataclass
class Disk:
    """One member: what is written on it, and whose it is."""

    copy: MirrorSet | None = None
    log: list[int] = field(default_factory=list)
    owner: int = 0


class World:
    """All members, all processes, and what was confirmed."""

    def __init__(
        self, seed: int, *, confirms_early: bool = False, ends_often: bool = False
    ) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - it is to be repeated
        self.confirms_early = confirms_early
        self.disks: dict[str, Disk] = {}
        self.confirmed: list[int] = []
        self.processes: dict[int, Steps] = {}
        self.count = 0
        self.happened: Counter[str] = Counter()
        self.failing = self.chance.choice((0.0, 0.01, 0.05))
        self.crashing = self.chance.choice((0.005, 0.02, 0.08))
        members = "abcdefghi"[: self.chance.choice((2, 2, 3, 3, 4, 5, 6, 9))]
        if ends_often:
            self.failing, self.crashing, members = 0.0, 0.1, "abc"
        first = found_set("set", members)
        for member in members:
            self.disks[member] = Disk(first)

    def run(self) -> None:
        """Let chance have its way; raises `BrokenError` where a promise does not hold."""
        for _ in range(STEPS):
            draw = self.chance.random()
            if draw < 0.03 or not self.processes:
                self._begin()
            elif draw < 0.05:
                self._pull()
            elif draw < 0.05 + self.crashing:
                self._end(self.chance.choice(list(self.processes)))
            else:
                self._step(self.chance.choice(list(self.processes)))

    def _step(self, process: int) -> None:
        try:
            next(self.processes[process])
        except StopIteration:
            self._end(process)
        except MirrorError as error:
            self.happened[type(error).__name__] += 1
            self._end(process)

    def _end(self, process: int) -> None:
        self.happened["ended"] += 1
        del self.processes[process]
        for disk in self.disks.values():
            if disk.owner == process:
                disk.owner = 0

    def _pull(self) -> None:
        """A member is taken out of its machine; the process there only sees failing writes."""
        owned = [it for it in self.disks.values() if it.owner]
        if owned:
            self.happened["pulled"] += 1
            self.chance.choice(owned).owner = 0

    def _begin(self) -> None:
        free = [name for name, it in self.disks.items() if not it.owner and it.copy]
        if not free:
            return
        self.count += 1
        process = self.count
        taken = self.chance.sample(free, self.chance.randint(1, len(free)))
        if self.chance.random() < 0.5:
            taken = free
        for name in taken:
            self.disks[name].owner = process
        self.processes[process] = self._process(process, taken)

    def written(self, process: int, name: str) -> Iterator[Disk]:
        """Give the member for one write, none if that is seen to fail, done or not."""
        disk = self.disks[name]
        if disk.owner != process:
            return
        if self.chance.random() < self.failing:
            if self.chance.random() < 0.5:
                yield disk
            disk.owner = 0  # It is not written any more by this process.
            return
        yield disk

    def is_mine(self, process: int, name: str) -> bool:
        """Whether this process still writes to the member."""
        return self.disks[name].owner == process

    def spread(
        self, process: int, copies: dict[str, MirrorSet]
    ) -> Generator[None, None, list[str]]:
        """Write a copy of a set on each of these members; give those where it is durable."""
        names = sorted(copies)
        self.chance.shuffle(names)
        done = []
        for name in names:
            for disk in self.written(process, name):
                disk.copy = copies[name]
            if self.is_mine(process, name):
                done.append(name)
            yield
        return done

    def _process(self, process: int, taken: list[str]) -> Steps:
        copies = {name: copy for name in taken if (copy := self.disks[name].copy)}
        if not copies:
            return
        try:
            start = Start(copies)
        except MirrorsMissingError:
            if self.chance.random() < 0.02:
                yield from self._accept(process, copies)
            raise
        promised = yield from self.spread(process, start.promise())
        if set(promised) != set(start.witnesses):
            return
        truth = max((self.disks[name].log for name in sorted(start.holds)), key=len)
        log = list(truth)
        begun = start.begin()
        written = yield from self.spread(process, dict.fromkeys(start.witnesses, begun))
        holder = _Holder(self, process, Holding(begun), log)
        holder.holding.written(written)
        yield from holder.mend()
        self.happened["started"] += 1
        self.judge(log, "a start serves")
        yield from holder.serve()

    def _accept(self, process: int, copies: dict[str, MirrorSet]) -> Steps:
        """The operator says that the others are gone for good, and they are."""
        for name, disk in self.disks.items():
            if name not in copies:
                if disk.owner:
                    return
                disk.copy, disk.log = None, []
        accepted = accept(copies, str(process))
        self.happened["accepted"] += 1
        log = max((self.disks[name].log for name in sorted(accepted.active)), key=len)
        same = [i for i, (a, b) in enumerate(zip(log, self.confirmed, strict=False)) if a != b]
        del self.confirmed[min([*same, len(log)]) :]
        yield from self.spread(process, dict.fromkeys(copies, accepted))

    def judge(self, log: list[int], who: str) -> None:
        """Hold a log that is served against what was confirmed."""
        if log[: len(self.confirmed)] != self.confirmed:
            raise BrokenError(f"{who} {log} without what was confirmed: {self.confirmed}")

    def confirm(self, log: list[int]) -> None:
        """All of this log is confirmed."""
        self.judge(log, "there is confirmed")
        self.confirmed[:] = log
        self.happened["confirmed"] += 1


class _Holder:
    """A process that has started: it appends, and changes its set."""

    def __init__(self, world: World, process: int, holding: Holding, log: list[int]) -> None:
        self.world = world
        self.process = process
        self.holding = holding
        self.log = log

    @property
    def _active(self) -> list[str]:
        return sorted(self.holding.current.active)

    def _write_set(self) -> Steps:
        current = self.holding.current
        targets = [
            name
            for name, state in current.states
            if state in ("active", "joining") and self.world.disks[name].owner == self.process
        ]
        written = yield from self.world.spread(self.process, dict.fromkeys(targets, current))
        self.holding.written(written)

    def mend(self) -> Steps:
        """Bring every active member to the end of the log, without those that fail."""
        while True:
            for name in self._active:
                for disk in self.world.written(self.process, name):
                    disk.log = list(self.log)
                yield
            yield from self.without_failed()
            if all(self.world.disks[name].log == self.log for name in self._active):
                return

    def without_failed(self) -> Steps:
        """Go on without the members that were seen to fail; what stands then may be confirmed."""
        disks = self.world.disks
        while True:
            lost = [it for it in self._active if disks[it].owner != self.process]
            if lost:
                self.world.happened["shrunk"] += 1
                self.holding.change(dict.fromkeys(lost, "failed"))
            if not lost and self.holding.is_standing:
                return
            yield from self._write_set()

    def serve(self) -> Steps:
        chance = self.world.chance
        while True:
            draw = chance.random()
            if draw < 0.7:
                yield from self._append()
            elif draw < 0.8:
                yield from self._take_in()
            elif draw < 0.85:
                current = self.holding.settled()
                targets = [it for it in self._active if self.world.is_mine(self.process, it)]
                yield from self.world.spread(self.process, dict.fromkeys(targets, current))
                yield from self.without_failed()
            yield

    def _append(self) -> Steps:
        entry = self.world.chance.getrandbits(30)
        self.log.append(entry)
        names = self._active
        self.world.chance.shuffle(names)
        for name in names:
            for disk in self.world.written(self.process, name):
                disk.log = list(self.log)
            yield
        if self.world.confirms_early:
            if any(self.world.is_mine(self.process, name) for name in names):
                self.world.confirm(self.log)
            yield
        yield from self.without_failed()
        self.world.confirm(self.log)

    def _take_in(self) -> Steps:
        """Fill a member that failed or is new, and make it active."""
        world = self.world
        free = [
            name for name, it in world.disks.items() if it.owner == 0 and name not in self._active
        ]
        if not free:
            return
        name = world.chance.choice(sorted(free))
        disk = world.disks[name]
        disk.owner = self.process
        disk.log = [world.chance.getrandbits(30)]
        self.holding.change({name: "joining"})
        yield from self._write_set()
        yield from self.without_failed()
        for filled in world.written(self.process, name):
            filled.log = list(self.log)
        yield
        if not world.is_mine(self.process, name):
            return
        world.happened["taken in"] += 1
        self.holding.change({name: "active"})
        yield from self._write_set()
        yield from self.without_failed()


def broken_by(seed: int, *, confirms_early: bool = False, ends_often: bool = False) -> str:
    """What a seed shows to be broken; empty if nothing is."""
    try:
        World(seed, confirms_early=confirms_early, ends_often=ends_often).run()
    except BrokenError as error:
        return str(error)
    return ""


def main() -> int:
    """Run many seeds and tell what they met."""
    return run_seeds("Mirror sets under every accident.", World, BrokenError, "broken", count=1000)


if __name__ == "__main__":
    raise SystemExit(main())
