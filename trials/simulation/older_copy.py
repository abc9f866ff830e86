"""
Putting an older copy of a machine's disk in its place, within what is promised of it.

An older copy is recognised by editions of its ballot (replication/editions.py). So the simulated
nemesis strikes only where the promise holds: of the other machines so few have no newer edition of
the copied ballot *on their disks* that, together with the copy, they are no majority. What they
have in memory is not counted, for they may die a moment later. In plain words: since the copy was
made, the other machines were in contact with this one, wrote something, and no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from holdfast.journal.ballot import SLOT_BYTES, Ballot, decode_ballot
from holdfast.replication.quorum import majority

Files = Mapping[Path, bytes]


def newest_ballot(files: Files) -> Ballot | None:
    """The ballot that stands among the files of a machine; None if there is no good one."""
    content = next((data for path, data in files.items() if path.name == "ballot"), b"")
    slots = (decode_ballot(bytes(content[start:][:SLOT_BYTES])) for start in (0, SLOT_BYTES))
    return max(filter(None, slots), key=lambda ballot: ballot.sequence, default=None)


def is_recognisable(copy: Files, others: Iterable[Files], voter_count: int) -> bool:
    """
    Whether no majority can be made of this copy and machines that do not know better.

    Args:
        copy: What is to be put in the place of a disk.
        others: The disks of all other machines.
        voter_count: Of the cluster, this machine included.
    """
    ballot = newest_ballot(copy)
    if ballot is None:
        return False
    unaware_count = 0
    for files in others:
        theirs = newest_ballot(files)
        seen = dict(theirs.seen) if theirs is not None else {}
        unaware_count += seen.get(ballot.node_id, -1) <= ballot.edition
    return unaware_count + 1 < majority(voter_count)


def says_all(copy: Files, edition: int, stored_index: int) -> bool:
    """
    Whether the ballot of this copy tells by itself all that its node has said was durable.

    Args:
        copy: What is left of a disk.
        edition: The newest that the node has told.
        stored_index: The newest entry that it has told to be stored.
    """
    ballot = newest_ballot(copy)
    return ballot is not None and ballot.edition >= edition and ballot.durable_floor >= stored_index
