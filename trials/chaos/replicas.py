"""
The copies of the log, read one by one from the nodes' files and held against each other.

Two readers look at every folder: a plain walk, written here from the description of the format
without the product's code, which computes every chain value anew; and the product's own
verification. What the one finds and the other does not is a finding too. The files of a running
node may be read; then only what it calls committed counts. A chain value stands for all that is
before it, so equal ends of logs whose beginnings were dropped are equal logs.

Invariants:
    Reads only.
    An index that one copy still has and another dropped long ago is not compared, but a hole is.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Protocol

from holdfast.broker.lasting.checkpoint import decode_state
from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.settings import BrokerSettings
from holdfast.cli.log_files import LogFiles
from holdfast.errors import HoldfastError
from holdfast.journal.checkpoint import CHECKPOINT_HEADER_BYTES

_ENTRY: Final = struct.Struct("<4sHBBIIQQQQII16s")
_NUMBERS: Final = struct.Struct("<QQ")
_SEGMENT: Final = struct.Struct("<4sHHIIQQQQ16s")
_BLOCK_BYTES: Final = 4096
_ENTRY_MAGIC: Final = b"HFE1"
_EXAMPLES_MAX: Final = 10
ALL: Final = "all"
"""Stands for what lives on all queues and topics together."""
_READS_MAX: Final = 3


class Replica(Protocol):
    """A node as far as its copy is concerned."""

    @property
    def data(self) -> Path:
        """Its data folder."""
        ...

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        ...

    def status(self) -> dict[str, Any] | None:
        """What its admin port says, None while it does not answer."""
        ...

    def get(self, path: str) -> Any:
        """Ask the admin port."""
        ...


class Replicas(Protocol):
    """A cluster, as far as its copies are concerned."""

    @property
    def nodes(self) -> Mapping[str, Replica]:
        """By name."""
        ...


@dataclass(frozen=True, slots=True)
class Divergence:
    """A copy that is not as the others are; index 0: not one entry, but a whole file."""

    index: int
    node: str
    what: str

    def __str__(self) -> str:
        """One sentence."""
        place = f"entry {self.index:,}" if self.index else "state"
        return f"{place} on {self.node}: {self.what}"


@dataclass(slots=True)
class LogCopy:
    """What a plain walk found in one folder."""

    name: str
    first: int = 1
    last: int = 0
    entries: dict[int, tuple[int, bytes, bytes]] = field(default_factory=dict)
    """By index: term, chain value, and a digest of all its bytes."""
    segments: dict[int, bytes] = field(default_factory=dict)
    """By base index, of all but the last file: a digest of its content."""
    faults: list[Divergence] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaVerdict:
    """Whether all copies tell the same."""

    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By node: first and last index of its log."""
    compared: int = 0
    """Entries that at least two copies have."""
    segments_compared: int = 0
    checkpoints_compared: int = 0
    queues_compared: int = 0
    left_over: dict[str, int] = field(default_factory=dict)
    """Messages that still live, by queue and durable subscription, and all of them, which are those
    of topics as well; of running nodes only. After a drain there are none."""
    diverged: int = 0
    """Entries, segments, checkpoints and queues that differ, counted once per node."""
    first: Divergence | None = None
    """The one with the lowest index."""
    problems: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether nothing differs."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """The verdict as plain values."""
        return asdict(self)


def compare_replicas(cluster: Replicas) -> ReplicaVerdict:
    """
    Compare every node's files; of running nodes only what is committed, and their queues too.

    Stop the load first; wait until all are level, or what is behind is merely not compared.
    """
    folders = {name: node.data for name, node in cluster.nodes.items() if node.data.exists()}
    statuses = {
        name: status
        for name, node in cluster.nodes.items()
        if node.is_running and (status := node.status()) is not None
    }
    committed = {name: int(status["commit_index"]) for name, status in statuses.items()}
    applied = {
        name: int(status["applied_index"])
        for name, status in statuses.items()
        if status["role"] != "witness"
    }
    queues = {
        name: _queues_of(cluster.nodes[name], statuses[name])
        for name, index in applied.items()
        if index == max(applied.values())
    }
    return compare_folders(folders, committed=committed, queues=queues)


def compare_folders(
    folders: Mapping[str, Path],
    *,
    committed: Mapping[str, int] | None = None,
    queues: Mapping[str, Mapping[str, int]] | None = None,
) -> ReplicaVerdict:
    """
    Compare data folders.

    Args:
        folders: By node.
        committed: By running node: how far its log counts. Of others all of it does.
        queues: By node: how many messages live in each queue.
    """
    committed = committed or {}
    copies = [_read(name, folder, committed.get(name)) for name, folder in folders.items()]
    found = [fault for copy in copies for fault in copy.faults]
    compared = _compare_entries(copies, found)
    segments = _compare_segments(copies, found)
    checkpoints = _compare_digests(
        "checkpoint", {name: _checkpoints(folder) for name, folder in folders.items()}, found, int
    )
    queues_compared = _compare_digests("queue", queues or {}, found, lambda _: 0)
    for copy in copies:
        found += _second_opinion(copy, folders[copy.name], committed.get(copy.name))
    # One wrong entry is found in several ways; the first sentence says most.
    found = list(
        {
            (each.index, each.node, each.index or each.what): each for each in reversed(found)
        }.values()
    )
    found.sort(key=lambda each: (each.index == 0, each.index))
    return ReplicaVerdict(
        ranges={copy.name: (copy.first, copy.last) for copy in copies},
        compared=compared,
        segments_compared=segments,
        checkpoints_compared=checkpoints,
        queues_compared=queues_compared,
        left_over=_left_over((queues or {}).values()),
        diverged=len(found),
        first=found[0] if found else None,
        problems=[f"replicas differ: {each}" for each in found[:_EXAMPLES_MAX]],
    )


# Reading ------------------------------------------------------------------------------------------


def _read(name: str, folder: Path, through: int | None) -> LogCopy:
    for _ in range(_READS_MAX):
        with suppress(FileNotFoundError):  # a running node drops old files
            return walk(name, folder, through)
    return walk(name, folder, through)


def walk(name: str, folder: Path, through: int | None = None) -> LogCopy:
    """Read a data folder's log, entry by entry, up to `through`; what is wrong goes to `faults`."""
    copy = LogCopy(name)
    paths = sorted((folder / "journal").glob("*.segment"))
    previous: bytes | None = None
    for place, path in enumerate(paths):
        data = path.read_bytes()
        magic, *_, base, _, _, _, chain = _SEGMENT.unpack_from(data.ljust(_SEGMENT.size, b"\0"))
        if magic != b"HFSG" or base != int(path.stem):
            copy.faults.append(Divergence(int(path.stem), name, f"{path.name} has no good header"))
            base, chain = int(path.stem), previous or b""
        if previous is not None and previous != chain:
            what = f"{path.name} does not continue the chain of the file before it"
            copy.faults.append(Divergence(base, name, what))
        if not place:
            copy.first, copy.last = base, base - 1
        elif base != copy.last + 1:
            what = f"{path.name} follows, the entries from {copy.last + 1:,} on cannot be read"
            copy.faults.append(Divergence(copy.last + 1, name, what))
        previous, end = _walk_segment(copy, data, base, chain, through)
        following = paths[place + 1 : place + 2]
        if following and (through is None or int(following[0].stem) - 1 <= through):
            # What is cut off at the end of a file reads as zeros.
            copy.segments[base] = _digest(data[:end] + data[end:].rstrip(b"\0"))
    if through is not None:
        copy.last = min(copy.last, through)
        copy.faults = [fault for fault in copy.faults if fault.index <= through]
    return copy


def _walk_segment(
    copy: LogCopy, data: bytes, base: int, chain: bytes, through: int | None
) -> tuple[bytes, int]:
    """Add a segment's entries; gives the last chain value and where the entries end."""
    index, offset = base, _BLOCK_BYTES
    copy.last = base - 1
    while data[offset : offset + 4] == _ENTRY_MAGIC and offset + _ENTRY.size <= len(data):
        fields = _ENTRY.unpack_from(data, offset)
        found, term, length, stored_chain = fields[6], fields[7], fields[11], fields[12]
        size = (_ENTRY.size + length + 7) // 8 * 8
        raw = data[offset : offset + size]
        if found != index or len(raw) < size:
            what = f"the header says entry {found:,} of {length:,} bytes"
            copy.faults.append(Divergence(index, copy.name, what))
            break
        body = raw[_ENTRY.size : _ENTRY.size + length]
        expected = _digest(chain + _NUMBERS.pack(index, term) + _digest(body))
        if expected != stored_chain and (through is None or index <= through):
            what = f"its chain value is not that of its content ({_where(data, offset)})"
            copy.faults.append(Divergence(index, copy.name, what))
        if through is None or index <= through:
            copy.entries[index] = (term, stored_chain, _digest(raw))
        copy.last = index
        chain, index, offset = stored_chain, index + 1, offset + size
    return chain, offset


def _where(data: bytes, offset: int) -> str:
    return f"byte {offset:,} of {len(data):,}"


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()


def _checkpoints(folder: Path) -> dict[str, bytes]:
    paths = sorted((folder / "checkpoints").glob("*.checkpoint"))
    return {path.stem: _digest(_state(path.read_bytes())) for path in paths}


def _state(checkpoint: bytes) -> bytes:
    """
    What a checkpoint says of the state; the totals in it are statistics, and may differ.

    Nor has the order of queues and producers a meaning: it is that in which they were made or
    changed while the checkpoint was. Raises nothing: a checkpoint that makes no sense is given as
    it is, and differs from all others.
    """
    try:
        return digest_of(decode_state(checkpoint[CHECKPOINT_HEADER_BYTES:], BrokerSettings()))
    except HoldfastError:
        return checkpoint


def _left_over(queues: Iterable[Mapping[str, int]]) -> dict[str, int]:
    left: dict[str, int] = {}
    for each in queues:
        for name, count in each.items():
            if count:
                left[name] = max(count, left.get(name, 0))
    return left


def _queues_of(node: Replica, status: Mapping[str, Any]) -> dict[str, int]:
    queues = node.get("/queues?local=1")["queues"]
    subscriptions = node.get("/subscriptions?local=1")["subscriptions"]
    held = {str(queue["name"]): int(queue["messages"]) for queue in queues}
    for each in subscriptions:
        name = f"subscription {each['client_id']}/{each['name']}"
        held[name] = int(each["messages"])
    return {**held, ALL: int(status["store"]["live_messages"])}


# Comparing ----------------------------------------------------------------------------------------


def _compare_entries(copies: list[LogCopy], found: list[Divergence]) -> int:
    compared = 0
    # A copy that begins after a leader's drop has nothing to say of what was before.
    for index in range(
        min((copy.first for copy in copies), default=1),
        max((copy.last for copy in copies), default=0) + 1,
    ):
        holding = [copy for copy in copies if index in copy.entries]
        found += [
            Divergence(index, copy.name, "it is not there")
            for copy in copies
            if copy.first <= index <= copy.last and index not in copy.entries
        ]
        if len(holding) < 2:
            continue
        compared += 1
        values = Counter(copy.entries[index] for copy in holding)
        if len(values) > 1:
            found += _differences(index, holding, values)
    return compared


def _differences(
    index: int, holding: list[LogCopy], values: Counter[tuple[int, bytes, bytes]]
) -> Iterator[Divergence]:
    (wanted, _), *_ = values.most_common(1)
    agreeing = ", ".join(copy.name for copy in holding if copy.entries[index] == wanted)
    for copy in holding:
        term, chain, raw = copy.entries[index]
        if (term, chain, raw) == wanted:
            continue
        if term != wanted[0]:
            what = f"it is of term {term}, of term {wanted[0]} on {agreeing}"
        elif chain != wanted[1]:
            what = f"it is of term {term} as on {agreeing}, and another entry"
        else:
            what = f"its bytes differ from those on {agreeing}"
        yield Divergence(index, copy.name, what)


def _compare_segments(copies: list[LogCopy], found: list[Divergence]) -> int:
    """A file that differs, and none of its entries does: its header, or what is between them."""
    differing: list[Divergence] = []
    compared = _compare_digests(
        "file", {copy.name: copy.segments for copy in copies}, differing, lambda base: base
    )
    for each in differing:
        bases = next(copy for copy in copies if copy.name == each.node).segments
        end = min((base for base in bases if base > each.index), default=0)
        if not any(
            other.node == each.node and other.index >= each.index and (not end or other.index < end)
            for other in found
        ):
            found.append(each)
    return compared


def _compare_digests(
    kind: str,
    copies: Mapping[str, Mapping[Any, Any]],
    found: list[Divergence],
    index_of: Callable[[Any], int],
) -> int:
    """Compare what several nodes have under one key; gives how many keys that were."""
    compared = 0
    for key in sorted({key for copy in copies.values() for key in copy}):
        values = {name: copy[key] for name, copy in copies.items() if key in copy}
        compared += len(values) > 1
        (wanted, _), *_ = Counter(values.values()).most_common(1)
        agreeing = ", ".join(name for name, value in values.items() if value == wanted)
        for name, value in values.items():
            if value != wanted:
                shown = f": {value}, not {wanted}" if isinstance(value, int) else ""
                what = f"{kind} {key} is not as on {agreeing}{shown}"
                found.append(Divergence(index_of(key), name, what))
    return compared


def _second_opinion(copy: LogCopy, folder: Path, through: int | None) -> Iterator[Divergence]:
    """What the product's own verification finds and the walk did not, and the other way round."""
    try:
        verification = LogFiles(folder).verify()
    except HoldfastError as error:
        if not copy.faults:
            yield Divergence(copy.first, copy.name, f"the product cannot read it: {error}")
        return
    if through is None and verification.last_index != copy.last:
        what = f"the product reads up to {verification.last_index:,}, the walk up to {copy.last:,}"
        yield Divergence(min(verification.last_index, copy.last) + 1, copy.name, what)
    known = {fault.index for fault in copy.faults}
    for damage in verification.damage:
        if damage.index not in known and (through is None or damage.index <= through):
            yield Divergence(damage.index, copy.name, f"the product finds damage: {damage}")
    if through is None and verification.tail == "unknown":
        what = f"the product does not know what its end is: {verification.tail_reason}"
        yield Divergence(copy.last + 1, copy.name, what)
    found = {damage.index for damage in verification.damage}
    for index in sorted(known - found):
        if verification.is_clean:
            yield Divergence(index, copy.name, "the product's verification finds nothing there")
