"""
What a configuration lets others on the network read or do: no mistake, and worth a warning.

Told by `config check` and at each start, in the same words. A port that only this machine reaches
exposes nothing.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from holdfast.config.address import Address
from holdfast.config.node_settings import NodeSettings
from holdfast.config.relations import own_member


class Exposure(NamedTuple):
    """One thing that others can read or do."""

    setting: str
    value: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.setting}: {self.value}: {self.what}; {self.remedy}"


def exposures(
    settings: NodeSettings, *, takes_clear: bool, anonymous_role: str
) -> Iterator[Exposure]:
    """
    Give all there is, in the order in which the ports stand in the reference.

    Args:
        settings: The node's own.
        takes_clear: Whether passwords and tokens are taken in clear, see `plain_without_tls`.
        anonymous_role: What clients may that show nothing; empty: they are not let in.
    """
    admin = _from_outside([] if settings.admin_tls else [settings.admin])
    yield from _of_clients(settings, takes_clear=takes_clear, anonymous_role=anonymous_role)
    for address in admin:
        yield Exposure(
            "admin",
            str(address),
            "other machines reach the admin port in clear: what is asked and answered can be read"
            " and changed on the way",
            "let it go by TLS (admin_tls), or keep it on this machine",
        )
    if takes_clear and admin:
        yield _secrets_in_clear(admin[0])
    peers = [] if settings.peer_tls == "require" else _from_outside(_peers(settings))
    if peers:
        yield Exposure(
            "peers",
            str(peers[0]),
            "links between members may be in clear, and are authenticated at their start only",
            "keep the network between them to yourself, or give peer_tls = 'require'",
        )


def _of_clients(
    settings: NodeSettings, *, takes_clear: bool, anonymous_role: str
) -> Iterator[Exposure]:
    clear = [settings.stomp, *(it.address for it in settings.listen if not it.tls)]
    all_of_them = [*clear, *(it.address for it in settings.listen if it.tls)]
    for address in _from_outside(clear):
        yield Exposure(
            "stomp" if address is settings.stomp else "listen",
            str(address),
            "other machines reach a port of clients in clear: messages can be read and changed on"
            " the way",
            "let them come by TLS ([[listen]] with tls), and keep this port on this machine",
        )
        if takes_clear:
            yield _secrets_in_clear(address)
    open_to_all = _from_outside(all_of_them) if anonymous_role else []
    if open_to_all:
        yield Exposure(
            "anonymous_role",
            anonymous_role,
            f"whoever reaches {open_to_all[0]} is let in without showing anything, and may do"
            f" everything before there are users",
            "leave it out where that is not meant",
        )


def _secrets_in_clear(address: Address) -> Exposure:
    return Exposure(
        "plain_without_tls",
        "true",
        f"users' passwords and tokens can be read on their way to {address}",
        "let that port go by TLS, and leave this out",
    )


def _from_outside(addresses: list[Address]) -> list[Address]:
    """Those that other machines reach."""
    return [it for it in addresses if not it.is_loopback]


def _peers(settings: NodeSettings) -> list[Address]:
    """Where members are linked; of a file that does not say which one this is, any of them."""
    own = own_member(settings)
    if settings.peers is not None:
        return [settings.peers]
    if own is not None:
        return [own.address]
    return [it.address for it in settings.members]
