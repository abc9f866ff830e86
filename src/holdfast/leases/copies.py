"""
A log that becomes a copy of another one: where it begins, and when it may be served.

A copy is the same log in another place: the same entries, the same chain, the same id. It begins
behind an anchor, an entry without content that stands for all that the source had dropped: it says
how the next one follows on it, by index, term, chain and record number, and is never read itself.

Invariants:
    Until it is finished a copy is no log: nobody opens it but who copies, and it says what it is.
    What was begun is gone on with only for the very same log, with the very same end.
    The epochs of a copy begin behind those of its source, and so behind the terms of its entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Protocol

from google_crc32c import value as crc32c

from holdfast.errors import NoLogError, StoreError
from holdfast.journal.entry import (
    FIRST_CHAIN,
    FLAG_ZERO_END,
    KIND_NOOP,
    Entry,
    encode_header,
    parse_entry,
)
from holdfast.leases.contract import Holding, LeasedLog, Outcome, Place

EPOCHS_LEFT_OUT: Final = 64
"""So often a copy that was broken off is begun again: each time takes an epoch of its source."""


def anchor_entry(
    *, index: int, term: int, chain: bytes, next_record: int, timestamp: int = 0
) -> Entry:
    """Give the entry that stands for everything through `index`: it has this chain, and no body."""
    return parse_entry(
        encode_header(
            KIND_NOOP,
            FLAG_ZERO_END,
            crc32c(b""),
            index,
            term,
            timestamp,
            next_record,
            0,
            0,
            chain,
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlan:
    """What is to be copied: known before the first entry is."""

    identity: str
    """The id of the log; the copy's too."""

    anchor: Entry | None
    """What stands for the entries that the source had dropped; None if it has all."""

    end: Place
    """The last entry."""

    epoch: int
    """Of the source, as it is held while it is copied; the term of no entry is higher."""

    @property
    def begins_behind(self) -> Place:
        """Where the log ends before anything was copied."""
        anchor = self.anchor
        return Place(0, FIRST_CHAIN) if anchor is None else Place(anchor.index, anchor.chain)

    @property
    def first_index(self) -> int:
        """The first entry that is kept in the copy."""
        return 1 if self.anchor is None else self.anchor.index

    @property
    def epoch_before(self) -> int:
        """The copy's epochs begin behind this one."""
        return self.epoch + EPOCHS_LEFT_OUT

    @property
    def mark(self) -> str:
        """32 hexadecimal digits that only the same plan has."""
        behind = self.begins_behind
        told = f"{self.identity} {behind.index} {behind.chain.hex()}"
        told += f" {self.end.index} {self.end.chain.hex()}"
        return blake2b(told.encode(), digest_size=16).hexdigest()


class SourceLog(LeasedLog, Protocol):
    """A medium whose log can be copied."""

    def open_existing(self) -> Holding:
        """
        Open the log that is there, in place of `open`: nothing is laid out, and nothing written.

        Raises:
            StoreError: There is none, or one that cannot be read; see `open`.
            UnreachableError: It cannot be reached now.
        """
        ...


class CopiedLog(SourceLog, Protocol):
    """A medium to which a log can be copied."""

    @property
    def is_half_copy(self) -> bool:
        """Whether what was begun with `begin_copy` is to be finished yet."""
        ...

    def begin_copy(self, plan: CopyPlan) -> Holding:
        """
        Open the medium for a copy, in place of `open`: lay it out, or go on with what was begun.

        A whole log of the same id is opened as it is, and `is_half_copy` tells so. Otherwise the
        log that is given ends with what was copied; whoever takes its lease appends what follows,
        with the terms that the entries have.

        Raises:
            StoreError: There is another log, or a part of a copy of what the source was then.
            UnreachableError: It cannot be reached now.
        """
        ...

    def finish_copy(self, seconds_max: float) -> Outcome:
        """
        Make the copy an ordinary log, and give the lease back; only by its holder.

        Raises:
            UnreachableError: It is not known whether it is done. Ask again.
            StoreError: It does not end where the plan says.
        """
        ...


def no_log(place: str) -> NoLogError:
    """Give the error of who looks for a log where nothing is."""
    return NoLogError(f"{place} holds no log: no broker has ever used it; is the name right?")


def half_copy(place: str) -> StoreError:
    """Give the error of who would serve a copy that is not whole."""
    return StoreError(
        f"{place} has a copy that is not whole, and is being made or was broken off: nothing was"
        f" changed; run the same 'holdfast store copy' again, which goes on with it, or empty it"
    )


def epochs_used_up(place: str) -> StoreError:
    """Give the error of a copy that was begun again too often: its source's epochs went past it."""
    return StoreError(
        f"{place} has a copy that was begun again too often: empty it, and run the command again"
    )


def another_copy(place: str) -> StoreError:
    """Give the error where something of another copy stands."""
    return StoreError(
        f"{place} has a part of another copy, of another log or of what this one was before it was"
        f" served again: nothing was changed; empty it, or name another place"
    )


def another_log(place: str, found: str, wanted: str) -> StoreError:
    """Give the error where a log of another id stands."""
    return StoreError(
        f"{place} holds another log ({found}) than the one to be copied ({wanted}): nothing was"
        f" changed; name an empty place"
    )
