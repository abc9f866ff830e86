"""
The key of this node by which the addresses of temporary destinations are made.

Whoever knows an address can send an answer there, so it must follow from nothing that anybody may
see. The identity of the log is no secret: `/status` tells it, each segment and archive has it.

What it is made of, in this order: the secret that the nodes share; the key of passwords that a node
without one has in a file of its own; else chance, good as long as this process lives.

Invariants:
    It does not change while the process lives and the log is the same: who comes back finds what
    waits for him.

Owned by the loop.
"""

from __future__ import annotations

from typing import Final, Protocol

from holdfast.environment.randomness import Randomness
from holdfast.sessions.client_ids import address_key

_CHANCE_BYTES: Final = 32


class Kept(Protocol):
    """The key of passwords."""

    @property
    def key(self) -> bytes | None:
        """What new passwords are hashed with; None: there is nothing yet."""
        ...


class AddressKey:
    """One node's."""

    __slots__ = ("_pepper", "_randomness", "_secret", "cluster_id")

    def __init__(self, secret: bytes, pepper: Kept, randomness: Randomness) -> None:
        """
        Have none yet, see `cluster_id`.

        Args:
            secret: What all nodes of the cluster know; empty: there is none.
            pepper: What passwords are hashed with here; asked when a key is first wanted.
            randomness: Where chance comes from.
        """
        self._secret = secret
        self._pepper = pepper
        self._randomness = randomness
        self.cluster_id = ""
        """The identity of the log; empty: it has none yet."""

    def key(self) -> bytes:
        """Give it; empty: the log has no identity, and so no clients."""
        if not self.cluster_id:
            return b""
        if not self._secret:
            self._secret = self._pepper.key or self._randomness.bytes(_CHANCE_BYTES)
        return address_key(self._secret, self.cluster_id)
