"""
Bytes of one STOMP connection to frames; both roles.

Reading stands between frames, inside a head (`_scanner`) or inside a body (`_open`). Frames that
lie whole inside one chunk are cut straight out of it; a frame over a chunk's end is kept in pieces
and joined once. The result does not depend on how the bytes were cut into chunks. Here bytes are
cut; what a head says is found out in `heads`.

Invariants:
    Any bytes give events or exactly one ProtocolFailed, which is the last event.
    A cached block is valid in the version and phase of the connection: the cache is empty until
    the connection is established, and a connection that failed or closed reads nothing more.
    What is kept of an unfinished frame never exceeds the limits in `settings`.

Owned by its connection, which is one with it: a step between would cost a tenth of a small chunk.
"""

from __future__ import annotations

import re

from holdfast.errors import RefusedError, RemoteProtocolError
from holdfast.model.limits import KiB
from holdfast.protocols.stomp import codec, heart_beat, states
from holdfast.protocols.stomp.frames import (
    AcknowledgeFrame,
    Event,
    Frame,
    FrameRefused,
    ProtocolFailed,
    SendFrame,
)
from holdfast.protocols.stomp.heads import Heads, Open
from holdfast.protocols.stomp.heart_beat import HeartBeats
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.protocols.stomp.states import CommandRule, Phase, Role, Version

# STOMP 1.2, Augmented BNF: a NUL may be followed by EOLs, which are also heart-beats. Clients send
# several NULs, too, and ActiveMQ skips them.
_LINE_ENDS = re.compile(rb"[\r\n]*")
_LINE_ENDS_AND_NULS = re.compile(rb"[\r\n\0]*")
_SMALL_CHUNK_BYTES = 4096
UNJUDGED_BYTES = 16 * KiB
"""Of a body that is larger than this the rest is not kept where its SEND is refused by its head."""
_S = ord("S")
_CR = ord("\r")
_BACKSLASH = ord("\\")
_HEADERS_PER_FRAME = 8
"""So many headers take about as long as a frame that has few."""

# Frames with nothing but a plain id, as consumers send ACK and servers RECEIPT, one after the
# other. Two passes in C, one to find the end of the run and one to take the ids, cost a fifth of
# a loop here. The run is not repeated possessively: before 3.11.5 Python counts to it the half of a
# frame that comes behind.
_ID = rb"([ -\[\]-~]{1,200}+)\n\n\0"
_RUN_HEAD_BYTES_MAX = 250
_ACK_RUN = re.compile(rb"(?:ACK\nid:%b\n?)+" % _ID.replace(b"(", b"(?:"))
_ACK_IDS = re.compile(rb"ACK\nid:%b" % _ID)
_RECEIPT_RUN = re.compile(rb"(?:RECEIPT\nreceipt-id:%b\n?)+" % _ID.replace(b"(", b"(?:"))
_RECEIPT_IDS = re.compile(rb"RECEIPT\nreceipt-id:%b" % _ID)


class FrameReader:
    """The reading half of one connection."""

    __slots__ = (
        "_allowed",
        "_beats",
        "_blocks",
        "_body_missing",
        "_events",
        "_head",
        "_heads",
        "_is_deaf",
        "_judged_count",
        "_kept",
        "_kept_bytes",
        "_open",
        "_phase",
        "_quick_bytes_max",
        "_rest",
        "_role",
        "_rule",
        "_run_initial",
        "_scanner",
        "_settings",
        "_slow_frames_left",
        "_version",
        "_window",
        "frame_count",
        "peer_heart_beat",
        "unjudged",
    )

    def __init__(self, role: Role, settings: StompSettings, beats: HeartBeats) -> None:
        self._role: Role = role
        self._settings = settings
        self._beats = beats
        self._phase = Phase.CONNECTING
        self._allowed = states.COMMANDS_ALLOWED[role, self._phase]
        self._version: Version = "1.0"
        self.peer_heart_beat = (0, 0)
        """The peer's heart-beat header, once it is connected."""
        self.frame_count = 0
        """Frames whose head was read, but for those that came whole and are much like others: of
        two that were cut over a chunk's end each has another one."""
        self.unjudged: SendFrame | None = None
        """A SEND of which `UNJUDGED_BYTES` and more are here, and more are to come; set once, until
        somebody takes it away."""
        self._events: list[Event] = []
        self._rest = b""
        """What was left off; see `receive_data`."""
        self._slow_frames_left = 0
        self._is_deaf = False
        self._heads = Heads(role, settings)
        self._blocks = self._heads.blocks
        # A head this small cannot break any limit, whatever is in it.
        self._quick_bytes_max = min(
            settings.command_bytes_max,
            settings.header_line_bytes_max,
            settings.header_block_bytes_max,
            settings.header_count_max,
        )
        # How far the quick paths of `_read_frames` look for the end of a head; 0 turns them off.
        self._window = 0
        self._run_initial = -1
        # The frame under way: its head, or its event without the body and the body's pieces.
        self._scanner: codec.HeadScanner | None = None
        self._open: Open | None = None
        self._rule: CommandRule = next(iter(self._allowed.values()))
        self._head = b""
        self._body_missing = -1
        self._kept: list[bytes | bytearray] = []
        self._kept_bytes = 0
        self._judged_count = 0

    @property
    def version(self) -> Version:
        """The version agreed on; "1.0" until then. Set when CONNECT or CONNECTED has been read."""
        return self._version

    @property
    def is_connected(self) -> bool:
        """Whether the peer's CONNECT or CONNECTED frame has been read, and no DISCONNECT."""
        return self._phase is Phase.CONNECTED

    @property
    def has_more(self) -> bool:
        """Whether bytes are left that were not parsed yet."""
        return bool(self._rest) and not self._is_deaf

    @property
    def unparsed_bytes(self) -> int:
        """How many bytes those are."""
        return len(self._rest)

    @property
    def unfinished_bytes(self) -> int:
        """What is kept of a frame that has not come whole."""
        return self._kept_bytes if self._scanner is None else self._scanner.held_bytes

    def receive_data(self, data: bytes, *, slow_frames_max: int = 1 << 30) -> None:
        """
        Parse bytes from the peer; take the result with `events_received`. Never raises.

        It stops after so many frames that take long, which is any but a SEND like the one before
        or a bare ACK; one with many headers counts for several. What `has_more` then is parsed with
        the next call, which may bring no data.
        """
        if self._is_deaf:
            return
        if self._rest:
            data = self._rest + data
            self._rest = b""
        self._slow_frames_left = slow_frames_max
        try:
            start = 0
            if self._open is not None:
                start = self._read_body(data, 0)
            elif self._scanner is not None:
                start = self._read_head(data, 0)
            if start < len(data):
                self._read_frames(data, start)
        except RemoteProtocolError as error:
            self._fail(error)

    def forget_heads(self) -> None:
        """Decode the heads of SEND frames anew: what was noted with them is out of date."""
        self._heads.forget()

    def refuse(self, frame: SendFrame, error: RefusedError) -> None:
        """
        Keep nothing more of a SEND that has not come whole; its event is a FrameRefused.

        Nothing happens where it has come whole, or was given up, meanwhile.
        """
        if self._open is frame:
            error.__context__ = error.__cause__ = None  # As in `_fail`.
            headers = frame.block.headers
            self._open = FrameRefused(error.with_traceback(None), headers, frame.receipt)
            self._kept = []
            self._kept_bytes = 0

    def give_up(self) -> None:
        """Read nothing more, and keep nothing of the frame under way."""
        self._is_deaf = True
        self._let_go()

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

    def _read_frames(self, data: bytes, start: int) -> None:
        """
        Read frames to the end of `data`.

        SEND frames with a cached header block and bare ACK frames are read right here; whatever is
        unusual about a frame sends it to `_read_frame`, which decides and complains.
        """
        end = len(data)
        find = data.find
        append = self._events.append
        cached = self._blocks.get
        body_bytes_max = self._settings.body_bytes_max
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
                if (
                    block is not None
                    and (sequence is None or sequence.isdigit())
                    and (
                        receipt is None
                        or (receipt.isascii() and _BACKSLASH not in receipt and _CR not in receipt)
                    )
                ):
                    body = blank + 2
                    stop = body + block.body_bytes
                    if stop < body:
                        stop = find(b"\0", body, body + body_bytes_max + 1)
                    if body <= stop < end and not data[stop]:
                        append(SendFrame(block, receipt, sequence, data[body:stop]))
                        start = stop + 1
                        continue
            elif first == self._run_initial and (after := self._read_run(data, start)):
                start = after
                continue
            start = self._read_frame(data, start)
            self._slow_frames_left -= 1
            if self._slow_frames_left <= 0:
                self._rest = data[start:]
                return

    def _read_run(self, data: bytes, start: int) -> int:
        """Read frames of the one kind that comes in runs; give where they end, or 0 for none."""
        if self._role == "server":
            run = _ACK_RUN.match(data, start)
            if run is None:
                return 0
            after = run.end()
            ids = _ACK_IDS.findall(data, start, after)
            self._events += [AcknowledgeFrame(raw, None, None, False) for raw in ids]
            return after
        run = _RECEIPT_RUN.match(data, start)
        if run is None:
            return 0
        after = run.end()
        ids = _RECEIPT_IDS.findall(data, start, after)
        self._events += [Frame("RECEIPT", {"receipt-id": raw.decode()}, b"", None) for raw in ids]
        return after

    def _read_frame(self, data: bytes, start: int) -> int:
        """Read one frame, or what there is of it; give where the next one starts."""
        if data[start] <= _CR:
            gap = _LINE_ENDS if self._settings.is_strict else _LINE_ENDS_AND_NULS
            match = gap.match(data, start)
            assert match is not None
            if match.end() > start:
                return match.end()
        blank = data.find(b"\n\n", start, start + self._quick_bytes_max + 1)
        if blank < 0 or _CR in (head := data[start : blank + 1]):
            return self._read_unusual_head(data, start)
        self._open_frame(head)
        return self._read_body(data, blank + 2)

    def _read_unusual_head(self, data: bytes, start: int) -> int:
        """Go on with a head that is long, not complete, or has CRs; give where to go on."""
        strips_cr = self._version != "1.1" or self._phase is Phase.CONNECTING
        if data.startswith(states.TLS_GREETING, start):
            raise states.spoken_by_tls()  # It may have no line end for long.
        if strips_cr:
            # STOMP 1.2, Augmented BNF: EOL = [CR] LF.
            blank = data.find(b"\r\n\r\n", start, start + self._quick_bytes_max + 2)
            head = data[start : blank + 2].replace(b"\r\n", b"\n")
            if blank >= 0 and _CR not in head and b"\n\n" not in head:
                # A peer that ends lines so always does: looking for LF LF is a waste of time.
                self._window = 0
                self._open_frame(head)
                return self._read_body(data, blank + 4)
        self._scanner = codec.HeadScanner(
            self._settings, self._role, self._phase, strips_cr=strips_cr
        )
        return self._read_head(data, start)

    def _read_head(self, data: bytes, start: int) -> int:
        """Feed the scanner; give where to go on."""
        scanner = self._scanner
        assert scanner is not None, "only called inside a head"
        after = scanner.feed(data, start)
        if after < 0:
            return len(data)
        self._scanner = None
        self._open_frame(scanner.head)
        return self._read_body(data, after)

    def _open_frame(self, head: bytes) -> None:
        """Check and decode a head; leaves the event, waiting for its body, in `_open`."""
        line = head[: head.index(b"\n")]
        rule = self._allowed.get(line)
        if rule is None:
            raise states.forbidden(self._role, self._phase, line)
        if self._role == "server" and b"\0" in head:
            raise codec.nul_in_head()
        self._slow_frames_left -= head.count(b"\n") // _HEADERS_PER_FRAME
        self.frame_count += 1
        self._head = head
        self._rule = rule
        self._open = self._heads.open(rule, head)
        self._body_missing = self._heads.body_bytes

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
                if not (self._rule.has_body or self._heads.drops_bodies):
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
        return len(data) if self._is_deaf else stop + 1

    def _keep(self, piece: bytes) -> None:
        """Keep a piece of a body; tiny pieces share a buffer, or their overhead would add up."""
        if type(self._open) is FrameRefused:
            return  # What is refused has no body.
        self._kept_bytes += len(piece)
        if self._kept_bytes >= UNJUDGED_BYTES and self._judged_count != self.frame_count:
            self._judged_count = self.frame_count
            self.unjudged = self._open if type(self._open) is SendFrame else None
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
        self._head = b""
        rule = self._rule
        if rule.has_body and type(event) is not FrameRefused:
            assert isinstance(event, SendFrame | Frame)
            event.body = body
        elif rule.changes_phase:
            assert isinstance(event, Frame)
            self._change_phase(event)
        self._events.append(event)

    def _change_phase(self, frame: Frame) -> None:
        following = states.TRANSITIONS[self._phase, self._rule.name]
        if following is Phase.CONNECTED:
            self._version = (
                states.negotiate_version(frame.headers.get("accept-version"))
                if self._role == "server"
                else states.accept_version(frame.headers.get("version"))
            )
            self.peer_heart_beat = heart_beat.parse_heart_beat(frame.headers.get("heart-beat"))
            self._beats.note_connected()
            heads = self._heads
            heads.version = self._version
            # STOMP 1.0, SUBSCRIBE: "The body of the SUBSCRIBE command is ignored."
            heads.drops_bodies = heads.drops_bodies or self._version == "1.0"
            self._start_quick_paths()
        else:
            # STOMP 1.2, DISCONNECT: clients must not send any more frames after it.
            self._is_deaf = True
        self._phase = following
        self._allowed = states.COMMANDS_ALLOWED[self._role, following]

    def _start_quick_paths(self) -> None:
        self._window = self._quick_bytes_max + 1
        if self._quick_bytes_max >= _RUN_HEAD_BYTES_MAX:
            if self._role == "server" and self._version == "1.2":
                self._run_initial = ord("A")
            elif self._role == "client" and self._version != "1.0":
                self._run_initial = ord("R")

    def _fail(self, error: RemoteProtocolError) -> None:
        # What it passed through holds this connection, which holds it: thousands of clients that
        # break the rules would wait for the collector of cycles.
        error.__context__ = error.__cause__ = None
        receipt = self._heads.readable_receipt(self._head)
        self._events.append(ProtocolFailed(error.with_traceback(None), receipt))
        self._is_deaf = True
        self._let_go()
        self._blocks.clear()

    def _let_go(self) -> None:
        self._rest = b""
        self._open = self.unjudged = None
        self._scanner = None
        self._kept = []
        self._kept_bytes = 0
