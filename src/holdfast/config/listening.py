"""
The ports of clients beside the first one: `[[listen]]` in the file, `--listen` on the command line.

    [[listen]]
    address = "0.0.0.0:61614"
    protocols = ["stomp"]
    tls = "outside"

The same as a text: `0.0.0.0:61614,tls=outside`. What `tls` names stands in a table of the file, see
`tls`; whether it does is a matter of `relations`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from holdfast.config.address import Address, require_text
from holdfast.config.members import check_name

PROTOCOLS: Final = ("stomp",)
"""What may be spoken on such a port."""

PORTS_MAX: Final = 16
_KEYS: Final = {"address", "protocols", "tls"}
_FORM: Final = "HOST:PORT[,stomp][,tls=NAME]"


@dataclass(frozen=True, slots=True)
class ListenConfig:
    """One port of clients."""

    address: Address
    protocols: tuple[str, ...] = PROTOCOLS
    tls: str = ""
    """The table `[tls.NAME]` it goes by; empty: it is in clear."""

    def __str__(self) -> str:
        tls = f",tls={self.tls}" if self.tls else ""
        return ",".join((str(self.address), *self.protocols)) + tls


def read_ports(value: object) -> object:
    """Read ports from flags (a list of texts), the environment (one text) or TOML (tables)."""
    if isinstance(value, str):
        value = value.split()
    if isinstance(value, Mapping) or not isinstance(value, Iterable):
        raise ValueError("is a list: write [[listen]] before each port's keys")
    ports = tuple(_read(item) for item in value)
    if len(ports) > PORTS_MAX:
        raise ValueError(f"{len(ports)} ports; allowed: at most {PORTS_MAX}")
    return ports


def _read(item: object) -> object:
    if isinstance(item, str):
        return _from_text(item)
    return _from_table(item) if isinstance(item, Mapping) else item


def _from_text(text: str) -> ListenConfig:
    address, *options = (part.strip() for part in text.split(","))
    table: dict[str, Any] = {"address": address}
    for option in options:
        if option.startswith("tls="):
            table["tls"] = option.removeprefix("tls=")
        elif option in PROTOCOLS:
            table.setdefault("protocols", []).append(option)
        else:
            raise ValueError(f"{option!r} in {text!r}: a port is written {_FORM}")
    return _from_table(table)


def _from_table(table: Mapping[str, Any]) -> ListenConfig:
    if unknown := sorted(set(table) - _KEYS):
        raise ValueError(f"unknown key {unknown[0]!r}: a port has address, protocols and tls")
    if "address" not in table:
        raise ValueError("a port without an address: give address = 'HOST:PORT'")
    protocols = table.get("protocols", list(PROTOCOLS))
    if not isinstance(protocols, list) or not protocols:
        raise ValueError(f"protocols {protocols!r}: give a list of {', '.join(PROTOCOLS)}")
    for protocol in protocols:
        if protocol not in PROTOCOLS:
            raise ValueError(f"protocol {protocol!r}: allowed are {', '.join(PROTOCOLS)}")
    tls = check_name(table["tls"]) if "tls" in table else ""
    address = Address.parse(require_text(table["address"]))
    return ListenConfig(address, tuple(dict.fromkeys(protocols)), tls)
