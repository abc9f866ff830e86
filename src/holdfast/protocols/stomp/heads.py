"""
A frame's head to its event, and how long the body is that comes behind it.

A client repeats its SENDs' headers a hundred thousand times, so those are decoded once and kept, up
to limits; what varies from frame to frame is cut out before.

Invariants:
    A kept block is valid in the version of the connection: there is none before that is agreed on.

Owned by its reader.
"""

from __future__ import annotations

from typing import TypeAlias

from holdfast.errors import IncompleteFrameError, RemoteProtocolError
from holdfast.protocols.stomp import codec, mapping, states
from holdfast.protocols.stomp.frames import (
    AcknowledgeFrame,
    Frame,
    FrameRefused,
    HeaderBlock,
    SendFrame,
)
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.protocols.stomp.states import CommandRule, Role, Version

Open: TypeAlias = SendFrame | AcknowledgeFrame | Frame | FrameRefused
"""An event that may lack its body yet."""


class Heads:
    """Decodes the heads of one connection."""

    __slots__ = (
        "_is_strict",
        "_lets_go_on",
        "_settings",
        "blocks",
        "blocks_bytes",
        "body_bytes",
        "drops_bodies",
        "version",
    )

    def __init__(self, role: Role, settings: StompSettings) -> None:
        self._settings = settings
        self._is_strict = settings.is_strict
        # Only a broker has others' old clients to serve; what a broker sends us must be whole.
        self._lets_go_on = role == "server" and not settings.is_strict
        self.version: Version = "1.0"
        self.drops_bodies = not settings.is_strict
        """A body that must not be there is left out, and no error."""
        self.blocks: dict[bytes, HeaderBlock] = {}
        """Of SENDs, by their heads without what varies."""
        self.blocks_bytes = 0
        """What those take decoded."""
        self.body_bytes = -1
        """The length of the body behind the last head; -1: it ends at the first NUL."""

    def open(self, rule: CommandRule, head: bytes) -> Open:
        """
        Check and decode a head; gives its event without the body, which is `body_bytes` long.

        Raises:
            RemoteProtocolError: It breaks a rule.
        """
        try:
            if rule.name == "SEND":
                return self._open_send(rule, head)
            if rule.is_acknowledgement:
                return self._open_acknowledge(rule, head)
            return self._open_other(rule, head)
        except IncompleteFrameError as error:
            if not self._lets_go_on:
                raise
            return self._refuse(rule, head, error)

    def _open_other(self, rule: CommandRule, head: bytes) -> Frame:
        headers = self._parse_headers(rule, head)
        states.check_mandatory(rule, headers, self.version)
        self._expect_body(rule, headers)
        receipt = codec.cut_line(head, b"\nreceipt:")[1] if "receipt" in headers else None
        return Frame(rule.name, headers, b"", receipt)

    def _refuse(self, rule: CommandRule, head: bytes, error: IncompleteFrameError) -> FrameRefused:
        """Find out where a frame ends that cannot be served, and give what is said instead."""
        headers = self._parse_headers(rule, head)
        self._expect_body(rule, headers)
        # What it passed through holds this connection, as in `_fail`.
        return FrameRefused(error.with_traceback(None), headers, self.readable_receipt(head))

    def _parse_headers(self, rule: CommandRule, head: bytes) -> dict[str, str]:
        return codec.parse_headers(
            head,
            self.version,
            is_escaped=rule.is_escaped,
            is_strict=self._is_strict,
        )

    def _open_send(self, rule: CommandRule, head: bytes) -> SendFrame:
        head, receipt = codec.cut_line(head, b"\nreceipt:")
        head, sequence = codec.cut_line(head, b"\nproducer-sequence:")
        settings = self._settings
        codec.check_raw(receipt, self.version, is_strict=self._is_strict)
        codec.check_raw(sequence, self.version, is_strict=self._is_strict)
        block = self.blocks.get(head)
        if block is None:
            block = mapping.header_block(
                head,
                self.version,
                body_bytes_max=settings.body_bytes_max,
                is_strict=self._is_strict,
            )
            states.check_mandatory(rule, block.headers, self.version)
            if len(head) <= settings.header_cache_block_bytes_max:
                self._keep_block(head, block)
        self.body_bytes = block.body_bytes
        return SendFrame(block, receipt, sequence, b"")

    def forget(self) -> None:
        """Keep no blocks."""
        self.blocks.clear()
        self.blocks_bytes = 0

    def _keep_block(self, head: bytes, block: HeaderBlock) -> None:
        settings = self._settings
        is_full = len(self.blocks) >= settings.header_cache_entries_max
        if is_full or self.blocks_bytes + block.cost_bytes > settings.header_cache_bytes_max:
            self.forget()
        self.blocks[head] = block
        self.blocks_bytes += block.cost_bytes

    def _open_acknowledge(self, rule: CommandRule, head: bytes) -> AcknowledgeFrame:
        is_old = self.version != "1.2"
        rest, receipt = codec.cut_line(head, b"\nreceipt:")
        rest, raw = codec.cut_line(rest, b"\nmessage-id:" if is_old else b"\nid:")
        block = None
        if raw is None or is_old or rest.count(b"\n") > 1:
            headers = self._parse_headers(rule, head)
            headers.pop("receipt", None)
            states.check_mandatory(rule, headers, self.version)
            self._expect_body(rule, headers)
            block = HeaderBlock(headers, b"")
        else:
            if b"\\" in head or not head.isascii():
                is_strict = self._is_strict
                codec.check_raw(receipt, self.version, is_strict=is_strict)
                codec.check_raw(raw, self.version, is_strict=is_strict)
            self.body_bytes = -1 if self.drops_bodies else 0
        # None only of a line without a colon: `check_mandatory` has seen the header.
        return AcknowledgeFrame(raw or b"", receipt, block, rule.name == "NACK")

    def _expect_body(self, rule: CommandRule, headers: dict[str, str]) -> None:
        """Find out how long the body is from headers that were decoded."""
        settings = self._settings
        if not rule.has_body and not self._is_strict:
            # As ActiveMQ has it: up to the NUL, whatever a content-length says.
            self.body_bytes = -1
            return
        length = codec.parse_length(headers, settings.body_bytes_max, is_strict=self._is_strict)
        if rule.has_body or self.drops_bodies:
            self.body_bytes = length
        elif length > 0:
            raise codec.body_not_allowed(rule.name)
        else:
            self.body_bytes = 0

    def readable_receipt(self, head: bytes) -> bytes | None:
        """Give the raw receipt of a frame, unless that is what is wrong with it."""
        receipt = codec.cut_line(head, b"\nreceipt:")[1]
        try:
            codec.check_raw(receipt, self.version, is_strict=self._is_strict)
        except RemoteProtocolError:
            return None
        return receipt
