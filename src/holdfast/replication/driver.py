"""
One member of the group, driven in turns: persist, then send, then give out what is committed.

Everything that happens (messages, links, stored results, proposals) is only queued; `turn` decides,
gives the writer what must be durable, sends what may be sent, and is a plain function over
contracts, so that a simulator can run it. The order rules of replication are written here and
nowhere else.

Invariants:
    While a ballot is on its way to the disk nothing is sent: no vote, no reply of a new term; but
    that the disk hangs, which claims nothing.
    Who is shut out sends nothing any more, not even what it had decided before.
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
from holdfast.journal.ballot import Ballot, BallotFile
from holdfast.journal.entry import KIND_CONFIG, Entry
from holdfast.journal.entry_body import EntryBody
from holdfast.journal.jobs import BallotJob, WriteJob
from holdfast.journal.journal import Journal
from holdfast.replication import (
    candidate,
    consensus,
    editions,
    format_levels,
    formation,
    leader,
    lease,
    promotion,
    reconfiguration,
    repair,
    transfer,
    trimming,
    two_logs,
)
from holdfast.replication.directory_owner import require_own_directory
from holdfast.replication.disk_watch import DiskWatch
from holdfast.replication.driver_view import DriverView
from holdfast.replication.edition_table import EditionTable
from holdfast.replication.fencing import Fence
from holdfast.replication.formation import Refusal
from holdfast.replication.link_events import MOVING, MOVING_ENTRIES, LinkDown, LinkUp, Moving
from holdfast.replication.linked_members import LinkedMembers
from holdfast.replication.listed_members import listed
from holdfast.replication.log import ReplicatedLog
from holdfast.replication.membership import Member, Membership, decode_membership
from holdfast.replication.messages import (
    AppendRequest,
    AppendResponse,
    Editions,
    Hello,
    Message,
    RepairRequest,
    RepairResponse,
)
from holdfast.replication.outlets import Links, Report, Writer
from holdfast.replication.promotion import LogEnd
from holdfast.replication.settings import ReplicationSettings
from holdfast.replication.state import ALWAYS, NEVER, State
from holdfast.replication.status import (
    LagLedger,
)

logger = logging.getLogger("holdfast.replication")

_HELD_MAX = 1000
"""Messages that wait for a ballot; the oldest are lost first, as on a link that breaks."""


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
        ballot = ballot_file.current or ballot_file.load()
        if ballot is None:
            ballot_file.save(Ballot(node_id=randomness.bytes(16), term=journal.last_term))
            ballot = ballot_file.current
            assert ballot is not None
        log = ReplicatedLog(journal, [damage.index for damage in journal.damage if damage.index])
        self._state = State(name, ballot.node_id.hex(), settings, log, randomness)
        # Whoever reads, and whether that one goes on without the entry or not: peers are asked.
        journal.on_damage = self.report_damage
        self._journal = journal
        self._ballot_file = ballot_file
        self._writer = writer
        self._links = links
        self._bootstrap = bootstrap if bootstrap.members else Membership((Member(name, ""),))
        self._restore(ballot, applied_index)

        hello = self._first_hello(ballot, randomness.bytes(8).hex(), metadata or {})
        self.hello = formation.renewed(self._state, hello)
        """What this node says of itself when a link is made; kept up to date."""
        self._fence = Fence(self._state, on_fenced)

        self._received: list[tuple[str, Message | LinkUp | LinkDown | Moving]] = []
        self._held: list[tuple[str, Message]] = []
        self._disk_watch = DiskWatch(settings.election_seconds_min / 2)
        self._ballot_job: BallotJob | None = None
        self._ballot_noted: Ballot | None = None
        self._ballot_wanted = self._ballot_due()
        self._repairs = repair.Repairs()
        self._ledger = LagLedger()
        self._ledger_term = -1
        self._state.taken_index = max(applied_index, journal.first_index - 1)
        self._taken_epoch = 0
        self._trim_deadline = ALWAYS
        self._tell_again_at = NEVER
        self._linked_members = LinkedMembers(links, self._bootstrap)
        self._failure: JournalFailedError | None = None
        self._is_started = False

    def _first_hello(self, ballot: Ballot, life: str, metadata: dict[str, str]) -> Hello:
        own = self._bootstrap.get(self._state.name)
        return Hello(
            self._state.name,
            self._state.node_id,
            self._state.cluster_id,
            self._state.generation,
            own.address if own else "",
            life,
            metadata,
            ballot.edition,
            self._state.editions.known,
            self._state.shared,
            listed=() if self._state.cluster_id else listed(self._bootstrap),
            site=own.site if own else "",
        )

    def _restore(self, ballot: Ballot, applied_index: int) -> None:
        state = self._state
        journal = self._journal
        if len(self._bootstrap.members) > 1:
            formation.require_ballot_of_the_log(ballot, journal.last_term)
        seen = {node_id.hex(): edition for node_id, edition in ballot.seen}
        state.editions = EditionTable(state.node_id, ballot.edition, seen)
        state.term = max(ballot.term, journal.last_term)
        state.voted_for = ballot.voted_for if state.term == ballot.term else None
        state.cluster_id = ballot.cluster_id.hex()
        newest, size = state.log.newest_of_kind(KIND_CONFIG)
        if newest is not None:
            state.adopt(decode_membership(bytes(newest.body)), newest.index)
            state.bytes_since_config = size
        # A generation forced by an operator may be in the ballot before it is in the log.
        state.generation = max(state.generation, ballot.generation)
        state.is_shut_out = ballot.is_shut_out
        require_own_directory(state, journal.directory)
        state.commit_index = max(applied_index, journal.first_index - 1, 0)
        promotion.restore(state)

    def start(self, now: float, process_started_at: float | None = None) -> None:
        """Begin to take part; who knows when the process started says so, by the same clock."""
        self._state.now = now
        lease.start(self._state, now if process_started_at is None else process_started_at)
        self._is_started = True
        self._trim_deadline = now + self._state.settings.trim_seconds
        consensus.start(self._state)

    def end(self) -> None:
        """The process ends: nothing is dispatched from now on, and the peers may rely on it."""
        self._say_at_once(replace(self.hello, has_ended=True))

    def receive(self, peer: str, message: Message) -> None:
        """A message came from a peer."""
        self._received.append((peer, message))

    def stored(self, result: Report) -> None:
        """The writer reports; called on the loop thread."""
        if result.failure is not None:
            self._failure = result.failure

    def judge(self, hello: Hello) -> Refusal | None:
        """Say why the node of this hello may not have a link; None if it may."""
        if not self._is_generation_kept:
            # Cut short it would have shut out others for good, for a promotion that never was.
            return Refusal(f"{self._state.name} has not yet kept the generation that is to rule")
        return formation.judge(self._state, self._bootstrap, self.hello, hello)

    @property
    def _is_generation_kept(self) -> bool:
        """Whether the generation that rules here is in the ballot on disk."""
        ballot = self._ballot_file.current
        return ballot is not None and ballot.generation >= self._state.generation

    def link_up(self, peer: str, hello: Hello) -> None:
        """A link was made to the node of this hello, which `judge` let in."""
        self._received.append((peer, LinkUp(hello)))

    def moving(self, peer: str, *, has_entries: bool = False) -> None:
        """A part of a large message went to a peer or came from it, maybe of entries: it lives."""
        self._received.append((peer, MOVING_ENTRIES if has_entries else MOVING))

    def link_down(self, peer: str, *, closed: bool) -> None:
        """A link is gone; `closed` if the other side's system closed or reset it."""
        self._received.append((peer, LinkDown(closed)))

    def refused(self, peer: str, refusal: Refusal) -> None:
        """A peer did not let us in; if it says for good, this node is fenced."""
        logger.warning("%s refused the link: %s", peer, refusal.reason)
        if refusal.is_fenced:
            self._fence.shut_out(refusal.reason, refusal.generation)

    def cramped_witness(self) -> str:
        """On the leader: the witness that is needed and whose disk is almost full; or empty."""
        return leader.cramped_witness(self._state) if self.is_leader else ""

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
        self._say_at_once(format_levels.with_reached(self.hello, level))

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
            FormatLevelError: A member's log has reached a level that this node does not know.
        """
        if self._failure is not None:
            raise self._failure
        state = self._state
        state.now = now
        assert self._is_started, "turn before start"
        # What has nothing to do costs no call: a turn is half the price of a message sent alone.
        if self._ballot_job is not None:
            self._ballot_is_stored()
        if self._disk_watch.is_at_work or state.is_disk_hanging:
            self._watch_disk()
        if self._ballot_file.current is not self._ballot_noted or now >= self._tell_again_at:
            self._note_edition()
        if self._received:
            received, self._received = self._received, []
            for peer, message in received:
                self._take(peer, message)
        if not state.cluster_id:
            self._found()
        consensus.tick(state)
        if (state.log.damaged or self._repairs.is_busy) and not state.is_disk_hanging:
            state.log.forget_dropped()
            self._repairs.work(state)
            self._repairs.ask(state)
        consensus.flush(state)
        if self._journal.filling is not None:
            two_logs.settle(state)
        if state.editions.is_news:
            self._share_editions()
        self._persist()
        if state.outbox or self._held:
            self._send()
        if self._journal.memory.bytes > self._journal.settings.tail_cache_bytes:
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

    def _take(self, peer: str, message: Message | LinkUp | LinkDown | Moving) -> None:
        state = self._state
        if isinstance(message, AppendRequest | AppendResponse):
            # By far the most; the others are told apart after them.
            if not self._is_stale(peer):
                consensus.receive(state, peer, message)
        elif isinstance(message, Editions):
            self._fence.shut_out(editions.heed(state, peer, message), state.generation + 1)
        elif isinstance(message, Hello):
            self._heed(peer, message)
            if peer in state.connected:
                consensus.hello_changed(state, peer, message)
        elif isinstance(message, RepairRequest):
            repair.answer(state, peer, message)
        elif isinstance(message, RepairResponse):
            self._repairs.take(state, message)
        elif isinstance(message, LinkUp):
            if state.is_retired(message.hello):
                self._links.drop(peer)  # What shut it out was committed since it was let in.
                return
            self._linked_members.warn(state, message.hello)
            self._heed(peer, message.hello)
            consensus.link_up(state, peer, message.hello)
        elif isinstance(message, Moving):
            if not self._is_stale(peer):
                consensus.moving(state, peer, has_entries=message.has_entries)
        elif isinstance(message, LinkDown):
            consensus.link_down(state, peer, closed=message.closed)
        elif not self._is_stale(peer):
            consensus.receive(state, peer, message)

    def _is_stale(self, peer: str) -> bool:
        """Whether the peer is of another cluster or generation, so that nothing it says counts."""
        state = self._state
        hello = state.connected.get(peer)
        if hello is None:
            return True
        if not hello.cluster_id or not state.cluster_id:
            return False
        if hello.cluster_id != state.cluster_id or hello.generation != state.generation:
            return True
        return hello.lineage != () and state.is_apart_from(hello)

    def _heed(self, peer: str, hello: Hello) -> None:
        state = self._state
        if not self.is_leader:  # A leader has all that is committed: its own log tells it.
            format_levels.require_reached_known(self.hello, hello)
        self._fence.shut_out(formation.own_fence(state, hello), formation.bar(state, hello))
        if formation.is_taken_along(state, hello) and not state.fenced_reason:
            promotion.follow_along(state, hello)
        self._fence.shut_out(editions.heed_hello(state, peer, hello), state.generation + 1)

    def _note_edition(self) -> None:
        """Take up how far the ballot on disk has come."""
        ballot = self._ballot_file.current
        assert ballot is not None
        self._ballot_noted = ballot
        state = self._state
        if ballot.edition != state.editions.own:
            state.editions.rise(ballot.edition)
        if state.now >= self._tell_again_at:
            self._tell_again_at = state.now + state.settings.edition_repeat_seconds
            state.editions.tell_again()
            if state.awaited or promotion.is_cut_short(state):
                self._say_at_once(self.hello)  # Should it be lost, a promotion would wait for ever.

    def _share_editions(self) -> None:
        """Tell the peers, whoever will be linked, and the next ballot."""
        state = self._state
        table = state.editions
        table.is_news = False
        settled = state.settled_membership()
        retired = settled.retired if settled else ()
        others = table.others(retired).items()
        self._ballot_file.seen = tuple((bytes.fromhex(it), edition) for it, edition in others)
        self.hello = replace(self.hello, edition=table.own, seen=table.known)
        if not state.fenced_reason:
            for peer, message in editions.take_news(state):
                self._links.send(peer, [message])

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
        job = self._ballot_job
        assert job is not None
        if job.is_done:
            self._ballot_job = None
            candidate.on_ballot_stored(self._state, job.ballot.term, job.ballot.voted_for)
            self._fence.ballot_is_stored(job.ballot)

    def _ballot_due(self) -> tuple[int, str | None, str, int, bool]:
        """What the ballot must say before anything else is said."""
        state = self._state
        generation = max(state.generation, state.fenced_by)
        return state.term, state.voted_for, state.cluster_id, generation, state.is_shut_out

    def _persist(self) -> None:
        """Give the writer the ballot if it changed, then what was staged."""
        state = self._state
        key = self._ballot_due()
        if key != self._ballot_wanted:
            self._ballot_wanted = key
            term, voted_for, cluster_id, generation, is_shut_out = key
            ballot = Ballot(
                node_id=bytes.fromhex(state.node_id),
                term=term,
                voted_for=voted_for,
                generation=generation,
                cluster_id=bytes.fromhex(cluster_id),
                is_shut_out=is_shut_out,
            )
            # An older job still under way does not matter: the newest ballot covers it.
            self._ballot_job = BallotJob(ballot)
            self._submit(self._ballot_job)
        # After the ballot: it is never of a lower term than the log.
        if state.log.jobs:
            self._write_staged()
        self._renew_hello()

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
            self._say_at_once(replace(self.hello, disk_hangs=state.is_disk_hanging))
        if state.is_disk_hanging:
            watch.hand_over(state)

    def _say_at_once(self, hello: Hello) -> None:
        """Tell the peers news of this process, also while a ballot waits for the disk."""
        state = self._state
        self.hello = hello
        ballot = self._ballot_file.current
        assert ballot is not None
        # All else that it says has been kept: a cluster that is not yet waits for its ballot.
        kept = ballot.cluster_id.hex(), ballot.generation
        if kept == (state.cluster_id, state.generation) and not state.fenced_reason:
            for peer in state.connected:
                self._links.send(peer, [hello])

    def _renew_hello(self) -> None:
        state = self._state
        renewed = formation.renewed(state, self.hello)
        # Who hears of a later generation ends, or relies on us for it: so only of one that is kept.
        if renewed is not self.hello and self._is_generation_kept:
            self.hello = renewed
            news: list[tuple[str, Message]] = [(peer, self.hello) for peer in state.connected]
            # Before all that waited for the same ballot: it is judged by what the hello says.
            waiting = self._held or state.outbox
            waiting[:0] = news
        self._linked_members.update(state)

    def _send(self) -> None:
        """Send the outbox, one call per peer, unless a ballot has to become durable first."""
        state = self._state
        outbox = state.outbox
        if state.fenced_reason:
            # A vote that waits for the ballot must not leave any more.
            outbox.clear()
            self._held.clear()
            return
        if self._ballot_job is not None:
            self._hold(outbox)
            return
        if self._held:
            # News that could not wait went ahead: a hello that waited must not take it back.
            outbox[:0] = [
                (peer, self.hello if type(message) is Hello else message)
                for peer, message in self._held
            ]
            self._held.clear()
        if not outbox:
            return
        by_peer: dict[str, list[Message]] = {}
        for peer, message in outbox:
            by_peer.setdefault(peer, []).append(message)
        outbox.clear()
        send = self._links.send
        for peer, messages in by_peer.items():
            if peer in state.connected:
                send(peer, messages)

    def _hold(self, outbox: list[tuple[str, Message]]) -> None:
        """Keep what waits for the ballot; how far the log goes is said anew when it can be said."""
        for peer, message in outbox:
            if type(message) is AppendResponse and not message.rejected:
                self._state.is_reply_due = True  # Damage may be found meanwhile.
            else:
                self._held.append((peer, message))
        del self._held[:-_HELD_MAX]
        outbox.clear()

    def _trim(self) -> None:
        """A witness drops what nobody needs; everybody else keeps what the store needs."""
        state = self._state
        self._trim_deadline = state.now + state.settings.trim_seconds
        if not state.is_witness:
            return
        trimming.trim(state, self._journal)
        hello = trimming.with_space(state, self._journal, self.hello)
        if hello is not self.hello:
            self._say_at_once(hello)
