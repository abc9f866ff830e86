"""
The network of proxies: hosts are loopback addresses, a forwarder stands before each of their ports.

Needs no rights at all. The programs of a host bind one address, the others dial another, where the
forwarder listens; it knows who dialed and troubles the two directions of each connection apart.

What it cannot show: a connection is taken by the forwarder even where the network is cut or nobody
listens (then it says nothing, or is closed at once, where it would time out or be refused); a lost
or late packet is a stall of the connection, a doubled one is not seen, and nothing is reordered
within one connection; after a heal, bytes flow at once instead of after TCP's back-off.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from trials.chaos.control import CarrierControl
from trials.chaos.host_thread import HostThread
from trials.chaos.leftovers import new_mark
from trials.chaos.network import (
    OPERATOR,
    Counts,
    LinkTrouble,
    Network,
    NetworkUnavailableError,
)

_ATTEMPTS = 10


class ProxyNetwork(Network):
    """See the module and the contract in network.py."""

    kind = "proxies"

    def __init__(
        self, hosts: Sequence[str], ports: Sequence[int], seed: int = 0, reason: str = ""
    ) -> None:
        """Raises NetworkUnavailableError: No loopback addresses are free."""
        self.hosts = tuple(hosts)
        self.reason = reason
        self._mark = new_mark()
        self._threads = {host: HostThread(host, f"{self._mark}:{host}", _stay) for host in hosts}
        try:
            self._control = self._start(list(ports), seed)
        except BaseException:
            self._end_programs()
            raise

    def address(self, host: str) -> str:
        return self._addresses[host]

    def listen_address(self, host: str) -> str:
        return self._listen_addresses[host]

    def spawn(self, host: str, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        return self._threads[host].spawn(command, **options)

    def inside(self, host: str) -> AbstractContextManager[None]:
        """
        The operator is whoever runs on no host, so there is nothing to enter.

        Raises:
            ValueError: Another host was asked for: its sockets belong to its processes only.
        """
        if host != OPERATOR:
            raise ValueError(f"over proxies only a process of {host} can dial from {host}")
        return nullcontext()

    def trouble(self, source: str, target: str, trouble: LinkTrouble) -> None:
        if OPERATOR in (source, target):
            raise ValueError("the operator's links are never troubled")
        self._control.trouble(source, target, trouble)

    def heal(self) -> None:
        self._control.ask(do="heal")

    def counts(self) -> Counts:
        return self._control.counts()

    def close(self) -> None:
        """End every program on every host, and the forwarder. Twice is fine."""
        self._end_programs()
        self._control.close()

    def _start(self, ports: list[int], seed: int) -> CarrierControl:
        """Take loopback addresses that nobody has: another run may have some."""
        for attempt in range(_ATTEMPTS):
            # Not drawn from the seed: two runs of one seed must not collide.
            draw = random.SystemRandom()
            prefix = f"127.{draw.randrange(16, 250)}.{draw.randrange(1, 250)}"
            self._addresses = {host: f"{prefix}.{10 + i}" for i, host in enumerate(self.hosts)}
            self._listen_addresses = {
                host: f"{prefix}.{110 + i}" for i, host in enumerate(self.hosts)
            }
            settings = {
                "addresses": self._addresses,
                "listen_addresses": self._listen_addresses,
                "ports": ports,
                "seed": seed,
            }
            try:
                return CarrierControl("trials.chaos.byte_forwarder", self._mark, settings)
            except NetworkUnavailableError:
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def _end_programs(self) -> None:
        for thread in self._threads.values():
            thread.close()


def _stay() -> None:
    """This process's network is every host's."""
