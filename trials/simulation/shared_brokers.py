"""
Several brokers on one simulated shared directory, in simulated time, from a seed.

Each broker is a small model of what drives a leased log: it waits out a lease by its own clock,
takes, appends, confirms within its lease, tells and drops. It runs on a thread of its own, of which
one runs at a time: at each step of its disk the next one is chosen by the clock, so everything may
pause, be killed or be overtaken between any two operations.

What must hold (`Books`): nothing that was stored is missing from what a later take sees; an append
is there as a whole or not at all; what was called sure is never undone; the chain is unbroken; and
nobody confirms while a younger holder serves.

A copy may come in the place of the directory, for a while or for good. What must hold is asked of
the directory that was there when a call last looked: each has books of its own, and a copy those of
the one it is a copy of. What was stored stands there; and no broker takes a log that lacks what it
knew to be stored.
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
from holdfast.errors import (
    AppendRefusedError,
    HoldfastError,
    MissingEntriesError,
    StoreError,
    UnreachableError,
)
from holdfast.journal.entry import FIRST_CHAIN, Entry, verify_chain
from holdfast.leases.contract import Claimant, Holding, Outcome, Place
from holdfast.leases.seen import Seen, SeenFile
from holdfast.model.limits import KiB
from holdfast.shared.places import Places
from holdfast.shared.settings import SharedSettings
from trials.simulation.local_share import seal
from trials.simulation.log_by_way import LogByWay
from trials.simulation.simulated_disk import SimulatedDisk
from trials.simulation.simulated_share import Machine, Mount, ShareClient, SimulatedSharedDisk

ROOT = Path("/share")
OWN = Path("/own")
LEASE_SECONDS = 2.0
MARGIN_SECONDS = 0.3
SETTINGS = SharedSettings(
    segment_bytes=16 * 1024,
    first_segment_bytes=8 * 1024,
    beat_seconds=LEASE_SECONDS / 10,
    takes_with_room=0,
)
KEEPING = replace(SETTINGS, takes_with_room=4)
IDENTITY = "0" * 32
"""Of the one log there is, for those who remember what they saw of it."""
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

    def copy(self) -> Books:
        """Return those of a copy of the directory; what happens is counted in one."""
        return replace(
            self, stored=dict(self.stored), sure=dict(self.sure), groups=list(self.groups)
        )

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

    copy: float = 0.0
    """That a copy is made, at a step, and comes in the place of the directory a little later."""

    stays: float = 0.0
    """That it does so for good."""

    away: float = 0.0
    """That nothing is in the place of the directory, at a step, for a moment or longer."""

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
        self.mount = Mount(SimulatedSharedDisk(seed))
        self.server.make_directory(ROOT)
        self._books = {self.server: Books()}
        self._is_copied = False
        self._original = self.server
        self.is_split = False
        """A copy was gone on with, or stayed: not all that was seen there can come back."""
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

    @property
    def server(self) -> SimulatedSharedDisk:
        """What the path leads to."""
        return self.mount.server

    @property
    def books(self) -> Books:
        """Of what the path leads to."""
        return self._books[self.server]

    @property
    def all_books(self) -> list[Books]:
        """Of all directories there are."""
        return list(self._books.values())

    def books_of(self, server: SimulatedSharedDisk) -> Books:
        """Of one directory."""
        return self._books[server]

    def go_away(self) -> None:
        """The directory is away for a moment, or some seconds."""
        if self.mount.is_away or self.is_over:
            return
        self.books.happened["away"] += 1
        self.mount.is_away = True
        self.at(self.random.choice([0.001, 0.01, 0.3, LEASE_SECONDS]), self._come_back)

    def _come_back(self) -> None:
        self.mount.is_away = False

    def copy(self) -> None:
        """Somebody makes a copy, which is in the place of the directory a little later."""
        if self._is_copied or self.is_over:
            return
        self._is_copied = True
        original, copy = self.server, self.server.copy(self.seed)
        self._books[copy] = self.books.copy()
        is_for_good = self.random.random() < self.troubles.stays
        come = self.random.uniform(0.0, 2 * LEASE_SECONDS)
        self.at(come, lambda: self._replace(copy, "a copy came in its place"))
        if is_for_good:
            self.at(come, self._let_it_stay)
        else:
            gone = come + self.random.choice([0.001, 0.1, LEASE_SECONDS, 3 * LEASE_SECONDS])
            self.at(gone, lambda: self._bring_back(original))

    def _let_it_stay(self) -> None:
        self.books.happened["it stayed"] += 1
        self.is_split = True

    def _bring_back(self, original: SimulatedSharedDisk) -> None:
        self._replace(original, "it was brought back")
        self._is_copied = False

    def _replace(self, server: SimulatedSharedDisk, what: str) -> None:
        self.mount.server = server
        self.books.happened[what] += 1

    def note_used(self, server: SimulatedSharedDisk) -> None:
        """Somebody has taken, or stored, in this directory."""
        self.is_split |= server is not self._original

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


class WentBack(Exception):  # noqa: N818 - it is an ending
    """A broker has told that the log lacks what it knows to be stored, and ends."""


class Broker:
    """A model of what drives one log; a new process each time it starts."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        own = SimulatedDisk()
        own.make_directory(OWN)
        self._seen = SeenFile(OWN, own)
        self._taken_in: SimulatedSharedDisk | None = None
        """The directory whose lease was taken last."""
        self._seen_here: Seen | None = None
        """What the present process has noted last."""
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
        machine = Machine(world.mount, self._random.getrandbits(32))
        world.machines.append(machine)
        machine.is_coherent = world.troubles.is_coherent
        self._client = ShareClient(machine, self._step, lambda: world.now)
        self._is_killed = False
        self._is_running = True
        self._seen_here = None
        threading.Thread(target=self._thread, args=(self._client,), daemon=True).start()
        world.wait_for(self)

    def kill(self) -> None:
        """It will be gone at its next step."""
        self._is_killed = True

    def look_at_the_end(self) -> None:
        """Take when everybody else is gone, and see what is there."""
        self._is_calm = True
        machine = Machine(self._world.mount, 0)
        machine.is_coherent = True
        self._client = ShareClient(machine, self._step, lambda: self._world.now)
        log = self._make_log(self._client)
        seen = log.open()
        # One claim after the other may have been won by who never began.
        while (taken := self._take_at_the_end(log, seen)) is None:
            again = log.observe()
            if again == seen:
                raise BrokenPromise("nobody is there, and it cannot be taken")
            seen = again
        self._read_all(log, taken)

    def _take_at_the_end(self, log: LogByWay, seen: Holding) -> Holding | None:
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
        except WentBack:
            self._world.books.happened["told that it went back"] += 1
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

    def _make_log(self, client: ShareClient) -> LogByWay:
        return LogByWay(
            client,
            Places(ROOT),
            SETTINGS if not self._world.troubles.full else KEEPING,
            clock=self.clock,
            draw=self._random.randbytes,
        )

    @property
    def _directory(self) -> SimulatedSharedDisk | None:
        """What the last call looked at last."""
        return None if self._client is None else self._client.looked_at

    @property
    def _books(self) -> Books:
        """Of that directory."""
        assert self._client is not None
        return self._world.books_of(self._client.looked_at)

    def _claimant(self) -> Claimant:
        holder = self._random.randbytes(16).hex()
        return Claimant(holder=holder, name=f"b{self._number}", admin="", stomp="")

    def _wait_for_lease(self, log: LogByWay, seen: Holding) -> Holding:
        """Watch until the lease is silent for its whole time by this clock; then take it."""
        claimant = self._claimant()
        since = self.clock()
        known = (seen.epoch, seen.beat)
        while True:
            self._sleep(LEASE_SECONDS / 10 * self._random.uniform(0.8, 1.2))
            now = log.observe()
            self._books.note_sure(now.sure)
            self._judge(log, now)
            if (now.epoch, now.beat) != known:
                known, since = (now.epoch, now.beat), self.clock()
            is_silent = self.clock() - since > LEASE_SECONDS + MARGIN_SECONDS
            is_free = now.epoch == 0 or now.is_released
            if not (is_silent or is_free):
                if self._random.random() < 0.1:
                    self._read_some(log, now)
                continue
            started = self.clock()
            taken = self._try_to_take(log, now, claimant)
            if taken is not None:
                self._valid_until = started + LEASE_SECONDS - MARGIN_SECONDS
                self._world.books.happened["taken"] += 1
                return taken

    def _try_to_take(self, log: LogByWay, now: Holding, claimant: Claimant) -> Holding | None:
        client = self._client
        assert client is not None
        # Whatever comes of it, others may find that it has begun there.
        client.on_within = self._world.note_used
        try:
            taken = log.take(now, claimant)
            self._taken_in = client.looked_at
            return taken
        finally:
            client.on_within = lambda _server: None

    def _judge(self, log: LogByWay, now: Holding) -> None:
        """As who works for a driver does: refuse a log that lacks what is known to be final."""
        if not self._world.troubles.copy:
            return
        last, chain = self._seen.last, None
        if last is not None and now.first_index <= last.place.index <= now.end.index:
            try:
                found = log.entries(last.place.index - 1, last.place.index, 1)
            except MissingEntriesError:
                found = []
            if not found:
                return  # Another directory is there by now, or it was cut off.
            chain = found[0].chain
        try:
            self._seen.judge(IDENTITY, now, chain)
        except StoreError as error:
            if not self._world.is_split and last is self._seen_here:
                raise  # What this process has seen itself comes back: it is waited for.
            raise WentBack from error
        epoch = now.epoch if now.beat else max(now.epoch - 1, 0)
        self._note_seen(epoch, now.sure, max(epoch, now.epoch))

    def _note_seen(self, epoch: int, place: Place, epoch_max: int | None = None) -> None:
        before = self._seen.last
        self._seen.note(IDENTITY, epoch, place, self.clock(), epoch_max)
        if self._seen.last is not before:
            self._seen_here = self._seen.last

    def _require_known(self, taken: Holding, entries: list[Entry]) -> None:
        """What this broker knows to be stored is in what it takes."""
        last = self._seen.last
        if last is None or last.place.index < taken.first_index:
            return
        chains = {it.index: it.chain for it in entries}
        if chains.get(last.place.index) != last.place.chain:
            raise BrokenPromise(f"it takes a log without entry {last.place.index}, which it stored")

    def _read_some(self, log: LogByWay, now: Holding) -> None:
        """Tail, as a waiter does; what is not sure may be undone, and no more than that."""
        after = max(now.first_index - 1, now.end.index - 20)
        try:
            entries = log.entries(after, now.end.index, 4096)
        except MissingEntriesError:
            self._world.books.happened["dropped while it was read"] += 1
            return
        for entry in entries:
            if entry.index <= now.sure.index:
                self._books.note_sure(Place(entry.index, entry.chain))

    def _read_all(self, log: LogByWay, taken: Holding) -> bool:
        """Read the log that was taken; False if the lease has run out meanwhile."""
        entries: list[Entry] = []
        after = taken.first_index - 1
        while after < taken.end.index:
            try:
                found = log.entries(after, taken.end.index, 8192)
                if not found:
                    raise MissingEntriesError(after + 1, taken.end.index, "the log")
            except MissingEntriesError:
                if self._directory is not self._taken_in:
                    return False  # What was taken is not what is there.
                if self.clock() >= self._valid_until and not self._is_calm:
                    return False  # A younger holder has dropped them.
                raise
            entries += found
            after = entries[-1].index
        if self.clock() >= self._valid_until and not self._is_calm:
            return False
        self._books.note_taken(taken, entries)
        self._require_known(taken, entries)
        self._books.note_sure(taken.sure)
        return True

    def _serve(self, log: LogByWay, taken: Holding) -> None:
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
                self._note_stored(taken.epoch, entries)
                end = Place(entries[-1].index, entries[-1].chain)
            if self.clock() >= self._valid_until:
                books.happened["too late"] += 1
                return
            self._books.note_confirmed(taken.epoch, len(entries))
        log.release()
        books.happened["released"] += 1

    def _note_stored(self, epoch: int, entries: list[Entry]) -> None:
        """What was given as stored is where everybody looked, or had just looked."""
        assert self._client is not None
        server = self._client.looked_at
        names = server.list_directory(ROOT / "journal")
        is_there = any(entries[-1].raw in server.content(ROOT / "journal" / it) for it in names)
        if not is_there and entries[-1].index >= self._books.dropped_to:
            raise BrokenPromise(f"entry {entries[-1].index} is confirmed, and nobody will find it")
        self._world.note_used(server)
        self._books.note_stored(entries)
        place = Place(entries[-1].index, entries[-1].chain)
        if self.clock() < self._valid_until:
            self._note_seen(epoch, place)

    def _store(self, log: LogByWay, entries: list[Entry]) -> Outcome | None:
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

    def _may_give_up(self, log: LogByWay, error: AppendRefusedError) -> bool:
        """Whether what is refused is given up with the lease, as a driver does in the end."""
        if error.keeps_lease or self._random.random() >= GIVE_UP:
            return False
        self._is_given_up = True
        # While there was little others may not have taken what the next take has to itself.
        self._promised_at = self._world.fills if log.low_room else -1
        return True

    def _take_again(self, log: LogByWay) -> Holding | None:
        """Take the lease that was given up for want of room; room is kept for that."""
        started = self.clock()
        try:
            taken = self._try_to_take(log, log.observe(), self._claimant())
        except NoRoomError as error:
            # Past the lease others may have used it; and what a take has freed may be filled again.
            is_promised = self._promised_at == self._world.fills
            if is_promised and self.clock() < self._valid_until:
                raise BrokenPromise("it was given up, and cannot be taken again") from error
            raise
        if taken is not None:
            self._valid_until = started + LEASE_SECONDS - MARGIN_SECONDS
        return taken

    def _drop(self, log: LogByWay, first_index: int, last_index: int) -> None:
        index = self._random.randint(first_index, max(first_index, last_index - 2))
        for books in self._world.all_books:
            books.dropped_to = max(books.dropped_to, index)
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
        for books in self._world.all_books:
            books.groups.append([(it.index, it.chain) for it in entries])
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
            if troubles.away and chance.random() < troubles.away:
                self._world.go_away()
            if troubles.copy and chance.random() < troubles.copy:
                self._world.copy()
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
