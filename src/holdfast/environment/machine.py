"""
Which machine this is, so that a file system of one machine's own is not used by two.

ext4 or xfs on a drive that two machines reach is destroyed once both have mounted it. Whoever keeps
a log there writes down which machine has it, and holds each start against that. A machine is known
by the id of its start, which containers on it share; by what its hardware says, where that may be
read (root only); and by /etc/machine-id, where that is the machine's own. In a container it is that
of the image as a rule: one build of it runs on many machines, and the next build has another.

A file system that containers share with their machine (storage of btrfs, zfs or vfs) does not give
that away: the id of an image counts there. Several ids may be one machine's, then: ids that were
seen within one start are. And two machines that run one image there, neither with rights to read
what its hardware says, are taken for one: nothing here can tell that.

Invariants:
    What was not known to be one machine is never put together, and loses no id that is known.

A drive that was really moved is handed over by a person: no program can know that the other machine
has let go of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from pathlib import Path
from typing import Any, Final

from holdfast.environment.mounts import MOUNTINFO, mount_of

_MACHINE_ID: Final = Path("/etc/machine-id")
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_BOARD_ID: Final = Path("/sys/class/dmi/id/product_uuid")

_OF_NO_MACHINE: Final = frozenset({"overlay", "aufs", "tmpfs", "ramfs", "fuse.fuse-overlayfs"})
"""Where an id lies that is an image's, or drawn anew with each start."""
_OF_MANY_BOARDS: Final = frozenset(
    {
        "00000000-0000-0000-0000-000000000000",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "03000200-0400-0500-0006-000700080009",  # What makers of boards leave in place.
    }
)
_ALSO_MAX: Final = 8
"""Builds of images that are remembered."""
_SIGNS_MAX: Final = 64
"""Of an id: what is longer is none, and would not stand in a page."""


class Kinship(Enum):
    """What two descriptions of a machine have to do with each other."""

    SAME = auto()
    OTHER = auto()
    UNKNOWN = auto()
    """One does not say enough."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine, as it can be told from others; empty where it does not say."""

    name: str
    identity: str
    """What its system calls it, over all starts."""

    start: str
    also: tuple[str, ...] = ()
    """Other ids that it has in containers on it, the one that was seen last first."""

    board: str = ""
    """What its hardware says, or what it was given as that."""

    @property
    def ids(self) -> tuple[str, ...]:
        """All that its systems call it."""
        return tuple(it for it in (self.identity, *self.also) if it)

    @property
    def is_known(self) -> bool:
        """Whether anything tells it from others after its next start."""
        return bool(self.ids or self.board)

    @property
    def known_by(self) -> str:
        """That, for a sentence."""
        ids, board = ", ".join(self.ids), self.board
        return " and ".join(
            it
            for it in (ids and f"the machine id {ids}", board and f"the hardware id {board}")
            if it
        )

    def kinship(self, other: Machine) -> Kinship:
        """Tell whether both are one machine."""
        if self.start and self.start == other.start:
            return Kinship.SAME
        if self.board and other.board:
            # Systems are copied with their ids, and containers bring some along.
            return Kinship.SAME if self.board == other.board else Kinship.OTHER
        if not set(self.ids).isdisjoint(other.ids):
            return Kinship.SAME
        return Kinship.OTHER if self.ids and other.ids else Kinship.UNKNOWN

    def fields(self) -> dict[str, Any]:
        """Give it as a file says it."""
        fields: dict[str, Any] = {
            "name": self.name,
            "machine": self.identity,
            "start": self.start,
        }
        if self.also:
            fields["also"] = list(self.also)
        if self.board:
            fields["board"] = self.board
        return fields

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Machine:
        """Read it as a file says it; what is left out is empty."""
        return cls(
            str(fields.get("name", "")),
            str(fields.get("machine", "")),
            str(fields.get("start", "")),
            tuple(map(str, fields.get("also", ()))),
            str(fields.get("board", "")),
        )


@dataclass(frozen=True, slots=True)
class Judgement:
    """What comes of holding this machine against the one that has a file system."""

    refusal: str = ""
    """Why it is not to be used here."""

    doubt: str = ""
    """What a person has to see to, as it cannot be known."""

    note: Machine | None = None
    """What is to be written down from now on; None: it stays as it is."""


def this_machine(
    read: Callable[[Path], str],
    name: str,
    resolve: Callable[[Path], Path] = Path.resolve,
) -> Machine:
    """
    Return the machine that this process runs on.

    Args:
        read: Gives a file's text, or raises.
        resolve: Gives where a link leads: an id that is in memory is none, whatever leads there.
    """
    mount = mount_of(_resolved(resolve, _MACHINE_ID), _text(read, MOUNTINFO))
    is_own = mount is None or mount.kind not in _OF_NO_MACHINE
    board = _id(read, _BOARD_ID).lower()
    return Machine(
        name,
        _id(read, _MACHINE_ID) if is_own else "",
        _id(read, BOOT_ID),
        board="" if board in _OF_MANY_BOARDS else board,
    )


def _resolved(resolve: Callable[[Path], Path], path: Path) -> Path:
    try:
        return resolve(path)
    except (OSError, RuntimeError):  # As Python calls links that lead round in a circle.
        return path


def _text(read: Callable[[Path], str], path: Path) -> str:
    try:
        return read(path).strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _id(read: Callable[[Path], str], path: Path) -> str:
    """What a file says that has nothing but an id."""
    said = _text(read, path)
    return "" if said == "uninitialized" or len(said) > _SIGNS_MAX else said


def judge(here: Machine, noted: Machine | None, file: Path) -> Judgement:
    """Hold this machine against the one that `file` says has the file system, if it says any."""
    if noted is None:
        return Judgement(note=here)
    kinship = here.kinship(noted)
    if kinship is Kinship.OTHER:
        return Judgement(
            refusal=(
                f"machine '{noted.name}' has it on a file system that only one machine may mount:"
                f" that one has {noted.known_by}, and this is '{here.name}' with {here.known_by};"
                f" if it was moved here for good, or is the same machine with another image,"
                f" remove {file}"
            )
        )
    if kinship is Kinship.UNKNOWN:
        return Judgement(
            doubt=(
                f"it was used by a machine called '{noted.name}', and whether it is this one cannot"
                f" be known: one has no id that outlives its start, as in a container; see that"
                f" only one machine mounts it"
            ),
            # What is known of a machine stays, and is not that of another one.
            note=None if noted.is_known else here,
        )
    # What one knows of the machine that the other cannot tell stays known.
    ids = dict.fromkeys((*here.ids, *noted.ids))
    identity = here.identity or noted.identity
    also = tuple(it for it in ids if it != identity)[:_ALSO_MAX]
    both = replace(here, identity=identity, also=also, board=here.board or noted.board)
    return Judgement(note=None if both == noted else both)
