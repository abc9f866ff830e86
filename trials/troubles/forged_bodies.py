"""
Bodies that look like the log: a producer puts entries of its own making into messages.

They have what a client can know or guess: an index a little ahead, a term like those it was told,
good checksums, a chain of their own, and records that settle what others still wait for. Then the
header of the entry that carries them is lost on the victim's disk, or the power fails while it is
written: whoever looks for the log's continuation finds the forgery first. What stood
behind it must stand there still, or be known to be lost: the trouble looks itself, as a spoilt disk
excuses its node from other checks. Counted when an entry
with one in it has lost its header.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import CorruptEntryError
from holdfast.journal.entry import HEADER_BYTES, KIND_RECORDS, MAGIC, seal_entry
from holdfast.model.records import AcknowledgeRecord, Record
from holdfast.store.record_codec import encode_records
from trials.simulation.damage import distrust
from trials.simulation.history import ViolationError
from trials.simulation.rare_trouble import RareTrouble
from trials.simulation.workload import Producer

if TYPE_CHECKING:
    from holdfast.journal.entry import Entry
    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulated_node import SimulatedNode

FORGED = "header lost before a forged body"
_SECTOR_BYTES = 512
_LOOK_SECONDS = 0.15
_LOOK_BACK_MAX = 40
_ALIGNMENT_BYTES = 8


def forge(nemesis: Nemesis) -> bool:
    """Let a producer send a forgery, and a little later the header before it be lost."""
    leader = nemesis.world.leader()
    node = nemesis.victim()
    if leader is None or node is None:
        return False
    for client in nemesis.world.clients:
        if isinstance(client, Producer) and client.is_numbered:
            client.appendix = _forgery(nemesis, leader)
            break
    nemesis.world.timeline.after(_LOOK_SECONDS, _lose_header, nemesis, node, node.life)
    return False


def _forgery(nemesis: Nemesis, leader: SimulatedNode) -> bytes:
    """Some entries, one behind the other, once for each place that a header may begin at."""
    run = _run(nemesis, leader)
    made = b""
    for place in range(_ALIGNMENT_BYTES):
        made += bytes((place - len(made)) % _ALIGNMENT_BYTES) + run
    return made


def _run(nemesis: Nemesis, leader: SimulatedNode) -> bytes:
    chance = nemesis.chance
    term = leader.driver.term + chance.choice((0, 0, 1, 900))
    index = leader.journal.last_index + chance.randrange(1, 6)
    queues = sorted(leader.broker.state.queues)
    chain = chance.randbytes(16)
    made = b""
    for number in range(chance.randrange(2, 6)):
        settled: list[Record] = [
            AcknowledgeRecord(queue, list(range(1, chance.randrange(2, 40))))
            for queue in chance.sample(queues, min(2, len(queues)))
        ]
        entry = seal_entry(
            index=index + number,
            term=term,
            kind=KIND_RECORDS,
            timestamp=leader.broker.state.timestamp,
            first_record=leader.journal.next_record_number + number,
            record_count=len(settled),
            parts=encode_records(settled),
            previous_chain=chain,
        )
        made += entry.raw
        chain = entry.chain
    return made


def _lose_header(nemesis: Nemesis, node: SimulatedNode, life: int) -> None:
    """Stop the victim, and let the sector with the header of such an entry be lost."""
    if not nemesis.is_active or node.life != life or not node.is_alive:
        return
    entry = _newest_forged(node)
    if entry is None:
        return
    place = node.journal.place_of(entry.index)
    stood = _chains(node, entry.index + 1)
    distrust(nemesis, node)
    node.stop(power=False)
    content = node.disk.content(place.path)
    ballot = node.journal.ballot_file.current
    rotten = nemesis.chance.randbytes(HEADER_BYTES)
    if ballot is not None and entry.index <= ballot.durable_floor and nemesis.chance.random() < 0.5:
        # As a torn write leaves it; above the floor it would be taken for one, and rightly.
        rotten = bytes(_SECTOR_BYTES - place.byte % _SECTOR_BYTES)
    lost = content[: place.byte] + rotten + content[place.byte + len(rotten) :]
    node.disk.replace_content(place.path, lost)
    nemesis.world.note(node.name, f"loses the header of entry {entry.index}, with a forgery in it")
    nemesis.world.count(FORGED)
    node.start()
    if node.is_alive:
        # What was taken for lost before may be known by what is lost now, or be mended in between.
        known = [stood, nemesis.world.checkers.log.chains]
        others = [it for it in nemesis.world.nodes if it.is_running and it is not node]
        known += [_chains(it, entry.index + 1) for it in others]
        for index, chain in _chains(node, entry.index + 1).items():
            if all(chain != chains.get(index) for chains in known):
                raise ViolationError("S17", f"{node.name} takes a forgery for entry {index}")


def _chains(node: SimulatedNode, first: int) -> dict[int, bytes]:
    """Give the chain values of the readable entries from `first` on."""
    found = {}
    for index in range(max(first, node.journal.first_index), node.journal.last_index + 1):
        try:
            found[index] = node.journal.chain_at(index)
        except CorruptEntryError:
            continue
    return found


def _newest_forged(node: SimulatedNode) -> Entry | None:
    journal = node.journal
    first = max(journal.first_index, journal.stored_index - _LOOK_BACK_MAX)
    for index in range(journal.stored_index, first - 1, -1):
        try:
            entry = journal.entry(index)
        except CorruptEntryError:
            continue
        if MAGIC in bytes(entry.body):
            return entry
    return None


def _with_any_byte(plan: Plan) -> None:
    plan.is_binary = True
    plan.kinds.setdefault("power cut in a write", 1)


TROUBLES = (
    RareTrouble(
        name=FORGED,
        act=forge,
        chance=0.4,
        weight=5,
        needs_victim=True,
        prepare=_with_any_byte,
    ),
)
