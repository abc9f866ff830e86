"""
What a client may be told: timings and limits, with their units.

Every buffer has a limit here, so that a program that sends faster than the broker stores, or reads
slower than the broker delivers, waits instead of growing. What a failover URI says
(`failover.FailoverOptions`) is kept apart: those names and defaults are ActiveMQ's.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from holdfast.errors import ConfigError
from holdfast.model.limits import MiB
from holdfast.transport.client_tls import client_context


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """How a `stomp+ssl` address is secured; a path left out means the system's default."""

    ca_file: str | None = None
    """Certificates of the authorities we believe, PEM. None means those of the system."""

    certificate_file: str | None = None
    """Our own certificate, PEM, for a broker that wants to know its clients."""

    key_file: str | None = None
    """The key of `certificate_file`, PEM. None means that the key is in the same file."""

    verify_host_name: bool = True
    """Whether the broker's certificate must name the host we connected to."""

    context: ssl.SSLContext | None = None
    """A ready context, which goes before all the others."""

    def build_context(self) -> ssl.SSLContext:
        """
        The stdlib context these settings describe.

        Raises:
            ConfigError: A file cannot be read or is no PEM.
        """
        if self.context is not None:
            return self.context
        files = (it or "" for it in (self.ca_file, self.certificate_file, self.key_file))
        return client_context(*files, is_host_checked=self.verify_host_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Timings and limits of one connection. Every field may be given to `connect` by its name."""

    login: str | None = None
    """The user's name."""

    passcode: str | None = field(default=None, repr=False)
    """The user's password, or a token."""

    plain_without_tls: bool = False
    """Whether the passcode is sent in clear to another machine, too: whoever is on the way can read
    it. `plainWithoutTls` in a URI overrides."""

    client_id: str | None = None
    """A name that outlives the connection; durable subscriptions need it."""

    carries_headers: bool = False
    """The messages sent are copies: headers such as `priority` and `expires` are stored as they are
    and nothing is done about them. Else a broker refuses what it would have to ignore."""

    marks_repeats: bool = False
    """What is sent again after a lost link, and has no number by which the broker knows it, says
    `possible-duplicate:true`: it may have been stored before."""

    host: str | None = None
    """The STOMP `host` header. None means the host of the address."""

    tls: TlsSettings = TlsSettings()
    """For `stomp+ssl` addresses; options in an address go before these."""

    connect_seconds_max: float = 5.0
    """From opening the socket to CONNECTED, per address; `connectionTimeout` in a URI overrides."""

    heart_beat_send_seconds: float = 10.0
    """We promise a sign of life this often. 0 promises nothing."""

    heart_beat_receive_seconds: float = 10.0
    """We want one this often, and give a silent broker up. 0 wants none."""

    close_seconds_max: float = 5.0
    """How long closing waits for the broker's receipt of DISCONNECT, leaving a subscription for
    that of UNSUBSCRIBE, and closing in an outage for who takes the last acknowledgements."""

    unconfirmed_bytes_max: int = 64 * MiB
    """What was sent and not confirmed, over all producers; more waits. One message always fits."""

    concurrent_sends_count_max: int = 64
    """Most `connection.send` and commits under way at once; further ones wait for a place."""

    transaction_bytes_max: int = 64 * MiB
    """What one transaction may send."""

    prefetch_count: int = 1000
    """Most messages delivered to a subscription and not acknowledged."""

    received_bytes_max: int = 64 * MiB
    """What is delivered and not yet taken, in memory. Above it the socket is not read. While a
    receipt is awaited it is, for a program must not wait for a receipt that stands behind its own
    unread messages: what comes with it lies in files (of the system's folder for temporary ones,
    without a name) until it is taken. `prefetch` bounds those."""

    settled_receipt_every_count: int = 100
    """Every so many acknowledgements one asks for a receipt; those before it are then certain."""

    eager_reconnect_seconds: float = 30.0
    """So long after an interruption the pauses between passes stay short (see next)."""

    eager_reconnect_pause_seconds_max: float = 0.1
    """The longest pause while eager; an election takes less than a second, so a pause grown to
    many would be most of the outage. `initialReconnectDelay` and `maxReconnectDelay` still hold."""

    broker_faults_count_max: int = 3
    """So many connections in a row ended by a protocol ERROR, with nothing confirmed in between,
    end the attempts: resending what the broker cannot read would go on for ever."""

    events_count_max: int = 1000
    """Interruptions and the like kept for a reader of `connection.events()`; the oldest go."""


def settings_from_options(options: Mapping[str, Any]) -> ClientSettings:
    """
    Settings from keyword options, every mistake reported at once.

    Raises:
        ConfigError: An option is unknown or out of its range.
    """
    known = {item.name for item in fields(ClientSettings)}
    problems = [
        f"option {name!r} is unknown; known are: {', '.join(sorted(known))}"
        for name in options
        if name not in known
    ]
    if problems:
        raise ConfigError(problems)
    settings = ClientSettings(**options)
    problems = [
        f"option {name!r} is {getattr(settings, name)}; it must be more than 0"
        for name in _ABOVE_ZERO
        if not getattr(settings, name) > 0
    ]
    problems += [
        f"option {name!r} is {getattr(settings, name)}; it must be 0 or more"
        for name in _NOT_NEGATIVE
        if not getattr(settings, name) >= 0
    ]
    if problems:
        raise ConfigError(problems)
    return settings


_ABOVE_ZERO = (
    "connect_seconds_max",
    "close_seconds_max",
    "unconfirmed_bytes_max",
    "concurrent_sends_count_max",
    "transaction_bytes_max",
    "prefetch_count",
    "received_bytes_max",
    "settled_receipt_every_count",
    "broker_faults_count_max",
    "events_count_max",
)
_NOT_NEGATIVE = (
    "heart_beat_send_seconds",
    "heart_beat_receive_seconds",
    "eager_reconnect_seconds",
    "eager_reconnect_pause_seconds_max",
)
