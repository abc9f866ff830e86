"""Two sides joined by a pipe in memory: no sockets, and timers that nobody waits for."""

from __future__ import annotations

import asyncio

from holdfast.replication.formation import Refusal
from holdfast.replication.messages import Hello
from holdfast.replication.peer_link import PeerLink
from holdfast.replication.peer_links import PeerLinks
from holdfast.replication.settings import LinkSettings
from trials.simulation.simulated_group import SeededRandomness


class Pipe(asyncio.Transport):
    """One end of a connection in memory; what is written arrives when its writer is done."""

    def __init__(self) -> None:
        super().__init__()
        self.arriving: list[bytes] = []
        self.is_reading = False
        self.protocol: PeerLink
        self.other: Pipe
        self.is_lost = False
        self.is_flowing = True
        self.is_ending = False
        self.unsent = 0
        self.host = "somewhere"
        self.written: list[bytes] = []

    def write(self, data) -> None:
        self.written.append(bytes(data))
        self.other.arriving.append(bytes(data))
        self.other.read()

    def read(self) -> None:
        if self.is_reading or self.other.is_reading:
            return
        end = self if self.arriving else self.other
        while end.arriving:
            end.is_reading = True
            if not end.is_lost:
                end.protocol.data_received(end.arriving.pop(0))
            else:
                end.arriving.clear()
            end.is_reading = False
            end = end if end.arriving else end.other

    def pause_reading(self) -> None:
        self.is_flowing = False

    def resume_reading(self) -> None:
        self.is_flowing = True

    def is_closing(self) -> bool:
        return self.is_ending

    def writelines(self, list_of_data) -> None:
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def get_extra_info(self, name, default=None):
        return (self.host, 4711)

    def close(self) -> None:
        # What was written before is still delivered.
        while self.other.arriving and not self.other.is_lost:
            self.other.protocol.data_received(self.other.arriving.pop(0))
        self.lose(None)

    def abort(self) -> None:
        self.lose(None)

    def lose(self, error) -> None:
        for end in (self, self.other):
            if not end.is_lost:
                end.is_lost = True
                end.protocol.connection_lost(error)


class Owner:
    """What the driver would be told."""

    def __init__(self, name: str, instance: str = "1") -> None:
        self.hello = Hello(name, name.encode().hex().ljust(32, "0"), instance=instance)
        self.told = []
        self.moved = []
        self.refusal: Refusal | None = None

    def judge(self, hello):
        return self.refusal

    def link_up(self, peer, hello):
        self.told.append(("up", peer))

    def link_down(self, peer, *, closed):
        self.told.append(("down", peer, closed))

    def refused(self, peer, refusal):
        self.told.append(("refused", peer, refusal.reason, refusal.is_fenced))

    def moving(self, peer, *, has_entries):
        self.moved.append((peer, "entries") if has_entries else peer)

    def receive(self, peer, message):
        self.told.append((peer, message))


class Side:
    """One node's links and whom they serve."""

    def __init__(self, name: str, secret: bytes = b"s", **settings) -> None:
        self.owner = Owner(name)
        self.turns = 0
        self.links = PeerLinks(
            secret=secret,
            randomness=SeededRandomness(ord(name)),
            settings=LinkSettings(**settings),
        )
        self.links.attach(self.owner, self.wake)
        self.links._is_started = True

    def wake(self) -> None:
        self.turns += 1


def dangling(link: PeerLink, host: str = "somewhere") -> Pipe:
    """Connect a link to nobody."""
    pipe, nobody = Pipe(), Pipe()
    pipe.host = host
    pipe.protocol, pipe.other, nobody.other = link, nobody, pipe
    nobody.is_lost = True
    link.connection_made(pipe)
    return pipe


def join(dialer: Side, acceptor: Side) -> tuple[PeerLink, PeerLink]:
    """Let one side dial the other."""
    ends = Pipe(), Pipe()
    here = PeerLink(dialer.links, acceptor.owner.hello.name)
    there = PeerLink(acceptor.links, "")
    for end, other, link in ((ends[0], ends[1], here), (ends[1], ends[0], there)):
        end.protocol, end.other = link, other
    here.connection_made(ends[0])
    there.connection_made(ends[1])
    return here, there


def run(scenario) -> None:
    """Run a scenario in an event loop whose timers nobody waits for."""

    async def main() -> None:
        scenario()

    asyncio.run(main())
