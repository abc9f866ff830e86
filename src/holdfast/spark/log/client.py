"""
A log read from a running cluster: its nodes' admin ports, over HTTP.

Any node that keeps messages serves what is committed there; followers are asked before the leader,
which has its clients. A node that dies, closes, lags behind or sends damaged bytes is left for the
next one, and reading goes on where it was: entries are the same bytes everywhere. One that answers
as many readers as it does at once is asked again later, if no other one has room. A node that a
promotion by force left behind has others, and is not asked while one of the new generation answers.

Invariants:
    What is given was verified here, whatever the node claims.
    A range is given completely or an error says why no node could.

Blocking. Can be pickled; connections belong to one call.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.admin.pages import all_pages
from holdfast.errors import (
    AuthenticationError,
    BusyError,
    CertificateError,
    ConfigError,
    CorruptEntryError,
    HoldfastError,
    LimitReachedError,
    LinkLostError,
    RecordNotFoundError,
)
from holdfast.spark.log.admin_link import POSITION_SECONDS, AdminLink
from holdfast.spark.log.entry_block import EntryBlock, cut_entries, problem
from holdfast.spark.log.source import BLOCK_BYTES, DamagedRange, LogPosition

PATIENCE_SECONDS: Final = 30.0
"""How long to go on asking when no node answers: a failover takes less."""

PAUSE_SECONDS: Final = 0.2
BUSY_SECONDS: Final = 600.0
"""How long to go on asking where every node says that it is busy: others read, and will be done."""

_PAUSE_SECONDS_MAX: Final = 2.0
RANK_SECONDS: Final = 5.0
"""So old may be what is known of the nodes' roles while readers wait for a slot."""

_REACH: Final[dict[str, type]] = {
    "cluster_id": str,
    "first_index": int,
    "commit_index": int,
    "last_timestamp": int,
}
"""What every node tells of its log, of any version that has admin ports."""

_POSITION: Final = _REACH | {"bases": list}

_RANK: Final = {"follower": 0, "learner": 1, "leader": 2}


@dataclass(frozen=True)
class RemoteLog:
    """The log of the cluster with these admin ports, as `admin.endpoint` reads them."""

    addresses: tuple[str, ...]
    token: str = field(default="", repr=False)

    def position(self) -> LogPosition:
        """
        The furthest that any node of the newest generation can give.

        Raises:
            LinkLostError: No node answers within `PATIENCE_SECONDS`.
            AuthenticationError: The token is missing or wrong.
            ConfigError: The addresses are of two clusters.
        """
        started = time.monotonic()
        while True:
            last: HoldfastError = LinkLostError("no admin port was named")
            for address, reach in self._furthest():
                try:
                    return _position(address, self.token, int(reach["commit_index"]))
                except AuthenticationError:
                    raise
                except HoldfastError as error:
                    last = error
            if time.monotonic() - started > PATIENCE_SECONDS:
                raise last
            time.sleep(PAUSE_SECONDS)

    def blocks(self, first_index: int, last_index: int) -> Iterator[EntryBlock | DamagedRange]:
        """
        Give these entries, verified.

        Raises:
            RecordNotFoundError: The log does not go back so far any more.
            LinkLostError: No node gives them within `PATIENCE_SECONDS`.
            BusyError: All were busy with others for `BUSY_SECONDS`.
        """
        reading = _Reading(self)
        index = first_index
        try:
            while index <= last_index:
                found = reading.next(index, last_index)
                yield found
                index = found.last_index + 1
        finally:
            reading.close()

    def queue_names(self) -> dict[int, str]:
        """The names of the queues there are now."""
        return {int(queue["number"]): str(queue["name"]) for queue in self.queues()}

    def queues(self) -> list[dict[str, Any]]:
        """The queues there are now, with their numbers, names and depths, as one node has them."""
        return self._all_of("queues")

    def subscriptions(self) -> list[dict[str, Any]]:
        """The durable subscriptions there are now, in the same way."""
        return self._all_of("subscriptions")

    def _all_of(self, what: str) -> list[dict[str, Any]]:
        """What a node lists page by page."""

        def ask(path: str) -> dict[str, Any]:
            return self.ask("GET", path, told={what: list}, is_furthest_first=True)

        found: list[dict[str, Any]] = all_pages(
            ask, f"/{what}?local", what, whose=", ".join(self.addresses)
        )[what]
        return found

    def reach(self, from_index: int, bytes_max: int) -> int:
        """The last index such that entries from `from_index` on are about `bytes_max` together."""
        path = f"/log/position?from={from_index}&bytes={bytes_max}&bases=false"
        told = {"through_index": int}
        answer = self.ask("GET", path, told=told, is_furthest_first=True)
        # A node that lags does not have the entry yet, and names its own last one.
        return max(int(answer["through_index"]), from_index)

    def ask(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        told: Mapping[str, type] | None = None,
        is_furthest_first: bool = False,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> dict[str, Any]:
        """
        Ask one node after another until one answers; return its JSON.

        What is gone from one node's log is asked of the others: each cleans its own.

        Args:
            told: What each node's answer has, and of which type. Who answers otherwise is none.

        Raises:
            LimitReachedError: The cluster does not do that.
            HoldfastError: What a node answered, as its own kind of error.
            LinkLostError: No node answers within `patience_seconds`.
        """
        data = None if body is None else json.dumps(body).encode()
        started = time.monotonic()
        while True:
            faults: list[HoldfastError] = []
            furthest = [address for address, _ in self._furthest()] if is_furthest_first else []
            for address in furthest or self.addresses:
                try:
                    with AdminLink(address, self.token) as link:
                        return _as_a_node(address, link.ask(method, path, data), told or {})
                except (AuthenticationError, LimitReachedError):
                    raise
                except HoldfastError as error:
                    faults.append(error)
            gone = [fault for fault in faults if isinstance(fault, RecordNotFoundError)]
            is_final = bool(gone) and not any(isinstance(it, LinkLostError) for it in faults)
            if is_final or time.monotonic() - started > patience_seconds:
                raise [LinkLostError("no admin port was named"), *faults, *gone][-1]
            time.sleep(PAUSE_SECONDS)

    def _furthest(self) -> list[tuple[str, dict[str, Any]]]:
        """The nodes that answer, and what they tell; the one that can give most first."""
        return sorted(self._reaches(), key=lambda it: -int(it[1]["commit_index"]))

    def ranked(self) -> list[str]:
        """The nodes that can serve the log: followers first, in an order of chance."""
        found = self._reaches()
        random.shuffle(found)
        return [it[0] for it in sorted(found, key=lambda it: _RANK.get(str(it[1]["role"]), 9))]

    def _reaches(self) -> list[tuple[str, dict[str, Any]]]:
        """What the nodes tell that is the same little for a log of any length."""
        started = time.monotonic()
        while True:
            found: list[tuple[str, dict[str, Any]]] = []
            faults: list[HoldfastError] = []
            for address in self.addresses:
                try:
                    with AdminLink(address, self.token, POSITION_SECONDS) as link:
                        answer = link.ask("GET", "/log/position?bases=false", None)
                        found.append((address, _as_a_node(address, answer, _REACH)))
                except AuthenticationError:
                    raise
                except HoldfastError as error:
                    faults.append(error)
            if found:
                return _ruling(found)
            will_not_pass = all(isinstance(it, CertificateError | ConfigError) for it in faults)
            if will_not_pass or time.monotonic() - started > PATIENCE_SECONDS:
                raise [LinkLostError("no admin port was named"), *faults][-1]
            time.sleep(PAUSE_SECONDS)


def _ruling(
    found: list[tuple[str, dict[str, Any]]],
) -> list[tuple[str, dict[str, Any]]]:
    """
    Keep the nodes that are of the one cluster and of its newest generation.

    Raises:
        ConfigError: There are two clusters, so there is no telling which is meant.
    """
    nodes = {str(it["cluster_id"]): address for address, it in found if it["cluster_id"]}
    if len(nodes) > 1:
        named = ", ".join(f"{address} of {cluster}" for cluster, address in sorted(nodes.items()))
        raise ConfigError([f"url: these nodes are of different clusters: {named}"])
    newest = max(_generation(it) for _, it in found)
    return [
        (address, it)
        for address, it in found
        if _generation(it) == newest and (it["cluster_id"] or not nodes)
    ]


def _position(address: str, token: str, commit_index: int) -> LogPosition:
    """
    Ask a node for all of its position.

    Raises:
        LinkLostError: It is not there, or has less than it had just now, as after a start.
    """
    with AdminLink(address, token) as link:
        answer = _as_a_node(address, link.ask("GET", "/log/position", None), _POSITION)
    if int(answer["commit_index"]) < commit_index:
        raise LinkLostError(f"{address} does not have entry {commit_index:,} any more")
    return LogPosition(
        first_index=int(answer["first_index"]),
        last_index=int(answer["commit_index"]),
        cluster_id=str(answer["cluster_id"]),
        bases=tuple(answer["bases"]),
        last_timestamp=int(answer["last_timestamp"]),
        generation=_generation(answer),
    )


def _as_a_node(address: str, answer: dict[str, Any], told: Mapping[str, type]) -> dict[str, Any]:
    """
    Give the answer if it has what a node tells.

    Raises:
        LinkLostError: It has not: another server listens there.
    """
    if any(not isinstance(answer.get(name), kind) for name, kind in told.items()):
        raise LinkLostError(f"{address} answers, but not as an admin port of Holdfast does")
    return answer


def _generation(answer: dict[str, Any]) -> int:
    return int(answer.get("generation", 0))  # nodes of before do not tell it


class _Reading:
    """One range being read: which node is asked, and which have failed."""

    __slots__ = ("_link", "_log", "_nodes", "_ranked_at", "_were_busy")

    def __init__(self, log: RemoteLog) -> None:
        self._log = log
        self._nodes: list[str] = []
        self._ranked_at = 0.0
        self._were_busy: list[str] = []
        """Who had no slot for the last block, and would have been asked before the one that had."""
        self._link: AdminLink | None = None

    def next(self, index: int, last_index: int) -> EntryBlock | DamagedRange:
        """Give entry `index` and as many after it as one answer holds."""
        began = heard = time.monotonic()
        settled: dict[str, HoldfastError] = {}
        """Who does not have it: not asked again while others only have no slot."""
        for pause in _pauses():
            faults: dict[str, HoldfastError] = {}
            for address in self._candidates():
                try:
                    if address in settled:
                        raise settled[address]
                    found = self._fetch(address, index, last_index)
                except AuthenticationError:
                    raise
                except HoldfastError as error:
                    self.close()
                    faults[address] = error
                else:
                    self._were_busy = [it for it in faults if isinstance(faults[it], BusyError)]
                    return found
            now = time.monotonic()
            is_busy = any(isinstance(fault, BusyError) for fault in faults.values())
            settled = {it: fault for it, fault in faults.items() if is_busy and _is_said(fault)}
            if is_busy:
                heard = now
            else:
                self._nodes = []
            is_lost = any(isinstance(fault, LinkLostError) for fault in faults.values())
            is_over = now - began > BUSY_SECONDS if is_busy else now - heard > PATIENCE_SECONDS
            if is_over or not (is_busy or is_lost):
                return _give_up(index, list(faults.values()))
            time.sleep(pause if is_busy else PAUSE_SECONDS)
        raise AssertionError("pauses never end")

    def close(self) -> None:
        """Let the connection go."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def _candidates(self) -> Iterator[str]:
        """Who was busy and may have a slot now, the node in use, then the others."""
        first: list[str] = []
        if self._were_busy:
            # A promotion may have left one of them behind since.
            self._rank()
            first = [address for address in self._nodes if address in self._were_busy]
        if self._link is not None:
            first.append(self._link.address)
        yield from first
        if not self._nodes or time.monotonic() - self._ranked_at > RANK_SECONDS:
            self._rank()
        yield from [address for address in self._nodes if address not in first]

    def _rank(self) -> None:
        self._nodes = self._log.ranked()
        self._ranked_at = time.monotonic()

    def _fetch(self, address: str, index: int, last_index: int) -> EntryBlock:
        if self._link is None or self._link.address != address:
            self.close()
            self._link = AdminLink(address, self._log.token)
        data = self._link.read_log(index, BLOCK_BYTES, last_index)
        block = cut_entries(data, index, through_index=last_index)
        if len(block):
            return block
        fault = problem(data, 0, index)
        if fault is not None:
            raise CorruptEntryError(
                f"{address} sent a damaged entry: {fault.reason}", byte=0, index=index
            )
        raise LinkLostError(f"{address} does not have entry {index:,} yet")


def _pauses() -> Iterator[float]:
    """Seconds to wait for a slot, growing, and by chance: who was refused together comes apart."""
    longest = PAUSE_SECONDS
    while True:
        yield random.uniform(longest / 2, longest)  # noqa: S311 - nobody guesses it
        longest = min(2 * longest, _PAUSE_SECONDS_MAX)


def _is_said(fault: HoldfastError) -> bool:
    """Whether a node has said all that it can say of an entry."""
    return isinstance(fault, RecordNotFoundError | CorruptEntryError)


def _give_up(index: int, faults: list[HoldfastError]) -> DamagedRange:
    """
    Raise the most telling fault, or make it a damaged range if all copies are damaged.

    Who was busy to the end may have a good one.
    """
    for fault in faults:
        if isinstance(fault, BusyError):
            raise fault
    for fault in faults:
        if isinstance(fault, RecordNotFoundError):
            raise fault
    for fault in faults:
        if isinstance(fault, CorruptEntryError):
            return DamagedRange(index, index, fault)
    raise faults[-1] if faults else LinkLostError(f"no node serves entry {index:,}")
