"""
The log of a stopped node as the source of a copy: its directory, or its mirrors.

It is locked as by a node that serves it, and only read. What a single node has is the log; one of
several members may lack what the others have confirmed, so it is refused.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.copying.scanned_log import ScannedLog
from holdfast.environment.disk import Disk, DiskLock
from holdfast.environment.lock_holder import in_use
from holdfast.errors import ConfigError, StoreError
from holdfast.journal.ballot import Ballot
from holdfast.journal.entry import KIND_CONFIG, Entry
from holdfast.journal.kept_log import KEPT_DIRECTORY
from holdfast.leases.contract import Place
from holdfast.leases.copies import CopyPlan, anchor_entry
from holdfast.replication.membership import Membership, decode_membership


class DirectorySource:
    """A `Source` in a node's own directory."""

    def __init__(self, directory: Path, disk: Disk, *, place: str = "") -> None:
        """
        Lock it, and verify the log in it.

        Args:
            place: What it is called, if it is not by its directory.

        Raises:
            ConfigError: It is no data directory.
            StoreLockedError: A node serves it.
            StoreError: Its log is damaged, empty, not full, or one of several.
        """
        self.place = place or str(directory)
        if not disk.exists(directory / "journal"):
            raise ConfigError([f"{directory} is no data directory: there is no journal in it"])
        self._lock = _lock(directory, disk)
        try:
            _require_full(directory, disk)
            self._log = ScannedLog(directory, disk)
            if not self._log.scan.last_index or self._log.first is None:
                raise StoreError(f"{directory} is empty: there is nothing to copy")
            membership = _membership(self._log)
            self._ballot = _require_alone(directory, self._log.ballot, membership)
            self.plan = _plan(self._log, self._ballot)
        except BaseException:
            self._lock.release()
            raise

    def entries(self, after: int) -> list[Entry]:
        """Read what follows on entry `after`."""
        return self._log.entries(after)

    def keep(self, *, at_once: bool = False) -> None:
        """Nothing to do: a lock lasts as long as its process."""

    def close(self) -> None:
        """Let the directory go."""
        self._lock.release()


def _lock(directory: Path, disk: Disk) -> DiskLock:
    try:
        return disk.lock(directory / "lock")
    except BlockingIOError as error:
        raise in_use(directory, error, by="a running node", remedy="stop it first") from None


def _require_full(directory: Path, disk: Disk) -> None:
    kept = directory / KEPT_DIRECTORY
    if disk.exists(kept) and disk.list_directory(kept):
        raise StoreError(
            f"{directory} keeps an older log beside one that is being filled, or was: start the"
            f" node on it, and wait until 'holdfast status' says that it is full"
        )


def _membership(log: ScannedLog) -> Membership:
    """The members by the newest entry that names them."""
    after, newest = log.scan.segments[0].base_index - 1, None
    while found := log.entries(after):
        after = found[-1].index
        newest = next((it for it in reversed(found) if it.kind == KIND_CONFIG), newest)
    if newest is None:
        raise StoreError(
            f"nothing in the log of {log.directory} says which node's it is: make a new data"
            f" directory of it with 'holdfast archive --path' and 'holdfast restore', and copy that"
        )
    return decode_membership(bytes(newest.body))


def _require_alone(directory: Path, ballot: Ballot | None, membership: Membership) -> Ballot:
    voters = membership.voters
    if len(voters) != 1:
        names = ", ".join(it.name for it in voters)
        raise StoreError(
            f"{directory} is of one of several members ({names}), and the others may have confirmed"
            f" what is not in it: let the cluster shrink to this one with 'holdfast cluster"
            f" remove', stop it, and copy then"
        )
    if ballot is None or ballot.node_id.hex() != voters[0].node_id:
        raise StoreError(
            f"{directory} is not that of {voters[0].name}, whose log it holds: copy that one's"
        )
    if ballot.is_shut_out:
        raise StoreError(f"{directory} is of a node that has no part in its cluster any more")
    if ballot.generation > membership.generation:
        raise StoreError(
            f"{directory} was promoted by force and has not served since: start the node on it"
            f" once, and stop it"
        )
    return ballot


def _plan(log: ScannedLog, ballot: Ballot) -> CopyPlan:
    scan = log.scan
    header = scan.segments[0].header
    anchor = None
    if header.base_index > 1:
        anchor = anchor_entry(
            index=header.base_index - 1,
            term=header.previous_term,
            chain=header.previous_chain,
            next_record=header.base_record,
        )
    return CopyPlan(
        identity=ballot.cluster_id.hex(),
        anchor=anchor,
        end=Place(scan.last_index, scan.last_chain),
        epoch=max(ballot.term, scan.last_term),
    )
