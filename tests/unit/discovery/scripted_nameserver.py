"""
A nameserver on loopback that answers what a test says, by UDP and TCP: also what no real one does.

It runs in a thread, as the one who asks blocks. Use it as a context manager.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Self

import dns.flags
import dns.message
import dns.rcode
import dns.rrset

Respond = Callable[[dns.message.Message], bytes]
UDP_BYTES_MAX = 512


@cache
def records_of(name: str, seconds: int, kind: str, *texts: str) -> dns.rrset.RRset:
    """A thousand of them take longer to read than one who asks waits where much is going on."""
    return dns.rrset.from_text(name, seconds, "IN", kind, *texts)


class ScriptedNameserver:
    """Answers by `records`, texts of records by name and kind; `respond` may be replaced."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], list[str]] = {}
        self.seconds = 60
        self.asked: list[tuple[str, str]] = []
        self.respond: Respond = self.by_records
        self.is_silent = False
        self._udp, self._tcp = both_on_one_port()
        self.port = self._udp.getsockname()[1]
        self._is_closed = False
        self._threads = [threading.Thread(target=it, daemon=True) for it in (self._run, self._take)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed = True
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wake:
            wake.sendto(b"", ("127.0.0.1", self.port))
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port)).close()
        for thread in self._threads:
            thread.join()
        self._udp.close()
        self._tcp.close()

    def by_records(self, query: dns.message.Message) -> bytes:
        """As a nameserver does; of a name that has other records only it says so."""
        (question,) = query.question
        name = question.name.to_text(omit_final_dot=True)
        kind = dns.rdatatype.to_text(question.rdtype)
        response = dns.message.make_response(query)
        found = self.records.get((name, kind))
        alias = self.records.get((name, "CNAME"))
        if found is not None:
            response.answer = [records_of(name + ".", self.seconds, kind, *found)]
        elif alias is not None:
            response.answer = [
                dns.rrset.from_text(name + ".", self.seconds, "IN", "CNAME", alias[0])
            ]
        elif not any(known == name for known, _ in self.records):
            response.set_rcode(dns.rcode.NXDOMAIN)
        return response.to_wire(max_size=65535)

    def _run(self) -> None:
        while True:
            data, sender = self._udp.recvfrom(4096)
            if self._is_closed:
                return
            answer = self._answer(data)
            if answer is not None:
                self._udp.sendto(answer if len(answer) <= UDP_BYTES_MAX else cut(data), sender)

    def _take(self) -> None:
        while True:
            connection, _ = self._tcp.accept()
            with connection:
                if self._is_closed:
                    return
                with suppress(OSError, struct.error):
                    (size,) = struct.unpack("!H", connection.recv(2))
                    answer = self._answer(connection.recv(size))
                    if answer is not None:
                        connection.sendall(struct.pack("!H", len(answer)) + answer)

    def _answer(self, data: bytes) -> bytes | None:
        query = dns.message.from_wire(data)
        (question,) = query.question
        self.asked.append(
            (question.name.to_text(omit_final_dot=True), dns.rdatatype.to_text(question.rdtype))
        )
        return None if self.is_silent else self.respond(query)


def both_on_one_port() -> tuple[socket.socket, socket.socket]:
    """A socket of UDP and one of TCP; a port that is free for one may not be for the other."""
    while True:
        tcp = socket.create_server(("127.0.0.1", 0))
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            udp.bind(tcp.getsockname())
        except OSError:
            udp.close()
            tcp.close()
        else:
            return udp, tcp


def cut(data: bytes) -> bytes:
    """An answer that says it did not fit: ask again by TCP."""
    response = dns.message.make_response(dns.message.from_wire(data))
    response.flags |= dns.flags.TC
    return response.to_wire()
