"""
The frames a client sends, as bytes.

A SEND is made of a prefix that is the same for all messages of a producer with the same headers,
and of what varies: sequence, receipt, length, body. The prefix is made once and kept, so that a
message costs one formatting and one join. The bytes are kept until the receipt, for resending.

Only STOMP 1.2 is spoken: every broker of today does, and one dialect needs no translation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from holdfast.errors import LocalProtocolError
from holdfast.model.limits import MESSAGE_BODY_BYTES_MAX
from holdfast.protocols.stomp.codec import encode_frame, escape

VERSION: Final = "1.2"
Headers: TypeAlias = Mapping[str, str | int | float | bool]
Body: TypeAlias = bytes | bytearray | memoryview | str
AcknowledgeMode: TypeAlias = Literal["auto", "client", "client-individual"]

WIRE_MODES: dict[str, str] = {
    # With the broker's own `auto` a message would be gone as soon as it is sent, and nothing would
    # stop the broker from sending more than we can keep.
    "auto": "client-individual",
    # See `consumer.Subscription`; only Holdfast takes a message's own id for exactly that message.
    "client": "client",
    "client-individual": "client-individual",
}

TEXT_LINE = b"content-type:text/plain;charset=utf-8\n"
RESERVED = frozenset(
    {
        "content-length",
        "destination",
        "message-id",
        "persistent",
        "producer-id",
        "producer-sequence",
        "receipt",
        "redelivered",
        "subscription",
        "transaction",
    }
)
"""Headers a SEND gets from us: given by the application they would contradict the arguments."""

SUBSCRIBE_RESERVED = frozenset(
    {"ack", "activemq.prefetchSize", "destination", "id", "receipt", "selector"}
)
"""Headers a SUBSCRIBE gets from us: given by the application it would be another subscription."""

POSSIBLE_DUPLICATE: Final = "possible-duplicate"
"""Of a message: this header, `true`, says that it may have been stored before."""

_REPEATED: Final = f"SEND\n{POSSIBLE_DUPLICATE}:true\n".encode()

HEADERS_BYTES_MAX = 128 * 1024
"""Half of what a broker takes for all header lines, so that ours always fit."""


def encode_lines(headers: Headers | None) -> bytes:
    """
    The application's headers as escaped lines.

    Raises:
        LocalProtocolError: A name is reserved or empty, or the headers are too long or no UTF-8.
    """
    if not headers:
        return b""
    lines = []
    for name, value in headers.items():
        if name in RESERVED or not name:
            raise LocalProtocolError(
                f"header {name!r} is set by the client itself; use the arguments instead",
                code="reserved-header",
            )
        lines.append(f"{escape(name, VERSION)}:{escape(text_of(value), VERSION)}\n")
    text = "".join(lines)
    if not text.isascii():
        for name, value in headers.items():
            encode_text(name, "a header's name")
            encode_text(text_of(value), f"header {name!a}")
    joined = text.encode()
    if len(joined) > HEADERS_BYTES_MAX:
        raise LocalProtocolError(
            f"headers of {len(joined):,} bytes; at most {HEADERS_BYTES_MAX:,} are possible",
            code="headers-too-long",
        )
    return joined


def subscribe_headers(
    headers: Headers | None,
    prefetch: int,
    selector: str | None,
    *,
    is_holdfast: bool,
    exclusive: bool = False,
    priority: int = 0,
    browse: bool = False,
    no_local: bool = False,
    retroactive: bool = False,
) -> dict[str, str]:
    """
    The headers of a SUBSCRIBE that stay the same on every link: the application's, and ours.

    Raises:
        LocalProtocolError: A name of the application's is one of ours, or empty.
    """
    for name in headers or ():
        if name in SUBSCRIBE_RESERVED or not name:
            raise LocalProtocolError(
                f"header {name!r} of a subscription is set by the client itself;"
                " use the arguments instead",
                code="reserved-header",
            )
    lines = {name: text_of(value) for name, value in (headers or {}).items()}
    lines["activemq.prefetchSize"] = str(prefetch)
    if not is_holdfast:
        # RabbitMQ's word for the same, here and below.
        lines["prefetch-count"] = str(prefetch)
    if selector is not None:
        lines["selector"] = selector
    if browse:
        lines["browser"] = "true"
    if retroactive:
        lines["activemq.retroactive"] = "true"
    if no_local:
        lines["activemq.noLocal"] = "true"
        if not is_holdfast:
            lines["no-local"] = "true"  # Artemis's word.
    if exclusive:
        lines["activemq.exclusive"] = "true"
    if priority:
        lines["activemq.priority"] = str(priority)
        if not is_holdfast:
            lines["x-priority"] = str(priority)
    return lines


def encode_body(body: Body) -> tuple[bytes, bytes]:
    """
    The body as bytes, and the content-type line that a text has.

    Raises:
        LocalProtocolError: The body is too large, no UTF-8, or neither bytes nor text.
    """
    if isinstance(body, str):
        encoded, line = encode_text(body, "the body"), TEXT_LINE
    elif isinstance(body, bytes | bytearray | memoryview):
        encoded, line = bytes(body), b""
    else:
        # Not even what `bytes` takes: of a number it makes so many zeros.
        raise LocalProtocolError(
            f"a body of type {type(body).__name__}; it must be bytes, bytearray, memoryview or str",
            code="body-type",
        )
    if len(encoded) > MESSAGE_BODY_BYTES_MAX:
        raise LocalProtocolError(
            f"a body of {len(encoded):,} bytes; at most {MESSAGE_BODY_BYTES_MAX:,} are possible",
            code="body-too-large",
        )
    return encoded, line


def encode_text(text: str, what: str) -> bytes:
    """
    A text of the application's as UTF-8; `what` names it in the error.

    Raises:
        LocalProtocolError: It is no text, or one that UTF-8 cannot say.
    """
    if not isinstance(text, str):
        raise LocalProtocolError(
            f"{what} is of type {type(text).__name__}; it must be str", code="not-text"
        )
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(
            f"{what} {text[error.start : error.end]!a} at {error.start} is no UTF-8: a half of"
            " a surrogate pair; send bytes, or decode with other errors than surrogateescape",
            code="not-text",
        ) from error


def send_prefix(destination: str, lines: bytes, *, persistent: bool) -> bytes:
    """The start of a SEND, up to the headers that vary; `lines` are from `encode_lines`."""
    # STOMP 1.2, Repeated Header Entries: the first counts, so ours stand before the application's.
    encode_text(destination, "the destination")
    return b"SEND\ndestination:%b\npersistent:%b\n%b" % (
        escape(destination, VERSION).encode(),
        b"true" if persistent else b"false",
        lines,
    )


def plain_send(prefix: bytes, receipt: str, text_line: bytes, body: bytes) -> bytes:
    """A SEND without a number: not persistent, or not to a queue."""
    return b"%b%breceipt:%b\ncontent-length:%d\n\n%b\0" % (
        prefix,
        text_line,
        receipt.encode(),
        len(body),
        body,
    )


def produced_send(
    prefix: bytes, sequence: int, receipt: str, text_line: bytes, body: bytes
) -> bytes:
    """A SEND of a numbered producer; its `producer-id` line stands in the prefix."""
    return b"%b%bproducer-sequence:%d\nreceipt:%b\ncontent-length:%d\n\n%b\0" % (
        prefix,
        text_line,
        sequence,
        receipt.encode(),
        len(body),
        body,
    )


def repeated(frame: bytes) -> bytes:
    """A SEND that says of itself that the broker may have been told it before."""
    return frame if frame.startswith(_REPEATED) else _REPEATED + frame.removeprefix(b"SEND\n")


def renumbered(frame: bytes, before: tuple[bytes, int], after: tuple[bytes, int]) -> bytes:
    """
    A frame of `produced_send` as another producer's; each is its `producer-id` line and a number.

    Both headers are ours alone, and stand before the body: the first that is found is the one.
    """
    frame = frame.replace(before[0], after[0], 1)
    number = b"\nproducer-sequence:%d\n"
    return frame.replace(number % before[1], number % after[1], 1)


def transaction_send(
    prefix: bytes, transaction: str, receipt: str, text_line: bytes, body: bytes
) -> bytes:
    """A SEND inside a transaction, which has no number of its own: the COMMIT has."""
    return b"%b%btransaction:%b\nreceipt:%b\ncontent-length:%d\n\n%b\0" % (
        prefix,
        text_line,
        transaction.encode(),
        receipt.encode(),
        len(body),
        body,
    )


def producer_line(producer_id: str) -> bytes:
    """The header that names a producer."""
    return b"producer-id:%b\n" % escape(producer_id, VERSION).encode()


def settlement(verb: bytes, id: str, receipt: str | None = None, transaction: str = "") -> bytes:
    """An ACK or NACK: `id` is that of the delivery, or the message's own after a reconnect."""
    frame = b"%b\nid:%b\n" % (verb, escape(id, VERSION).encode())
    if transaction:
        frame += b"transaction:%b\n" % transaction.encode()
    if receipt is not None:
        frame += b"receipt:%b\n" % receipt.encode()
    return frame + b"\n\0"


def control(command: str, **headers: str) -> bytes:
    """Any frame without a body; underscores in names become hyphens."""
    pairs = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return encode_frame(command, pairs, b"", VERSION)


def text_of(value: str | float | bool) -> str:
    """A header's value as text; true and false as everywhere on this wire."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)
