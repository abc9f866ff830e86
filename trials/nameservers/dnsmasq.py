"""
A nameserver of a test's own: dnsmasq on a free port of loopback, for names below `test`.

What it answers is given whenever it starts; of other names in `test` it says that they do not
exist, and it asks nobody else.
"""

from __future__ import annotations

import os
import shutil
from typing import Any, Final

import dns.exception
import dns.resolver

from trials.databases.server import DatabaseServer, ServerFailedError, has_user, install

PACKAGES: Final = ("dnsmasq-base",)


class DnsmasqServer(DatabaseServer):
    """One server."""

    name = "dnsmasq"
    user = "dnsmasq"

    def __init__(self) -> None:
        super().__init__()
        self.records: list[str] = []
        """Lines of its file, as `host-record=a.test,127.0.0.1`."""

        self.seconds = 1
        """For how long they are good."""

    def as_user(self, command: list[str]) -> list[str]:
        """The same, for a user who has no group of his own."""
        begin = ["setpriv", "--pdeathsig", "KILL"]
        if os.getuid() == 0:
            begin += [f"--reuid={self.user}", "--regid=nogroup", "--clear-groups"]
        return [*begin, *command]

    def prepare(self) -> None:
        """There is nothing but its file, which is written at each start."""

    def command(self) -> list[str]:
        settings = {
            "listen-address": "127.0.0.1",
            "port": self.port,
            "local": "/test/",
            "local-ttl": self.seconds,
            "log-facility": "-",
        }
        lines = [f"{name}={value}" for name, value in settings.items()]
        lines += ["bind-interfaces", "no-resolv", "no-hosts", *self.records]
        path = self.folder / "dnsmasq.conf"
        path.write_text("".join(f"{line}\n" for line in lines))
        return ["dnsmasq", "--keep-in-foreground", "--pid-file", f"--conf-file={path}"]

    def is_ready(self) -> bool:
        resolver = dns.resolver.Resolver(configure=False)
        resolver.nameservers, resolver.port = ["127.0.0.1"], self.port
        try:
            resolver.resolve("ready.test.", lifetime=0.2)
        except dns.resolver.NXDOMAIN:
            return True
        except dns.exception.DNSException:
            return False
        return True

    def answer(self, *records: str) -> None:
        """From now on give these, and nothing else."""
        self.kill()
        self.records = list(records)
        self.start()

    def execute(self, statement: str, database: str = "") -> list[tuple[Any, ...]]:
        """Refuse: it knows no SQL."""
        raise ServerFailedError(f"{self.name} knows no SQL")

    def create(self, database: str) -> str:
        """Refuse: it has no databases."""
        raise ServerFailedError(f"{self.name} has no databases")

    def url(self, database: str = "", port: int | None = None) -> str:
        """Where it is, as the option `nameserver` has it; or behind another port."""
        return f"127.0.0.1:{port or self.port}"


def missing_dnsmasq() -> str:
    """Why there can be no server here, after an attempt to install one; nothing if there can."""
    for _ in range(2):
        if shutil.which("dnsmasq") is not None and has_user(DnsmasqServer.user):
            return ""
        if not install(*PACKAGES):
            break
    return f"apt-get install {PACKAGES[0]}"
