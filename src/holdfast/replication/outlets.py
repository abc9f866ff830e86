"""
Through what a member's decisions leave it: the links to its peers, and the journal's writer.

Contracts only, so that the driver runs over sockets and threads and in a simulator alike.
"""

from __future__ import annotations

from typing import Protocol

from holdfast.errors import JournalFailedError
from holdfast.journal.jobs import WriteJob
from holdfast.replication.messages import Message


class Links(Protocol):
    """How the driver reaches the other members; peer_links.py is the real one."""

    def send(self, peer: str, messages: list[Message]) -> None:
        """Send these in order, or lose them if there is no link; never waits."""
        ...

    def set_peers(self, addresses: dict[str, str]) -> None:
        """Keep links to exactly these members; `addresses` is `host:port` by name."""
        ...

    def drop(self, peer: str) -> None:
        """Close the link to this peer, if there is one: it was shut out."""
        ...


class Writer(Protocol):
    """The journal's writer: makes what is submitted durable, in order."""

    def submit(self, job: WriteJob) -> None:
        """Queue a job; its end is told through `Driver.stored`."""
        ...


class Report(Protocol):
    """What the writer says when something is done: here only whether it failed matters."""

    @property
    def failure(self) -> JournalFailedError | None:
        """Why nothing more will ever be stored; None if all is well."""
        ...
