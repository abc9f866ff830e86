"""
Where to connect: `stomp://` and `stomp+ssl://`, `failover:(...)` and `discovery:(...)` URIs.

The failover options carry ActiveMQ's names, defaults and units (milliseconds), so that a URI can be
carried over. An option that ActiveMQ has and we do not is refused by its name, with what to do
instead, as is an unknown one: a URI that is silently half obeyed is found out on the worst day.

    failover:(stomp://a:61613,stomp+ssl://b:61614?caFile=ca.pem)?maxReconnectDelay=5000
    discovery:(dns:orders.example?ssl=true,static:(stomp+ssl://a:61614))?maxReconnectDelay=5000
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from holdfast.client.address import Address, parse_address, read_boolean, read_number, shown
from holdfast.client.discovered import (
    Source,
    is_refused,
    parse_sources,
    split_outside,
    unserved,
)
from holdfast.client.failover import FailoverOptions
from holdfast.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Target:
    """What a URI means: the addresses and, for a failover URI, how to move between them."""

    addresses: tuple[Address, ...]
    failover: FailoverOptions | None = None
    """None: one address and no reconnecting; a lost link is the application's to see."""

    sources: tuple[Source, ...] = ()
    """Where addresses are found, if they are not all written down: then `addresses` is empty."""


def parse_uri(uri: str) -> Target:
    """
    Read a URI of any of the forms above.

    Raises:
        ConfigError: With every mistake in it, one sentence each.
    """
    problems: list[str] = []
    text = uri.strip()
    if text.lower().startswith("failover:"):
        target = _parse_failover(text, problems)
    elif text.lower().startswith("discovery:"):
        target = _parse_discovery(text, problems)
    elif is_refused(text):
        problems.append(unserved(text))
        target = Target(())
    else:
        address = parse_address(text, [], problems)
        target = Target((address,) if address is not None else ())
    if problems:
        raise ConfigError(problems)
    return target


def _parse_failover(text: str, problems: list[str]) -> Target:
    inside, query = _split_list(text, problems)
    options, nested = _read_options(query, problems)
    parts = [part.strip() for part in inside.split(",") if part.strip()]
    if not parts and not problems:
        problems.append(f"{shown(text)}: no address between the parentheses")
    found = [parse_address(part, nested, problems) for part in parts]
    addresses = dict.fromkeys(address for address in found if address is not None)
    return Target(tuple(addresses), options)


def _parse_discovery(text: str, problems: list[str]) -> Target:
    inside, query = _split_list(text, problems)
    if not text.partition(":")[2].removeprefix("//").startswith("("):
        inside, query = _split_options(inside)
    options, nested = _read_options(query, problems)
    parts = [part.strip() for part in split_outside(inside, ",") if part.strip()]
    if not parts and not problems:
        problems.append(f"{shown(text)}: no source; expected discovery:(dns:NAME,static:(ADDRESS))")
    sources = parse_sources(parts, nested, problems)
    written = [source for source in sources if isinstance(source, tuple)]
    if len(written) == len(sources):
        # Nothing has to be found.
        return Target(tuple(dict.fromkeys(it for them in written for it in them)), options)
    return Target((), options, sources)


def _split_options(text: str) -> tuple[str, str]:
    """Of the short form with one source: it, with its own options, and those of failover."""
    source, *query = split_outside(text, "?")
    if not query:
        return source, ""
    own: list[str] = []
    others: list[str] = []
    for option in "?".join(query).split("&"):
        name = option.partition("=")[0]
        is_own = source.lower().startswith("dns:") and not _is_of_failover(name)
        (own if is_own else others).append(option)
    return source + ("?" + "&".join(own) if own else ""), "&".join(others)


def _is_of_failover(name: str) -> bool:
    tables = (_MILLISECONDS, _COUNTS, _FACTORS, _SWITCHES, _FIXED)
    return name.startswith("nested.") or any(name in table for table in tables)


def _read_options(query: str, problems: list[str]) -> tuple[FailoverOptions, list[tuple[str, str]]]:
    """The failover options, and those for every address."""
    options: dict[str, Any] = {}
    nested: list[tuple[str, str]] = []
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name.startswith("nested."):
            nested.append((name.removeprefix("nested."), value))
        else:
            _read_failover_option(name, value, options, problems)
    return FailoverOptions(**options), nested


def _split_list(text: str, problems: list[str]) -> tuple[str, str]:
    rest = text.partition(":")[2].removeprefix("//")
    if not rest.startswith("("):
        # ActiveMQ's short form `failover:stomp://a:61613`: the options then belong to the address.
        return rest, ""
    inside, closing, after = rest[1:].rpartition(")")
    if not closing:
        problems.append(f"{shown(text)}: the parenthesis is not closed")
        return "", ""
    if after and not after.startswith("?"):
        problems.append(
            f"{shown(text)}: expected `?option=value` after the parenthesis, found {shown(after)!r}"
        )
        after = ""
    return inside, after[1:]


_MILLISECONDS = {
    "initialReconnectDelay": ("initial_reconnect_seconds", 0),
    "maxReconnectDelay": ("reconnect_seconds_max", 0),
    "timeout": ("timeout_seconds", -1),
}
_COUNTS = {
    "maxReconnectAttempts": ("reconnect_attempts_max", -1),
    "startupMaxReconnectAttempts": ("startup_attempts_max", -1),
    "warnAfterReconnectAttempts": ("warn_after_attempts", -1),
}
_FACTORS = {
    "reconnectDelayExponent": "pause_factor",
    "backOffMultiplier": "pause_factor",
}
_SWITCHES = {
    "useExponentialBackOff": "is_exponential",
    "randomize": "is_randomized",
}
# What ActiveMQ has and we have not: the one value that is true of us, and what to do instead.
_FIXED = {
    "backup": ("false", "a follower takes over by itself; there is nothing to hold open"),
    "backupPoolSize": ("1", "there are no backup connections"),
    "priorityBackup": ("false", "only the leader accepts clients, so there is no choice to prefer"),
    "priorityURIs": ("", "only the leader accepts clients, so there is no choice to prefer"),
    "trackMessages": ("true", "everything unconfirmed is always tracked and resent"),
    "trackTransactionProducers": ("true", "transactions are always replayed"),
    "maxCacheSize": ("", "the limit is the client's setting unconfirmed_bytes_max"),
    "updateURIsSupported": ("false", "list every node's address in the URI, or use discovery:"),
    "updateURIsURL": ("", "list every node's address in the URI, or use discovery:"),
    "rebalanceUpdateURIs": ("false", "only the leader accepts clients, so there is no rebalancing"),
    "reconnectSupported": ("true", "for a connection that is not restored use a plain URI"),
}


def _read_failover_option(
    name: str, value: str, options: dict[str, Any], problems: list[str]
) -> None:
    if name in _MILLISECONDS:
        field, minimum = _MILLISECONDS[name]
        milliseconds = read_number(name, value, problems, minimum=minimum)
        options[field] = None if milliseconds < 0 else milliseconds / 1000
    elif name in _COUNTS:
        field, minimum = _COUNTS[name]
        options[field] = int(read_number(name, value, problems, minimum=minimum))
    elif name in _FACTORS:
        options[_FACTORS[name]] = read_number(name, value, problems, minimum=1, is_whole=False)
    elif name in _SWITCHES:
        options[_SWITCHES[name]] = read_boolean(name, value, problems)
    elif name in _FIXED:
        only, instead = _FIXED[name]
        if value.lower() != only or not only:
            problems.append(f"failover option {name}={value} is not implemented: {instead}")
    else:
        known = ", ".join(sorted({*_MILLISECONDS, *_COUNTS, *_FACTORS, *_SWITCHES}))
        problems.append(
            f"failover option {name!r} is unknown; known are: {known}, and nested.* for options"
            " of every address"
        )
