"""
What must be true of a leased world, judged from outside by what was committed.

Invariants (each violation is raised with its name):
    T1: what was confirmed stands in the log, at its index and with its chain.
    T2: what any broker applies is in the log; where the medium cut it off, it was begun anew.
    T3: each broker applies entry after entry, without a gap.
    T4: no two brokers may dispatch at the same moment, whatever an elector says that does not lie
        about sessions.
    T5: an epoch has one holder.
    T6: no broker ends by itself, unless the medium was harmed.
    T7: once all is healed somebody serves within a few leases, and commits.
    T8: then every cache is the log.
    T9: a log that went back in time, or lost its lease, is refused.
    T10: what is shown to people never goes back to what an earlier holder told.
    T11: where a log is kept in several databases, all that answer are filled again.
    T12: what is confirmed there is in more than half of those that count, at that very moment.
    T13: where names are judged a broker ends for one that has its name, and lived just now; in the
        end one of each name goes on.
    T14: what an address leads to that is no database of this log is not written.
    T15: where the cache has no room, what waits in memory to be written into it is bounded.
    T16: of a level of the log's format a holder says that all know it only where that is so of each
        that had told of itself as the lease was taken.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from holdfast.leases.cache_room import CLOSED_AT
from holdfast.model.format_level import FIRST_LEVEL
from trials.leased.model_elector import FICKLE
from trials.leased.plan import CACHE_FULL
from trials.leased.simulated_broker import PROPOSED_BYTES_MAX, WAITING_BYTES_MAX

if TYPE_CHECKING:
    from holdfast.journal.entry import Entry
    from trials.leased.model_databases import ModelDatabase
    from trials.leased.simulated_broker import SimulatedBroker
    from trials.leased.simulator import LeasedWorld


CONFIRMED_WITHOUT = "confirmed while a database lacked it"
OUTLIVED = "ended for another one of its name"
_WATCHED_SECONDS = 8.0
"""After a process has ended its name is watched no longer than that."""


class BrokenError(AssertionError):
    """A promise was broken."""


def _has(database: ModelDatabase, entry: Entry) -> bool:
    """
    Whether it has an entry, or was filled since from behind it.

    A holder that slept confirms late what has been cleaned away meanwhile.
    """
    return _is_in(database.history, database.first_index, entry.index, entry.chain)


def _is_in(history: dict[int, bytes], first_index: int, index: int, chain: bytes) -> bool:
    """Whether it is in a log; of what was dropped there need be nothing."""
    return history.get(index, chain if index < first_index else b"") == chain


class Judge:
    """Sees all brokers of one world."""

    def __init__(self, world: LeasedWorld) -> None:
        self._world = world
        self.confirmed: dict[int, bytes] = {}
        self.is_medium_harmed = False
        """From now on brokers may refuse it."""
        self.is_log_lost = False
        """It went back in time: what was confirmed cannot stand there."""
        self.counts: Counter[str] = Counter()
        self._holders: dict[int, str] = {}
        self._began_with: dict[str, int] = {}
        """What each holder had in memory as it began to serve."""
        self._company: dict[str, dict[str, int]] = {}
        """Of each tenure whose lines stood as it began, and stand still, with what they know."""

    def require(self, is_true: object, name: str, what: str) -> None:
        """Stop the world if it is not."""
        if not is_true:
            raise BrokenError(f"{name}: {what}")

    def on_proposed(self, broker: SimulatedBroker, entry: Entry) -> None:
        """Somebody writes under this epoch."""
        holder = self._holders.setdefault(entry.term, broker.holder)
        self.require(
            holder == broker.holder or self.is_log_lost,
            "T5",
            f"epoch {entry.term} is held by {holder[:6]} and by {broker.holder[:6]}",
        )

    def on_applied(self, broker: SimulatedBroker, entry: Entry) -> None:
        """A broker follows."""
        self.counts["applied"] += 1
        expected = broker.applied_index + 1
        self.require(
            entry.index == expected,
            "T3",
            f"{broker.name} applies entry {entry.index} where {expected} comes next",
        )
        plan = self._world.plan
        if plan.is_fence and not plan.databases and not self.is_log_lost:
            self.require(
                self._world.medium.history.get(entry.index) == entry.chain,
                "T2",
                f"{broker.name} applies an entry {entry.index} that is not in the log",
            )

    def on_confirmed(self, broker: SimulatedBroker, entry: Entry) -> None:
        """A client was told that this is kept."""
        self.counts["confirmed"] += 1
        if self.is_log_lost:
            return
        if self._world.plan.databases:
            self._see_who_has(broker, entry)
        before = self.confirmed.setdefault(entry.index, entry.chain)
        self.require(
            before == entry.chain, "T1", f"{broker.name} confirms another entry {entry.index}"
        )

    def _see_who_has(self, broker: SimulatedBroker, entry: Entry) -> None:
        active = self._world.medium.active
        count = sum(_has(it, entry) for it in active)
        self.require(
            2 * count > len(active),
            "T12",
            f"{broker.name} confirms entry {entry.index}, which {count} of {len(active)} have",
        )
        if count < len(active):
            self._world.count(CONFIRMED_WITHOUT)

    def after_turn(self, broker: SimulatedBroker) -> None:
        """Whether it is alone, has no more in memory than it may, and has heard who waits."""
        self._see_levels(broker)
        if not broker.may_dispatch or self.is_log_lost:
            return  # A row of an older state may say that the lease was given back.
        if self._world.plan.elector == FICKLE:
            return  # It says that sessions have ended which live: only what is stored is certain.
        for other in self._world.brokers:
            is_both = other is not broker and other.may_dispatch
            self.require(not is_both, "T4", f"{broker.name} and {other.name} may dispatch at once")
        self._see_memory(broker)

    def _see_levels(self, broker: SimulatedBroker) -> None:
        """Whether it speaks for all that were there before it."""
        driver, medium = broker.driver, self._world.medium
        if self._world.plan.databases or self.is_medium_harmed or not driver.is_leader:
            return
        told = {it.claimant.holder: it.known_level for it in medium.waiters.values()}
        tenure = f"{broker.holder} {driver.term}"
        began_with = self._company.setdefault(tenure, told)
        still = self._company[tenure] = {it: began_with[it] for it in began_with if it in told}
        level = driver.format_level_of_all
        self.counts["speaks for others"] += level > FIRST_LEVEL and len(still) > 1
        self.require(
            level <= min(still.values(), default=level),
            "T16",
            f"{broker.name} says that all know level {level}: they know {sorted(still.values())}",
        )

    def _see_memory(self, broker: SimulatedBroker) -> None:
        """What a holder has waiting for room: as much as it took over with, or up to a bound."""
        plan = self._world.plan
        if CACHE_FULL not in plan.kinds or plan.large or not broker.is_serving:
            return
        settings, memory = broker.settings, broker.journal.tail.memory.bytes
        # What is read at once is more than may wait in these worlds.
        began_with = self._began_with.setdefault(f"{broker.holder} {broker.driver.term}", memory)
        bytes_max = max(CLOSED_AT * settings.unread_bytes_max, began_with)
        bytes_max += WAITING_BYTES_MAX + PROPOSED_BYTES_MAX + settings.append_bytes_max
        self.counts["waits for room"] += broker.journal.is_out_of_room
        self.require(memory <= bytes_max, "T15", f"{broker.name} has {memory:,} bytes in memory")

    def on_end(self, broker: SimulatedBroker, error: Exception) -> None:
        """A process ended by itself."""
        self.counts["ended"] += 1
        if self._world.plan.are_names_judged and broker.is_outlived:
            self._see_who_outlives(broker)
            return
        self.require(self.is_medium_harmed, "T6", f"{broker.name} ends: {error}")

    def _see_who_outlives(self, broker: SimulatedBroker) -> None:
        """What a process told last may arrive late."""
        self._world.count(OUTLIVED)
        world = self._world
        since = world.timeline.now - world.plan.late_seconds - _WATCHED_SECONDS
        named = [it for it in world.brokers if it is not broker and it.name == broker.name]
        is_other = any(it.is_alive or it.stopped_at >= since for it in named)
        # Its own last process may be the one, where its directory was lost with it.
        is_other = is_other or broker.started_at - broker.stopped_before <= _WATCHED_SECONDS
        self.require(is_other, "T13", f"{broker.name} ends, and nobody else has its name")

    def see_names(self) -> None:
        """Of each name one lives."""
        names = Counter(it.name for it in self._world.brokers if it.is_alive)
        for name in {it.name for it in self._world.brokers}:
            self.require(names[name] == 1, "T13", f"{names[name]} brokers called {name} go on")

    def at_the_end(self) -> None:
        """The world is healed and at rest."""
        history = self._world.medium.history
        for index, chain in self.confirmed.items():
            self.require(
                self._is_there(history, index, chain),
                "T1",
                f"entry {index} was confirmed and is not there",
            )
        for before, (epoch, changes) in pairwise(self._world.medium.shown):
            as_of, was_as_of = changes.queues[0].as_of_index, before[1].queues[0].as_of_index
            self.require(
                epoch >= before[0] and as_of >= was_as_of,
                "T10",
                f"entry {as_of} of epoch {epoch} is shown after {was_as_of} of {before[0]}",
            )
        self.counts["shown"] += len(self._world.medium.shown)
        for broker in self._world.brokers:
            if broker.ended_by is not None:
                continue
            for index, chain in broker.applied.items():
                self.require(
                    self._is_there(history, index, chain),
                    "T2",
                    f"{broker.name} has applied an entry {index} that is not in the log",
                )
            self._compare_cache(broker, history)
        if self._world.plan.databases:
            self._compare_databases()

    def _is_there(self, history: dict[int, bytes], index: int, chain: bytes) -> bool:
        """Whether it is in the log; what was dropped may be in none that was filled since."""
        first_index = self._world.medium.first_index if self._world.plan.databases else 0
        return _is_in(history, first_index, index, chain)

    def _compare_databases(self) -> None:
        """All are back, and alike."""
        databases = self._world.medium.databases
        self.require(
            len(self._world.medium.active) == len(databases),
            "T11",
            f"of {len(databases)} databases {len(self._world.medium.active)} are active",
        )
        for it in databases[1:]:
            self.require(it.end == databases[0].end, "T11", f"{it.member} has another end")
            first = max(it.first_index, databases[0].first_index)
            shared = [each for each in it.rows.keys() & databases[0].rows.keys() if each >= first]
            same = all(it.rows[index] == databases[0].rows[index] for index in shared)
            self.require(same, "T11", f"{it.member} has other entries")
            whole = all(index in it.rows for index in range(first, it.end.index + 1))
            self.require(whole, "T11", f"{it.member} lacks entries")

    def _compare_cache(self, broker: SimulatedBroker, history: dict[int, bytes]) -> None:
        journal = broker.journal
        end = self._world.medium.end
        self.require(
            journal.last_index == end.index,
            "T8",
            f"the cache of {broker.name} ends at {journal.last_index}, the log at {end.index}",
        )
        first = max(journal.first_index, self._world.medium.first_index)
        for index in range(first, journal.last_index + 1):
            self.require(
                journal.entry(index).chain == history[index],
                "T8",
                f"entry {index} in the cache of {broker.name} is another one",
            )
