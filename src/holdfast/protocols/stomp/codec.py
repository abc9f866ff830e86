"""
One frame's bytes to values and back: escapes, header lines, the end of a header block, encoding.

Pure functions and one small incremental scanner; knows no roles, no order of frames, no buffers
but that of an unfinished header block. Values handed over raw stay raw (see `frames`).

Line ends: STOMP 1.2 ends a line with LF or CRLF; 1.1 with LF only, and a CR belongs to the value;
1.0 does not say, and CRLF is taken as ActiveMQ takes it. Before the version is known CRLF is taken
too, since the first frame may be of any version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from holdfast.errors import LocalProtocolError, RemoteProtocolError
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.protocols.stomp.states import COMMANDS_ALLOWED, Phase, Role, Version, forbidden

_UNESCAPED: dict[Version, dict[str, str]] = {
    "1.0": {},
    "1.1": {r"\c": ":", r"\n": "\n"},
    "1.2": {r"\c": ":", r"\n": "\n", r"\r": "\r"},
}
"""Escape sequences of each version (STOMP 1.2, Value Encoding), beside that of the backslash."""

_DEFINED_THROUGH: dict[Version, re.Pattern[str]] = {
    "1.1": re.compile(r"(?:[^\\]++|\\[cn\\])*"),
    "1.2": re.compile(r"(?:[^\\]++|\\[cnr\\])*"),
}
"""A text up to its first undefined sequence."""

_HELD = "\ud800"
"""Stands for an escaped backslash while other sequences are replaced: half of a pair, which no
UTF-8 is decoded to."""

_HELD_BYTES = b"\xff"
"""The same where nothing is decoded: an octet of no UTF-8."""

_TO_ESCAPES: dict[Version, tuple[tuple[str, str], ...]] = {
    # 1.0 has no escapes, and a line feed inside a header would end it: the next best is a space.
    "1.0": (("\n", " "),),
    # 1.1 cannot escape a carriage return and need not: only a line feed ends its lines.
    "1.1": (("\\", r"\\"), ("\n", r"\n"), (":", r"\c")),
    "1.2": (("\\", r"\\"), ("\n", r"\n"), (":", r"\c"), ("\r", r"\r")),
}
"""In the order in which they are replaced."""

_find_delimiter = re.compile(r"[\n\r:\\]").search
_LENGTH_DIGITS_MAX = 19
"""More digits than any length has; int() of thousands of digits costs time, then fails."""


# A header may consist of escapes, 250 KiB of them: each is replaced everywhere at once, in C.


def unescape(text: str, version: Version, *, is_strict: bool = True) -> str:
    """
    Decode a header name or value; in 1.1 what is not defined stays as it is, unless `is_strict`.

    Raises:
        RemoteProtocolError: `bad-escape`; the version does not define the sequence. STOMP 1.2,
            Value Encoding: undefined sequences must be treated as a fatal protocol error.
    """
    if version == "1.0" or "\\" not in text:
        return text
    decoded = text.replace(r"\\", _HELD)
    for sequence, meaning in _UNESCAPED[version].items():
        decoded = decoded.replace(sequence, meaning)
    if "\\" in decoded and (version == "1.2" or is_strict):
        raise _bad_escape(text, version)
    return decoded.replace(_HELD, "\\")


def _bad_escape(text: str, version: Version) -> RemoteProtocolError:
    defined = _DEFINED_THROUGH[version].match(text)
    assert defined is not None, "it matches nothing, too"
    sequence = text[defined.end() : defined.end() + 2]
    known = " ".join((*_UNESCAPED[version], r"\\"))
    return RemoteProtocolError(
        f"undefined escape sequence {sequence!r} in a header; STOMP {version} defines {known}",
        code="bad-escape",
    )


def escape(text: str, version: Version) -> str:
    """Encode a header name or value; in 1.0, which cannot, a line feed becomes a space."""
    # Looking first is three times as fast as replacing, and there is rarely anything to escape.
    if _find_delimiter(text) is None:
        return text
    for character, sequence in _TO_ESCAPES[version]:
        text = text.replace(character, sequence)
    return text


def encode_lines(lines: bytes, version: Version) -> bytes:
    """Turn header lines with 1.2 escapes into those of `version`; free for 1.2 and plain lines."""
    if version == "1.2" or b"\\" not in lines:
        return lines
    if version == "1.1" and rb"\r" not in lines:
        return lines
    held = lines.replace(rb"\\", _HELD_BYTES)
    if version == "1.1":
        return held.replace(rb"\r", b"\r").replace(_HELD_BYTES, rb"\\")
    # Without escapes a name holding a colon would be read as another header: it is left out.
    kept = [line for line in held.splitlines(keepends=True) if rb"\c" not in line.split(b":")[0]]
    held = b"".join(kept).replace(rb"\c", b":").replace(rb"\n", b" ").replace(rb"\r", b"\r")
    return held.replace(_HELD_BYTES, b"\\")


def encode_frame(
    command: str, headers: Iterable[tuple[str, str]], body: bytes, version: Version
) -> bytes:
    """
    Encode any frame; a body gets a content-length unless the headers have one.

    Raises:
        LocalProtocolError: `bad-header`; a header that cannot be written without escapes, in
            CONNECT, CONNECTED or STOMP 1.0.
    """
    raw = command in {"CONNECT", "CONNECTED", "STOMP"}
    plain_names = raw or version == "1.0"
    lines = [command]
    has_length = not body
    for name, value in headers:
        if (plain_names and (":" in name or "\n" in name)) or (raw and "\n" in value):
            raise LocalProtocolError(
                f"{command} cannot carry the header {name!r}: it is not escaped (STOMP 1.2,"
                " Value Encoding), so no line feed and no colon in the name",
                code="bad-header",
            )
        if raw:
            lines.append(f"{name}:{value}")
        else:
            lines.append(f"{escape(name, version)}:{escape(value, version)}")
        has_length = has_length or name == "content-length"
    if not has_length:
        lines.append(f"content-length:{len(body)}")
    lines.append("\n")
    return b"%b%b\0" % ("\n".join(lines).encode(), body)


def encode_receipt(receipt: bytes) -> bytes:
    """Encode the RECEIPT for a raw receipt header, which goes back as it came."""
    return b"RECEIPT\nreceipt-id:%b\n\n\0" % receipt


def nul_in_head() -> RemoteProtocolError:
    """Give the error for what no client may have in a name or value: with it ours are made."""
    return RemoteProtocolError(
        "a NUL in the head of a frame; it ends a frame (STOMP 1.2, Augmented BNF), so no header has"
        " one",
        code="bad-header",
    )


def cut_line(head: bytes, mark: bytes) -> tuple[bytes, bytes | None]:
    """
    Cut the first header line that begins with `mark` out of a head; give the rest and its value.

    Args:
        head: Command and header lines, each with a line feed at its end.
        mark: A line feed, the header's name and a colon.
    """
    start = head.find(mark)
    if start < 0:
        return head, None
    value = start + len(mark)
    end = head.find(b"\n", value)
    return head[:start] + head[end:], head[value:end]


def check_raw(value: bytes | None, version: Version, *, is_strict: bool = True) -> None:
    """
    Check a raw value that is handed over undecoded.

    Raises:
        RemoteProtocolError: `bad-escape` or `bad-header`.
    """
    if value is not None and not (value.isascii() and b"\\" not in value):
        try:
            unescape(value.decode(), version, is_strict=is_strict)
        except UnicodeDecodeError:
            raise _bad_encoding() from None


def parse_headers(
    head: bytes, version: Version, *, is_escaped: bool = True, is_strict: bool = True
) -> dict[str, str]:
    """
    Decode the header lines of a head; of a repeated header the first counts.

    Args:
        head: Command and header lines, each with a line feed at its end.
        is_strict: Whether undefined escapes in 1.1, and lines without a colon, fail. Else such an
            escape stays as it is, and such a line is a header without a value.

    Raises:
        RemoteProtocolError: `bad-header` or `bad-escape`.
    """
    try:
        block = str(head[head.index(b"\n") + 1 : -1], "utf-8")
    except UnicodeDecodeError:
        raise _bad_encoding() from None
    if not block:
        return {}
    lines = block.split("\n")
    if "\\" in block and is_escaped:
        pairs = [
            [unescape(part, version, is_strict=is_strict) for part in line.split(":", 1)]
            if "\\" in line
            else line.split(":", 1)
            for line in lines
        ]
    else:
        pairs = [line.split(":", 1) for line in lines]
    try:
        headers: dict[str, str] = dict(pairs)
    except ValueError:
        if is_strict:
            raise _bad_line(next(pair[0] for pair in pairs if len(pair) == 1)) from None
        pairs = [pair if len(pair) > 1 else [pair[0], ""] for pair in pairs]
        headers = dict(pairs)
    if len(headers) != len(pairs):
        # STOMP 1.2, Repeated Header Entries: only the first should be used.
        headers = {}
        for name, value in pairs:
            headers.setdefault(name, value)
    if "" in headers:
        raise _bad_line(":" + headers[""])
    if version == "1.0":
        # The examples of STOMP 1.0 pad values; 1.2 forbids trimming from then on.
        return {name: value.strip() for name, value in headers.items()}
    return headers


def parse_length(headers: dict[str, str], bytes_max: int, *, is_strict: bool = True) -> int:
    """
    Give the content-length, or -1 without one.

    Raises:
        RemoteProtocolError: `bad-content-length` or `body-too-large`.
    """
    text = headers.get("content-length")
    if text is None:
        return -1
    if not is_strict:
        text = text.strip(" \t")
    if not (text.isascii() and text.isdigit()):
        raise RemoteProtocolError(
            f"content-length {text[:40]!r}; expected a number of octets", code="bad-content-length"
        )
    if len(text) > _LENGTH_DIGITS_MAX or (length := int(text)) > bytes_max:
        raise body_too_large(bytes_max)
    return length


def body_too_large(bytes_max: int) -> RemoteProtocolError:
    """Build the error for a body over the limit."""
    return RemoteProtocolError(
        f"the body is larger than {bytes_max:,} bytes, which is the limit", code="body-too-large"
    )


def body_end_missing() -> RemoteProtocolError:
    """Build the error for a body that is longer than its content-length says."""
    return RemoteProtocolError(
        "the octet after the body is not NUL; content-length is wrong", code="bad-content-length"
    )


def body_not_allowed(name: str) -> RemoteProtocolError:
    """Build the error for a body where the protocol allows none (STOMP 1.2, Body)."""
    return RemoteProtocolError(
        f"{name} with a body; only SEND, MESSAGE and ERROR may have one", code="body-not-allowed"
    )


def _bad_encoding() -> RemoteProtocolError:
    return RemoteProtocolError(
        "a header is not UTF-8 (STOMP 1.2, Value Encoding)", code="bad-header"
    )


def _bad_line(line: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"header line {line[:40]!r}; expected name:value", code="bad-header")


class HeadScanner:
    """
    Reads one head (command and header lines) that may arrive in any number of pieces.

    The exact and slow way: line by line, checking every limit while the line is still incomplete,
    so that the first octet too many is the one that fails, however the head was cut in pieces.
    Holds at most `header_block_bytes_max` octets.
    """

    __slots__ = ("_head", "_lines", "_phase", "_role", "_settings", "_strips_cr", "_unfinished")

    def __init__(
        self, settings: StompSettings, role: Role, phase: Phase, *, strips_cr: bool
    ) -> None:
        self._settings = settings
        self._role: Role = role
        self._phase = phase
        self._strips_cr = strips_cr
        self._head = bytearray()
        self._unfinished = 0
        self._lines = 0

    @property
    def head(self) -> bytes:
        """The lines so far, each ended by one LF; the blank line is not among them."""
        return bytes(self._head)

    @property
    def held_bytes(self) -> int:
        """How much of the head is there."""
        return len(self._head)

    def feed(self, data: bytes, start: int) -> int:
        """
        Take octets from `start`; give where the body begins, or -1 if the head is not complete.

        Raises:
            RemoteProtocolError: what `states.forbidden` gives, or a limit: `command-too-long`,
                `header-too-long`, `too-many-headers`, `header-block-too-large`.
        """
        head = self._head
        while True:
            newline = data.find(b"\n", start)
            stop = newline if newline >= 0 else len(data)
            self._check_limits(stop - start)
            head += data[start:stop]
            self._unfinished += stop - start
            if newline < 0:
                return -1
            start = newline + 1
            if self._strips_cr and self._unfinished and head[-1] == 13:
                del head[-1]
                self._unfinished -= 1
            if not self._unfinished:
                return start
            if not self._lines and bytes(head) not in COMMANDS_ALLOWED[self._role, self._phase]:
                raise forbidden(self._role, self._phase, bytes(head))
            if self._lines > self._settings.header_count_max:
                raise RemoteProtocolError(
                    f"more than {self._settings.header_count_max:,} headers, which is the limit",
                    code="too-many-headers",
                )
            head += b"\n"
            self._unfinished = 0
            self._lines += 1

    def _check_limits(self, count: int) -> None:
        """Check that `count` more octets of the present line are within every limit."""
        settings = self._settings
        line_room = (
            settings.header_line_bytes_max if self._lines else settings.command_bytes_max
        ) - self._unfinished
        block_room = settings.header_block_bytes_max - len(self._head)
        if count <= line_room and count <= block_room:
            return
        if block_room < line_room:
            raise RemoteProtocolError(
                f"the headers are larger than {settings.header_block_bytes_max:,} bytes,"
                " which is the limit",
                code="header-block-too-large",
            )
        if not self._lines:
            raise RemoteProtocolError(
                f"the command is longer than {settings.command_bytes_max:,} bytes,"
                " which is the limit",
                code="command-too-long",
            )
        raise RemoteProtocolError(
            f"a header line is longer than {settings.header_line_bytes_max:,} bytes,"
            " which is the limit",
            code="header-too-long",
        )
