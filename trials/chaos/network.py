"""
A network between named hosts whose links can be troubled one by one, in each direction.

Two kinds keep one contract. "namespaces" (root) gives each host its own network stack, and a switch
of ours carries its packets: what TCP then does about a lost one is the kernel's own doing.
"proxies" (anybody) gives each host loopback addresses, and a forwarder carries the bytes of each
connection. See switch_network.py and proxy_network.py for what each can show.

Invariants:
    A trouble is in force when `trouble` returns, and gone when `heal` returns.
    Nothing leaves this machine, and nothing outlives the network or the process that opened it.
"""

from __future__ import annotations

import logging
import random
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

logger = logging.getLogger("trials")

STOMP_PORT, ADMIN_PORT, PEER_PORT = 61613, 8161, 61616
PORTS = (STOMP_PORT, ADMIN_PORT, PEER_PORT)
"""Where every node listens on its own host."""

CLIENT, OPERATOR = "client", "operator"
LATE_SECONDS = 30.0
STALL_SECONDS = (0.2, 1.0)
KINDS = ("namespaces", "proxies")


class NetworkUnavailableError(RuntimeError):
    """This kind of network cannot be made here; the sentence says why."""


@dataclass(frozen=True, slots=True)
class LinkTrouble:
    """What is wrong with one directed link; the default is nothing."""

    is_cut: bool = False
    delay_seconds: tuple[float, float] = (0.0, 0.0)
    """Shortest and longest; drawn for each packet, so that a wide range also reorders."""
    loss: float = 0.0
    """The share of packets that never arrive."""
    duplicate: float = 0.0
    """The share of packets that arrive twice."""
    late: float = 0.0
    """The share of packets that arrive LATE_SECONDS later."""
    is_reset: bool = False
    """What arrives of each TCP packet is a reset in the source's name, of which that knows nothing;
    between namespaces only."""

    def __post_init__(self) -> None:
        shortest, longest = self.delay_seconds
        if not 0 <= shortest <= longest:
            raise ValueError(f"a delay from {shortest} s to {longest} s makes no sense")
        for share in (self.loss, self.duplicate, self.late):
            if not 0 <= share <= 1:
                raise ValueError(f"{share} is no share: it must lie between 0 and 1")

    @property
    def is_none(self) -> bool:
        """Whether nothing is wrong."""
        return self == NO_TROUBLE

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> LinkTrouble:
        """Make it from what `to_json` gave."""
        shortest, longest = fields.get("delay_seconds", (0.0, 0.0))
        return cls(**fields | {"delay_seconds": (float(shortest), float(longest))})

    def arrivals(self, randomness: random.Random) -> list[float]:
        """After how many seconds each copy of the next packet arrives; empty if it is lost."""
        if self.is_cut or randomness.random() < self.loss:
            return []
        copies = 2 if randomness.random() < self.duplicate else 1
        shortest, longest = self.delay_seconds
        arrivals = [randomness.uniform(shortest, longest) for _ in range(copies)]
        if randomness.random() < self.late:
            arrivals[0] += LATE_SECONDS
        return arrivals

    def stream_delay(self, randomness: random.Random) -> float:
        """
        For how many seconds the next bytes of a connection are held.

        Connections know no packets: a lost or late one is what the retransmission costs, a stall of
        STALL_SECONDS; of a doubled one nothing is seen.
        """
        shortest, longest = self.delay_seconds
        delay = randomness.uniform(shortest, longest)
        if randomness.random() < 1 - (1 - self.loss) * (1 - self.late):
            delay += randomness.uniform(*STALL_SECONDS)
        return delay


NO_TROUBLE = LinkTrouble()
CUT = LinkTrouble(is_cut=True)
RESET = LinkTrouble(is_reset=True)


@dataclass(slots=True)
class LinkCounts:
    """What one directed link carried; in the proxies' network a packet is one read of a socket."""

    packets: int = 0
    bytes: int = 0
    dropped: int = 0
    """Packets lost, by loss or because the link was cut; reads that a cut held, over proxies."""
    delayed: int = 0
    duplicated: int = 0
    late: int = 0


Counts = dict[tuple[str, str], LinkCounts]
"""By (source, target)."""


@dataclass(slots=True)
class LinkState:
    """One directed link as the switch or a forwarder sees it."""

    source: str
    target: str
    trouble: LinkTrouble = NO_TROUBLE
    counts: LinkCounts = field(default_factory=LinkCounts)


class Network(Protocol):
    """Hosts, and what can happen between them. Safe to use from several threads."""

    kind: str
    """"namespaces" or "proxies"."""
    hosts: tuple[str, ...]
    reason: str
    """Why it is not the other kind; empty if that was asked for."""

    def address(self, host: str) -> str:
        """Where the others reach this host."""
        ...

    def listen_address(self, host: str) -> str:
        """What a program on this host binds; the operator reaches it there past all trouble."""
        ...

    def spawn(self, host: str, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """
        Start a program on this host; `options` are those of Popen.

        It is killed when the network is closed and when the process that opened it dies, however
        that happens.
        """
        ...

    def inside(self, host: str) -> AbstractContextManager[None]:
        """Sockets that the calling thread makes within the block belong to this host."""
        ...

    def trouble(self, source: str, target: str, trouble: LinkTrouble) -> None:
        """Let this be wrong, and nothing else, with what the source sends to the target."""
        ...

    def heal(self) -> None:
        """End all trouble; what is still under way arrives when it is due."""
        ...

    def counts(self) -> Counts:
        """What each directed link has carried, lost and delayed since the start."""
        ...


def cut(
    network: Network, ones: Iterable[str], others: Iterable[str], *, both_ways: bool = True
) -> None:
    """Let nothing through from the one hosts to the others (and back, unless told otherwise)."""
    others = list(others)
    for one in ones:
        for other in others:
            if one != other:
                network.trouble(one, other, CUT)
                if both_ways:
                    network.trouble(other, one, CUT)


@contextmanager
def open_network(
    hosts: Sequence[str],
    *,
    prefer: str | None = None,
    ports: Sequence[int] = PORTS,
    seed: int = 0,
) -> Iterator[Network]:
    """
    Open a network with these hosts, and the client and the operator besides.

    Args:
        hosts: Their names.
        prefer: "namespaces" or "proxies": this kind or none. Without it namespaces where the
            kernel and our rights allow it, else proxies.
        ports: Where programs will listen; of use to the proxies only.
        seed: Draws which packets are lost and how long each is delayed.

    Raises:
        NetworkUnavailableError: The kind asked for cannot be made here.
    """
    from trials.chaos.proxy_network import ProxyNetwork  # noqa: PLC0415 - it imports us
    from trials.chaos.switch_network import SwitchNetwork  # noqa: PLC0415 - it imports us

    if prefer not in (None, *KINDS):
        raise ValueError(f"no kind of network is called {prefer}; there are {', '.join(KINDS)}")
    names = tuple(dict.fromkeys([*hosts, CLIENT, OPERATOR]))
    opened: SwitchNetwork | ProxyNetwork | None = None
    reason = ""
    if prefer != "proxies":
        try:
            opened = SwitchNetwork(names, seed)
        except NetworkUnavailableError as error:
            if prefer is not None:
                raise
            reason = str(error)
            logger.warning("no network namespaces, proxies instead: %s", reason)
    if opened is None:
        opened = ProxyNetwork(names, ports, seed, reason)
    try:
        yield opened
    finally:
        opened.close()
