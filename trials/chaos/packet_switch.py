"""
The switch between the hosts' namespaces: carries IP packets, each by the trouble of its link.

A process of its own with one thread. It reads packets from the hosts' TUN devices, looks at the
address each is for, and writes it to that host's device at once, later, twice or never. TCP in the
hosts' kernels notices as it would on a real network.

Invariants:
    A link without trouble adds no delay, and keeps the order.
    A packet that is under way when its link is cut is lost, as one on a cut cable.
    What waits is bounded: DELAYED_BYTES_MAX, then the newest are lost.
"""

from __future__ import annotations

import heapq
import json
import os
import random
import select
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from trials.chaos.control import LinkTable, cut_lines, encode_line, take_precedence
from trials.chaos.leftovers import end_marked
from trials.chaos.network import NO_TROUBLE, LinkState

DELAYED_BYTES_MAX = 256 * 1024 * 1024
_PACKET_BYTES_MAX = 65_536
_TCP_HEADER_BYTES = 20
_TCP_RESET, _TCP_ACKNOWLEDGES = 0x04, 0x10
_BURST = 32
"""Packets taken from one host before the next has its turn."""


class PacketSwitch:
    """
    Decides when which packet arrives where; its caller reads, writes and tells the time.

    `write(host, packet)` is called for each arrival; false if the host had no room for it.
    """

    def __init__(
        self,
        addresses: dict[str, str],
        write: Callable[[str, bytes], bool],
        randomness: random.Random,
    ) -> None:
        self.table = LinkTable(addresses)
        self._write = write
        self._randomness = randomness
        self._heap: list[tuple[float, int, LinkState, bytes]] = []
        self._sequence = 0
        self._delayed_bytes = 0
        packed = {name: socket.inet_aton(address) for name, address in addresses.items()}
        self._links = {
            source: {
                packed[target]: link
                for (one, target), link in self.table.links.items()
                if one == source
            }
            for source in addresses
        }

    def carry(self, source: str, packet: bytes, now: float) -> None:
        """Take one packet that a host sent."""
        link = self._links[source].get(packet[16:20])
        if link is None:
            return  # a broadcast, or nobody's address
        counts = link.counts
        if link.trouble is NO_TROUBLE:
            self._deliver(link, packet)
            return
        if link.trouble.is_reset:
            reset = reset_of(packet)
            counts.dropped += 1
            if reset is not None:
                self._deliver(link, reset)
            return
        arrivals = link.trouble.arrivals(self._randomness)
        if not arrivals:
            counts.dropped += 1
            return
        counts.duplicated += len(arrivals) - 1
        for delay in arrivals:
            if delay <= 0:
                self._deliver(link, packet)
            else:
                self._postpone(link, packet, now, delay)

    def deliver_due(self, now: float) -> None:
        """Deliver what was delayed until now."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            _, _, link, packet = heapq.heappop(heap)
            self._delayed_bytes -= len(packet)
            if link.trouble.is_cut:
                link.counts.dropped += 1
            else:
                self._deliver(link, packet)

    @property
    def due(self) -> float | None:
        """When the next delayed packet is due; None if there is none."""
        return self._heap[0][0] if self._heap else None

    def _deliver(self, link: LinkState, packet: bytes) -> None:
        counts = link.counts
        if self._write(link.target, packet):
            counts.packets += 1
            counts.bytes += len(packet)
        else:
            counts.dropped += 1

    def _postpone(self, link: LinkState, packet: bytes, now: float, delay: float) -> None:
        counts = link.counts
        if self._delayed_bytes + len(packet) > DELAYED_BYTES_MAX:
            counts.dropped += 1
            return
        counts.delayed += 1
        counts.late += delay > link.trouble.delay_seconds[1]
        self._sequence += 1
        self._delayed_bytes += len(packet)
        heapq.heappush(self._heap, (now + delay, self._sequence, link, packet))


def reset_of(packet: bytes) -> bytes | None:
    """Give the reset that a firewall would send in the place of an IPv4 packet; None if not TCP."""
    start = (packet[0] & 15) * 4
    end = start + _TCP_HEADER_BYTES
    if packet[9] != socket.IPPROTO_TCP or len(packet) < end:
        return None
    ip = bytearray(packet[:start])
    ip[2:4] = end.to_bytes(2, "big")
    ip[10:12] = bytes(2)
    ip[10:12] = _checksum(ip)
    tcp = bytearray(packet[start:end])
    tcp[12] = _TCP_HEADER_BYTES // 4 << 4
    tcp[13] = _TCP_RESET | _TCP_ACKNOWLEDGES
    tcp[16:20] = bytes(4)
    pseudo = packet[12:20] + bytes((0, socket.IPPROTO_TCP, 0, _TCP_HEADER_BYTES))
    tcp[16:18] = _checksum(pseudo + tcp)
    return bytes(ip + tcp)


def _checksum(data: bytes | bytearray) -> bytes:
    """The ones' complement sum of 16-bit words, as IP and TCP want it (RFC 1071)."""
    total = sum(int.from_bytes(data[place : place + 2], "big") for place in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return (~total & 0xFFFF).to_bytes(2, "big")


class SwitchLoop:
    """The process around the switch: waits for packets, orders and the next due time."""

    def __init__(self, control: socket.socket, settings: dict[str, Any]) -> None:
        self._control = control
        self._buffer = bytearray()
        self._devices: dict[str, int] = settings["devices"]
        randomness = random.Random(settings["seed"])  # noqa: S311 - to repeat
        self._switch = PacketSwitch(settings["addresses"], self._write, randomness)

    def run(self) -> None:
        """Carry packets until the runner closes its side; then end what it left."""
        poll = select.epoll()
        for device in self._devices.values():
            poll.register(device, select.EPOLLIN)
        poll.register(self._control.fileno(), select.EPOLLIN)
        hosts = {device: host for host, device in self._devices.items()}
        switch = self._switch
        self._control.sendall(encode_line({}))
        while True:
            due = switch.due
            wait = None if due is None else max(0.0, due - time.monotonic())
            for descriptor, _ in poll.poll(wait):
                host = hosts.get(descriptor)
                if host is not None:
                    self._read(host, descriptor)
                elif not self._obey():
                    return
            if switch.due is not None:
                switch.deliver_due(time.monotonic())

    def _read(self, host: str, device: int) -> None:
        carry = self._switch.carry
        now = time.monotonic()
        try:
            for _ in range(_BURST):
                carry(host, os.read(device, _PACKET_BYTES_MAX), now)
        except BlockingIOError:
            return

    def _write(self, host: str, packet: bytes) -> bool:
        try:
            os.write(self._devices[host], packet)
        except OSError:
            return False  # no room in the host's kernel: lost, and sent again by TCP
        return True

    def _obey(self) -> bool:
        received = self._control.recv(65_536)
        if not received:
            return False
        self._buffer += received
        for order in cut_lines(self._buffer):
            try:
                answer = self._switch.table.obey(order)
            except (ValueError, KeyError, TypeError) as error:
                answer = {"problem": f"{type(error).__name__}: {error}"}
            self._control.sendall(encode_line(answer))
        return True


def main() -> None:
    """Serve as the switch of one network."""
    take_precedence()
    control = socket.socket(fileno=int(sys.argv[1]))
    settings = json.loads(sys.argv[2])
    try:
        SwitchLoop(control, settings).run()
    finally:
        end_marked(settings["mark"])


if __name__ == "__main__":
    main()
