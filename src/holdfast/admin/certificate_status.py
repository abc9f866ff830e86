"""
Until when what a node shows by TLS can be used, and what it judges others by, as values.

One table of the file has several: its certificate, the authorities of those who come, a list of
revocations. What runs out ends no connection: whoever comes next finds out. So it is told before,
and of the links between members also by who is asked whether the node is ready.

Values only, as in `status`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

PEERS: Final = "peers"
"""The table by which members are linked."""

State = Literal["good", "soon", "urgent", "over"]

_THEN: Final = {
    "certificate": "whoever comes by TLS turns away from this node",
    "client_ca": "whoever shows a certificate of it is turned away",
    "ca": "nodes that show a certificate of it are not asked any more",
    "crl": "nobody who shows a certificate is let in",
}
_THEN_OF_LINKS: Final = "a link between members that breaks, or a node that starts, is not linked"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateStatus:
    """One certificate, or list of revocations."""

    tls: str
    """The table, `[tls.NAME]`."""

    kind: str = ""
    """Its key there: `certificate`, `client_ca`, `ca` or `crl`."""

    named: str = ""
    """The common name in it."""

    ends: str = ""
    """In UTC, as ISO 8601 has it."""

    left_seconds: float = 0.0
    """Less than 0: since it has run out."""

    state: State = "good"
    """`soon`: less than 30 days are left; `urgent`: less than 7; of what lives shortly less than a
    fifth and a tenth of its time."""

    @property
    def sentence(self) -> str:
        """What it is, when it runs or ran out, and what comes of that."""
        of = f" ({self.named})" if self.named else ""
        verb = "ran out" if self.state == "over" else "runs out"
        then = _THEN_OF_LINKS if self.tls == PEERS else _THEN.get(self.kind, "")
        when = "" if self.state == "over" else " from then on"
        return f"tls.{self.tls}.{self.kind}{of} {verb} at {self.ends}:{when} {then}"

    @property
    def is_trouble(self) -> bool:
        """Whether the readiness of the node tells of it."""
        return self.state == "over" or (self.state == "urgent" and self.tls == PEERS)
