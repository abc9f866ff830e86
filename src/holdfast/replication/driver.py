"""
One member of the group, driven in turns: persist, then send, then give out what is committed.

Everything that happens (messages, links, stored results, proposals) is only queued; `turn` decides,
gives the writer what must be durable, sends what may be sent, and is a plain function over
contracts, so that a simulator can run it. In which order things happen is written here and nowhere
else; what comes in (`incoming`), what leaves (`outgoing`) and the ballot between them
(`ballot_keeping`) are parts of it, each with its own rule.

Invariants:
    What came is taken before anything is decided; what was decided is on its way to the disk before
    anything is sent.
    A ballot is durable before the first entry of its term.
    Append requests may leave while our own write is under way; replies claim stored entries only.
    After a failed write nothing is sent any more; `turn` raises.
    taken_index <= commit_index.

Owned by the loop thread; not safe to call from any other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from holdfast.environment.randomness import Randomness
from holdfast.errors import CorruptEntryError, FencedError, JournalFailedError, NotLeaderError
from holdfast.journal.ballot import BallotFile
from holdfast.journal.entry import Entry
from holdfast.journal.entry_body import EntryBody
from holdfast.journal.jobs import WriteJob
from holdfast.journal.journal import Journal
from holdfast.replication import (
    candidate,
    consensus,
    format_levels,
    formation,
    leader,
    lease,
    promotion,
    reconfiguration,
    repair,
    restart,
    transfer,
    trimming,
    two_logs,
)
from holdfast.replication.ballot_keeping import BallotKeeper
from holdfast.replication.disk_watch import DiskWatch
from holdfast.replication.driver_view import DriverView
from holdfast.replication.fencing import Fence
from holdfast.replication.formation import Refusal
from holdfast.replication.incoming import Incoming
from holdfast.replication.link_events import MOVING, MOVING_ENTRIES, LinkDown, LinkUp
from holdfast.replication.linked_members import LinkedMembers
from holdfast.replication.log import ReplicatedLog
from holdfast.replication.membership import Member, Membership
from holdfast.replication.messages import Hello, Message
from holdfast.replication.outgoing import Outgoing
from holdfast.replication.outlets import Links, Report, Writer
from holdfast.replication.promotion import LogEnd
from holdfast.replication.settings import ReplicationSettings
from holdfast.replication.state import ALWAYS, State
from holdfast.replication.status import LagLedger

logger = logging.getLogger("holdfast.replication")


class Driver(DriverView):
    """
    One member of the group.

    `turn` must be called after any input and at `next_deadline()` at the latest.
    """

    def __init__(
        self,
        *,
        settings: ReplicationSettings,
        name: str,
        journal: Journal,
        ballot_file: BallotFile,
        writer: Writer,
        links: Links,
        randomness: Randomness,
        bootstrap: Membership,
        applied_index: int = 0,
        metadata: dict[str, str] | None = None,
        on_fenced: Callable[[FencedError], None] | None = None,
    ) -> None:
        """
        Take up where the journal and the ballot left off; nothing is sent before `start`.

        Args:
            bootstrap: Who is named on the command line; empty for a single node. Used to form a
                cluster and to find the others; the log rules once there is one.
            applied_index: What a checkpoint covers: known to be committed, not given out again.
            metadata: Told to the other members, shown in their status.
            on_fenced: Called once if this node is shut out for good.
        """
        ballot = restart.known_ballot(ballot_file, journal, randomness)
        log = ReplicatedLog(journal, [damage.index for damage in journal.damage if damage.index])
        state = State(name, ballot.node_id.hex(), settings, log, randomness)
        # Whoever reads, and whether that one goes on without the entry or not: peers are asked.
        journal.on_damage = self.report_damage
        self._state = state
        self._journal = journal
        self._writer = writer
        self._bootstrap = bootstrap if bootstrap.members else Membership((Member(name, ""),))
        restart.restore(state, journal, ballot, self._bootstrap, applied_index)
        life = randomness.bytes(8).hex()
        hello = restart.first_hello(state, ballot, self._bootstrap, life, metadata or {})

        self._ballot = BallotKeeper(state, ballot_file)
        self._outgoing = Outgoing(state, hello, links, self._ballot)
        self._fence = Fence(state, on_fenced)
        self._linked_members = LinkedMembers(links, self._bootstrap)
        self._repairs = repair.Repairs()
        self._incoming = Incoming(
            state,
            fence=self._fence,
            links=links,
            linked_members=self._linked_members,
            outgoing=self._outgoing,
            repairs=self._repairs,
        )
        self._disk_watch = DiskWatch(settings.election_seconds_min / 2)
        self._ledger = LagLedger()
        self._ledger_term = -1
        state.taken_index = max(applied_index, journal.first_index - 1)
        self._taken_epoch = 0
        self._trim_deadline = ALWAYS
        self._failure: JournalFailedError | None = None
        self._is_started = False
        self._told: tuple[object, ...] | None = None  # What was last acted on, if all was said.

    def start(self, now: float, process_started_at: float | None = None) -> None:
        """Begin to take part; who knows when the process started says so, by the same clock."""
        self._state.now = now
        lease.start(self._state, now if process_started_at is None else process_started_at)
        self._is_started = True
        self._trim_deadline = now + self._state.settings.trim_seconds
        consensus.start(self._state)

    def end(self) -> None:
        """The process ends: nothing is dispatched from now on, and the peers may rely on it."""
        self._outgoing.say_at_once(replace(self.hello, has_ended=True))

    def receive(self, peer: str, message: Message) -> None:
        """A message came from a peer."""
        self._incoming.queue.append((peer, message))

    def stored(self, result: Report) -> None:
        """The writer reports; called on the loop thread."""
        if result.failure is not None:
            self._failure = result.failure

    def judge(self, hello: Hello) -> Refusal | None:
        """Say why the node of this hello may not have a link; None if it may."""
        if not self._ballot.is_generation_kept:
            # Cut short it would have shut out others for good, for a promotion that never was.
            return Refusal(f"{self._state.name} has not yet kept the generation that is to rule")
        return formation.judge(self._state, self._bootstrap, self.hello, hello)

    def link_up(self, peer: str, hello: Hello) -> None:
        """A link was made to the node of this hello, which `judge` let in."""
        self._incoming.queue.append((peer, LinkUp(hello)))

    def moving(self, peer: str, *, has_entries: bool = False) -> None:
        """A part of a large message went to a peer or came from it, maybe of entries: it lives."""
        self._incoming.queue.append((peer, MOVING_ENTRIES if has_entries else MOVING))

    def link_down(self, peer: str, *, closed: bool) -> None:
        """A link is gone; `closed` if the other side's system closed or reset it."""
        self._incoming.queue.append((peer, LinkDown(closed)))

    def refused(self, peer: str, refusal: Refusal) -> None:
        """A peer did not let us in; if it says for good, this node is fenced."""
        logger.warning("%s refused the link: %s", peer, refusal.reason)
        if refusal.is_fenced:
            self._fence.shut_out(refusal.reason, refusal.generation)

    @property
    def message_bytes_max(self) -> int:
        """What a message may have is no matter of time here: parts of a large one go one by one."""
        return 0

    @property
    def batch_bytes_max(self) -> int:
        """Nor is what an entry may have."""
        return 0

    @property
    def is_journal_a_copy(self) -> bool:
        """It is the log itself, or this member's part in it."""
        return False

    @property
    def cache_refusal(self) -> str:
        """There is nothing beside the log's own place."""
        return ""

    def refusal(self) -> str:
        """On the leader: why nothing may be published, for another member's sake; or empty."""
        witness = leader.cramped_witness(self._state) if self.is_leader else ""
        if not witness:
            return ""
        return (
            f"the disk of {witness}, the witness that is needed, is almost full: publishing is"
            f" refused until there is room again; acknowledging goes on"
        )

    def learner_matches(self) -> dict[str, int]:
        """On the leader: through which entry each learner holds the log; 0 if not known."""
        return leader.learner_matches(self._state)

    def report_damage(self, index: int) -> None:
        """The scrubber or a read found this entry damaged; peers are asked for their copy."""
        self._state.log.damaged.add(index)

    def propose(
        self,
        parts: list[bytes] | EntryBody,
        record_count: int,
        *,
        now: float,
        wall_microseconds: int,
    ) -> Entry:
        """
        Append one batch of records; it is committed when `commit_index` reaches its index.

        `parts` are joined and hashed at once; a large batch was gathered in steps before.

        It may still be lost to a new leader before that. Call `turn` to send it.

        Raises:
            NotLeaderError: This node does not lead, or is handing over.
        """
        state = self._state
        if self._failure is not None:
            raise self._failure
        if state.fenced_reason:
            raise NotLeaderError
        entry = leader.propose(state, parts, record_count, wall_microseconds)
        if self._ledger_term != state.term:
            self._ledger.clear()
            self._ledger_term = state.term
        self._ledger.note(entry.index, now, len(entry.raw), entry.first_record)
        return entry

    @property
    def format_level_of_all(self) -> int:
        """The newest level of the log's format that every member has told it knows."""
        return format_levels.known_by_all(self._state, self.hello)

    def tell_format_level(self, level: int) -> None:
        """Let the others know which level our log has reached."""
        self._outgoing.say_at_once(format_levels.with_reached(self.hello, level))

    def transfer(self, to: str | None = None) -> str:
        """Begin to hand over the lead; returns to whom. Done when `leader` says so."""
        return transfer.transfer(self._state, to)

    def add_member(self, member: Member) -> int:
        """Take in a member as learner, on its way to its kind; returns the index to commit."""
        return reconfiguration.add_member(self._state, member).index

    def remove_member(self, name: str) -> int:
        """Take a member out; returns the index to commit."""
        return reconfiguration.remove_member(self._state, name).index

    def promote(self, name: str) -> int:
        """Make a learner a voter; returns the index to commit."""
        return reconfiguration.promote(self._state, name).index

    def promote_force(
        self,
        companions: Iterable[LogEnd] = (),
        *,
        is_incomplete_accepted: bool = False,
        wall_microseconds: int | None = None,
    ) -> None:
        """Make this node the only voter of a new generation; see `promotion.promote_force`."""
        promotion.promote_force(
            self._state,
            companions,
            is_incomplete_accepted=is_incomplete_accepted,
            wall_microseconds=wall_microseconds,
        )

    def repropose_config(self) -> int:
        """Write the members again, so that older segments may go; returns the index to commit."""
        return reconfiguration.repropose(self._state).index

    def take_committed(self, bytes_max: int) -> list[Entry]:
        """
        Entries that became committed, in order, all kinds; empty when there are no more.

        At least one entry if there is any, then up to about `bytes_max`. A witness gets none.

        Raises:
            CorruptEntryError: The next entry is damaged here; it is asked from a peer, try later.
        """
        state = self._state
        if self._taken_epoch != state.log.epoch:
            self._taken_epoch = state.log.epoch
            state.taken_index = self._journal.first_index - 1
        if state.taken_index >= state.commit_index or state.is_witness:
            return []
        start = state.taken_index + 1
        try:
            entries = self._journal.entries(start, bytes_max)
        except CorruptEntryError:
            self.report_damage(start)
            raise
        excess = entries[-1].index - state.commit_index
        if excess > 0:
            del entries[len(entries) - excess :]
        state.taken_index = entries[-1].index
        return entries

    def turn(self, now: float) -> None:
        """
        Decide everything that is queued, give the writer its jobs, then send.

        Raises:
            JournalFailedError: A write failed; nothing more is sent. The process must end.
            LogDivergedError: Our log and a leader's differ where they must not. It must end too.
            FormatLevelError: The leader's log has reached a level that this node does not know.
        """
        if self._failure is not None:
            raise self._failure
        state = self._state
        state.now = now
        assert self._is_started, "turn before start"
        # What has nothing to do costs no call: a turn is half the price of a message sent alone.
        ballot, outgoing = self._ballot, self._outgoing
        if ballot.job is not None:
            self._ballot_is_stored()
        if self._disk_watch.is_at_work or state.is_disk_hanging:
            self._watch_disk()
        if ballot.file.current is not ballot.noted or now >= outgoing.tell_again_at:
            outgoing.note_edition()
        if self._incoming.queue:
            self._incoming.take_all()
        if not state.cluster_id:
            self._found()
        consensus.tick(state)
        is_repairing = state.log.damaged.members or self._repairs.is_busy
        if is_repairing and not state.is_disk_hanging:
            state.log.forget_dropped()
            self._repairs.work(state)
            self._repairs.ask(state)
        consensus.flush(state)
        if self._journal.filling is not None:
            two_logs.settle(state)
        if state.editions.is_news:
            outgoing.share_editions()
        self._persist()
        if state.outbox or outgoing.held:
            outgoing.send()
        if self._journal.tail.memory.bytes > self._journal.settings.tail_cache_bytes:
            trimming.keep_at_hand(state, self._journal, state.taken_index)
        if now >= self._trim_deadline:
            self._trim()

    def next_deadline(self) -> float:
        """When `turn` must be called at the latest."""
        state = self._state
        due = consensus.deadline(state)
        if state.log.damaged:
            due = min(due, self._repairs.deadline(state))
        return min(due, self._trim_deadline) if state.is_witness else due

    def _found(self) -> None:
        state = self._state
        if self._journal.last_index or self._journal.first_index != 1:
            return
        membership = formation.found(self._bootstrap, self.hello, state.connected)
        if membership is None:
            return
        entry = formation.founding_entry(membership)
        state.log.append([entry])
        # Before the ballot: with a ballot of the cluster and no members it would never lead.
        self._write_staged()
        state.adopt(membership, entry.index)
        if state.term < formation.FOUNDING_TERM:
            state.enter_term(formation.FOUNDING_TERM)
        logger.info("formed cluster %s", membership.cluster_id)
        consensus.start(state)

    def _ballot_is_stored(self) -> None:
        ballot = self._ballot.take_stored()
        if ballot is not None:
            candidate.on_ballot_stored(self._state, ballot.term, ballot.voted_for)
            self._fence.ballot_is_stored(ballot)

    def _persist(self) -> None:
        """Give the writer the ballot if it changed, then what was staged."""
        state = self._state
        facts = state.told_facts()
        is_news = facts != self._told
        if is_news:
            job = self._ballot.take_changed()
            if job is not None:
                self._submit(job)
        # After the ballot: it is never of a lower term than the log.
        if state.log.jobs:
            self._write_staged()
        if is_news:
            is_said = self._outgoing.renew_hello()
            self._linked_members.update(state)
            self._told = facts if is_said else None

    def _write_staged(self) -> None:
        for job in self._state.log.take_jobs():
            self._submit(job)

    def _submit(self, job: WriteJob) -> None:
        self._disk_watch.submitted(job, self._state.now)
        self._writer.submit(job)

    def _watch_disk(self) -> None:
        """Notice that our disk hangs, and that it does no more; a leader hands over then."""
        state = self._state
        watch = self._disk_watch
        is_urgent = watch.waited(state.now) >= state.settings.election_seconds_min
        if not (is_urgent or state.is_disk_hanging):
            return
        is_backlog_full = is_urgent and self.is_backlog_full
        is_full = self._journal.is_out_of_room
        is_turned = watch.judge(state, is_backlog_full=is_backlog_full, is_full=is_full)
        if is_turned:
            self._outgoing.say_at_once(replace(self.hello, disk_hangs=state.is_disk_hanging))
        if state.is_disk_hanging:
            watch.hand_over(state)

    def _trim(self) -> None:
        """A witness drops what nobody needs; everybody else keeps what the store needs."""
        state = self._state
        self._trim_deadline = state.now + state.settings.trim_seconds
        if not state.is_witness:
            return
        trimming.trim(state, self._journal)
        hello = trimming.with_space(state, self._journal, self.hello)
        if hello is not self.hello:
            self._outgoing.say_at_once(hello)
