"""
What a `discovery:` URI says of where brokers are found: addresses as they are, or a name in DNS.

    static:(stomp://a:61613,stomp://b:61613)
    dns:orders.example?ssl=true&caFile=ca.pem

Whether TLS is spoken, and whom certificates must name, is written here and never found. What other
brokers' clients know and we do not is refused by its name, with what to use.

Owned by nobody; pure.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from holdfast.client.address import (
    ADDRESS_OPTIONS,
    SCHEMES,
    STOMP_PORT,
    STOMP_TLS_PORT,
    TLS_OPTIONS,
    Address,
    parse_address,
    read_boolean,
    read_number,
    shown,
    with_option,
)
from holdfast.client.settings import TlsSettings
from holdfast.discovery.question import DNS_PORT, DnsQuestion


@dataclass(frozen=True, slots=True)
class DnsSource:
    """A name whose records in DNS tell where brokers are."""

    question: DnsQuestion
    template: Address
    """How to speak to whoever is found."""

    def __str__(self) -> str:
        """The source as a URI has it, without its options."""
        return f"dns:{self.question.name}"


Source: TypeAlias = "tuple[Address, ...] | DnsSource"

_BY_NAME_INSTEAD: Final = "use discovery:(dns:NAME), or list the nodes as discovery:(static:(...))"
_NOT_ANNOUNCED: Final = f"brokers do not announce themselves on a local network; {_BY_NAME_INSTEAD}"
_REFUSED: Final = {
    "mdns": _NOT_ANNOUNCED,
    "zeroconf": _NOT_ANNOUNCED,
    "rendezvous": _NOT_ANNOUNCED,
    "multicast": _NOT_ANNOUNCED,
    "http": f"there is no registry of brokers by HTTP; {_BY_NAME_INSTEAD}",
    "https": f"there is no registry of brokers by HTTP; {_BY_NAME_INSTEAD}",
    "ldap": f"brokers are not looked up in a directory; {_BY_NAME_INSTEAD}",
    "ldaps": f"brokers are not looked up in a directory; {_BY_NAME_INSTEAD}",
    "peer": "no broker is embedded in a client; use failover:(...) with the nodes of a cluster",
    "fanout": "a cluster keeps each message on several nodes by itself; use failover:(...)",
}
_DNS_OPTIONS: Final = ("ssl", "port", "nameserver", "trustedDomain")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*")
_NAME_OCTETS_MAX: Final = 253


def is_refused(text: str) -> bool:
    """Whether this is of a kind that other brokers' clients know and we do not."""
    return text.partition(":")[0].strip().lower() in _REFUSED


def unserved(text: str) -> str:
    """What to use instead."""
    scheme = text.partition(":")[0].strip().lower()
    return f"{shown(text)}: {scheme}: is not served: {_REFUSED[scheme]}"


def split_outside(text: str, mark: str) -> list[str]:
    """Split at each mark that is in no parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == mark and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def parse_sources(
    parts: Iterable[str], nested: list[tuple[str, str]], problems: list[str]
) -> tuple[Source, ...]:
    """
    Read the sources of a URI, in the order in which they are tried.

    Args:
        nested: Options of every address.
        problems: Where each mistake is added, a sentence each.
    """
    found: list[Source] = []
    for part in parts:
        scheme, _, rest = part.partition(":")
        kind = scheme.lower()
        if kind == "dns":
            source = _parse_dns(rest.removeprefix("//"), nested, problems)
            found += [] if source is None else [source]
        elif kind == "static":
            found.append(_parse_static(rest.removeprefix("//"), nested, problems))
        elif kind in SCHEMES:
            problems.append(f"{shown(part)}: write static:(ADDRESS,...) around addresses")
        elif is_refused(part):
            problems.append(unserved(part))
        else:
            problems.append(f"{shown(part)}: unknown source; known are dns:NAME and static:(...)")
    return tuple(dict.fromkeys(found))


def _parse_static(
    text: str, nested: list[tuple[str, str]], problems: list[str]
) -> tuple[Address, ...]:
    inside = text
    if text.startswith("("):
        inside, closing, after = text[1:].rpartition(")")
        if not closing or after:
            problems.append(
                f"static:{shown(text)}: nothing but addresses in parentheses may follow"
            )
            return ()
    parts = [part.strip() for part in inside.split(",") if part.strip()]
    if not parts:
        problems.append("static: no address between the parentheses")
    found = [parse_address(part, nested, problems) for part in parts]
    return tuple(dict.fromkeys(address for address in found if address is not None))


def _parse_dns(text: str, nested: list[tuple[str, str]], problems: list[str]) -> DnsSource | None:
    written, _, query = text.partition("?")
    options = parse_qsl(query, keep_blank_values=True)
    name = _read_name(f"dns:{shown(written)}", written, problems)
    if name is None:
        return None
    said = dict(options)
    is_secure = "ssl" in said and read_boolean("ssl", said["ssl"], problems)
    port = STOMP_TLS_PORT if is_secure else STOMP_PORT
    question = DnsQuestion(name=name, is_secure=is_secure, port=port)
    template = Address(name, port, TlsSettings() if is_secure else None)
    for option, value in [*nested, *(it for it in options if it[0] not in _DNS_OPTIONS)]:
        if option not in ADDRESS_OPTIONS:
            known = ", ".join((*_DNS_OPTIONS, *ADDRESS_OPTIONS))
            problems.append(f"option {option!r} of dns:{name} is unknown; known are: {known}")
        elif option in TLS_OPTIONS and not is_secure:
            problems.append(f"option {option!r} of dns:{name} needs ?ssl=true")
        else:
            template = with_option(template, option, value, problems)
    return DnsSource(_with_options(question, said, problems), template)


def _with_options(question: DnsQuestion, said: dict[str, str], problems: list[str]) -> DnsQuestion:
    place = f"dns:{question.name}"
    if "port" in said:
        if question.is_service:
            problems.append(f"option 'port' of {place}: SRV records tell the port themselves")
        port = read_number("port", said["port"], problems, minimum=1)
        if port > 65535:
            problems.append(f"option port={said['port']} of {place}: ports end at 65535")
        question = replace(question, port=int(port))
    if "trustedDomain" in said:
        if not question.is_secure:
            problems.append(f"option 'trustedDomain' of {place} needs ?ssl=true")
        option = f"option trustedDomain of {place}"
        domain = _read_name(option, said["trustedDomain"].removeprefix("."), problems)
        question = replace(question, trusted_domain=domain or "")
    if "nameserver" in said:
        host, port = _read_nameserver(place, said["nameserver"], problems)
        question = replace(question, nameserver=host, nameserver_port=port)
    return question


def _read_name(place: str, written: str, problems: list[str]) -> str | None:
    """A name as DNS has it; None, and why in `problems`, if it is none."""
    name = written.strip().removesuffix(".")
    if "@" in written or "/" in written or not name:
        problems.append(f"{place}: expected dns:NAME?option=value")
        return None
    if _is_address(name.strip("[]")):
        problems.append(f"{place}: this is an address and no name; use static:(stomp://HOST:PORT)")
        return None
    if ":" in name:
        problems.append(f"{place}: no port may follow the name; use ?port=PORT")
        return None
    try:
        name = name.encode("idna").decode()
    except UnicodeError as error:
        problems.append(f"{place} is no name: {error.__cause__ or error}")
        return None
    if not _NAME.fullmatch(name) or len(name) > _NAME_OCTETS_MAX:
        problems.append(
            f"{place} is no name: letters, digits, - and _ between dots, at most"
            f" {_NAME_OCTETS_MAX} in all"
        )
        return None
    return name


def _read_nameserver(place: str, written: str, problems: list[str]) -> tuple[str, int]:
    try:
        split = urlsplit(
            f"//[{written}]" if _is_address(written) and ":" in written else f"//{written}"
        )
        host, port = split.hostname or "", split.port
    except ValueError:
        host, port = "", None
    if not _is_address(host) or port == 0:
        problems.append(f"option nameserver={written} of {place}: expected ADDRESS or ADDRESS:PORT")
        return "", DNS_PORT
    return host, DNS_PORT if port is None else port


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
