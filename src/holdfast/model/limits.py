"""
Sizes and protocol maxima, each named once, with its unit.

A limit that a user may change stands in a settings class; what stands here is fixed by a format.
"""

from __future__ import annotations

from typing import Final

KiB: Final = 1024
MiB: Final = 1024 * KiB
GiB: Final = 1024 * MiB

MESSAGE_BODY_BYTES_MAX: Final = 64 * MiB
"""The largest body of one message; an entry of the log must hold it whole."""

QUEUE_NAME_BYTES_MAX: Final = 1024
"""The longest name of a destination, in UTF-8 bytes."""

CLIENT_NAME_BYTES_MAX: Final = 1024
"""The longest id of a subscription and name of a transaction, in UTF-8 bytes."""

PRODUCER_ID_BYTES_MAX: Final = 255
"""The longest producer id, in UTF-8 bytes."""

REDELIVERY_COUNT_MAX: Final = 0xFFFF
"""A redelivery count stops growing here."""
