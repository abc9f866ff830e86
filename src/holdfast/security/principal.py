"""
Who somebody is, once that is found out.

Pure values.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """Who a client or an operator is; without a name nobody in particular."""

    name: str
    roles: frozenset[str] = frozenset()
    expires_at: float | None = None
    """When this ends, by the monotonic clock; None: with the connection, or by a change."""
    kept: str = ""
    """What of his record he was found by; empty: by his name, which his certificate has."""
    authority: str = ""
    """Who vouches for him; empty: the log."""
    called: str = ""
    """The other name by which he came in, where somebody else vouches for him; empty: his own."""

    def __repr__(self) -> str:
        """Without what anything is compared with: this stands in logs and traces."""
        return f"Principal({self.name!r}, roles={sorted(self.roles)})"


ANONYMOUS: Final = Principal("")
"""Who everybody is as long as nobody has a name here."""
