"""
The network of namespaces: each host has its own network stack; a switch of ours is between them.

Needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN) and TUN devices, no program and no kernel module for
traffic control: loss, delay, doubling and reordering are done to real IP packets by packet_switch,
always in the same way, and TCP retransmits, backs off and reorders as between machines.

Invariants:
    No namespace has a way to any other place than the switch: nothing leaves this machine.
    All namespaces are unnamed: they vanish with their processes and our descriptors.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from trials.chaos.control import CarrierControl
from trials.chaos.host_thread import HostThread
from trials.chaos.leftovers import end_marked, new_mark
from trials.chaos.namespaces import (
    enter_new_namespace,
    inside_namespace,
    open_tun,
)
from trials.chaos.network import OPERATOR, Counts, LinkTrouble, Network

MTU = 16_384
"""Large, so that packets are few; small enough that a window holds several."""


class SwitchNetwork(Network):
    """See the module and the contract in network.py."""

    kind = "namespaces"
    reason = ""

    def __init__(self, hosts: Sequence[str], seed: int = 0) -> None:
        """Raises NetworkUnavailableError."""
        self.hosts = tuple(hosts)
        self._mark = new_mark()
        self._addresses = {host: f"198.18.0.{10 + i}" for i, host in enumerate(hosts)}
        self._namespaces: dict[str, int] = {}
        self._threads: dict[str, HostThread] = {}
        self._devices: dict[str, int] = {}
        self._control: CarrierControl | None = None
        try:
            for host in hosts:
                self._add_host(host)
            settings = {"devices": self._devices, "addresses": self._addresses, "seed": seed}
            self._control = CarrierControl(
                "trials.chaos.packet_switch",
                self._mark,
                settings,
                pass_fds=list(self._devices.values()),
            )
        except BaseException:
            self.close()
            raise
        finally:
            self._close_devices()

    def address(self, host: str) -> str:
        return self._addresses[host]

    def listen_address(self, host: str) -> str:
        return self._addresses[host]

    def spawn(self, host: str, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        return self._threads[host].spawn(command, **options)

    def inside(self, host: str) -> AbstractContextManager[None]:
        return inside_namespace(self._namespaces[host])

    def trouble(self, source: str, target: str, trouble: LinkTrouble) -> None:
        if OPERATOR in (source, target):
            raise ValueError("the operator's links are never troubled")
        self._carrier.trouble(source, target, trouble)

    def heal(self) -> None:
        self._carrier.ask(do="heal")

    def counts(self) -> Counts:
        return self._carrier.counts()

    def close(self) -> None:
        """End every program on every host, and all namespaces with them. Twice is fine."""
        for thread in self._threads.values():
            thread.close()
        self._threads.clear()
        if self._control is not None:
            self._control.close()
            self._control = None
        end_marked(self._mark)
        for descriptor in self._namespaces.values():
            os.close(descriptor)
        self._namespaces.clear()

    @property
    def _carrier(self) -> CarrierControl:
        assert self._control is not None, "the network is closed"
        return self._control

    def _add_host(self, host: str) -> None:
        maker = HostThread(host, f"{self._mark}:{host}", lambda: None)
        self._threads[host] = maker
        self._namespaces[host] = maker.run(enter_new_namespace)
        self._devices[host] = maker.run(lambda: open_tun(self._addresses[host], MTU))

    def _close_devices(self) -> None:
        for descriptor in self._devices.values():
            os.close(descriptor)
        self._devices.clear()
