"""
Messages between members to bytes and back.

A frame is `length u32 | type u8 | payload`, little endian, the length counting type and payload.
Entries travel verbatim: what is sent is the very bytes that are on the sender's disk, so both
checksums protect them on the way too, and nothing is encoded twice. Pure: no I/O.

Invariants:
    decode_message(encode_message(m)) == m.
    Any bytes give a message or a RemoteProtocolError, never another error.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

from holdfast.errors import CorruptEntryError, RemoteProtocolError
from holdfast.journal.entry import Entry, hash_body, parse_entry
from holdfast.model.digits import WHOLE_END, read_whole
from holdfast.replication.membership import Lineage
from holdfast.replication.messages import (
    AppendRequest,
    AppendResponse,
    Editions,
    HeldEnd,
    Hello,
    ListedMember,
    Message,
    PreVoteRequest,
    PreVoteResponse,
    RepairRequest,
    RepairResponse,
    ResetRequest,
    TransferRequest,
    VoteRequest,
    VoteResponse,
)

FRAME_HEADER = struct.Struct("<IB")
FRAME_BYTES_MAX = 1024 * 1024 * 1024
"""No frame is longer: an entry's body length is a u32, and 1 GiB is far over any entry's limit."""

LEASE_SECONDS_MAX = 86_400.0
"""No election timeout, and so no lease, is longer."""

PRE_VOTE_REQUEST, PRE_VOTE_RESPONSE, VOTE_REQUEST, VOTE_RESPONSE = 1, 2, 3, 4
APPEND_REQUEST, APPEND_RESPONSE, RESET_REQUEST, TRANSFER_REQUEST = 5, 6, 7, 8
REPAIR_REQUEST, REPAIR_RESPONSE, HELLO, EDITIONS = 9, 10, 11, 12

_CANDIDACY = struct.Struct("<QQQB")
_VERDICT = struct.Struct("<QB")
_VOTE = struct.Struct("<QBQdd")
APPEND_FIELDS = struct.Struct("<QQQ16sQQdI")
_APPENDED = struct.Struct("<QQ16sdBQQ")
_RESET = struct.Struct("<QQQ16sQdQQQ")
_NUMBER = struct.Struct("<Q")
_EDITION = struct.Struct("<16sQ")

Decoder = Callable[[bytes], Message]


def encode_message(message: Message) -> list[bytes]:
    """The message as one frame, in parts that are to be written one after the other."""
    if type(message) is AppendRequest:
        return _encode_append(message)
    if type(message) is RepairResponse:
        raw = b"" if message.entry is None else message.entry.raw
        header = _NUMBER.pack(message.index)
        return [FRAME_HEADER.pack(1 + len(header) + len(raw), REPAIR_RESPONSE) + header, raw]
    kind, payload = _ENCODERS[type(message)](message)
    return [FRAME_HEADER.pack(1 + len(payload), kind) + payload]


def _encode_append(message: AppendRequest) -> list[bytes]:
    parts = message.encoded
    if parts is None:
        raws = [entry.raw for entry in message.entries]
        payload = APPEND_FIELDS.pack(
            message.term,
            message.previous_index,
            message.previous_term,
            message.previous_chain,
            message.commit_index,
            message.data_match,
            message.sent_at,
            len(raws),
        )
        length = 1 + len(payload) + sum(map(len, raws))
        parts = [FRAME_HEADER.pack(length, APPEND_REQUEST) + payload, *raws]
        message.encoded = parts
    return parts


def _candidacy(message: PreVoteRequest | VoteRequest) -> bytes:
    is_transfer = isinstance(message, VoteRequest) and message.is_transfer
    return _CANDIDACY.pack(message.term, message.last_index, message.last_term, is_transfer)


def _encode_vote(m: VoteResponse) -> bytes:
    return _VOTE.pack(m.term, m.granted, m.lease_term, m.lease_left, m.older_left)


def _encode_appended(m: AppendResponse) -> bytes:
    return _APPENDED.pack(
        m.term, m.match_index, m.match_chain, m.sent_at, m.rejected, m.hint_index, m.hint_term
    )


def _encode_reset(m: ResetRequest) -> bytes:
    return _RESET.pack(
        m.term,
        m.base_index,
        m.previous_term,
        m.previous_chain,
        m.base_record,
        m.sent_at,
        m.target_index,
        m.target_record,
        m.target_timestamp,
    )


def _encode_editions(m: Editions) -> bytes:
    pairs = [_EDITION.pack(bytes.fromhex(it), each) for it, each in m.editions.items()]
    return _NUMBER.pack(len(pairs)) + b"".join(pairs)


def encode_hello(hello: Hello) -> bytes:
    """A hello as JSON; also used while a link is made."""
    fields = {name: getattr(hello, name) for name in Hello.__slots__}
    for name in ("listed", "site", "lineage", "shut_out", "begun", "end"):
        if not fields[name]:
            del fields[name]  # Most have nothing to say of it.
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


_ENCODERS: dict[type, Callable[..., tuple[int, bytes]]] = {
    PreVoteRequest: lambda m: (PRE_VOTE_REQUEST, _candidacy(m)),
    PreVoteResponse: lambda m: (PRE_VOTE_RESPONSE, _VERDICT.pack(m.term, m.granted)),
    VoteRequest: lambda m: (VOTE_REQUEST, _candidacy(m)),
    VoteResponse: lambda m: (VOTE_RESPONSE, _encode_vote(m)),
    AppendResponse: lambda m: (APPEND_RESPONSE, _encode_appended(m)),
    ResetRequest: lambda m: (RESET_REQUEST, _encode_reset(m)),
    TransferRequest: lambda m: (TRANSFER_REQUEST, _NUMBER.pack(m.term)),
    RepairRequest: lambda m: (REPAIR_REQUEST, _NUMBER.pack(m.index)),
    Hello: lambda m: (HELLO, encode_hello(m)),
    Editions: lambda m: (EDITIONS, _encode_editions(m)),
}


def decode_message(kind: int, buffer: bytes, start: int, end: int) -> Message:
    """
    One message from its payload, which is `buffer[start:end]`; entries are checked by checksum.

    Takes the place in a larger buffer so that an entry's bytes are copied once, not twice.

    Raises:
        RemoteProtocolError: The bytes are no message of this version, or an entry is damaged.
    """
    decoder = _DECODERS.get(kind)
    try:
        if kind == APPEND_REQUEST:
            return _decode_append(buffer, start, end)
        if kind == REPAIR_RESPONSE:
            return _decode_repair(buffer, start, end)
        if decoder is not None:
            return decoder(buffer[start:end])
    except (struct.error, CorruptEntryError, ValueError, TypeError) as error:
        raise no_sense(kind, error) from error
    raise RemoteProtocolError(f"unknown message type {kind} from a member")


def no_sense(kind: int, error: Exception) -> RemoteProtocolError:
    """The error for bytes that are no message of this type."""
    return RemoteProtocolError(f"message of type {kind} makes no sense: {error}")


def within_bounds(*numbers: int) -> None:
    """
    Make sure that a ballot and a hello have room for these, and for the next ones.

    Raises:
        ValueError: They have not.
    """
    if max(numbers) >= WHOLE_END:
        raise ValueError(f"{max(numbers)} is out of all bounds")


def _decode_append(buffer: bytes, start: int, end: int) -> AppendRequest:
    *fields, count = APPEND_FIELDS.unpack(buffer[start : start + APPEND_FIELDS.size])
    term, previous_index, previous_term, previous_chain, commit, data_match, sent_at = fields
    within_bounds(term, previous_index, previous_term, commit, data_match)
    offset = start + APPEND_FIELDS.size
    entries: list[Entry] = []
    for number in range(1, count + 1):
        entry = parse_entry(buffer, offset)
        if entry.index != previous_index + number:
            raise ValueError(f"entry {entry.index} instead of {previous_index + number}")
        hash_body(entry)  # Here, request by request: one turn may take many of them.
        entries.append(entry)
        offset += len(entry.raw)
    if offset != end:
        raise ValueError(f"the entries end at byte {offset}, the frame at byte {end}")
    return AppendRequest(
        term, previous_index, previous_term, previous_chain, commit, data_match, sent_at, entries
    )


def _decode_appended(payload: bytes) -> AppendResponse:
    term, match, chain, sent_at, rejected, index, hint_term = _APPENDED.unpack(payload)
    within_bounds(term, match, index, hint_term)
    return AppendResponse(term, match, chain, sent_at, bool(rejected), index, hint_term)


def _decode_pre_vote(payload: bytes) -> PreVoteRequest:
    term, last_index, last_term, _ = _CANDIDACY.unpack(payload)
    within_bounds(term, last_index, last_term)
    return PreVoteRequest(term, last_index, last_term)


def _decode_vote(payload: bytes) -> VoteRequest:
    term, last_index, last_term, is_transfer = _CANDIDACY.unpack(payload)
    within_bounds(term, last_index, last_term)
    return VoteRequest(term, last_index, last_term, bool(is_transfer))


def _decode_pre_vote_response(payload: bytes) -> PreVoteResponse:
    term, granted = _VERDICT.unpack(payload)
    within_bounds(term)
    return PreVoteResponse(term, bool(granted))


def _decode_vote_response(payload: bytes) -> VoteResponse:
    term, granted, lease_term, lease_left, older_left = _VOTE.unpack(payload)
    within_bounds(term, lease_term)
    if not (0 <= lease_left < LEASE_SECONDS_MAX and 0 <= older_left < LEASE_SECONDS_MAX):
        raise ValueError(f"a lease that lasts {lease_left} or {older_left} s more")
    return VoteResponse(term, bool(granted), lease_term, lease_left, older_left)


def _decode_repair(buffer: bytes, start: int, end: int) -> RepairResponse:
    body = start + _NUMBER.size
    (index,) = _NUMBER.unpack(buffer[start:body])
    within_bounds(index)
    if body == end:
        return RepairResponse(index, None)
    entry = parse_entry(buffer, body)
    if entry.index != index or body + len(entry.raw) != end:
        raise ValueError(f"repair of entry {index} brought something else")
    return RepairResponse(index, entry)


def _decode_editions(payload: bytes) -> Editions:
    (count,) = _NUMBER.unpack_from(payload)
    pairs = payload[_NUMBER.size :]
    if len(pairs) != count * _EDITION.size:
        raise ValueError(f"{count} editions in {len(pairs)} bytes")
    editions = {node_id.hex(): each for node_id, each in _EDITION.iter_unpack(pairs)}
    within_bounds(0, *editions.values())
    return Editions(editions)


def _decode_reset(payload: bytes) -> ResetRequest:
    term, base, previous_term, chain, record, sent_at, *target = _RESET.unpack(payload)
    within_bounds(term, base, previous_term, record, *target)
    return ResetRequest(term, base, previous_term, chain, record, sent_at, *target)


def _decode_number(payload: bytes) -> int:
    (number,) = _NUMBER.unpack(payload)
    within_bounds(number)
    return int(number)


def decode_hello(payload: bytes) -> Hello:
    """
    A hello from JSON; unknown fields are ignored, so that a newer node may say more.

    Raises:
        RemoteProtocolError: It is no hello.
    """
    try:
        fields = json.loads(payload)
        hello = Hello(
            name=str(fields["name"]),
            node_id=bytes.fromhex(fields["node_id"]).hex(),
            cluster_id=bytes.fromhex(fields.get("cluster_id", "")).hex(),
            generation=read_whole(fields.get("generation", 0)),
            address=str(fields.get("address", "")),
            instance=str(fields.get("instance", "")),
            metadata={str(k): str(v) for k, v in dict(fields.get("metadata", {})).items()},
            edition=read_whole(fields.get("edition", -1), least=-1),
            seen={
                bytes.fromhex(node_id).hex(): read_whole(edition)
                for node_id, edition in dict(fields.get("seen", {})).items()
            },
            shared={
                str(name): _number(value) for name, value in dict(fields.get("shared", {})).items()
            },
            has_ended=bool(fields.get("has_ended", False)),
            disk_hangs=bool(fields.get("disk_hangs", False)),
            space_low=bool(fields.get("space_low", False)),
            kept=tuple(bytes.fromhex(node_id).hex() for node_id in fields.get("kept", ())),
            voters=tuple(bytes.fromhex(node_id).hex() for node_id in fields.get("voters", ())),
            members={
                bytes.fromhex(node_id).hex(): str(name)
                for node_id, name in dict(fields.get("members", {})).items()
            },
            config_index=read_whole(fields.get("config_index", 0)),
            end_known=bool(fields.get("end_known", False)),
            site=str(fields.get("site", "")),
            listed=tuple(_listed_member(it) for it in fields.get("listed", ())),
            shut_out=bool(fields.get("shut_out", False)),
            begun=bool(fields.get("begun", False)),
            end=_held_end(fields.get("end")),
            lineage=_lineage(fields.get("lineage", [])),
        )
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        OverflowError,  # an infinite number
    ) as error:
        raise RemoteProtocolError(f"a hello that makes no sense: {error}") from error
    return hello


def _listed_member(value: object) -> ListedMember:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no member")
    return ListedMember(*map(str, value))


def _held_end(value: list[Any] | None) -> HeldEnd | None:
    if value is None:
        return None
    index, term, chain, commit_index, commit_chain, is_incomplete = value
    return HeldEnd(
        read_whole(index),
        read_whole(term),
        bytes.fromhex(chain).hex(),
        read_whole(commit_index),
        bytes.fromhex(commit_chain).hex(),
        bool(is_incomplete),
    )


def _lineage(value: list[int]) -> Lineage:
    if not value:
        return ()
    began_at, number_range = value
    return read_whole(began_at), read_whole(number_range)


def _number(value: object) -> float:
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return value


_DECODERS: dict[int, Decoder] = {
    PRE_VOTE_REQUEST: _decode_pre_vote,
    PRE_VOTE_RESPONSE: _decode_pre_vote_response,
    VOTE_REQUEST: _decode_vote,
    VOTE_RESPONSE: _decode_vote_response,
    APPEND_RESPONSE: _decode_appended,
    RESET_REQUEST: _decode_reset,
    TRANSFER_REQUEST: lambda payload: TransferRequest(_decode_number(payload)),
    REPAIR_REQUEST: lambda payload: RepairRequest(_decode_number(payload)),
    HELLO: decode_hello,
    EDITIONS: _decode_editions,
}
