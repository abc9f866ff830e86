"""
Every error that Holdfast raises on purpose.

The world's faults have names here; our own mistakes fail an `assert`. An error carries its fields
and writes its own sentence: what happened, to which thing, what was expected, what to do.

    HoldfastError
    ├── ConfigError                  what the operator wrote
    ├── ProtocolError                .code (short, stable, for programs)
    │   ├── LocalProtocolError       we tried something the protocol forbids
    │   └── RemoteProtocolError      the peer did
    │       └── IncompleteFrameError    one frame of its; the next one can be read
    ├── RefusedError                 a request that is understood and refused; the connection lives
    │   ├── SequenceGapError         a producer skipped a number
    │   │   └── ProducerForgottenError  nothing is known of it any more
    │   ├── ProducerFinishedError    a producer that is done with, by its application's own word
    │   ├── UnknownDeliveryError     an acknowledgement of something not delivered
    │   ├── TransactionError         unknown, doubled or too large transaction
    │   ├── StoreFullError           no room on disk: publishing is refused, acknowledging goes on
    │   ├── QueueFullError           as much is on a queue as its policies allow
    │   ├── SlowConsumerError        a consumer that is ended, as it held others up
    │   ├── LimitReachedError        more is asked for than the node allows
    │   ├── BusyError                the node does as much of this at once as it does: later
    │   ├── DestinationError         a destination that cannot be used in this way
    │   ├── SelectorError            .column: where a selector cannot be read
    │   ├── PolicyError              what cannot be said of destinations, and why
    │   ├── AccessError              a user, role or grant that cannot be
    │   ├── ForbiddenError           what somebody may not do
    │   ├── LevelNotReachedError     what needs a level of the log's format that not all know
    │   ├── ScheduleError            when a message is to be sent makes no sense
    │   └── NotServedError           a wish that would have to be ignored
    ├── StoreError
    │   ├── SegmentsMissingError     files at the beginning of the log are gone
    │   ├── CorruptEntryError        .segment .byte .index: where the damage is
    │   ├── MissingEntriesError      entries that should be there are not
    │   ├── DamagedManifestError     entries of an archive whose manifest cannot be read
    │   ├── TruncatedEntryError      the bytes end before the entry does
    │   ├── CorruptRecordError       a record inside a good entry makes no sense
    │   ├── JournalFailedError       a write or sync failed; nothing more is claimed
    │   ├── NoLogError               nothing is where a log is looked for
    │   ├── UnreachableError         a shared medium or database did not answer
    │   ├── AppendRefusedError       it refuses what was to be stored
    │   │   └── EntryRefusedError    again and again, and would take others
    │   ├── FormatLevelError         a log has reached a level that this node does not know
    │   ├── StoreLockedError         another process has the directory
    │   ├── ForeignDirectoryError    the directory is another node's
    │   ├── BallotLostError          term and vote are unreadable: this identity must not vote again
    │   ├── MirrorError              one of several mirrors, or their set
    │   │   ├── ForeignMirrorError   directories of different sets
    │   │   ├── MirrorHistoriesError    mirrors that went on apart, or whose logs differ
    │   │   ├── MirrorsMissingError  .missing: too few are there to be sure
    │   │   └── MirrorsLostError     .lost: too few are left to go on
    │   ├── ArchiveError             the archive is not whole, or cannot be used in this way
    │   │   ├── LaterArchiveError    a later version of Holdfast writes it
    │   │   └── CorruptArchiveError  .path .index: a file that is not as it was written
    │   │       └── UnreadableArchiveError   it is not known to be wrong: the store did not give it
    │   └── RecordNotFoundError      a record number that is not in the store
    ├── ReplicationError
    │   ├── NotLeaderError           .leader
    │   ├── QuorumLostError          no majority in time
    │   ├── MembershipError          a change that is refused, and why
    │   ├── FencedError              this node was removed or a newer generation rules
    │   └── LogDivergedError         two logs differ where they must be the same: halt
    ├── MisplacedCallError           a blocking call from where it could never return
    ├── UnfinishedHandlingError      a handler was cancelled by itself, or wanted to exit
    ├── UnansweredError              nobody has answered a request in time
    ├── CommandFailedError           a command of the operator's own has failed
    ├── MappedRowsError              what a user's function gave is not what it was said to give
    └── LinkError
        ├── LinkLostError            the connection went away in the middle of something
        │   └── WorkerLostError      a process of Spark's died at our work
        │       └── NoWorkerError    Spark could not start one
        ├── AuthenticationError      the other side does not know the secret
        ├── CertificateError         the other side's certificate is not to be trusted
        └── FailoverExhaustedError   no address answered within the attempts allowed
"""

from __future__ import annotations

from collections.abc import Iterable


class HoldfastError(Exception):
    """The root of everything Holdfast raises on purpose."""


class ConfigError(HoldfastError):
    """The configuration is wrong; `problems` lists every mistake, one sentence each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class ProtocolError(HoldfastError):
    """A rule of the wire protocol was broken; `code` is short and stable, for programs."""

    def __init__(self, message: str, *, code: str = "protocol-error") -> None:
        super().__init__(message)
        self.code = code


class LocalProtocolError(ProtocolError):
    """We tried something that the protocol forbids."""


class RemoteProtocolError(ProtocolError):
    """The peer did something that the protocol forbids; its connection is closed."""


class IncompleteFrameError(RemoteProtocolError):
    """A frame lacks a header it must have; where it ends, and what comes behind it, is clear."""


class RefusedError(HoldfastError):
    """A request that is understood and refused. The connection lives on."""

    code = "refused"


class SequenceGapError(RefusedError):
    """A producer skipped a sequence number, so an earlier message is missing."""

    code = "producer-sequence-gap"

    def __init__(self, producer_id: str, *, expected: int, found: int) -> None:
        gap = f"producer {producer_id}: expected sequence {expected}, found {found}"
        super().__init__(f"{gap}; send the missing messages first")
        self.producer_id, self.expected, self.found = producer_id, expected, found


class ProducerForgottenError(SequenceGapError):
    """A producer that goes on where nothing is known of it: it was forgotten, or never began."""

    code = "producer-forgotten"

    def __init__(self, producer_id: str, *, expected: int, found: int) -> None:
        super().__init__(producer_id, expected=expected, found=found)
        unknown = f"producer {producer_id} is not known, or not any more"
        gap = f"expected sequence {expected}, found {found}"
        self.args = (f"{unknown}: {gap}; go on under another id",)


class ProducerFinishedError(RefusedError):
    """A producer sends of whom its application has said that it is done with."""

    code = "producer-finished"


class NotServedError(RefusedError):
    """A message wishes what is not done here: to take it and do nothing would be a lie."""

    code = "not-served"


class ScheduleError(RefusedError):
    """A schedule that makes no sense, or would never send anything."""

    code = "schedule"


class UnknownDeliveryError(RefusedError):
    """An acknowledgement of something that was not delivered on this connection."""

    code = "unknown-delivery"


class TransactionError(RefusedError):
    """A transaction that is unknown, begun twice, or too large."""

    code = "transaction"


class StoreFullError(RefusedError):
    """No room on disk: publishing is refused, acknowledging goes on."""

    code = "store-full"


class QueueFullError(RefusedError):
    """There is as much on a queue as its policies allow; its sender may wait if `can_wait`."""

    code = "queue-full"

    def __init__(self, message: str, *, can_wait: bool = False, wait_ms: int = 0) -> None:
        super().__init__(message)
        self.can_wait, self.wait_ms = can_wait, wait_ms
        """Whether it may wait, and for how long; 0: as long as is usual."""


class SlowConsumerError(RefusedError):
    """A consumer that is ended: it held others up, and policies do not let it."""

    code = "slow-consumer"


class DestinationError(RefusedError):
    """A destination that does not exist or cannot be used in this way."""

    code = "destination"


class SelectorError(RefusedError):
    """A selector that cannot be read; `column` counts its characters from 1."""

    code = "invalid-selector"

    def __init__(self, reason: str, *, column: int) -> None:
        super().__init__(f"selector, column {column:,}: {reason}")
        self.column = column


class PolicyError(RefusedError):
    """Something that cannot be said of destinations; the sentence names pattern or key."""

    code = "policy"


class AccessError(RefusedError):
    """A user, role or grant that cannot be; the sentence says which, and why."""

    code = "access"


class ForbiddenError(RefusedError):
    """What somebody may not do."""

    code = "forbidden"


class LevelNotReachedError(RefusedError):
    """What may only be written at a level of the log's format that this log has not reached."""

    code = "format-level"

    @classmethod
    def of(cls, what: str, needed: int, reached: int) -> LevelNotReachedError:
        """Say what needs which level, and what the log has reached."""
        return cls(
            f"{what} need level {needed} of the log's format, and this log is at level {reached}:"
            f" not every member knows that level, or one has not told so yet; see 'holdfast"
            f" status' of each"
        )


class LimitReachedError(RefusedError):
    """More is asked for than the node allows, or there is no room for another."""

    code = "limit-reached"


class BusyError(RefusedError):
    """The node does as much of this at once as it does; it can be asked again a little later."""

    code = "busy"


class StoreError(HoldfastError):
    """Something is wrong with what is kept on disk."""


class SegmentsMissingError(StoreError):
    """Files at the beginning of the log are gone that were never dropped."""


class CorruptEntryError(StoreError):
    """A log entry whose checksum or shape is wrong, with its exact place."""

    def __init__(self, reason: str, *, segment: str = "", byte: int = 0, index: int = 0) -> None:
        where = f"segment {segment} byte {byte:,}" if segment else f"byte {byte:,}"
        which = f" (entry {index:,})" if index else ""
        super().__init__(f"{reason} at {where}{which}")
        self.reason, self.segment, self.byte, self.index = reason, segment, byte, index


class MissingEntriesError(CorruptEntryError):
    """Entries that should be there are not; `index` is the first of them."""

    def __init__(self, first_index: int, last_index: int, where: str) -> None:
        super().__init__("the entry is missing", index=first_index)
        which = f"entries {first_index:,} to {last_index:,} are"
        if last_index == first_index:
            which = f"entry {first_index:,} is"
        self.args = (f"{which} missing from {where}",)


class DamagedManifestError(CorruptEntryError):
    """Entries that only a manifest tells of which cannot be read; `index` is the first of them."""

    def __init__(self, first_index: int, last_index: int, where: str, reason: str) -> None:
        super().__init__(reason, index=first_index)
        entries = f"entries {first_index:,} to {last_index:,}"
        self.args = (f"{entries} cannot be read from {where}: {reason}",)


class TruncatedEntryError(CorruptEntryError):
    """The bytes end before the entry does."""


class CorruptRecordError(StoreError):
    """A record inside an entry with a good checksum makes no sense."""


class JournalFailedError(StoreError):
    """A write or sync failed. Final: nothing more is written or claimed by this process."""


class NoLogError(StoreError):
    """Nothing is where a log is looked for: no broker has ever used that place."""


class UnreachableError(StoreError):
    """A shared medium or database did not answer; what was asked of it may be done or not."""


class AppendRefusedError(StoreError):
    """A shared medium or database refuses what was to be stored, and keeps nothing of it."""

    keeps_lease = False  # Whether nothing is won by giving it up together with the lease.


class EntryRefusedError(AppendRefusedError):
    """A shared medium refuses one entry, again and again, and would take others."""


class FormatLevelError(StoreError):
    """A log has reached a level of the format that this node does not know."""

    def __init__(self, what: str, reached: int, known: int) -> None:
        newer = f"level {reached} of the log's format, and this node knows no level above {known}"
        super().__init__(f"{what} has reached {newer}: start a newer version; nothing was changed")
        self.known = known


class StoreLockedError(StoreError):
    """Another process holds the data directory."""


class ForeignDirectoryError(StoreError):
    """The data directory is another node's; the sentence names both."""


class BallotLostError(StoreError):
    """Term and vote are unreadable in both slots; this identity must not vote again."""


class MirrorError(StoreError):
    """Something is wrong with one of several mirrors of a store, or with their set."""


class ForeignMirrorError(MirrorError):
    """Two mirrors are of different sets."""

    def __init__(self, first: str, second: str) -> None:
        self.first, self.second = first, second
        super().__init__(
            f"{first} and {second} are mirrors of two different sets: give those of one,"
            f" or empty the one whose messages are not wanted"
        )


class MirrorHistoriesError(MirrorError):
    """Two mirrors went on apart from each other: both may hold what was confirmed."""

    def __init__(self, first: str, second: str, where: str = "") -> None:
        self.first, self.second, self.where = first, second, where
        super().__init__(
            f"{first} and {second} went on apart from each other{where and ': '}{where}: start with"
            f" the one to be kept, and empty the other once nothing of it is wanted"
        )


class MirrorsMissingError(MirrorError):
    """Too few mirrors were found to be sure that all that was confirmed is among them."""

    def __init__(self, missing: Iterable[str], found: Iterable[str], remedy: str = "") -> None:
        self.missing, self.found = frozenset(missing), frozenset(found)
        super().__init__(
            f"of the mirrors that must have all that was confirmed {_listed(self.missing)} cannot"
            f" be used, and {_listed(self.found) or 'none'} alone may lack messages"
            f"{remedy and ': '}{remedy}"
        )


class MirrorsLostError(MirrorError):
    """So few mirrors are left that others might go on without them."""

    def __init__(self, lost: Iterable[str], left: Iterable[str]) -> None:
        self.lost, self.left = frozenset(lost), frozenset(left)
        super().__init__(
            f"mirrors {_listed(self.lost)} failed, and {_listed(self.left) or 'none'} alone may not"
            f" go on: repair them and start again"
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


class ArchiveError(StoreError):
    """The archive is not whole, or cannot be used in this way; the sentence says what to do."""


class LaterArchiveError(ArchiveError):
    """A later version of Holdfast writes this archive: what it says is not known here."""


class CorruptArchiveError(ArchiveError):
    """A file of the archive is missing or not as it was written; `index` 0: all of the file."""

    def __init__(self, reason: str, *, path: str, index: int = 0) -> None:
        which = f", entry {index:,}" if index else ""
        reason = " ".join(reason.split())  # the libraries that read Parquet write several lines
        super().__init__(f"{path}{which}: {reason}")
        self.reason, self.path, self.index = reason, path, index


class UnreadableArchiveError(CorruptArchiveError):
    """A file of the archive that its store or disk did not give; the next time it may."""


class RecordNotFoundError(StoreError):
    """A record number that is not, or no longer, in the store."""


class ReplicationError(HoldfastError):
    """The group of members cannot do what was asked."""


class NotLeaderError(ReplicationError):
    """Only the leader can do this; `leader` is its name, where known."""

    def __init__(self, leader: str | None = None) -> None:
        hint = f"the leader is {leader}" if leader else "no leader is known at the moment"
        super().__init__(f"this node is not the leader; {hint}")
        self.leader = leader


class QuorumLostError(ReplicationError):
    """No majority answered in time."""


class MembershipError(ReplicationError):
    """A change of members that is refused; the sentence says why and what to do."""


class FencedError(ReplicationError):
    """This node was removed, or a newer generation of the cluster rules."""


class LogDivergedError(ReplicationError):
    """Two logs differ where they must be the same; this node halts rather than choose."""


class LinkError(HoldfastError):
    """Something is wrong between two machines."""


class LinkLostError(LinkError):
    """The connection went away in the middle of something."""


class WorkerLostError(LinkLostError):
    """A process of Spark's died at our work; the same work may well succeed the next time."""


class NoWorkerError(WorkerLostError):
    """Spark could not start a process for our work; where it never could, it never will."""


class AuthenticationError(LinkError):
    """The other side does not know the secret, or is not known."""


class CertificateError(LinkError):
    """The other side's certificate is not to be trusted; trying again changes nothing."""


class FailoverExhaustedError(LinkError):
    """No address answered within the attempts allowed."""


class UnansweredError(HoldfastError, TimeoutError):
    """Nobody has answered a request in time; whether it was or will be done is unknown."""


class MisplacedCallError(HoldfastError):
    """A blocking call from where it could never return: a listener, a forked child."""


class UnfinishedHandlingError(HoldfastError):
    """A handler of messages neither returned nor failed: it was cancelled, or wanted to exit."""


class CommandFailedError(HoldfastError):
    """A command of the operator's own, which was to make something, has failed."""


class MappedRowsError(HoldfastError):
    """What a function that is run where the log is parsed gave is not what it was said to give."""
