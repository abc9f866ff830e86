"""
The replicated log: entries by index and term, on top of the journal.

A thin view. Changes are staged in the journal, where they are readable at once, and the write jobs
are collected for the driver, which gives them to the writer when the turn's decisions are made.

Invariants:
    stored_index <= last_index.
    acknowledgeable_index <= stored_index: a damaged entry is not claimed until it is repaired.
    An unknown tail counts in elections and nowhere else, until our own log has reached it.
    Nothing at or below the commit index is ever cut; the callers check, and so do we.
"""

from __future__ import annotations

import logging
from typing import Any, Protocol

from holdfast.errors import CorruptEntryError
from holdfast.journal.entry import Entry, verify_chain
from holdfast.journal.filling import Filling, Target
from holdfast.journal.settings import JournalSettings
from holdfast.replication.index_set import IndexSet
from holdfast.replication.messages import NO_CHAIN

logger = logging.getLogger("holdfast.replication")


class EntryLog(Protocol):
    """What this package needs of the journal; see journal/journal.py for the promises."""

    settings: JournalSettings

    @property
    def first_index(self) -> int: ...
    @property
    def last_index(self) -> int: ...
    @property
    def last_term(self) -> int: ...
    @property
    def last_chain(self) -> bytes: ...
    @property
    def last_timestamp(self) -> int: ...
    @property
    def next_record_number(self) -> int: ...
    @property
    def stored_index(self) -> int: ...
    @property
    def filling(self) -> Filling | None: ...

    is_out_of_room: bool

    @property
    def unknown_through(self) -> int: ...
    @property
    def unknown_term(self) -> int: ...
    def term_at(self, index: int) -> int: ...
    def chain_at(self, index: int) -> bytes: ...
    def kind_at(self, index: int) -> int: ...
    def previous(self, first_index: int) -> tuple[int, bytes, int]: ...
    def entry(self, index: int) -> Entry: ...
    def standing_at(self, index: int, before: Entry | None = None) -> Entry | None: ...
    def place_of(self, index: int) -> Any: ...
    @property
    def table(self) -> Any: ...
    def entries(self, from_index: int, bytes_max: int, overhead_bytes: int = 0) -> list[Entry]: ...
    def stage(self, entries: list[Entry]) -> Any: ...
    def stage_truncate(self, after_index: int, claim: tuple[int, int] | None = None) -> Any: ...
    def stage_reset(
        self,
        base_index: int,
        previous_term: int,
        previous_chain: bytes,
        base_record_number: int,
        target: Target | None = None,
        *,
        is_of_voter: bool = False,
    ) -> Any: ...
    def stage_repair(self, entry: Entry) -> Any: ...
    def finish_repair(self, job: Any) -> bool: ...
    def forget_filling(self, *, is_full: bool = True) -> None: ...
    def space_state(self, now: float) -> str: ...
    def drop_before(self, index: int) -> int: ...


class ReplicatedLog:
    """The log of one member, with the write jobs its changes make."""

    __slots__ = (
        "_is_lost_base_told",
        "_run",
        "awaited_since",
        "awaited_told",
        "damaged",
        "epoch",
        "hidden_change",
        "is_room_asked_for",
        "jobs",
        "journal",
        "unknown_index",
        "unknown_term",
    )

    def __init__(self, journal: EntryLog, damaged: list[int]) -> None:
        self.journal = journal
        self.jobs: list[Any] = []
        """Write jobs not yet given to the writer, in the order they were staged."""
        self.awaited_told = ""
        """What was told of what keeps everybody, or the only voter, from leading."""
        self.awaited_since: float | None = None
        """Since when nobody leads for the sake of an unknown end."""
        self.hidden_change = 0
        """The damaged entry that kept the only voter from leading when it last wanted to."""
        self._is_lost_base_told = False
        self.is_room_asked_for = False
        """It was told that there is no room for two logs."""
        self.epoch = 0
        """Counts the times the log was thrown away and begun anew."""
        self.damaged = IndexSet(damaged)
        """Indexes whose entry on this disk is damaged and not yet repaired."""
        self._run = (0, 0)
        """The run of damage that was looked at last, and what is behind it."""
        self.unknown_index = journal.unknown_through
        self.unknown_term = journal.unknown_term if journal.unknown_through else 0

    @property
    def last_index(self) -> int:
        """The last entry, durable or not."""
        return self.journal.last_index

    @property
    def acknowledgeable_index(self) -> int:
        """The last index of which this member may say: I hold everything up to here."""
        stored = self.journal.stored_index
        if self.damaged:
            return min(stored, self.damaged.first - 1)
        return stored

    @property
    def is_whole(self) -> bool:
        """Whether the log has no known hole: with one its owner must not stand."""
        return not self.damaged

    @property
    def whole_index(self) -> int:
        """The last entry before any damage."""
        last = self.last_index
        return min(last, self.damaged.first - 1) if self.damaged else last

    def give_up_end(self) -> None:
        """What is lost at the end is given up, also what was noted as durable there."""
        self.forget_unknown()
        if self.damaged.last > self.last_index:
            self.cut_after(self.last_index, 0)

    def forget_unknown(self) -> None:
        """The end that recovery could not judge is proven uncommitted, or given up by force."""
        self.unknown_index = self.unknown_term = 0

    def election_position(self) -> tuple[int, int]:
        """
        (term, index) with which to judge candidates; what is lost at the end counts as held.

        Of an entry whose header is lost the term that the journal knows is only the least.
        """
        journal = self.journal
        own = journal.last_term, journal.last_index
        if self.damaged and self.is_guessed(journal.last_index):
            own = self._lost_end()
        return max(own, (self.unknown_term, self.unknown_index))

    def term_at(self, index: int) -> int:
        """The term of an entry, or of the one before the first; -1 if it is not here, or lost."""
        journal = self.journal
        if journal.first_index <= index <= journal.last_index:
            return journal.term_at(index)
        if index == journal.first_index - 1:
            term, chain, _ = journal.previous(journal.first_index)
            return term if self._is_base(index, chain) else -1
        return -1

    def _is_base(self, index: int, chain: bytes) -> bool:
        """Whether this is known of the entry before the first: not with a lost segment header."""
        return index == 0 or chain != NO_CHAIN

    @property
    def base(self) -> tuple[int, bytes, int] | None:
        """
        Term and chain of the entry before the first one, and the first record's number.

        None where the header that says so is lost: then nobody can be told to begin here.
        """
        first = self.journal.first_index
        found = self.journal.previous(first)
        return found if self._is_base(first - 1, found[1]) else None

    def tell_lost_base(self, peer: str) -> None:
        """Say once that a peer cannot be served for want of the base."""
        if not self._is_lost_base_told:
            self._is_lost_base_told = True
            logger.error(
                "%s may need what stood before entry %d, and the header of the oldest segment,"
                " which says what that was, is damaged here: let another node lead, or wait until"
                " that segment is cleaned",
                peer,
                self.journal.first_index,
            )

    def chain_at(self, index: int) -> bytes:
        """
        The chain value after an entry that is here, or after the one before the first.

        NO_CHAIN for an entry whose header is damaged: then nothing can be compared.
        """
        journal = self.journal
        if index == journal.last_index and index >= journal.first_index:
            return journal.last_chain
        if index == journal.first_index - 1:
            return journal.previous(journal.first_index)[1]
        try:
            return journal.chain_at(index)
        except CorruptEntryError:
            self.damaged.add(index)
            return NO_CHAIN

    def is_guessed(self, index: int) -> bool:
        """Whether the header of an entry here is lost: its term is only the least it can be."""
        is_here = self.journal.first_index <= index <= self.last_index
        return is_here and index in self.damaged and self.chain_at(index) == NO_CHAIN

    def may_be(self, index: int, kind: int) -> bool:
        """Whether an entry is of this kind, as its header tells; true where no header does."""
        if not self.journal.first_index <= index <= self.last_index:
            return True
        try:
            return self.journal.kind_at(index) == kind
        except CorruptEntryError:
            return True

    def may_have(self, index: int, term: int, chain: bytes) -> bool:
        """
        Whether the entry here is of this term, as far as its header, or else its neighbours, tell.

        Of an entry whose header is lost the chain of the one behind it tells for sure. Where no
        header behind it is left, a guess is worth nothing: that end is soon sent again.
        """
        own = self.term_at(index)
        if index not in self.damaged or term < own or own < 0:
            return own == term
        if not self.is_guessed(index):
            # Being mended, its header is there again, and the chain covers the term.
            return own == term or self.chain_at(index) == chain
        if self._is_next_good(index) and chain != NO_CHAIN:
            return self._continues(index + 1, chain)
        behind = self._behind_damage(index)
        return own == term or (behind <= self.last_index and term <= self.journal.term_at(behind))

    def _continues(self, index: int, chain: bytes) -> bool:
        """Whether the entry here may follow on one with this chain value."""
        try:
            return verify_chain(self.journal.entry(index), chain)
        except CorruptEntryError:
            self.damaged.add(index)
            return True

    def _behind_damage(self, index: int) -> int:
        """
        An entry behind a damaged one whose term is known; past the log's end if there is none.

        It is the first one that is not damaged, one farther behind after repairs; or else the last
        one that has its header still, and has lost its body only.
        """
        first, behind = self._run
        if not first <= index < behind:
            behind = index + 1
            while behind in self.damaged:
                behind += 1
            if behind > self.last_index:
                behind = self._last_with_header(index)
            self._run = (index, behind)
        return behind

    def _last_with_header(self, index: int) -> int:
        for behind in range(self.last_index, index, -1):
            if not self.is_guessed(behind):
                return behind
        return self.last_index + 1

    def newest_of_kind(self, kind: int) -> tuple[Entry | None, int]:
        """
        The newest entry of this kind and the bytes after it; reads back from the log's end.

        Bounded for CONFIG entries, because leaders repeat them every `config_repeat_bytes`.
        """
        journal = self.journal
        size = 0
        for index in range(journal.last_index, journal.first_index - 1, -1):
            try:
                entry = journal.entry(index)
            except CorruptEntryError:
                self.damaged.add(index)
                continue
            if entry.kind == kind:
                return entry, size
            size += len(entry.raw)
        return None, size

    def append(self, entries: list[Entry]) -> None:
        """Put entries at the end; durable when `stored_index` has passed them."""
        self.jobs.append(self.journal.stage(entries))
        if self.unknown_index:
            self._judge_unknown()

    def cut_after(self, index: int, commit_index: int) -> None:
        """
        Remove everything after `index`, which is not below the commit index.

        Where the first entry to go has lost its header, nothing tells that it differs from what
        comes instead: this member may have said that it holds it, and all behind it. Until as much
        is here again, or something newer, that counts as an end that recovery could not judge.

        Raises:
            CorruptEntryError: The entry that would be the last one is damaged; nothing was cut.
        """
        assert index >= commit_index, f"cut after {index} below commit index {commit_index}"
        is_end = index >= self.journal.last_index
        if is_end:
            is_lost = self.unknown_index > index
        else:
            # Where the next one is good, its chain has told that this one differs; see `may_have`.
            is_lost = self.is_guessed(index + 1) and not self._is_next_good(index + 1)
        claim = self._lost_end() if is_lost else None
        self.jobs.append(self.journal.stage_truncate(index, claim))
        self.damaged.keep(0, index)
        if claim is not None:
            self.unknown_term, self.unknown_index = claim

    def _is_next_good(self, index: int) -> bool:
        return index < self.last_index and index + 1 not in self.damaged

    def _lost_end(self) -> tuple[int, int]:
        """The term, or a higher one, and the index of the last entry that may have been here."""
        journal = self.journal
        term = max(journal.last_term, journal.unknown_term)
        return term, max(journal.last_index, self.unknown_index)

    def begin_anew(
        self,
        base_index: int,
        previous_term: int,
        previous_chain: bytes,
        base_record: int,
        target: Target | None = None,
        *,
        is_of_voter: bool = False,
    ) -> None:
        """
        The log starts at `base_index` now; what it was is kept until it reaches `target`.

        What was lost at its end, and may have reached farther, goes on counting as held.
        """
        before = base_index - 1
        is_cut = self.is_guessed(before) and not self._is_next_good(before)
        claim = self._lost_end() if is_cut else (self.unknown_term, self.unknown_index)
        self.damaged.clear()
        self.forget_unknown()
        self.epoch += 1
        job = self.journal.stage_reset(
            base_index,
            previous_term,
            previous_chain,
            base_record,
            target,
            is_of_voter=is_of_voter,
        )
        if claim[1] > before:
            job.claim = claim
            self.unknown_term, self.unknown_index = claim
        self.jobs.append(job)

    def settle_filling(self, commit_index: int) -> None:
        """Give up what is kept of the log before this one, if all that is missing has come."""
        filling = self.journal.filling
        if filling is not None and filling.is_reached(min(commit_index, self.journal.stored_index)):
            self.journal.forget_filling()

    def make_room(self, now: float) -> None:
        """Give up what is kept of the log before this one, if the disk has no room for both."""
        filling = self.journal.filling
        if filling is not None and filling.kept and self.journal.space_state(now) == "low":
            self.journal.forget_filling(is_full=False)
            if self.journal.filling is not filling:
                logger.warning("the disk has no room for two logs: the one before this is given up")

    def forget_dropped(self) -> None:
        """Damage in segments that were reclaimed meanwhile concerns nobody any more."""
        first = self.journal.first_index
        if self.damaged and self.damaged.first < first:
            self.damaged.keep(first, self.damaged.last)

    def give_up_before(self, base_index: int) -> None:
        """
        Drop what is before a segment's base, because it is damaged here and kept nowhere.

        What follows stays. The application starts over at the new first entry, as after
        `begin_anew`: it may not have been given what is lost.
        """
        self.journal.drop_before(base_index)
        self.forget_dropped()
        self.epoch += 1

    def repair(self, entry: Entry) -> Any:
        """Begin to write a damaged entry over; StoreError if it is not what was here."""
        job = self.journal.stage_repair(entry)
        self.jobs.append(job)
        return job

    def take_jobs(self) -> list[Any]:
        """The write jobs since the last call, in order."""
        jobs, self.jobs = self.jobs, []
        return jobs

    def last_index_through_term(self, index: int, term: int) -> int:
        """The last index, at most `index`, whose term is `term` or lower: where to look next."""
        journal = self.journal
        index = min(index, journal.last_index)
        first = journal.first_index
        while index >= first and journal.term_at(index) > term:
            index -= 1
        return index

    def _judge_unknown(self) -> None:
        # Entries come from leaders of a term at least as new as the lost entry's: where our log
        # reaches its place again, it stands there, or was never committed.
        journal = self.journal
        is_newer = (journal.last_term, journal.last_index) >= self.election_position()
        if is_newer or journal.last_index >= self.unknown_index:
            self.forget_unknown()
