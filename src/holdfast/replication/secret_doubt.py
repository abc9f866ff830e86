"""
Who does not know the same secret as this node, and which of them has the wrong one.

Neither side of a failed handshake can tell that. The company can: who has links with others knows
the cluster's secret, and who is refused by everybody that answers does not. Pure: times are
arguments.

Invariants:
    Only for people: what is said here was not proven, and nothing follows from it.
    Nothing is said before there was time to meet the others.
"""

from __future__ import annotations

from collections.abc import Collection


class SecretDoubt:
    """Which members showed, or refused, another secret since they were linked last."""

    def __init__(self, name: str, seconds: float) -> None:
        self._name = name
        self._seconds = seconds
        self._others: dict[str, float] = {}
        """And since when."""

    def note(self, peer: str, linked: Collection[str], now: float) -> str:
        """This member's secret is not ours; gives what is to be told of it, or nothing yet."""
        since = self._others.setdefault(peer, now)
        if now - since < self._seconds:
            return ""
        names = _joined(self._others)
        if linked:
            has = "has" if len(self._others) == 1 else "have"
            return (
                f"{names} {has} another cluster secret than {self._name} and {_joined(linked)}:"
                f" look at the secret file there"
            )
        if len(self._others) == 1:
            return (
                f"{self._name} and {names} do not have the same cluster secret: look at the secret"
                f" file of both"
            )
        return (
            f"{self._name} has the wrong cluster secret: {names}, all that answer, have another"
            f" one; look at its secret file"
        )

    def forget(self, peer: str) -> bool:
        """There is a link with this member: both know the same. Whether that is news."""
        return self._others.pop(peer, None) is not None


def _joined(names: Collection[str]) -> str:
    return " and ".join(sorted(names))
