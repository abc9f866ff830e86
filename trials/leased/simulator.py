"""
A world of brokers over one log that several reach, lived through in virtual time from its seed.

Trouble comes one after the other; then all is healed, and the log, the caches and what was
confirmed are compared. Or something is done to the medium that must be refused.

Invariants:
    The same seed lives the same life, event by event.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from holdfast.errors import CorruptEntryError, NotLeaderError, StoreError
from holdfast.journal.settings import JournalSettings, KiB
from holdfast.leases.contract import Place
from holdfast.leases.settings import LeaseSettings
from holdfast.model.limits import MiB
from trials.leased import plan as plans
from trials.leased.judge import BrokenError, Judge
from trials.leased.model_databases import (
    ModelDatabase,
    ModelSet,
    another_log,
    cloned,
    copied,
    is_whole,
)
from trials.leased.model_directory import ModelDirectory
from trials.leased.model_elector import ModelElector
from trials.leased.model_medium import ModelMedium
from trials.leased.passage import LOST, Fate
from trials.leased.plan import Plan, plan
from trials.leased.simulated_broker import SimulatedBroker
from trials.simulation.simulated_clock import Timeline

_LEASES_TO_HEAL = 5
_REST_SECONDS = 6.0
_NEWCOMERS_MAX = 3
"""So many may start that have others' names."""
_RARE_SECONDS = 0.4
"""Between two proposals, once only what is large matters."""
_SLOW_SECONDS = 20.0
"""For what is large where two databases are left, and the slow one is the longer one."""
_UNREAD_BYTES = 10_000
"""What is stored in a few seconds."""
_ROOM_BYTES = 50_000
"""Less than what is large, and more than all that is small is stored with."""


@dataclass(frozen=True, slots=True)
class LeasedResult:
    """How a world ended."""

    seed: int
    plan: str
    violation: str
    counts: Counter[str]
    faults: Counter[str]
    seconds: float
    takes: int
    entries: int
    transcript: list[str]
    digest: str


class LeasedWorld:
    """One world."""

    def __init__(self, seed: int, made: Plan) -> None:
        self.seed = seed
        self.plan = made
        self.chance = random.Random(f"leased world {seed}")  # noqa: S311 - to be repeated
        self.timeline = Timeline()
        self.faults: Counter[str] = Counter()
        self.transcript: list[str] = []
        self.medium: Any = ModelMedium() if made.is_fence else self._directory()
        if made.databases:
            self.medium = ModelSet(made.databases)
        self.elector: ModelElector | None = None
        if made.elector:
            self.elector = ModelElector(
                made.elector,
                made.session_seconds,
                lambda: self.timeline.now,
                random.Random(f"elector's {seed}"),  # noqa: S311 - to be repeated
            )
        self.is_elector_away = False
        self._others: list[tuple[ModelDatabase, dict[int, bytes], Place]] = []
        self.turned: dict[int, ModelDatabase] = {}
        self._is_put_back = False
        """Addresses that lead all brokers to a clone, by their place."""
        """Databases of others, and what was in them."""
        self.judge = Judge(self)
        self.is_publishing = True
        self.is_away = self.is_full = False
        self.slowness = 1.0
        self.is_calm = False
        self.waited_leases = 0.0
        """How long nobody served once all was healed."""
        self.lease_settings = LeaseSettings(
            lease_seconds=made.lease_seconds,
            tell_seconds=1.0,
            append_bytes_max=self.chance.choice((2_000, 20_000)),
            unread_bytes_max=_UNREAD_BYTES if plans.CACHE_FULL in made.kinds else 64 * MiB,
            elector_session_seconds=made.session_seconds,
            elector_patience_seconds=made.lease_seconds,
        )
        self.journal_settings = JournalSettings(
            segment_bytes=16 * KiB,
            tail_cache_bytes=self.chance.choice((0, 8 * KiB)),
            read_cache_bytes=4 * KiB,
            spare_segments=0,
        )
        names = ["a", "b", "c", "d"][: made.brokers]
        if made.is_name_doubled:
            names[1] = "a"
        self.brokers = [SimulatedBroker(self, number, name) for number, name in enumerate(names)]
        for broker in self.brokers:
            broker.run_clock_at(1 + self.chance.uniform(-made.rate, made.rate))

    def _directory(self) -> ModelDirectory:
        made = ModelDirectory()
        made.clock = lambda: self.timeline.now
        made.cut_unsynced = lambda count: self.chance.randint(0, count)
        return made

    def note(self, broker: SimulatedBroker | None, what: str) -> None:
        """Write a line of the transcript."""
        who = f"{broker.name}{broker.number} " if broker else ""
        self.transcript.append(f"{self.timeline.now:9.3f} {who}{what}")

    def count(self, what: str) -> None:
        """Something went wrong, or was done about it."""
        self.faults[what] += 1

    # The way to the medium ------------------------------------------------------------------------

    def fate(self, broker: SimulatedBroker, statement: str) -> Fate:
        """What becomes of a statement of this broker."""
        made, chance = self.plan, self.chance
        latency = made.latency_seconds * self.slowness * chance.uniform(0.2, 2.0)
        back = made.latency_seconds * self.slowness * chance.uniform(0.2, 2.0)
        if broker.is_cut_off or self.is_away:
            return Fate(before=LOST, is_quick=chance.random() < 0.5)
        if self.is_full and statement in ("append", "write"):
            self.count("refused")
            return Fate(before=latency, refusal="the model is full")
        if self.is_calm:
            return Fate(before=latency, after=back)
        lot = chance.random()
        for name, fate in (
            ("lost_request", Fate(before=LOST)),
            ("lost_reply", Fate(before=latency, after=LOST)),
            ("late", Fate(before=chance.uniform(0.2, 1.0) * made.late_seconds, after=back)),
            ("slow_reply", Fate(before=latency, after=made.lease_seconds * chance.random())),
        ):
            share = getattr(made, name)
            if name == "slow_reply" and made.slow_kinds and statement not in made.slow_kinds:
                share = 0.0
            if lot < share:
                self.count(name.replace("_", " "))
                return fate
            lot -= share
        return Fate(before=latency, after=back)

    # Its life -------------------------------------------------------------------------------------

    def live(self) -> None:
        """From the first start to the comparison of all."""
        for broker in self.brokers:
            self.timeline.after(self.chance.uniform(0.0, 1.0), self._start, broker)
        end = self.timeline.now + self.plan.chaos_seconds
        while self.timeline.now < end:
            self.timeline.run(self.chance.uniform(*self.plan.pause_seconds))
            self._trouble()
        ending = self.plan.ending
        if ending == plans.RESTORED:
            self._restore_a_backup()
        elif ending == plans.ROW_GONE:
            self._lose_the_row()
        else:
            if ending == plans.ROTTEN:
                self._spoil_an_entry()
            self._heal()

    def _start(self, broker: SimulatedBroker) -> None:
        if not broker.is_alive:
            broker.start()

    def _trouble(self) -> None:
        kinds = self.plan.kinds
        kind = self.chance.choices(list(kinds), list(kinds.values()))[0]
        victims = [it for it in self.brokers if it.is_running and not it.is_stopping]
        holders = [it for it in victims if it.driver.is_leader]
        if holders and self.chance.random() < 0.6:
            victims = holders
        if not victims:
            return
        if self._harm(kind, self.chance.choice(victims)):
            self.count(kind)

    def _harm(self, kind: str, victim: SimulatedBroker) -> bool:
        chance, after, lease = self.chance, self.timeline.after, self.plan.lease_seconds
        length = lease * chance.choice(self.plan.lengths)
        self.note(victim, f"{kind}, {length:.1f} s")
        match kind:
            case plans.KILL | plans.POWER | plans.WIPE:
                self._kill(kind, victim, length)
            case plans.PAUSE:
                victim.pause()
                after(length, victim.resume)
            case plans.CALL:
                victim.pause_in_a_call(length, is_writing=chance.random() < 0.6)
            case plans.CUT_OFF | plans.LONG_AWAY:
                victim.is_cut_off = True
                length *= 4 if kind == plans.LONG_AWAY else 1
                after(length, setattr, victim, "is_cut_off", False)
            case plans.AWAY | plans.FULL:
                name = "is_away" if kind == plans.AWAY else "is_full"
                setattr(self, name, True)
                after(length, setattr, self, name, False)
            case plans.SLOW:
                self.slowness = chance.choice((10.0, 100.0, 300.0))
                after(length, setattr, self, "slowness", 1.0)
            case plans.TRANSFER:
                return self._hand_over(victim)
            case plans.CLEAN_STOP:
                victim.stop_cleanly()
                after(length, self._start, victim)
            case plans.ROT:
                return self._rot(victim)
            case plans.CACHE_FULL:
                victim.disk.limit(chance.choice((0, 5_000)))
                after(length * chance.choice((1, 4)), victim.disk.limit, None)
            case plans.NAMESAKE | plans.NAMESAKE_OF_KILLED | plans.NAMESAKES_TOGETHER:
                return self._start_namesake(kind, victim, length)
            case plans.ELECTOR_AWAY:
                self.is_elector_away = True
                after(length, setattr, self, "is_elector_away", False)
            case plans.ELECTOR_CUT:
                victim.is_cut_off_from_elector = True
                after(length, setattr, victim, "is_cut_off_from_elector", False)
            case plans.ELECTOR_BACK if self.elector is not None:
                self.elector.restart()
            case _:
                return self._harm_a_database(kind, victim, length)
        return True

    def _harm_a_database(self, kind: str, victim: SimulatedBroker, length: float) -> bool:
        chance, after = self.chance, self.timeline.after
        match kind:
            case plans.DATABASE_CUT:
                way = chance.choice(victim.ways)
                way.is_cut = True
                after(length, setattr, way, "is_cut", False)
            case plans.DATABASE_AWAY | plans.DATABASE_FULL:
                database: ModelDatabase = chance.choice(self.medium.databases)
                name = "is_away" if kind == plans.DATABASE_AWAY else "is_full"
                setattr(database, name, True)
                after(length * chance.choice((0.3, 1, 4)), setattr, database, name, False)
            case plans.DATABASE_SLOW:
                slow: ModelDatabase = chance.choice(self.medium.databases)
                slow.bytes_per_second = chance.choice((20_000, 60_000, 200_000))
                after(2 * length, setattr, slow, "bytes_per_second", 0)
            case plans.DATABASES_LOW:
                for low in self._all_but_one():
                    low.room_bytes = _ROOM_BYTES
                    after(2 * length, setattr, low, "room_bytes", 0)
            case plans.DATABASE_ASTRAY | plans.DATABASE_COPIED:
                self._lead_astray(kind, length)
            case plans.DATABASE_CROWDED:
                place = chance.randrange(self.plan.databases)
                for twin in [it.twins[place] for it in self.brokers if it.is_alive]:
                    twin.is_let_in = False
                    after(length * chance.choice((1, 4)), setattr, twin, "is_let_in", True)
            case plans.DATABASE_CLONED:
                return self._lead_to_a_clone(length)
            case plans.DATABASE_ROT:
                return self._rot_a_row()
            case plans.DATABASE_BACK:
                return self._put_back_later(chance.choice(self.medium.databases), length)
            case plans.DATABASE_DISABLED:
                return victim.want_disabled(chance.choice(self.medium.databases).member, length)
        return True

    def _put_back_later(self, database: ModelDatabase, length: float) -> bool:
        """
        Let a database go back to what it is now, once a while is over.

        Once in a world, while it counts and another one does: what only that one has is lost with
        it. And in the same epoch: what went back further is found by that.
        """
        if not self._is_put_back:
            self.timeline.after(length, self._put_back, database, database.backup())
        return False  # It is counted when it does.

    def _put_back(self, database: ModelDatabase, backup: dict[str, Any]) -> None:
        counting = {it.member for it in self.medium.active}
        for broker in self.brokers:
            # What it leaves out just now may be written nowhere yet.
            tenure = None if broker.raidb is None else broker.raidb._tenure  # noqa: SLF001
            counting &= counting if tenure is None else set(tenure.active)
        counts = database.member in counting and len(counting) > 1 and not self.turned
        if self._is_put_back or not counts or database.epoch != backup["epoch"]:
            return
        self._is_put_back = True
        self.count(plans.DATABASE_BACK)
        database.put_back(backup)

    def _lead_astray(self, kind: str, length: float) -> None:
        """
        Let one of the addresses lead elsewhere, for connections that brokers make from now on.

        Those by which is read beside what is stored are made anew at any time. The others stay
        mostly, and where they are broken as well they lead to no copy that others went on with.
        Nor to another log where a broker knows nothing of its own yet: nothing tells it which of
        the two is meant, so it refuses both, or takes the other one if that is all it reaches.
        """
        chance = self.chance
        place = chance.randrange(self.plan.databases)
        database: ModelDatabase = self.medium.databases[place]
        count = chance.choice((0, 3, 30))
        is_copy = kind == plans.DATABASE_COPIED
        other = another_log(database.end.index + count)
        if is_copy:
            other = copied(database, count, chance.choice((-1, 0, 1)))
        self._others.append((other, dict(other.rows), other.end))
        running = [it for it in self.brokers if it.is_alive]
        ways = [it.twins[place] for it in running]
        drawn = [it for it in running if not is_copy and chance.random() < 0.5]
        ways += [it.members[place] for it in drawn if it.seen.last is not None]
        for way in ways:
            way.leads_to = other
            self.timeline.after(length, setattr, way, "leads_to", None)

    def _lead_to_a_clone(self, length: float) -> bool:
        """
        Let one of the addresses lead all brokers to a clone, by all ways and until it is put right.

        One at a time, and another one that counts leads to its own: a copy of the only one cannot
        be told from it. Nor can one that was begun earlier than what goes on without its original:
        that looks like the original, which is filled. The address is put right by then.
        """
        chance = self.chance
        place = chance.randrange(self.plan.databases)
        database: ModelDatabase = self.medium.databases[place]
        is_only_one = all(it is database for it in self.medium.active)
        if self.turned or database.written is None or is_only_one:
            return False
        count = chance.choice((0, 3, 30))
        other = cloned(database, count, chance.choice((0, 1, 2, 5)))
        other.is_put_right = lambda: self._went_on_without(database, other)
        self._others.append((other, dict(other.rows), other.end))
        self.turned[place] = other
        self._turn_ways(place)
        self.timeline.after(length * chance.choice((1, 3)), self._turn_back, place)
        return True

    def _went_on_without(self, database: ModelDatabase, other: ModelDatabase) -> bool:
        newest = self.medium.newest
        if newest is None or other.written is None or database.member in newest.active:
            return False
        return bool(other.written.known.number.start < newest.number.start)

    def _turn_back(self, place: int) -> None:
        self.turned.pop(place, None)
        self._turn_ways(place)

    def _turn_ways(self, place: int) -> None:
        for broker in self.brokers:
            for ways in (broker.members, broker.twins):
                if ways:
                    ways[place].leads_to = self.turned.get(place)

    def _all_but_one(self) -> list[ModelDatabase]:
        databases: list[ModelDatabase] = self.medium.databases
        return self.chance.sample(databases, len(databases) - 1)

    def _kill(self, kind: str, victim: SimulatedBroker, length: float) -> None:
        holder = victim.holder
        victim.stop(power=kind == plans.POWER)
        if kind == plans.WIPE or (kind == plans.POWER and self.chance.random() < 0.5):
            victim.lose_cache()
        if kind == plans.KILL and self.chance.random() < 0.5:
            for other in self.brokers:
                if other is not victim:
                    self.timeline.after(0.3, self._hint, other, holder)
        self.timeline.after(length, self._start, victim)

    def _start_namesake(self, kind: str, victim: SimulatedBroker, length: float) -> bool:
        """Start one on a machine of its own, with a name that is another's."""
        if len(self.brokers) >= self.plan.brokers + _NEWCOMERS_MAX:
            return False
        name, count = victim.name, 1
        if kind == plans.NAMESAKES_TOGETHER:
            name, count = f"n{len(self.brokers)}", 2
        elif kind == plans.NAMESAKE_OF_KILLED:
            self._kill(plans.KILL, victim, length)
        together = self.chance.uniform(0.0, 1.0)
        for _ in range(count):
            newcomer = SimulatedBroker(self, len(self.brokers), name)
            newcomer.run_clock_at(1 + self.chance.uniform(-self.plan.rate, self.plan.rate))
            self.brokers.append(newcomer)
            later = self.chance.choice((0.0, 0.0, 0.01, 0.5))
            self.timeline.after(together + later, self._start, newcomer)
        return True

    def _hint(self, broker: SimulatedBroker, holder: str) -> None:
        if broker.is_running and not broker.is_stopping:
            self.count("holder known to be gone")
            # Half of them are told by another machine, which counts a moment later.
            broker.driver.holder_is_gone(holder, is_here=sum(holder.encode()) % 2 == 0)

    def _hand_over(self, victim: SimulatedBroker) -> bool:
        try:
            victim.driver.transfer()
        except (NotLeaderError, StoreError):
            return False
        return True

    def enable(self, member: str) -> None:
        """The operator enables a database, in whoever holds the lease by then."""
        holders = [it for it in self.brokers if it.is_running and it.driver.is_leader]
        raidb = holders[0].raidb if holders else None
        if raidb is None or not raidb.caretaker.is_holding:
            self.timeline.after(1.0, self.enable, member)
        else:
            raidb.caretaker.want_soon({member: "joining"})
            self.timeline.after(2.0, self._see_enabled, member)

    def _see_enabled(self, member: str) -> None:
        newest = self.medium.newest
        if newest is not None and newest.state_of(member) == "disabled":
            self.enable(member)

    def _rot(self, victim: SimulatedBroker) -> bool:
        disk = victim.disk
        paths = [it for it in disk.durable_paths() if it.name.endswith(".segment")]
        paths = [it for it in paths if disk.exists(it)]
        if not paths:
            return False
        path = self.chance.choice(paths)
        used = len(disk.content(path).rstrip(b"\0"))
        if not used:
            return False
        disk.flip_bit(path, self.chance.randrange(used * 8))
        return True

    def _rot_a_row(self) -> bool:
        """Let a row of one database rot which another one that counts has whole."""
        active = self.medium.active
        if len(active) < 2:
            return False
        victim, *others = self.chance.sample(active, len(active))
        through = min(it.end.index for it in active)
        whole = [
            it
            for it in victim.rows
            if victim.first_index <= it <= through and any(is_whole(other, it) for other in others)
        ]
        if not whole:
            return False
        victim.damage(self.chance.choice(sorted(whole)))
        return True

    # Its end --------------------------------------------------------------------------------------

    def _mend_all(self) -> None:
        self.is_calm = True
        self.is_away = self.is_full = self.is_elector_away = False
        self.slowness = 1.0
        for database in self.medium.databases if self.plan.databases else ():
            database.is_away = database.is_full = False
            database.bytes_per_second = database.room_bytes = 0
        self.turned.clear()
        for broker in self.brokers:
            broker.is_cut_off = broker.is_cut_off_from_elector = False
            broker.disk.limit(None)
            for way in broker.ways:
                way.is_cut = False
            for member in (*broker.members, *broker.twins):
                member.leads_to, member.is_let_in = None, True
            broker.resume()
        names = {it.name for it in self.brokers if it.is_alive}
        for broker in self.brokers:
            is_left_alone = broker.is_outlived and broker.name not in names
            if not broker.is_alive and (broker.ended_by is None or is_left_alone):
                names.add(broker.name)
                broker.start()

    def _heal(self) -> None:
        self.note(None, "all is healed")
        self._mend_all()
        made, judge = self.plan, self.judge
        self.waited_leases = self._wait_for_one_that_serves()
        # What is under way still, and who is being stopped and started again.
        self.timeline.run(max(made.late_seconds, 12 * made.lease_seconds))
        self._mend_all()
        if made.large:
            self._leave_a_large_one()
        confirmed = judge.counts["confirmed"]
        self.timeline.run(_LEASES_TO_HEAL * made.lease_seconds)
        # One of a short lease may lose it to slow answers at this very moment, and take it again.
        self._wait_for_one_that_serves()
        alive = [it for it in self.brokers if it.is_alive]
        if not (made.ending == plans.ROTTEN and not alive):
            serving = [it for it in alive if it.is_serving]
            judge.require(len(serving) == 1, "T7", f"{len(serving)} serve although all is healed")
            judge.require(judge.counts["confirmed"] > confirmed, "T7", "nothing is confirmed")
        self.is_publishing = False
        self.timeline.run(_REST_SECONDS)
        if made.ending == plans.ROTTEN:
            return
        for _ in range(20):
            are_whole = [it.scrub(0) for it in self.brokers if it.ended_by is None]
            if all(are_whole):
                break
            self.timeline.run(2.0)
        judge.at_the_end()
        if made.are_names_judged:
            judge.see_names()
        for other, rows, end in self._others:
            is_as_it_was = (other.rows, other.end) == (rows, end)
            judge.require(is_as_it_was, "T14", "a database of others was written")

    def _leave_a_large_one(self) -> None:
        """
        Let a holder die with a large entry under way, where most databases take no such one.

        That is no reason why nobody serves: what is in one of them only was never confirmed.
        """
        self._wait_for_one_that_serves()
        self.plan.propose_seconds = max(self.plan.propose_seconds, _RARE_SECONDS)
        hindered = self._all_but_one()
        is_slow = self.chance.random() < 0.5
        for it in hindered:
            it.bytes_per_second = self.plan.slow_bytes_per_second if is_slow else 0
            it.room_bytes = 0 if is_slow else _ROOM_BYTES
        # What is in one of three and may be in the one that is away is copied, and not cut.
        is_one_away = is_slow and len(hindered) > 1 and self.chance.random() < 0.5
        holder = next(it for it in self.brokers if it.is_serving)
        holder.propose_large()
        self.timeline.run(self.plan.lease_seconds * self.chance.uniform(0.0, 0.5))
        if is_one_away:
            hindered[0].is_away = True
            self.count(plans.LARGE_LEFT_ONE_AWAY)
        if self.chance.random() < 0.8 and holder.is_alive:
            self._kill(plans.KILL, holder, 2 * self.plan.lease_seconds)
        self.count(plans.LARGE_LEFT)
        confirmed = self.judge.counts["confirmed"]
        self.timeline.run(_LEASES_TO_HEAL * self.plan.lease_seconds + is_slow * _SLOW_SECONDS)
        self._wait_for_one_that_serves(mends=False)
        is_any = self.judge.counts["confirmed"] > confirmed
        self.judge.require(is_any, "T7", "nothing is confirmed beside what is too large")
        self._mend_all()
        self.timeline.run(_LEASES_TO_HEAL * self.plan.lease_seconds)
        self._wait_for_one_that_serves()

    def _wait_for_one_that_serves(self, *, mends: bool = True) -> float:
        """Let time pass until one does; gives how many leases that took."""
        lease, began = self.plan.lease_seconds, self.timeline.now
        while not any(it.is_serving for it in self.brokers):
            self.timeline.run(0.05 * lease)
            if mends:
                self._mend_all()  # Who was ending just then is started again.
            leases = (self.timeline.now - began) / lease
            is_all_gone = self.judge.is_medium_harmed and not any(
                it.is_alive for it in self.brokers
            )
            if is_all_gone:
                break
            self.judge.require(
                leases < _LEASES_TO_HEAL, "T7", f"nobody serves after {leases:.1f} leases"
            )
        return (self.timeline.now - began) / lease

    def _spoil_an_entry(self) -> None:
        if self.medium.rows:
            self.judge.is_medium_harmed = True
            index = self.chance.choice(sorted(self.medium.rows))
            self.note(None, f"entry {index} of the medium rots")
            self.count(plans.ROTTEN)
            self.medium.damage(index)

    def _lose_the_row(self) -> None:
        self.note(None, "the lease row is gone")
        self.count(plans.ROW_GONE)
        self.medium.has_lease_row = False
        self.judge.is_medium_harmed = True
        end = self.medium.end
        self._mend_all()
        self.timeline.run(max(self.plan.late_seconds, 12 * self.plan.lease_seconds))
        for broker in self.brokers:
            self.judge.require(not broker.may_dispatch, "T9", f"{broker.name} serves without a row")
        self.judge.require(self.medium.end == end, "T9", "something was stored without a row")

    def _restore_a_backup(self) -> None:
        made = self.plan
        backup = self.medium.backup()
        self._mend_all()
        self.timeline.run(self.chance.uniform(0.5, 6) * made.lease_seconds)
        before = self.medium.end.index
        self.medium.restore(backup)
        self.judge.is_medium_harmed = self.judge.is_log_lost = True
        self.note(None, f"restored: the log ended at {before}, now at {self.medium.end.index}")
        self.count(plans.RESTORED)
        knew = [(it, it.seen.last) for it in self.brokers if self._has_seen_more(it)]
        self.timeline.run(max(made.late_seconds, 12 * made.lease_seconds))
        for broker, seen in knew:
            is_refused = not broker.is_alive and isinstance(broker.ended_by, StoreError)
            # Who was away until the place that it saw was dropped has nothing to compare.
            is_refused = is_refused or seen is None or seen.place.index < self.medium.first_index
            self.judge.require(
                is_refused, "T9", f"{broker.name} goes on with a log that went back in time"
            )

    def _has_seen_more(self, broker: SimulatedBroker) -> bool:
        if not broker.is_alive or broker.seen.last is None:
            return False
        seen, medium = broker.seen.last, self.medium
        return bool(seen.place.index > medium.end.index or seen.epoch > medium.epoch)


def simulate(seed: int, made: Plan | None = None) -> LeasedResult:
    """Live through one world."""
    world = LeasedWorld(seed, made or plan(seed))
    violation = ""
    try:
        world.live()
    except (BrokenError, AssertionError, CorruptEntryError) as error:
        violation = str(error) or repr(error)
        world.note(None, f"BROKEN {violation}")
    finally:
        for broker in world.brokers:
            broker.stop()
    if isinstance(world.medium, ModelDirectory):
        world.faults += world.medium.happened
    told = "\n".join(world.transcript)
    numbers = f"{sorted(world.judge.counts.items())} {sorted(world.medium.history.items())}"
    return LeasedResult(
        seed=seed,
        plan=str(world.plan),
        violation=violation,
        counts=world.judge.counts,
        faults=world.faults,
        seconds=world.timeline.now,
        takes=len(world.medium.takes),
        entries=len(world.medium.history),
        transcript=world.transcript,
        digest=blake2b((told + numbers).encode(), digest_size=8).hexdigest(),
    )
