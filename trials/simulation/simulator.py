"""
A whole cluster with its clients in one process, from one seed, in virtual time.

Two phases: chaos, in which only safety is asked for, and healing, after which the cluster must
serve again within bounded time, every confirmed message must arrive, and everybody must catch up.
The broker's code is the real one; see simulated_node.py for what stands in for the world.

Invariants:
    The same seed gives the same run byte for byte, on every machine and in every process.
    Watching (transcript on or off) changes nothing.
"""

from __future__ import annotations

import hashlib
import logging
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog

from holdfast.broker.settings import BrokerSettings
from holdfast.errors import HoldfastError
from holdfast.journal.settings import JournalSettings
from holdfast.replication.membership import Membership
from holdfast.replication.settings import ReplicationSettings
from holdfast.server.settings import ServerSettings
from trials.simulation.access_books import CLIENTS, AccessBooks
from trials.simulation.checkers import Checkers
from trials.simulation.committed_log import DEAD_LETTERS
from trials.simulation.endings import ENDINGS
from trials.simulation.faults import OPERATORS, KiB, Nemesis, Plan, plan
from trials.simulation.greedy_clients import Crowd
from trials.simulation.history import History, ViolationError
from trials.simulation.levels import Levels
from trials.simulation.places import Places
from trials.simulation.policy_books import PolicyBooks
from trials.simulation.simulated_clock import Timeline
from trials.simulation.simulated_network import VERY_LATE_SECONDS, PeerNetwork
from trials.simulation.simulated_node import SimulatedNode
from trials.simulation.volatile_clients import (
    TopicSubscriber,
    VolatileConsumer,
    VolatileLedger,
    VolatileProducer,
)
from trials.simulation.workload import (
    Client,
    Consumer,
    Mover,
    Producer,
    TransactionProducer,
)
from trials.troubles.membership import HARMLESS_CUT, REMOVAL, start_rightly
from trials.troubles.wrong_lists import mislead_one

_LEADER_SECONDS_MAX = 8.0
_CONFIRM_SECONDS_MAX = 20.0
_DRAIN_SECONDS_MAX = 20.0
_CATCH_UP_SECONDS_MAX = 10.0
_ROUND_SECONDS_MAX = 0.05
"""One entry to a peer and its answer: more where the plan lets one go at a time."""
_STEP_SECONDS = 0.05
_STALLED_SECONDS = 0.2
"""What is under way for so long stalled: far more than a long message in pieces takes."""
_SEGMENTS_LEFT_MAX = 4
"""Nothing lives any more, so hardly anything is to be kept."""


@dataclass(slots=True, kw_only=True)
class Result:
    """What came of one seed."""

    seed: int
    violation: str = ""
    """The broken promise; empty if all were kept."""
    plan: str = ""
    operations: int = 0
    confirms: int = 0
    deliveries: int = 0
    duplicates: int = 0
    elections: int = 0
    entries: int = 0
    seconds: float = 0.0
    """Of virtual time."""
    faults: Counter[str] = field(default_factory=Counter)
    acts: Counter[str] = field(default_factory=Counter)
    """What clients did, by name."""
    digest: str = ""
    """Of every byte on the wire and of the transcript, where one was kept."""
    transcript: list[str] = field(default_factory=list)


class Simulation:
    """One world, made from one seed; `run` lives it to its end."""

    def __init__(self, seed: int, made: Plan | None = None, *, is_watched: bool = False) -> None:
        self.seed = seed
        self.plan = made or plan(seed)
        self.timeline = Timeline()
        self.history = History(lambda: self.timeline.now)
        self.checkers = Checkers(self, self.history)
        chance = random.Random(f"{seed}:network")  # noqa: S311 - to be repeated from a seed
        self.network = PeerNetwork(self, chance)
        self.client_chance = random.Random(f"{seed}:clients")  # noqa: S311 - to be repeated
        self.client_cut: set[tuple[str, str]] = set()
        self.client_delay = 0.002
        self.chaos_seconds = self.plan.chaos_seconds
        self.tick_seconds = 0.1
        self.sync_seconds = self.plan.sync_seconds
        self.pipe_count = 0
        self.faults: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.acts: Counter[str] = Counter()
        """What clients did that is worth telling, by name."""
        self.volatile = VolatileLedger()
        self.policies: PolicyBooks | None = None
        self.access: AccessBooks | None = None
        """What is said of destinations, if anything is."""
        self.places: Places | None = None
        """Where messages stand that came back or were moved, if any do."""
        self.mended_count = 0
        self.transcript: list[str] | None = [] if is_watched else None
        self._wire = hashlib.blake2b(digest_size=16)
        self._settings()
        self.levels = Levels(self)
        self.nodes: list[SimulatedNode] = []
        members = self.plan.members
        for name, site in [(member.name, member.site) for member in members] or [("a", "")]:
            self.add_node(name, Membership(members), site)
        self.clients: list[Client] = []
        self.crowd: Crowd | None = None
        """Who fills the client port, if anybody does."""
        self.nemesis = Nemesis(self)

    def _settings(self) -> None:
        made = self.plan
        self.broker_settings = BrokerSettings(
            anonymous_role=CLIENTS,
            memory_bytes=made.memory_bytes,
            producer_count_max=made.producer_count_max,
            queue_count_max=made.queue_count_max,
            dispatch_mark_step_min=made.mark_step,
            dispatch_mark_step_max=made.mark_step * 8,
            step_count_max=made.step_count_max,
        )
        self.journal_settings = JournalSettings(
            segment_bytes=made.segment_bytes,
            tail_cache_bytes=made.tail_cache_bytes,
            tail_needed_bytes_max=max(made.tail_cache_bytes, 16 * KiB),
            read_cache_bytes=16 * KiB,
            reserve_bytes=4 * made.segment_bytes,
            space_check_seconds=0.05,
            scrub_bytes_per_second=made.scrub_bytes_per_second,
            scrub_round_seconds=0,
        )
        self.replication_settings = ReplicationSettings(
            heartbeat_seconds=0.1,
            election_seconds_min=0.5,
            election_seconds_max=1.0,
            transfer_seconds_max=0.5,
            append_bytes_max=made.append_bytes_max,
            window_bytes=made.window_bytes,
            entry_overhead_bytes=0,
            window_requests=1 if made.window_bytes == 1 else 64,
            config_repeat_bytes=64 * KiB,
            trim_seconds=0.3,
            repair_seconds=0.1,
            backlog_bytes_max=8 * KiB,
            copies=made.copies,
            sites=made.sites,
        )
        self.server_settings = ServerSettings(
            learner_look_seconds=0.3,
            learner_hold_bytes_max=8 * made.segment_bytes,
            tick_seconds=0.05,
            connection_count_max=made.connection_count_max,
            slice_seconds=made.slice_seconds,
            seal_records_max=made.seal_records_max,
            output_bytes_max=64 * KiB,
            output_high_bytes=8 * KiB,
            clean_segment_count_min=1,
            clean_dead_ratio=0.3,
            damaged_retry_seconds=0.3,
            damage_look_seconds=0.2,
        )

    def add_node(self, name: str, bootstrap: Membership, site: str) -> SimulatedNode:
        """Put one more machine into the world; nothing runs on it yet."""
        node = SimulatedNode(self, name, bootstrap)
        node.site = site
        self.nodes.append(node)
        self.network.nodes[name] = node
        return node

    # What everybody tells -------------------------------------------------------------------------

    def note(self, who: str, what: str) -> None:
        """Write a line into the transcript, if somebody reads it."""
        if self.transcript is not None:
            self.transcript.append(f"{self.timeline.now:9.4f} {who:>8}  {what}")

    def saw(self, source: str, target: str, data: bytes) -> None:
        """Take note of bytes on their way: they are part of what must be the same again."""
        if self.transcript is not None:
            self._wire.update(f"{self.timeline.now} {source} {target}\n".encode())
            self._wire.update(data)

    def count(self, kind: str) -> None:
        """Count a misfortune that happened."""
        self.faults[kind] += 1
        self.note("chaos", kind)

    def count_refusal(self, code: str) -> None:
        """Count a request that a broker refused."""
        self.refusals[code] += 1
        self.note("client", f"is refused: {code}")

    @property
    def dialled_nodes(self) -> list[SimulatedNode]:
        """Where clients try to find the leader."""
        return self.nodes

    def leader(self) -> SimulatedNode | None:
        """The node that serves, with the highest term if several think they do."""
        serving = [node for node in self.nodes if node.is_listening]
        return max(serving, key=lambda node: node.driver.term, default=None)

    # The run --------------------------------------------------------------------------------------

    def run(self) -> None:
        """
        Live this world to its end.

        Raises:
            ViolationError: A promise was broken.
        """
        self.note("plan", str(self.plan))
        if self.plan.is_one_misled:
            mislead_one(self)
        self.levels.begin()
        for node in self.nodes:
            node.start()
        self._add_clients()
        self.timeline.run(0.5)
        elections = self.checkers.elections if self.leader() is not None else -1
        self.nemesis.start()
        self.timeline.run(self.chaos_seconds)
        self.nemesis.stop()
        self._check_stalls(elections)
        self._heal()
        if self.plan.ending:
            self.await_service()
            ENDINGS[self.plan.ending](self)
            return
        self._check_liveness()
        self.checkers.check_end()
        self.checkers.log.calendars.check_end()
        if self.policies is not None:
            self.policies.check_end()
        if self.access is not None:
            self.access.check_end()
        self.volatile.check_topics()

    def _check_stalls(self, elections: int) -> None:
        """What costs no leader: F8, short stalls of a loop; F11, one link cut of a majority's."""
        count = self.checkers.elections - elections
        if elections < 0 or not count:
            return
        if set(self.plan.kinds) == {"loop stall"}:
            raise ViolationError("F8", f"{count} elections by stalls that were short")
        if set(self.plan.kinds) == {HARMLESS_CUT}:
            raise ViolationError("F11", f"{count} elections although leaders kept a majority")

    def _add_clients(self) -> None:
        operations = self.plan.operations
        share = operations // 11
        shared, moved = ["q1", "q2"], "q3"
        self.clients = [
            Producer(self, "p1", queues=shared, count=3 * share // 2, is_numbered=True),
            Producer(self, "p2", queues=[*shared, moved], count=share, is_numbered=True),
            Producer(self, "p3", queues=["q1", "q4"], count=share // 2, is_numbered=False),
            TransactionProducer(self, "t1", queues=shared, count=share // 4),
            Consumer(self, "c1", queue="q1", mode="client-individual"),
            Consumer(self, "c2", queue="q1", mode="client-individual", prefetch=5),
            Consumer(self, "c3", queue="q2", mode="client"),
            Consumer(self, "c4", queue="q4", mode="auto"),
            Mover(self, "m1", source=moved, target="q2"),
            VolatileProducer(self, "v1", destination="/topic/news", count=share),
            VolatileProducer(self, "v2", destination="/queue/q5", count=3 * share // 2),
            TopicSubscriber(self, "s1", topic="/topic/news"),
            TopicSubscriber(self, "s2", topic="/topic/news"),
            VolatileConsumer(self, "c5", queue="/queue/q5"),
        ]

    def _heal(self) -> None:
        """End all trouble; in some worlds one machine stays dead."""
        self.note("chaos", "ends")
        self.nemesis.kept_down.clear()
        self.nemesis.end_promotion()
        self.network.heal()
        self.client_cut.clear()
        spared = self._left_dead()
        for node in self.nodes:
            disk = node.disk
            disk.cut_at = disk.misdirect_next = 0
            disk.fail_next.clear()
            disk.stop_lying(is_kept=True)
            disk.limit(None)
            node.slowness = 1.0
            node.thaw_disk()
            node.clock.run_at(1.0)
            if node is spared:
                node.stop(power=True)
                continue
            node.resume()
            start_rightly(node)
            self.levels.end(node)
            if not node.is_alive:
                self.nemesis.revive(node)
        self.timeline.after(3.0, self._help)
        for client in self.clients:
            if isinstance(client, Producer | TransactionProducer | VolatileProducer):
                client.hurry()
            if isinstance(client, Consumer):
                client.death_chance = client.reject_chance = 0.0

    def is_client_cut(self, name: str, node: SimulatedNode) -> bool:
        """Whether nothing passes between this client and this node."""
        return (name, node.name) in self.client_cut or node.is_kept_from_clients

    def _help(self) -> None:
        """Do what an operator does who sees nobody lead, or a promotion that was cut short."""
        leader = self.leader()
        if leader is None:
            self.nemesis.force_again()
            if any(node.is_running and node.driver.status().unknown_end for node in self.nodes):
                self._bring_back()  # As their status says: they lead only with all votes.
        else:
            self.nemesis.empty_cut_short(leader)

    def _bring_back(self) -> None:
        for node in self.nodes:
            if not (node.is_alive or node.ended_by or node.is_removed):
                self.note("operator", f"brings back {node.name}")
                self.count("operator brings back whom an unknown end waits for")
                self.nemesis.revive(node)

    def _left_dead(self) -> SimulatedNode | None:
        if (
            self.plan.ending
            or not self.plan.is_one_left_dead
            or self.checkers.distrusted
            or self.plan.victim
        ):
            return None
        if set(self.plan.kinds) & {"add member", "remove member"}:
            return None
        spared = self.nodes[self.seed % len(self.nodes)]
        if REMOVAL in self.plan.kinds and not self.checkers.could_elect_without(spared):
            return None
        return spared

    def expect(self, name: str, what: str, seconds: float, holds: Callable[[], bool]) -> None:
        """
        Let time pass until something holds.

        Raises:
            ViolationError: It does not within so many virtual seconds.
        """
        end = self.timeline.now + seconds
        while not holds():
            if self.timeline.now >= end:
                raise ViolationError(name, f"{what} within {seconds:.0f} s after all was healed")
            self.timeline.run(_STEP_SECONDS)
            for node in self.nodes:
                # What was late, or a clean end, may still end a process: an init system is there.
                if not node.is_alive and node.ended_by and not node.is_removed:
                    self.nemesis.revive(node)

    def _check_liveness(self) -> None:
        hanging = self._hang_for_good()
        self.await_service()
        self.await_drained()
        if hanging is not None:
            hanging.thaw_disk()
        self.expect("L5", "what is dead is not cleaned", _DRAIN_SECONDS_MAX, self._is_cleaned)
        self.await_level()
        if self.plan.late_seconds >= VERY_LATE_SECONDS and "bad links" in self.plan.kinds:
            # What was sent in the chaos may still be on its way.
            self.timeline.run(self.plan.late_seconds)

    def _hang_for_good(self) -> SimulatedNode | None:
        """Where the seed says so, let the leader's disk hang until all is delivered."""
        is_fit = not (self.plan.victim or self.plan.is_one_left_dead or self.checkers.distrusted)
        if not (self.plan.is_disk_left_hanging and is_fit):
            return None
        if set(self.plan.kinds) & {*OPERATORS, REMOVAL}:
            return None
        self._await_confirm("L2", _CONFIRM_SECONDS_MAX)
        # The disks that must be enough then are slow no more, and who leads knows of room.
        self.expect(
            "F27",
            "a write begun on a slow or full disk does not end",
            _CONFIRM_SECONDS_MAX,
            lambda: not any(node.is_alive and node.is_write_late for node in self.nodes),
        )
        leader = self.leader()
        if leader is None or not self.checkers.could_confirm_without(leader):
            return None  # Alone, after a forced promotion: no other disk could be enough.
        try:
            self.expect(
                "L4",
                "somebody does not catch up",
                self._catch_up_seconds(),
                self._are_copies_enough,
            )
        except ViolationError:
            if self.replication_settings.window_requests > 1:
                raise
            # One entry a round, and the producers send as fast: who lacks some does for so long.
            return None
        if self.leader() is not leader:
            return None
        leader.hang_disk()
        self.count("disk hangs for good")
        # Sooner than the leader can know that its disk hangs: the others' disks are enough.
        self._await_confirm("F27", 0.9 * self.replication_settings.disk_hang_seconds)
        return leader

    def _are_copies_enough(self) -> bool:
        """Whether nobody who runs lacks what is committed, or waits for what stalled on its way."""
        ends = [node.journal.last_index for node in self.nodes if node.is_running]
        is_level = min(ends, default=0) >= self.checkers.commit_index
        return is_level and self.network.under_way_seconds() < _STALLED_SECONDS

    def _await_confirm(self, name: str, seconds: float) -> None:
        """Let one more message be confirmed, unless all are."""
        before = self.history.confirm_count
        self.expect(
            name,
            "nothing is confirmed",
            seconds,
            lambda: self.history.confirm_count > before or self._are_producers_done(),
        )

    def _producers(self) -> list[Producer | TransactionProducer]:
        return [it for it in self.clients if isinstance(it, Producer | TransactionProducer)]

    def _are_producers_done(self) -> bool:
        return all(client.is_done for client in self._producers())

    def _rounds_seconds(self, entries: int) -> float:
        """What so many entries take beside the usual: a round for each if they go one at a time."""
        if self.replication_settings.window_requests > 1:
            return 0.0
        return _ROUND_SECONDS_MAX * entries

    def await_service(self) -> None:
        """L1 and L2: somebody leads, and everything that producers have is confirmed."""
        self.expect("L1", "nobody serves", _LEADER_SECONDS_MAX, lambda: self.leader() is not None)
        left = sum(client.left_count for client in self._producers())
        seconds = _CONFIRM_SECONDS_MAX + self._rounds_seconds(left)
        self.expect("L2", "producers are not confirmed", seconds, self._are_producers_done)

    def await_drained(self) -> None:
        """L3: every message arrives, that which was rejected too often as a dead letter."""
        last = Consumer(self, "dlq", queue=DEAD_LETTERS, mode="client-individual", prefetch=100)
        last.reject_chance = 0.0
        self.clients.append(last)
        seconds = _DRAIN_SECONDS_MAX + self._rounds_seconds(len(self.checkers.log.live))
        self.expect("L3", "messages do not arrive", seconds, self._is_drained)

    def await_level(self) -> None:
        """
        L4: every member has caught up and mended its disk.

        Where a spoilt disk says that an entry cannot be mended in place (bytes of others stand in
        its room), the operator does what it says: with an empty disk the node is taken in anew.
        """
        self._await_read_again()
        try:
            self.expect(
                "L4", "somebody does not catch up", self._catch_up_seconds(), self._is_level
            )
        except ViolationError:
            if not self.nemesis.empty_unmendable():
                raise
            self.expect(
                "L4", "somebody does not catch up", self._catch_up_seconds(), self._is_level
            )

    def _await_read_again(self) -> None:
        """Where bits were flipped on good disks, each has read all that is sealed since."""
        rate = self.plan.scrub_bytes_per_second
        if not self.nemesis.spoilt or rate == 1:
            return
        begun = {node.name: (node.scrubber, node.scrubber.rounds) for node in self._reading()}

        def is_read(node: SimulatedNode) -> bool:
            scrubber, rounds = begun.get(node.name, (None, 0))
            # A round that was under way may have been past it.
            return node.scrubber.rounds >= (rounds + 2 if node.scrubber is scrubber else 1)

        sizes = [node.store.log_bytes for node in self._reading()]
        seconds = 1.0 + 3 * max(sizes, default=0) / rate
        self.expect("L4", "disks are not read", seconds, lambda: all(map(is_read, self._reading())))

    def _reading(self) -> list[SimulatedNode]:
        """Those who run and have a sealed log."""
        return [
            node
            for node in self.nodes
            if node.is_running and node.journal.sealed_through >= node.journal.first_index
        ]

    def _catch_up_seconds(self) -> float:
        """How long it may take whoever lacks most."""
        ends = [node.driver.commit_index for node in self.nodes if node.is_alive]
        lack = self.checkers.commit_index - min(ends, default=0)
        # Links that stalled have to bring first what was sent meanwhile.
        under_way = self.network.under_way_seconds()
        return _CATCH_UP_SECONDS_MAX + self._rounds_seconds(lack) + under_way

    def _is_drained(self) -> bool:
        movers = [client for client in self.clients if isinstance(client, Mover)]
        leader = self.leader()
        if self.checkers.log.live or leader is None or any(mover.pending for mover in movers):
            return False
        # V2: a present leader owes what it confirmed, although it is in its memory only.
        return not self.volatile.missing((leader.name, leader.life, leader.driver.term))

    def _is_cleaned(self) -> bool:
        leader = self.leader()
        return leader is not None and len(leader.journal.segments()) <= _SEGMENTS_LEFT_MAX

    def _is_level(self) -> bool:
        leader = self.leader()
        if leader is None:
            return False
        names = {view.name for view in leader.driver.status().members}
        target = self.checkers.commit_index
        for node in self.nodes:
            if node.name not in names or not node.is_alive:
                continue
            driver = node.driver
            if driver.commit_index < target:
                return False
            if not driver.is_witness and driver.taken_index < target:
                return False
            if node.journal.damage and node.name not in self.checkers.distrusted:
                return False
        return True

    def result(self) -> Result:
        """Sum up."""
        history = self.history
        network = self.network
        self.acts["confirmation"] += history.confirm_count
        self.acts["delivery"] += history.delivery_count
        self.acts["delivered again, flagged"] += history.duplicate_count
        self.acts["acknowledgement confirmed"] += len(history.settled_at)
        for act in ("client dies with unacknowledged messages", "client rejects a message"):
            self.acts[act] += self.faults[act]
        self.faults["message lost"] += network.lost_count
        self.faults["message doubled"] += network.doubled_count
        self.faults["message late"] += network.late_count
        self.faults["message reordered"] += network.reordered_count
        self.faults["message delayed"] += network.delayed_count
        self.faults["message 20 to 30 s late"] += network.very_late_count
        self.faults["damage mended"] += self.mended_count
        for node in self.nodes:
            if node.is_alive:
                self.faults["damage mended"] += node.driver.status().repaired_count
        made = Result(
            seed=self.seed,
            plan=str(self.plan),
            operations=history.operation_count,
            confirms=history.confirm_count,
            deliveries=history.delivery_count,
            duplicates=history.duplicate_count,
            elections=self.checkers.elections,
            entries=self.checkers.commit_index,
            seconds=self.timeline.now,
            faults=self.faults,
            acts=self.acts,
        )
        if self.transcript is not None:
            made.transcript = self.transcript
            self._wire.update("\n".join(self.transcript).encode())
            made.digest = self._wire.hexdigest()
        return made


class _BrokenCodeError(Exception):
    """The code met a mistake of its own and carried on."""


def _listen(
    _logger: object, _name: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    if "broke" in str(event.get("event", "")):
        error = sys.exc_info()[1]
        raise error or _BrokenCodeError(str(event.get("event")))
    raise structlog.DropEvent


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the brokers' logs out of the way; an exception that was only logged is raised."""
    before = structlog.get_config()
    logger = logging.getLogger("holdfast")
    level = logger.level
    structlog.configure(
        processors=[_listen],
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        cache_logger_on_first_use=False,
    )
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)
        structlog.configure(**before)


def simulate(seed: int, made: Plan | None = None, *, is_watched: bool = False) -> Result:
    """Run one seed; a broken promise is in the result, never raised."""
    with quiet():
        world = Simulation(seed, made, is_watched=is_watched)
        violation = ""
        try:
            world.run()
        except ViolationError as error:
            violation = str(error)
        except (HoldfastError, AssertionError, _BrokenCodeError) as error:
            violation = f"broke: {type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001 - any mistake is a finding
            violation = f"broke: {type(error).__name__}: {error}"
        if violation:
            world.note("VIOLATION", violation)
        made_result = world.result()
        made_result.violation = violation
    return made_result
