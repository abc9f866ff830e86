"""
The broker's lasting state as bytes and back, without message contents.

A checkpoint makes a start quick; losing one costs time, never data. The bytes are canonical: queues
by number, chunks by number, dead slots zero, so that equal states give equal bytes on every node.

Layout: u32 length, a JSON head (counters, queues, producers), then per queue and chunk, in the
order of the head: 512 record numbers (u64), 512 sizes (u32), 512 live flags (u8).
"""

from __future__ import annotations

import json
import struct
from array import array
from typing import Any, Final

from holdfast.broker.producers import unpack_producer
from holdfast.broker.queue import Queue
from holdfast.broker.sequence_index import CHUNK_SIZE, SequenceIndex
from holdfast.broker.settings import BrokerSettings
from holdfast.broker.state import BrokerState
from holdfast.errors import StoreError
from holdfast.model.records import HoldRecord

FORMAT: Final = 1
_LENGTH = struct.Struct("<I")
_CHUNK_BYTES: Final = 13 * CHUNK_SIZE


def encode_state(state: BrokerState, *, with_totals: bool = True) -> list[bytes]:
    """
    Give the state as parts to be written one after the other.

    `with_totals` adds the counters of what passed through, which are statistics, not state.
    """
    queues = [state.queues[number] for number in sorted(state.queues)]
    head = {
        "format": FORMAT,
        "next_queue_number": state.next_queue_number,
        "counters_home": state.counters_home,
        "cleaned_through": state.cleaned_through,
        "holds": [
            [name, hold.index, hold.bytes_max, hold.lost_through, state.hold_homes[name]]
            for name, hold in sorted(state.holds.items())
        ],
        "queues": [_queue_head(queue, with_totals=with_totals) for queue in queues],
        "producers": [
            [key, *unpack_producer(value)] for key, value in sorted(state.producers.by_id.items())
        ],
    }
    encoded = json.dumps(head, separators=(",", ":")).encode()
    parts = [_LENGTH.pack(len(encoded)), encoded]
    for queue in queues:
        chunks = queue.index.chunks
        for number in sorted(chunks):
            chunk = chunks[number]
            parts += (chunk.record_numbers.tobytes(), chunk.sizes.tobytes(), bytes(chunk.live))
    return parts


def _queue_head(queue: Queue, *, with_totals: bool) -> dict[str, Any]:
    head: dict[str, Any] = {
        "number": queue.number,
        "name": queue.name,
        "next": queue.next_sequence,
        "mark": queue.dispatch_mark,
        "home": queue.home,
        "declared": queue.is_declared,
        "chunks": sorted(queue.index.chunks),
    }
    if with_totals:
        head["totals"] = [queue.enqueued_total, queue.acknowledged_total]
    return head


def decode_state(payload: bytes, settings: BrokerSettings) -> BrokerState:
    """
    Build the state that `encode_state` wrote.

    Raises:
        StoreError: The bytes are of another format or do not add up.
    """
    try:
        (length,) = _LENGTH.unpack_from(payload)
        head = json.loads(payload[_LENGTH.size : _LENGTH.size + length])
        if head["format"] != FORMAT:
            raise StoreError(f"checkpoint of format {head['format']}; this version reads {FORMAT}")
        state = BrokerState(settings)
        state.next_queue_number = head["next_queue_number"]
        state.counters_home = head["counters_home"]
        state.cleaned_through = head["cleaned_through"]
        for name, index, bytes_max, lost_through, home in head["holds"]:
            state.holds[name] = HoldRecord(name, index, bytes_max, lost_through)
            state.hold_homes[name] = home
        offset = _LENGTH.size + length
        for item in head["queues"]:
            offset = _decode_queue(state, item, payload, offset)
        for producer_id, last, home, used_at in head["producers"]:
            state.producers.stored(producer_id, last, home, used_at)
    except (KeyError, ValueError, struct.error, TypeError) as error:
        raise StoreError(f"the checkpoint makes no sense: {error}") from error
    if offset != len(payload):
        raise StoreError(f"the checkpoint has {len(payload):,} bytes, expected {offset:,}")
    return state


def decode_queue_names(payload: bytes) -> dict[int, str]:
    """
    Give the names of the queues in what `encode_state` wrote, by number.

    Raises:
        StoreError: The bytes are of another format.
    """
    try:
        (length,) = _LENGTH.unpack_from(payload)
        head = json.loads(payload[_LENGTH.size : _LENGTH.size + length])
        return {item["number"]: item["name"] for item in head["queues"] if item["declared"]}
    except (KeyError, ValueError, struct.error, TypeError) as error:
        raise StoreError(f"the checkpoint makes no sense: {error}") from error


def _decode_queue(state: BrokerState, item: dict[str, Any], payload: bytes, offset: int) -> int:
    queue = Queue(item["number"], item["name"])
    queue.next_sequence = item["next"]
    queue.dispatch_mark = item["mark"]
    queue.home = item["home"]
    queue.is_declared = item["declared"]
    queue.enqueued_total, queue.acknowledged_total = item["totals"]
    state.queues[queue.number] = queue
    if queue.is_declared:
        state.by_name[queue.name] = queue
    for number in item["chunks"]:
        _decode_chunk(queue.index, number, payload[offset : offset + _CHUNK_BYTES])
        offset += _CHUNK_BYTES
    return offset


def _decode_chunk(index: SequenceIndex, number: int, payload: bytes) -> None:
    chunk = index.add_chunk(number)
    chunk.record_numbers = array("Q")
    chunk.record_numbers.frombytes(payload[: 8 * CHUNK_SIZE])
    chunk.sizes = array("I")
    chunk.sizes.frombytes(payload[8 * CHUNK_SIZE : 12 * CHUNK_SIZE])
    chunk.live = bytearray(payload[12 * CHUNK_SIZE :])
    if len(chunk.live) != CHUNK_SIZE:
        raise ValueError(f"chunk {number} is cut off")
    chunk.count = chunk.live.count(1)
    index.live_count += chunk.count
    index.live_bytes += sum(chunk.sizes)
