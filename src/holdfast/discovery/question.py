"""
What DNS is asked about where brokers may be, as a user wrote it.

Apart from the asking, which needs a package that is not everybody's.

Owned by nobody; pure.
"""

from __future__ import annotations

from dataclasses import dataclass

DNS_PORT = 53


@dataclass(frozen=True, slots=True, kw_only=True)
class DnsQuestion:
    """One name, and how it is asked for."""

    name: str
    """In full: no search list is gone through, or another domain could answer for it."""

    is_secure: bool = False
    """Whether brokers are spoken to by TLS, which decides whose SRV records are asked for."""

    port: int
    """Where the name has addresses only."""

    trusted_domain: str = ""
    """Whoever has a certificate for a name in here is believed; empty: for the domain only."""

    nameserver: str = ""
    """The address of whom to ask; empty: whom this machine asks."""

    nameserver_port: int = DNS_PORT

    @property
    def is_service(self) -> bool:
        """Whether the name is that of SRV records."""
        return self.name.startswith("_")

    @property
    def service(self) -> str:
        """Whose SRV records are asked for."""
        if self.is_service:
            return self.name
        return f"{'_holdfast-tls' if self.is_secure else '_holdfast'}._tcp.{self.name}"

    @property
    def domain(self) -> str:
        """Whom a broker's certificate names: the name, without the labels of a service."""
        labels = self.name.split(".")
        while len(labels) > 1 and labels[0].startswith("_"):
            del labels[0]
        return ".".join(labels)
