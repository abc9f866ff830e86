"""
Several brokers on one simulated shared directory, in simulated time, from a seed.

Each broker is a small model of what drives a leased log: it waits out a lease by its own clock,
takes, appends, confirms within its lease, tells and drops. It runs on a thread of its own, of which
one runs at a time: at each step of its disk the next one is chosen by the clock, so everything may
pause, be killed or be overtaken between any two operations.

What must hold (`Books`): nothing that was stored is missing from what a later take sees; an append
is there as a whole or not at all; what was called sure is never undone; the chain is unbroken; and
nobody confirms while a younger holder serves.
"""

from __future__ import annotations

import errno
import heapq
import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from holdfast.environment.disk import NoRoomError
from holdfast.errors import AppendRefusedError, HoldfastError, MissingEntriesError, UnreachableError
from holdfast.journal.entry import FIRST_CHAIN, Entry, verify_chain
from holdfast.leases.contract import Claimant, Holding, Outcome, Place
from holdfast.model.limits import KiB
from holdfast.shared.directory_log import DirectoryLog
from holdfast.shared.places import Places
from holdfast.shared.settings import SharedSettings
from trials.simulation.local_share import seal
from trials.simulation.simulated_share import Machine, ShareClient, SimulatedSharedDisk

ROOT = Path("/share")
LEASE_SECONDS = 2.0
MARGIN_SECONDS = 0.3
SETTINGS = SharedSettings(
    segment_bytes=16 * 1024,
    first_segment_bytes=8 * 1024,
    beat_seconds=LEASE_SECONDS / 10,
    takes_with_room=0,
)
KEEPING = replace(SETTINGS, takes_with_room=4)
GIVE_UP = 0.3
"""Of refusals that allow it."""


class Killed(BaseException):
    """The process is gone."""


class BrokenPromise(AssertionError):  # noqa: N818 - it is a finding, not an error of ours
    """What a log on a shared directory must never do."""


@dataclass
class Books:
    """What the brokers were told, and what therefore must hold; it sees everything."""

    stored: dict[int, bytes] = field(default_factory=dict)
    """Chain by index of all that was given as STORED."""

    sure: dict[int, bytes] = field(default_factory=dict)
    groups: list[list[tuple[int, bytes]]] = field(default_factory=list)
    """What was appended at once, stored or not."""

    dropped_to: int = 1
    served_epoch: int = 0
    confirmed: int = 0
    happened: Counter[str] = field(default_factory=Counter)

    def note_stored(self, entries: list[Entry]) -> None:
        """An append was given as stored."""
        for entry in entries:
            self._agree(self.stored, entry.index, entry.chain, "stored")
            self._agree_with(self.sure, entry.index, entry.chain, "sure")

    def note_confirmed(self, epoch: int, count: int) -> None:
        """A holder tells its clients, within its lease by its own clock."""
        if epoch < self.served_epoch:
            raise BrokenPromise(f"epoch {epoch} confirms while {self.served_epoch} serves")
        self.confirmed += count

    def note_sure(self, place: Place) -> None:
        """Somebody read that this place is sure."""
        if place.index:
            self._agree(self.sure, place.index, place.chain, "sure")
            self._agree_with(self.stored, place.index, place.chain, "stored")

    def note_taken(self, holding: Holding, entries: list[Entry]) -> None:
        """Somebody holds the lease and has read the log."""
        epoch = holding.epoch
        self.served_epoch = max(self.served_epoch, epoch)
        if holding.first_index > self.dropped_to:
            raise BrokenPromise(f"epoch {epoch} begins at {holding.first_index}: nobody said so")
        chains = {it.index: it.chain for it in entries}
        for before, entry in pairwise(entries):
            if not verify_chain(entry, before.chain):
                raise BrokenPromise(f"epoch {epoch}: the chain breaks at entry {entry.index}")
        last = entries[-1] if entries else None
        if last is not None and Place(last.index, last.chain) != holding.end:
            raise BrokenPromise(f"epoch {epoch}: it ends otherwise than it says")
        for what, known in (("stored", self.stored), ("sure", self.sure)):
            for index, chain in known.items():
                if index >= holding.first_index and chains.get(index) != chain:
                    raise BrokenPromise(f"epoch {epoch}: entry {index}, {what}, is not in the log")
        for group in self.groups:
            there = [chains.get(index) == chain for index, chain in group]
            if group[0][0] >= holding.first_index and any(there) and not all(there):
                raise BrokenPromise(f"epoch {epoch}: half an append from {group[0][0]} is there")

    def _agree(self, known: dict[int, bytes], index: int, chain: bytes, what: str) -> None:
        self._agree_with(known, index, chain, what)
        known[index] = chain

    def _agree_with(self, known: dict[int, bytes], index: int, chain: bytes, what: str) -> None:
        if known.get(index, chain) != chain:
            raise BrokenPromise(f"entry {index} is another one than the one that was {what}")


@dataclass(frozen=True)
class Troubles:
    """How often what goes wrong."""

    pause: float
    """That a step takes very long."""

    kill: float
    error: float
    """That an operation fails with EIO or ESTALE, done or not."""

    server_loss: float
    """That the server loses its power, at a step."""

    is_coherent: bool

    full: float = 0.0
    """That others fill the share, at a step, but for what is kept; and at the end, to its end."""

    @classmethod
    def of(cls, seed: int) -> Troubles:
        """Choose by the seed."""
        chance = random.Random(f"troubles {seed}")  # noqa: S311 - to be repeated from a seed
        return cls(
            pause=chance.choice([0.0, 0.002, 0.01]),
            kill=chance.choice([0.0, 0.0005, 0.003]),
            error=chance.choice([0.0, 0.0, 0.005]),
            server_loss=chance.choice([0.0, 0.0, 0.002]),
            is_coherent=chance.random() < 0.3,
        )


class World:
    """The share, its brokers and the time."""

    def __init__(
        self,
        seed: int,
        *,
        brokers: int = 3,
        seconds: float = 40.0,
        troubles: Troubles | None = None,
    ) -> None:
        """Choose what will go wrong by the seed, or take what is given."""
        self.seed = seed
        self.random = random.Random(seed)  # noqa: S311 - to be repeated from a seed
        self.troubles = troubles or Troubles.of(seed)
        self.server = SimulatedSharedDisk(seed)
        self.server.make_directory(ROOT)
        self.books = Books()
        self.now = 0.0
        self.is_over = False
        self._until = seconds
        self._back = threading.Semaphore(0)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._brokers = [Broker(self, number) for number in range(brokers)]
        self.failure: BaseException | None = None
        self.fills = 0
        """How often others have filled the share."""
        self.machines: list[Machine] = []
        """All that ever were."""

    def run(self) -> Books:
        """Let time pass; then one last broker looks at what is there."""
        for broker in self._brokers:
            self.at(self.random.uniform(0.0, 2.0), broker.start)
        while self._events and self._events[0][0] < self._until and self.failure is None:
            self._next()
        self.is_over = True
        for broker in self._brokers:
            broker.kill()
        while self._events:
            self._next()
        if self.failure is None:
            self.server.power_cut()
            self._fill_at_the_end()
            Broker(self, len(self._brokers)).look_at_the_end()
        if self.failure is not None:
            raise self.failure
        return self.books

    def at(self, seconds: float, what: Callable[[], None]) -> None:
        """Let something happen later."""
        self._count += 1
        heapq.heappush(self._events, (self.now + seconds, self._count, what))

    def wait_for(self, broker: Broker) -> None:
        """Let a broker's thread run until it waits again."""
        broker.turn.release()
        self._back.acquire()

    def give_back(self) -> None:
        """A broker's thread waits, or has ended."""
        self._back.release()

    def lose_server(self) -> None:
        """The server starts anew; its clients ask on."""
        self.books.happened["server lost its power"] += 1
        self.server.power_cut()

    def fill(self) -> None:
        """Others leave no room, for a while."""
        self.fills += 1
        self.books.happened["share filled"] += 1
        self.server.limit(self.random.choice([0, 3000, 20_000]))
        self.at(self.random.uniform(0.5, 3 * LEASE_SECONDS), lambda: self.server.limit(None))

    def _fill_at_the_end(self) -> None:
        """Whoever comes last must make do with what was kept, where anything was."""
        names = [it for it in self.server.list_directory(ROOT) if it.startswith("reserve-")]
        # One that is not whole was being made.
        is_kept = any(len(self.server.content(ROOT / it)) >= 64 * KiB for it in names)
        self.server.limit(0 if self.troubles.full and is_kept else None)
        self.books.happened["taken of what was kept"] += bool(self.troubles.full and is_kept)

    def _next(self) -> None:
        self.now, _, what = heapq.heappop(self._events)
        what()


class Broker:
    """A model of what drives one log; a new process each time it starts."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self._number = number
        self._random = random.Random(f"{world.seed} {number}")  # noqa: S311 - see above
        self._rate = self._random.uniform(0.98, 1.02)
        self._wall = self._random.uniform(-1e8, 1e8)
        self.turn = threading.Semaphore(0)
        self._is_killed = False
        self._is_running = False
        self._is_calm = False
        self._client: ShareClient | None = None
        self._valid_until = 0.0
        self._is_given_up = False
        self._promised_at = -1
        """How often others had filled the share when room was promised; -1: none was."""
        self._confirmed = Place(0, FIRST_CHAIN)

    def start(self) -> None:
        """Start a process on a machine of its own."""
        world = self._world
        if world.is_over:
            return
        machine = Machine(world.server, self._random.getrandbits(32))
        world.machines.append(machine)
        machine.is_coherent = world.troubles.is_coherent
        self._client = ShareClient(machine, self._step, lambda: world.now)
        self._is_killed = False
        self._is_running = True
        threading.Thread(target=self._thread, args=(self._client,), daemon=True).start()
        world.wait_for(self)

    def kill(self) -> None:
        """It will be gone at its next step."""
        self._is_killed = True

    def look_at_the_end(self) -> None:
        """Take when everybody else is gone, and see what is there."""
        self._is_calm = True
        machine = Machine(self._world.server, 0)
        machine.is_coherent = True
        log = self._make_log(ShareClient(machine, self._step, lambda: self._world.now))
        seen = log.open()
        # One claim after the other may have been won by who never began.
        while (taken := self._take_at_the_end(log, seen)) is None:
            again = log.observe()
            if again == seen:
                raise BrokenPromise("nobody is there, and it cannot be taken")
            seen = again
        self._read_all(log, taken)

    def _take_at_the_end(self, log: DirectoryLog, seen: Holding) -> Holding | None:
        try:
            return log.take(seen, self._claimant())
        except NoRoomError as error:
            raise BrokenPromise("it cannot be taken, though room was kept for that") from error

    def clock(self) -> float:
        """This machine's own clock; by it leases are judged."""
        return self._world.now * self._rate + self._number * 1000.0

    def _thread(self, client: ShareClient) -> None:
        self.turn.acquire()
        try:
            self._live(client)
        except Killed:
            self._world.books.happened["killed"] += 1
        except BaseException as error:  # noqa: BLE001 - told by the world
            if self._world.failure is None:
                self._world.failure = error
        self._is_running = False
        client.die()
        self._world.at(self._random.uniform(0.0, 3 * LEASE_SECONDS), client.machine.crash)
        self._world.at(self._random.uniform(0.1, 2 * LEASE_SECONDS), self.start)
        self._world.give_back()

    def _live(self, client: ShareClient) -> None:
        log = self._make_log(client)
        while True:
            try:
                seen = log.open()
                break
            except (OSError, UnreachableError):
                self._sleep(0.5)
        while True:
            try:
                taken = self._wait_for_lease(log, seen)
                self._serve(log, taken)
                seen = log.observe()
            except (OSError, UnreachableError):
                self._world.books.happened["unreachable"] += 1
                self._sleep(0.1)

    def _make_log(self, client: ShareClient) -> DirectoryLog:
        return DirectoryLog(
            client,
            Places(ROOT),
            SETTINGS if not self._world.troubles.full else KEEPING,
            monotonic=self.clock,
            draw=self._random.randbytes,
        )

    def _claimant(self) -> Claimant:
        holder = self._random.randbytes(16).hex()
        return Claimant(holder=holder, name=f"b{self._number}", admin="", stomp="")

    def _wait_for_lease(self, log: DirectoryLog, seen: Holding) -> Holding:
        """Watch until the lease is silent for its whole time by this clock; then take it."""
        claimant = self._claimant()
        since = self.clock()
        known = (seen.epoch, seen.beat)
        while True:
            self._sleep(LEASE_SECONDS / 10 * self._random.uniform(0.8, 1.2))
            now = log.observe()
            self._world.books.note_sure(now.sure)
            if (now.epoch, now.beat) != known:
                known, since = (now.epoch, now.beat), self.clock()
            is_silent = self.clock() - since > LEASE_SECONDS + MARGIN_SECONDS
            is_free = now.epoch == 0 or now.is_released
            if not (is_silent or is_free):
                if self._random.random() < 0.1:
                    self._read_some(log, now)
                continue
            started = self.clock()
            taken = log.take(now, claimant)
            if taken is not None:
                self._valid_until = started + LEASE_SECONDS - MARGIN_SECONDS
                self._world.books.happened["taken"] += 1
                return taken

    def _read_some(self, log: DirectoryLog, now: Holding) -> None:
        """Tail, as a waiter does; what is not sure may be undone, and no more than that."""
        after = max(now.first_index - 1, now.end.index - 20)
        try:
            entries = log.entries(after, now.end.index, 4096)
        except MissingEntriesError:
            self._world.books.happened["dropped while it was read"] += 1
            return
        for entry in entries:
            if entry.index <= now.sure.index:
                self._world.books.note_sure(Place(entry.index, entry.chain))

    def _read_all(self, log: DirectoryLog, taken: Holding) -> bool:
        """Read the log that was taken; False if the lease has run out meanwhile."""
        entries: list[Entry] = []
        after = taken.first_index - 1
        while after < taken.end.index:
            try:
                entries += log.entries(after, taken.end.index, 8192)
            except MissingEntriesError:
                if self.clock() >= self._valid_until and not self._is_calm:
                    return False  # A younger holder has dropped them.
                raise
            after = entries[-1].index
        if self.clock() >= self._valid_until and not self._is_calm:
            return False
        self._world.books.note_taken(taken, entries)
        self._world.books.note_sure(taken.sure)
        return True

    def _serve(self, log: DirectoryLog, taken: Holding) -> None:
        """Append and confirm for as long as the lease is ours."""
        books = self._world.books
        if not self._read_all(log, taken):
            books.happened["too late"] += 1
            return
        end = taken.end
        until = self.clock() + self._random.uniform(1.0, 12 * LEASE_SECONDS)
        while self.clock() < until:
            self._sleep(self._random.uniform(0.0, LEASE_SECONDS / 5))
            if self._random.random() < 0.2:
                self._drop(log, taken.first_index, end.index)
            is_idle = self._random.random() < 0.2
            entries = [] if is_idle else self._seal(taken.epoch, end)
            outcome = self._store(log, entries)
            if outcome is None and self._is_given_up:
                books.happened["given up for want of room"] += 1
                again = self._take_again(log)
                if again is None or not self._read_all(log, again):
                    return
                taken, end = again, again.end
                continue
            if outcome is not Outcome.STORED:
                books.happened["deposed"] += 1
                return
            if entries:
                books.note_stored(entries)
                end = Place(entries[-1].index, entries[-1].chain)
            if self.clock() >= self._valid_until:
                books.happened["too late"] += 1
                return
            books.note_confirmed(taken.epoch, len(entries))
        log.release()
        books.happened["released"] += 1

    def _store(self, log: DirectoryLog, entries: list[Entry]) -> Outcome | None:
        """Append, and the very same again where the outcome is not known; None: given up."""
        self._is_given_up = False
        while self.clock() < self._valid_until:
            started = self.clock()
            try:
                outcome = log.append(entries) if entries else log.renew()
            except (OSError, UnreachableError, AppendRefusedError) as error:
                if isinstance(error, AppendRefusedError) and self._may_give_up(log, error):
                    return None
                self._world.books.happened["the same again"] += 1
                self._sleep(0.02)
                continue
            if outcome is Outcome.STORED:
                self._valid_until = started + LEASE_SECONDS - MARGIN_SECONDS
            return outcome
        return None

    def _may_give_up(self, log: DirectoryLog, error: AppendRefusedError) -> bool:
        """Whether what is refused is given up with the lease, as a driver does in the end."""
        if error.keeps_lease or self._random.random() >= GIVE_UP:
            return False
        self._is_given_up = True
        # While there was little others may not have taken what the next take has to itself.
        self._promised_at = self._world.fills if log.low_room else -1
        return True

    def _take_again(self, log: DirectoryLog) -> Holding | None:
        """Take the lease that was given up for want of room; room is kept for that."""
        started = self.clock()
        try:
            taken = log.take(log.observe(), self._claimant())
        except NoRoomError as error:
            # Past the lease others may have used it; and what a take has freed may be filled again.
            is_promised = self._promised_at == self._world.fills
            if is_promised and self.clock() < self._valid_until:
                raise BrokenPromise("it was given up, and cannot be taken again") from error
            raise
        if taken is not None:
            self._valid_until = started + LEASE_SECONDS - MARGIN_SECONDS
        return taken

    def _drop(self, log: DirectoryLog, first_index: int, last_index: int) -> None:
        index = self._random.randint(first_index, max(first_index, last_index - 2))
        self._world.books.dropped_to = max(self._world.books.dropped_to, index)
        try:
            while log.drop_before(index):
                pass
        except (OSError, HoldfastError) as error:
            if not isinstance(error, (OSError, UnreachableError)):
                raise

    def _seal(self, epoch: int, end: Place) -> list[Entry]:
        draw = self._random
        bodies = [
            draw.randbytes(draw.choice([10, 200, 1500])) for _ in range(draw.choice([1, 1, 2, 5]))
        ]
        entries = seal(end, epoch, *bodies)
        self._world.books.groups.append([(it.index, it.chain) for it in entries])
        return entries

    def _step(self, kind: str) -> None:
        """One step of the disk: anything may happen here."""
        if self._is_calm:
            return
        if not self._is_killed:
            troubles, chance = self._world.troubles, self._random
            if chance.random() < troubles.kill:
                self.kill()
            seconds = chance.uniform(0.0, 0.004)
            if chance.random() < troubles.pause:
                self._world.books.happened["paused"] += 1
                seconds = chance.uniform(0.1, 4 * LEASE_SECONDS)
            if troubles.full and chance.random() < troubles.full:
                self._world.fill()
            if chance.random() < troubles.server_loss:
                self._world.at(seconds / 2, self._world.lose_server)
            self._sleep(seconds)
            if kind not in {"hold", "is_held", "list"} and chance.random() < troubles.error:
                self._world.books.happened["input or output error"] += 1
                raise OSError(chance.choice([errno.EIO, errno.ESTALE]), "simulated", kind)
        if self._is_killed:
            raise Killed

    def _sleep(self, seconds: float) -> None:
        if self._is_killed:
            raise Killed
        self._world.at(seconds, lambda: self._world.wait_for(self))
        self._world.give_back()
        self.turn.acquire()
        if self._is_killed:
            raise Killed


def simulate_share(seed: int, troubles: Troubles | None = None) -> Books:
    """
    Run one seed.

    Raises:
        BrokenPromise: Something was broken.
    """
    return World(seed, troubles=troubles).run()
