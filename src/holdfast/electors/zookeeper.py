"""
Elections by ZooKeeper: an ephemeral node with a number for each broker that stands, by kazoo.

The nodes go with the session of who made them. Everything here asks, with a bound, and nothing is
watched, so that none of kazoo's threads ever calls into the broker.

Source: the recipe "Leader Election" of ZooKeeper's documentation, without its watches.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry
from kazoo.security import make_digest_acl

from holdfast.electors.candidates import holder_of, line_of
from holdfast.electors.url import ElectorUrl
from holdfast.errors import UnreachableError
from holdfast.leases.elector import ElectorFacts, Line

_SURE_FRACTION: Final = 0.75
"""A server tells the leader of its sessions each half tick, and a session has two ticks at least:
of one that dies the leader may not know what it heard last."""

_NUMBER: Final = re.compile(r"[0-9a-f]{32}-(-?[0-9]{1,10})")
_RETRY_SECONDS_MAX: Final = 1.0
_LOOKED_AT_MAX: Final = 32
"""So many nodes of ours are asked of whom they are, or removed, in one step."""


class ZookeeperElector:
    """One broker's, at one ensemble of ZooKeeper."""

    def __init__(
        self,
        url: ElectorUrl,
        *,
        password: str = "",
        name: str,
        session_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`name` is written into the node, for people; nothing is reached yet."""
        self._url = url
        self._name = name.encode()
        self._seconds = session_seconds
        self._password = password
        self._clock = clock
        self._client: KazooClient | None = None
        self._live: Any = None
        """Set while it is connected."""
        self._session_seconds = 0.0
        self._own = ""
        """Our node's name, and of which session it is."""
        self._own_session: object = None
        self._entering: Any = None
        """Our node that was asked for and not answered yet, in that session."""

    def facts(self) -> ElectorFacts:
        """What this is."""
        return ElectorFacts(kind="ZooKeeper", place=str(self._url))

    def stand(self, candidate: str, *, is_willing: bool, seconds_max: float) -> Line:
        """Be in the line or leave it, and read the line; any answer keeps the session alive."""
        until = self._clock() + seconds_max
        try:
            client = self._connected(until)
            return self._stand(client, candidate, is_willing, until)
        except KazooTimeoutError:
            raise UnreachableError(f"ZooKeeper at {self._url} did not answer in time") from None
        except KazooException as error:
            reason = f"{type(error).__name__} {error}".strip()
            raise UnreachableError(f"ZooKeeper at {self._url} refuses: {reason}") from None

    def _stand(self, client: KazooClient, candidate: str, is_willing: bool, until: float) -> Line:
        names = self._names(client, until)
        session = client.client_id
        ours = [it for it in names if holder_of(it) == candidate]
        if session != self._own_session or not is_willing:
            self._own, self._own_session, self._entering = "", session, None
        if is_willing and ours and self._own not in ours:
            # It was made, and we were not told: another one each time would be made for ever.
            self._own, self._entering = self._find_own(client, candidate, ours, until), None
        is_known = self._own in ours
        self._delete(client, [it for it in ours if not is_willing or it != self._own], until)
        if is_willing and not is_known:
            self._own = self._enter(client, candidate, until)
        if not is_willing or not is_known:
            names = self._names(client, until)
        is_sure = is_willing and session == client.client_id and self._own in names
        sure_seconds = _SURE_FRACTION * self._session_seconds if is_sure else 0.0
        return line_of(names, sure_seconds)

    def _names(self, client: KazooClient, until: float) -> list[str]:
        """What is in the line, as the leader has it now, the oldest first."""
        synced = client.sync_async(self._url.path)  # What one session asks for is done in order.
        asked = client.get_children_async(self._url.path)
        self._result(synced, until)
        try:
            names = self._result(asked, until)
        except NoNodeError:
            return []
        return sorted(names, key=_number)

    def _enter(self, client: KazooClient, candidate: str, until: float) -> str:
        """Make our node; one that was asked for and not answered yet is waited for."""
        if self._entering is None:
            self._entering = client.create_async(
                f"{self._url.path}/{candidate}-",
                self._name,
                ephemeral=True,
                sequence=True,
                makepath=True,
            )
        made = self._entering
        try:
            name = str(self._result(made, until)).rpartition("/")[2]
        except KazooTimeoutError:
            raise  # It may be made yet.
        except KazooException:
            self._entering = None
            raise
        self._entering = None
        return name

    def _find_own(self, client: KazooClient, candidate: str, ours: list[str], until: float) -> str:
        """The oldest of those of our name that is of our session; empty if none is."""
        if self._entering is not None and self._entering.ready():
            return self._enter(client, candidate, until)
        some = ours[:_LOOKED_AT_MAX]
        asked = [client.exists_async(f"{self._url.path}/{name}") for name in some]
        found = [self._result(each, until) for each in asked]
        session = client.client_id
        own_id = None if session is None else session[0]
        return next(
            (
                name
                for name, stat in zip(some, found, strict=True)
                if stat is not None and stat.ephemeralOwner == own_id
            ),
            "",
        )

    def _delete(self, client: KazooClient, names: list[str], until: float) -> None:
        """Remove nodes of ours; one of an earlier session would go by itself, later."""
        some = names[:_LOOKED_AT_MAX]
        for asked in [client.delete_async(f"{self._url.path}/{name}") for name in some]:
            try:
                self._result(asked, until)
            except NoNodeError:
                pass  # It went by itself.

    def _result(self, asked: Any, until: float) -> Any:
        return asked.get(timeout=max(until - self._clock(), 0.01))

    def _connected(self, until: float) -> KazooClient:
        client = self._client
        if client is None:
            client = self._client = self._make()
            self._live = client.start_async()
        if not client.connected:
            self._live.wait(max(until - self._clock(), 0.01))
        if not client.connected:
            raise UnreachableError(f"ZooKeeper at {self._url} is not reached")
        return client

    def _make(self) -> KazooClient:
        silent = logging.getLogger("holdfast.electors.kazoo")
        silent.setLevel(logging.CRITICAL)  # What matters of it is told by the reading.
        user = self._url.user
        client = KazooClient(
            hosts=",".join(map(str, self._url.hosts)),
            timeout=self._seconds,
            auth_data=[("digest", f"{user}:{self._password}")] if user else None,
            default_acl=[make_digest_acl(user, self._password, all=True)] if user else None,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, max_delay=_RETRY_SECONDS_MAX),
            command_retry=KazooRetry(max_tries=0),
            logger=silent,
        )
        connect = client._connection._connect

        def note_session(*arguments: Any) -> Any:
            # How long the server lets a session be silent is told to nobody else.
            read_milliseconds, connect_milliseconds = connect(*arguments)
            self._session_seconds = read_milliseconds * 1.5 / 1000
            return read_milliseconds, connect_milliseconds

        client._connection._connect = note_session
        return client

    def close(self, seconds_max: float) -> None:
        """End the session, and with it our node."""
        client, self._client = self._client, None
        if client is None:
            return
        try:
            client.stop()
            client.close()
        except (KazooException, OSError) as error:
            raise UnreachableError(f"ZooKeeper at {self._url}: {error}") from None


def _number(name: str) -> tuple[int, str]:
    """By what a node came; what no broker has made comes last."""
    found = _NUMBER.fullmatch(name)
    return (1 << 40 if found is None else int(found[1]), name)
