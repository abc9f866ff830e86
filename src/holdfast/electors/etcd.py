"""
Elections by etcd: a key under a lease of etcd's for each broker that stands, the oldest is elected.

A broker that is not heard of loses its lease there, and with it the key. One that leaves the line
gives the lease back, and takes another one when it comes again: what an old request does late is of
a lease that nobody goes by any more.
"""

from __future__ import annotations

import math
import time
from base64 import b64decode
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from holdfast.electors.candidates import line_of
from holdfast.electors.etcd_gateway import EtcdGateway, as_key
from holdfast.electors.url import ElectorUrl
from holdfast.errors import UnreachableError
from holdfast.leases.elector import LINE_COUNT_MAX, ElectorFacts, Line

_READ_COUNT_MAX: Final = 2 * LINE_COUNT_MAX


class EtcdElector:
    """One broker's, at one cluster of etcd."""

    def __init__(
        self,
        url: ElectorUrl,
        *,
        password: str = "",
        name: str,
        session_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`name` is written beside the key, for people; nothing is reached yet."""
        self._url = url
        self._name = name
        self._seconds = math.ceil(session_seconds)
        self._clock = clock
        self._gateway = EtcdGateway(url, password, clock)
        self._lease = 0
        self._lease_seconds = 0.0

    def facts(self) -> ElectorFacts:
        """What this is."""
        return ElectorFacts(kind="etcd", place=str(self._url))

    def stand(self, candidate: str, *, is_willing: bool, seconds_max: float) -> Line:
        """Keep the lease alive, be in the line or leave it, and read the line."""
        until = self._clock() + seconds_max
        if not is_willing:
            self._leave(until)
            return line_of(self._names(until), 0.0)
        is_kept = self._keep_alive(until)
        names = self._names(until) if is_kept else []
        if not is_kept:
            self._begin(until)
        own = f"{candidate}-{self._lease:x}"
        if own not in names:
            self._ask("kv/put", self._entry(own), until)
            names = self._names(until)
        return line_of(names, self._lease_seconds if own in names else 0.0)

    def close(self, seconds_max: float) -> None:
        """Leave the line, and let go."""
        try:
            self._leave(self._clock() + seconds_max)
        finally:
            self._gateway.close()

    def _keep_alive(self, until: float) -> bool:
        """Whether the lease that we have goes on."""
        if not self._lease:
            return False
        reply = self._ask("lease/keepalive", {"ID": str(self._lease)}, until)
        self._lease_seconds = float(_whole(reply, "TTL"))
        if self._lease_seconds <= 0.0:
            self._lease = 0
        return self._lease != 0

    def _begin(self, until: float) -> None:
        reply = self._ask("lease/grant", {"TTL": str(self._seconds)}, until)
        lease, seconds = _whole(reply, "ID"), _whole(reply, "TTL")
        if lease <= 0 or seconds <= 0:
            raise UnreachableError(f"etcd at {self._gateway.host} gives a lease that is none")
        self._lease, self._lease_seconds = lease, float(seconds)

    def _leave(self, until: float) -> None:
        """Give the lease back; one that cannot be is left to end, and never kept alive again."""
        lease, self._lease = self._lease, 0
        if lease:
            with suppress(UnreachableError):  # Of a lease that has ended it says so too.
                self._ask("lease/revoke", {"ID": str(lease)}, until)

    def _entry(self, own: str) -> dict[str, str]:
        return {
            "key": as_key(f"{self._url.path}/{own}"),
            "value": as_key(self._name),
            "lease": str(self._lease),
        }

    def _names(self, until: float) -> list[str]:
        """What is in the line, as the whole cluster has it now, the oldest first."""
        prefix = f"{self._url.path}/"
        wanted = {
            "key": as_key(prefix),
            "range_end": as_key(prefix[:-1] + "0"),  # the sign after the slash
            "sort_target": "CREATE",
            "sort_order": "ASCEND",
            "limit": str(_READ_COUNT_MAX),
            "keys_only": True,
        }
        entries = self._ask("kv/range", wanted, until).get("kvs", [])
        try:
            return [
                b64decode(it["key"], validate=True).decode(errors="replace")[len(prefix) :]
                for it in entries
            ]
        except (TypeError, KeyError, ValueError):
            raise UnreachableError(
                f"etcd at {self._gateway.host} gives a line that is none"
            ) from None

    def _ask(self, method: str, request: dict[str, Any], until: float) -> dict[str, Any]:
        return self._gateway.call(method, request, until)


def _whole(reply: Mapping[str, Any], name: str) -> int:
    """A number of an answer, which may be written as text; 0 if it is none."""
    try:
        return int(reply.get(name, 0))
    except (TypeError, ValueError):
        return 0
