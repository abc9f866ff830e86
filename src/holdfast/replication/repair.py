"""
Mending damaged entries with a peer's copy.

Where recovery lost an entry only because a header before it was lost, it still stands where it
was: once the one before is mended, its chain proves that, and no peer is needed.

Damage is found by recovery, by the scrubber or by a read. The entry is asked from the leader, or,
on the leader, from one peer after the other; what comes is checked against both checksums and the
chain before the journal takes it. The journal's writer writes it, one after the other: where the
bounds of neighbours are lost, the first one's repair tells where the next begins.

Invariants:
    Nothing is written over a damaged entry but the entry that stood there: its own header, or the
    entry behind it, has proven its chain value. The entry before it proves nothing.
    At most `REPAIRS_MAX` entries are asked for at once.
    An entry counts as damaged until its repair is durable; a repair that fails ends the node.
"""

from __future__ import annotations

import logging
from heapq import heapify, heappop, heappush
from typing import Any

from holdfast.errors import CorruptEntryError, JournalFailedError, StoreError
from holdfast.journal.entry import Entry, verify_chain
from holdfast.replication import last_voter
from holdfast.replication.leader import may_begin_here, send_reset
from holdfast.replication.log import ReplicatedLog
from holdfast.replication.messages import NO_CHAIN, RepairRequest, RepairResponse
from holdfast.replication.run_proof import RunProof
from holdfast.replication.state import Role, State

REPAIRS_MAX = 8
_LOOKED_AT_MAX = 256
"""So many copies are looked at in a turn: most of them may be of what was cleaned meanwhile."""

logger = logging.getLogger("holdfast.replication")


class Repairs:
    """The entries that are being asked for, and whom was asked last."""

    __slots__ = (
        "_asked",
        "_copies",
        "_is_due_again",
        "_order",
        "_own",
        "_run",
        "_told",
        "_under_way",
        "repaired_count",
    )

    def __init__(self) -> None:
        self._asked: dict[int, _Question] = {}
        self._copies: dict[int, Entry] = {}
        """Copies that came while another was being written."""
        self._order: list[int] = []
        """Their indexes and some more, as a heap."""
        self._run = RunProof()
        self._own: dict[int, bytes] = {}
        """What the headers of those that are asked for first say; NO_CHAIN where they are lost."""
        self._under_way: Any = None
        """The write job of the repair that is not durable yet."""
        self._told: set[int] = set()
        """Entries of which the operator was told that they do not fit."""
        self._is_due_again = False
        """Whether the next turn goes on with what this one did not come to."""
        self.repaired_count = 0

    @property
    def is_busy(self) -> bool:
        """Whether something is kept here: also of damage that was cut or cleaned away."""
        return bool(self._asked or self._own or self._copies or self._under_way is not None)

    def ask(self, state: State) -> None:
        """Ask for the first damaged entries that nobody was asked for lately."""
        damaged = state.log.damaged
        if not damaged:
            self._asked.clear()
            self._own.clear()
            self._copies.clear()
            self._order.clear()
            self._run = RunProof()  # It keeps copies, and an entry that may be large.
            self._is_due_again = False
            return
        peers = _who_may_have_it(state)
        # What was cut or is mended, and what nobody can be asked for, is due at no time.
        asked: dict[int, _Question] = {}
        for index in self._due(state.log) if peers else ():
            question = asked[index] = self._asked.get(index) or _Question()
            if question.due <= state.now:
                question.due = state.now + state.settings.repair_seconds
                state.send(question.next_of(peers), RepairRequest(index))
        self._asked = asked
        self._is_due_again = bool(peers) and self._run.is_seeking

    def _due(self, log: ReplicatedLog) -> list[int]:
        """The first damaged entries whose copies can be proven, and those that are to prove one."""
        first = log.damaged.smallest(REPAIRS_MAX)
        self._own = {index: self._own[index] for index in first if index in self._own}
        lost = [index for index in first if not self._is_provable(log, index)]
        if not lost:
            self._run.rest()
        behind = self._run.wanted(log, lost[0], REPAIRS_MAX) if lost else []
        # What stands behind the first one may prove it; else the end of the run has to.
        chosen = dict.fromkeys((*lost[:1], *(it for it in first if it not in lost), *behind))
        return [it for it in chosen if it not in self._copies][:REPAIRS_MAX]

    def _is_provable(self, log: ReplicatedLog, index: int) -> bool:
        """Whether anything tells a copy from another one; what is missing behind is sent anyway."""
        if index >= log.last_index or index + 1 not in log.damaged:
            return True
        if self._run.chain_at(index) != NO_CHAIN:
            return True
        if index not in self._own:  # Each is read once: a header that is lost is a line in the log.
            self._own[index] = log.chain_at(index)
        return self._own[index] != NO_CHAIN

    def deadline(self, state: State) -> float:
        """When the next peer is to be asked."""
        if not state.log.damaged:
            return float("inf")
        later = state.now + state.settings.repair_seconds
        if state.is_disk_hanging:
            return later
        if self._is_due_again or (self._copies and self._under_way is None):
            return state.now
        return min((question.due for question in self._asked.values()), default=later)

    def take(self, state: State, message: RepairResponse) -> None:
        """A peer's answer came: keep its copy until it can be written."""
        last_voter.take(state, message)
        entry, log = message.entry, state.log
        question = self._asked.get(message.index)
        if question is None or message.index not in log.damaged:
            return  # What nobody has asked for is kept by nobody.
        if entry is None:
            question.is_refused()
        elif self._run.is_wanted(message.index) and not is_proven_here(log, entry):
            proven = self._run.take(log, entry)
            self._order += [index for index in proven if index not in self._copies]
            self._copies.update(proven)
            heapify(self._order)
        else:
            self._put(entry)

    def _put(self, entry: Entry) -> None:
        if entry.index not in self._copies:
            heappush(self._order, entry.index)
        self._copies[entry.index] = entry

    def work(self, state: State) -> None:
        """Once per turn: finish the repair that is durable, begin the next."""
        job = self._under_way
        if job is not None:
            if not job.is_done:
                return
            self._under_way = None
            self._finish(state, job)
        for _ in range(_LOOKED_AT_MAX):
            if not self._copies or self._under_way is not None:
                break
            # What was asked for may have been reclaimed before the answer came.
            state.log.forget_dropped()
            self._begin(state, self._copies.pop(heappop(self._order)))

    def _begin(self, state: State, entry: Entry) -> None:
        index = entry.index
        if index not in state.log.damaged:
            return
        if index > state.log.last_index:
            return  # Missing at the log's end: first the leader has to bring it.
        if not is_proven(state, entry, self._run):
            logger.warning("a peer's copy of entry %d does not fit our log", index)
            return
        try:
            self._under_way = state.log.repair(entry)
        except JournalFailedError:
            raise
        except StoreError as error:
            if index not in self._told:
                self._told.add(index)
                logger.error(  # noqa: TRY400 - the sentence says it all
                    "entry %d cannot be mended in place: %s; if this node stays behind, stop it and"
                    " start it with an empty data directory: it is taken in as a new one",
                    index,
                    error,
                )

    def _finish(self, state: State, job: Any) -> None:
        if not state.log.journal.finish_repair(job):
            return  # Cut or cleaned away meanwhile.
        index = job.entry.index
        state.log.damaged.discard(index)
        self._asked.pop(index, None)
        self.repaired_count += 1
        if index > state.config_index:
            state.adopt_from([job.entry])
        logger.info("entry %d was repaired", index)
        self._look_behind(state, job.entry)

    def _look_behind(self, state: State, mended: Entry) -> None:
        """Take the entry after one that was mended from our own disk, if it stands there."""
        index = mended.index + 1
        if index not in state.log.damaged or index > state.log.last_index:
            return
        own = state.log.journal.standing_at(index)
        is_copied = index in self._copies
        if own is not None and not is_copied and verify_chain(own, mended.chain):
            self._put(own)


class _Question:
    """One entry that is asked for: when next, and of whom."""

    __slots__ = ("due", "peers_count", "turn")

    def __init__(self) -> None:
        self.due = 0.0
        self.turn = 0
        self.peers_count = 1

    def next_of(self, peers: list[str]) -> str:
        """The peer whose turn it is: every one, whatever becomes of other entries' questions."""
        self.peers_count = len(peers)
        peer = peers[self.turn % len(peers)]
        self.turn += 1
        return peer

    def is_refused(self) -> None:
        """Who was asked has it not: the next one is asked at once, until all were."""
        if self.turn % self.peers_count:
            self.due = 0.0


def _who_may_have_it(state: State) -> list[str]:
    """Give whom to ask for an entry, one after the other: first the leader, who likely has it."""
    if state.membership is None:
        # The entry that names the members is damaged itself. Who sends its copy does not matter:
        # the neighbours prove it.
        hellos = state.connected.items()
        peers = [peer for peer, hello in hellos if hello.cluster_id == state.cluster_id]
    else:
        peers = [peer for peer in state.connected if state.is_counted(peer)]
    return sorted(peers, key=lambda peer: (peer != state.leader, peer))


def answer(state: State, peer: str, message: RepairRequest) -> None:
    """Send our copy of an entry, or say that we have no good one."""
    entry: Entry | None = None
    journal = state.log.journal
    progress = state.progress.get(peer)
    is_dropped = message.index < journal.first_index and state.role is Role.LEADER
    if is_dropped and progress is not None and may_begin_here(state, peer):
        # Nothing lives there any more, so nobody keeps it: the peer can only do without.
        send_reset(state, peer, progress)
        return
    if journal.first_index <= message.index <= journal.last_index:
        try:
            entry = journal.entry(message.index)
        except CorruptEntryError:
            state.log.damaged.add(message.index)
    state.send(peer, RepairResponse(message.index, entry))


def is_proven(state: State, entry: Entry, run: RunProof) -> bool:
    """Whether this is the entry that stood there: its own header or the next entry says so."""
    log = state.log
    index = entry.index
    # The chain covers the term; what the journal believes of the term of an entry whose header is
    # lost is its neighbour's, and would keep a right copy out where the term changes.
    is_begun = index - 1 not in log.damaged and log.term_at(index - 1) >= 0
    # What stood before the first entry may be lost: see `ReplicatedLog.base`.
    if is_begun and not verify_chain(entry, log.chain_at(index - 1)):
        return False
    following = _following(state, index)
    if following is not None:
        return verify_chain(following, entry.chain)
    known = run.chain_at(index)
    if known == NO_CHAIN and is_begun and is_proven_here(log, entry):
        return True
    if known == NO_CHAIN:
        known = log.chain_at(index)
    return entry.chain == known != NO_CHAIN


def is_proven_here(log: ReplicatedLog, copy: Entry) -> bool:
    """Whether the entry that stands where this copy of a lost one ends continues it."""
    index = copy.index
    if not log.journal.first_index <= index < log.last_index or index - 1 in log.damaged:
        return False
    behind = log.journal.standing_at(index + 1, copy)
    return behind is not None and verify_chain(behind, copy.chain)


def _following(state: State, index: int) -> Entry | None:
    """The next entry, if it is here and good."""
    log = state.log
    if index >= log.last_index or index + 1 in log.damaged:
        return None
    try:
        return log.journal.entry(index + 1)
    except CorruptEntryError:
        log.damaged.add(index + 1)
        return None
