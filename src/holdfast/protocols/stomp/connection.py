"""
One STOMP connection without its socket: feed it bytes, drain events; both roles.

    connection = StompConnection("server", settings, opened_at=now)
    connection.receive_data(data)
    for event in connection.events_received(): ...

Reading stands between frames, inside a head (`_scanner`) or inside a body (`_open`). Frames that
lie whole inside one chunk are cut straight out of it; a frame over a chunk's end is kept in pieces
and joined once. The result does not depend on how the bytes were cut into chunks.

Invariants:
    Any bytes give events or exactly one ProtocolFailed, which is the last event.
    A cached block is valid in the version and phase of the connection: the cache is empty until
    the connection is established, and a connection that failed or closed reads nothing more.
    What is kept of an unfinished frame never exceeds the limits in `settings`.

Owned by one connection's session; not safe to call from two tasks at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from holdfast.errors import LocalProtocolError, RemoteProtocolError
from holdfast.protocols.stomp import codec, heart_beat, mapping, states
from holdfast.protocols.stomp.frames import (
    AcknowledgeFrame,
    Event,
    Frame,
    HeaderBlock,
    ProtocolFailed,
    SendFrame,
)
from holdfast.protocols.stomp.heart_beat import HeartBeat, HeartBeats
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.protocols.stomp.states import CommandRule, Phase, Role, Version

_LINE_ENDS = re.compile(rb"[\r\n]*")
_SMALL_CHUNK_BYTES = 4096
_S = ord("S")
_A = ord("A")


class StompConnection:
    """The protocol of one connection; see the module's docstring for its use."""

    __slots__ = (
        "_beats",
        "_blocks",
        "_body_missing",
        "_commands",
        "_events",
        "_is_deaf",
        "_kept",
        "_kept_bytes",
        "_open",
        "_outgoing",
        "_phase",
        "_quick_bytes_max",
        "_receipt",
        "_role",
        "_rule",
        "_scanner",
        "_settings",
        "_version",
        "_window",
        "_window_acknowledge",
        "peer_heart_beat",
    )

    def __init__(
        self,
        role: Role,
        settings: StompSettings | None = None,
        *,
        opened_at: float | None = None,
    ) -> None:
        """
        Start a connection that is not established yet.

        Args:
            role: What we are: "server" reads client frames, "client" reads server frames.
            opened_at: Starts the connect timeout; None for no timeout.
        """
        settings = settings or StompSettings()
        self._role = role
        self._settings = settings
        self._commands = states.COMMANDS_RECEIVED[role]
        self._phase = Phase.CONNECTING
        self._version: Version = "1.0"
        self._beats = HeartBeats(settings, opened_at=opened_at)
        self.peer_heart_beat = (0, 0)
        """The peer's heart-beat header, once it is connected."""
        self._events: list[Event] = []
        self._outgoing: list[bytes] = []
        self._is_deaf = False
        self._blocks: dict[bytes, HeaderBlock] = {}
        # A head this small cannot break any limit, whatever is in it.
        self._quick_bytes_max = min(
            settings.command_bytes_max,
            settings.header_line_bytes_max,
            settings.header_block_bytes_max,
            settings.header_count_max,
        )
        # How far the quick paths of `_read_frames` look for the end of a head; 0 turns them off.
        self._window = 0
        self._window_acknowledge = 0
        # The frame under way: its head, or its event without the body and the body's pieces.
        self._scanner: codec.HeadScanner | None = None
        self._open: SendFrame | AcknowledgeFrame | Frame | None = None
        self._rule: CommandRule = self._commands[next(iter(self._commands))]
        self._receipt: bytes | None = None
        self._body_missing = -1
        self._kept: list[bytes | bytearray] = []
        self._kept_bytes = 0

    @property
    def version(self) -> Version:
        """The version agreed on; "1.0" until then. Set when CONNECT or CONNECTED has been read."""
        return self._version

    @property
    def is_connected(self) -> bool:
        """Whether the peer's CONNECT or CONNECTED frame has been read, and no DISCONNECT."""
        return self._phase is Phase.CONNECTED

    # Reading

    def receive_data(self, data: bytes) -> None:
        """Parse bytes from the peer; take the result with `events_received`. Never raises."""
        if self._is_deaf:
            return
        try:
            start = 0
            if self._open is not None:
                start = self._read_body(data, 0)
            elif self._scanner is not None:
                start = self._resume_head(self._scanner, data)
            if start < len(data):
                self._read_frames(data, start)
        except RemoteProtocolError as error:
            self._fail(error)

    def receive_eof(self) -> None:
        """Note that no more bytes will come; inside a frame that is an error."""
        if not self._is_deaf and (self._open is not None or self._scanner is not None):
            self._fail(
                RemoteProtocolError("the connection ended inside a frame", code="unexpected-end")
            )
        self._is_deaf = True

    def events_received(self) -> list[Event]:
        """Take the events since the last call, in the order of the wire."""
        events = self._events
        self._events = []
        return events

    # Writing

    def send_frame(
        self, command: str, headers: Iterable[tuple[str, str]] = (), body: bytes = b""
    ) -> None:
        """
        Queue a frame of our role, escaped for the version agreed on.

        Raises:
            LocalProtocolError: Not a frame of our role or version, or a body it must not have.
        """
        rule = states.COMMANDS_SENT[self._role].get(command.encode())
        if rule is None or self._version not in rule.mandatory:
            raise LocalProtocolError(
                f"a {self._role} does not send {command} in STOMP {self._version}",
                code="unknown-command",
            )
        if body and not rule.has_body:
            raise LocalProtocolError(f"{command} must not have a body", code="body-not-allowed")
        self._outgoing.append(codec.encode_frame(command, headers, body, self._version))

    def data_to_send(self) -> bytes:
        """Take the bytes queued by `send_frame`."""
        outgoing = b"".join(self._outgoing)
        self._outgoing.clear()
        return outgoing

    # Time

    def negotiate_heart_beats(self, mine: tuple[int, int], theirs: tuple[int, int]) -> None:
        """
        Agree on heart-beats from both sides' (can send every, want every), in milliseconds.

        `theirs` is usually `peer_heart_beat`.
        """
        self._beats.negotiate(mine, theirs)

    @property
    def deadline(self) -> float | None:
        """When to call `handle_deadline`, in the seconds of `now`; None for never."""
        return self._beats.deadline

    def handle_deadline(self, now: float) -> HeartBeat:
        """Say whether a beat is to be sent or the peer is dead (also: did not connect in time)."""
        return self._beats.handle_deadline(now)

    def note_received(self, now: float) -> None:
        """Bytes came in; call it once per read, before or after `receive_data`."""
        self._beats.note_received(now)

    def note_sent(self, now: float) -> None:
        """Bytes went out."""
        self._beats.note_sent(now)

    # Frames

    def _read_frames(self, data: bytes, start: int) -> None:
        """
        Read frames to the end of `data`.

        SEND frames with a cached header block and bare ACK frames are read right here; whatever is
        unusual about a frame sends it to `_read_frame`, which decides and complains.
        """
        end = len(data)
        find = data.find
        starts_with = data.startswith
        append = self._events.append
        cached = self._blocks.get
        while start < end:
            first = data[start]
            if first == _S and (blank := find(b"\n\n", start, start + self._window)) > 0:
                head = data[start : blank + 1]
                receipt = sequence = None
                at = head.find(b"\nreceipt:")
                if at >= 0:
                    stop = head.find(b"\n", at + 9)
                    receipt = head[at + 9 : stop]
                    head = head[:at] + head[stop:]
                at = head.find(b"\nproducer-sequence:")
                if at >= 0:
                    stop = head.find(b"\n", at + 19)
                    sequence = head[at + 19 : stop]
                    head = head[:at] + head[stop:]
                block = cached(head)
                if block is not None and _is_plain(receipt) and _is_plain(sequence):
                    start_body = blank + 2
                    stop = start_body + block.body_bytes
                    if start_body <= stop < end and not data[stop]:
                        append(SendFrame(block, receipt, sequence, data[start_body:stop]))
                        start = stop + 1
                        continue
            elif first == _A and starts_with(b"ACK\nid:", start):
                stop = find(b"\n", start + 7, start + self._window_acknowledge)
                if data[stop : stop + 3] == b"\n\n\0" and _is_plain(data[start + 7 : stop]):
                    append(AcknowledgeFrame(data[start + 7 : stop], None, None, False))
                    start = stop + 3
                    continue
            start = self._read_frame(data, start)

    def _read_frame(self, data: bytes, start: int) -> int:
        """Read one frame, or what there is of it; give where the next one starts."""
        if data[start] in b"\r\n":
            # STOMP 1.2, Augmented BNF: a NUL may be followed by EOLs, which are also heart-beats.
            match = _LINE_ENDS.match(data, start)
            assert match is not None
            return match.end()
        head, after = self._take_head(data, start)
        if after < 0:
            return len(data)
        self._open_frame(head)
        return self._read_body(data, after)

    def _take_head(self, data: bytes, start: int) -> tuple[bytes, int]:
        """Give a head with LF line ends and where its body starts; -1 where it is not complete."""
        blank = data.find(b"\n\n", start, start + self._quick_bytes_max + 1)
        if blank >= 0:
            head = data[start : blank + 1]
            if b"\r" not in head:
                return head, blank + 2
        strips_cr = self._version != "1.1" or self._phase is Phase.CONNECTING
        if strips_cr:
            # STOMP 1.2, Augmented BNF: EOL = [CR] LF.
            blank = data.find(b"\r\n\r\n", start, start + self._quick_bytes_max + 2)
            head = data[start : blank + 2].replace(b"\r\n", b"\n")
            if blank >= 0 and b"\r" not in head and b"\n\n" not in head:
                # A peer that ends lines so always does: looking for LF LF is a waste of time.
                self._window = 0
                return head, blank + 4
        scanner = codec.HeadScanner(self._settings, self._commands, strips_cr=strips_cr)
        after = scanner.feed(data, start)
        if after < 0:
            self._scanner = scanner
        return scanner.head, after

    def _resume_head(self, scanner: codec.HeadScanner, data: bytes) -> int:
        """Go on with a head that began in an earlier chunk."""
        after = scanner.feed(data, 0)
        if after < 0:
            return len(data)
        self._scanner = None
        self._open_frame(scanner.head)
        return self._read_body(data, after)

    def _open_frame(self, head: bytes) -> None:
        """Check and decode a head; leaves the event, waiting for its body, in `_open`."""
        line = head[: head.index(b"\n")]
        rule = self._commands.get(line)
        if rule is None:
            raise codec.unknown_command(line)
        states.next_phase(self._phase, rule)
        self._rule = rule
        rest, self._receipt = codec.cut_line(head, b"\nreceipt:")
        if rule.is_escaped:
            codec.check_raw(self._receipt, self._version)
        if rule.name == "SEND":
            self._open = self._open_send(rest)
        elif rule.name in {"ACK", "NACK"}:
            self._open = self._open_acknowledge(rest)
        else:
            headers = codec.parse_headers(head, self._version, is_escaped=rule.is_escaped)
            self._expect_body(headers)
            self._open = Frame(rule.name, headers, b"", self._receipt)

    def _open_send(self, head: bytes) -> SendFrame:
        head, sequence = codec.cut_line(head, b"\nproducer-sequence:")
        codec.check_raw(sequence, self._version)
        block = self._blocks.get(head)
        if block is None:
            settings = self._settings
            block = mapping.header_block(
                head, self._version, body_bytes_max=settings.body_bytes_max
            )
            states.check_mandatory(self._rule, block.headers, self._version)
            if len(head) <= settings.header_cache_block_bytes_max:
                if len(self._blocks) >= settings.header_cache_entries_max:
                    self._blocks.clear()
                self._blocks[head] = block
        self._body_missing = block.body_bytes
        return SendFrame(block, self._receipt, sequence, b"")

    def _open_acknowledge(self, head: bytes) -> AcknowledgeFrame:
        is_negative = self._rule.name == "NACK"
        is_old = self._version != "1.2"
        rest, raw = codec.cut_line(head, b"\nmessage-id:" if is_old else b"\nid:")
        block = None
        if raw is None or is_old or rest.count(b"\n") > 1:
            block = HeaderBlock(codec.parse_headers(head, self._version), b"")
            block.headers.pop("receipt", None)
            self._expect_body(block.headers)
        else:
            codec.check_raw(raw, self._version)
            self._body_missing = 0
        assert raw is not None, "check_mandatory has seen it"
        return AcknowledgeFrame(raw, self._receipt, block, is_negative)

    def _expect_body(self, headers: dict[str, str]) -> None:
        """Check headers that were decoded and find out how long the body is."""
        rule = self._rule
        states.check_mandatory(rule, headers, self._version)
        length = codec.parse_length(headers, self._settings.body_bytes_max)
        if rule.has_body or self._drops_body():
            self._body_missing = length
        elif length > 0:
            raise codec.body_not_allowed(rule.name)
        else:
            self._body_missing = 0

    def _drops_body(self) -> bool:
        # STOMP 1.0, SUBSCRIBE: "The body of the SUBSCRIBE command is ignored." 1.0 forbids no body.
        return self._version == "1.0" and self._phase is Phase.CONNECTED

    # Bodies

    def _read_body(self, data: bytes, start: int) -> int:
        """Take the body of the open frame, or what there is of it; give where to go on."""
        missing = self._body_missing
        if missing >= 0:
            stop = start + missing
            if stop >= len(data):
                self._keep(data[start:])
                self._body_missing = stop - len(data)
                return len(data)
            if data[stop]:
                if not self._rule.has_body and not self._drops_body():
                    raise codec.body_not_allowed(self._rule.name)
                # STOMP 1.2, content-length: the frame still needs to be terminated with NUL.
                raise codec.body_end_missing()
        else:
            stop = data.find(b"\0", start)
            size = (stop if stop >= 0 else len(data)) - start
            if self._kept_bytes + size > self._settings.body_bytes_max:
                raise codec.body_too_large(self._settings.body_bytes_max)
            if stop < 0:
                self._keep(data[start:])
                return len(data)
        body = data[start:stop]
        if self._kept:
            body = b"".join([*self._kept, body])
            self._kept = []
            self._kept_bytes = 0
        self._close_frame(body)
        return stop + 1

    def _keep(self, piece: bytes) -> None:
        """Keep a piece of a body; tiny pieces share a buffer, or their overhead would add up."""
        self._kept_bytes += len(piece)
        kept = self._kept
        if not kept or len(piece) >= _SMALL_CHUNK_BYTES:
            kept.append(piece)
        elif isinstance(kept[-1], bytearray):
            kept[-1] += piece
        else:
            kept.append(bytearray(piece))

    def _close_frame(self, body: bytes) -> None:
        """The open frame is complete: its event and what it changes."""
        event = self._open
        assert event is not None, "a body belongs to an open frame"
        self._open = None
        if self._rule.has_body and not isinstance(event, AcknowledgeFrame):
            event.body = body
        if isinstance(event, Frame):
            self._change_phase(event)
        self._receipt = None
        self._events.append(event)

    def _change_phase(self, frame: Frame) -> None:
        following = states.next_phase(self._phase, self._rule)
        if following is self._phase:
            return
        if following is Phase.CONNECTED:
            self._version = (
                states.negotiate_version(frame.headers.get("accept-version"))
                if self._role == "server"
                else states.accept_version(frame.headers.get("version"))
            )
            self.peer_heart_beat = heart_beat.parse_heart_beat(frame.headers.get("heart-beat"))
            self._beats.note_connected()
            self._window = self._quick_bytes_max + 1
            self._window_acknowledge = self._window if self._version == "1.2" else 0
        else:
            # STOMP 1.2, DISCONNECT: clients must not send any more frames after it.
            self._is_deaf = True
        self._phase = following

    def _fail(self, error: RemoteProtocolError) -> None:
        self._events.append(ProtocolFailed(error, self._receipt))
        self._is_deaf = True
        self._open = None
        self._scanner = None
        self._kept = []
        self._blocks = {}


def _is_plain(raw: bytes | None) -> bool:
    """Whether a raw value is certainly valid, so that nothing needs to be decoded to know."""
    return raw is None or (raw.isascii() and b"\\" not in raw and b"\r" not in raw)
