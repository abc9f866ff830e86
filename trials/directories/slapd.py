"""
A server of OpenLDAP of a test's own: people and groups, on a port of loopback, by TLS as well.

Its people are added and changed by its own superuser, through `ldap3`.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import ldap3

from holdfast.testing.free_ports import free_ports
from trials.databases.server import DatabaseServer, ServerFailedError, has_user, install

PACKAGES: Final = ("slapd",)
BASE: Final = "dc=example,dc=org"
ROOT: Final = f"cn=root,{BASE}"
ROOT_PASSWORD: Final = "root's own"  # noqa: S105 - of a server that lives as long as a test
PEOPLE: Final = f"ou=people,{BASE}"
GROUPS: Final = f"ou=groups,{BASE}"
BROKER: Final = f"cn=broker,{BASE}"
BROKER_PASSWORD: Final = "the broker's own"  # noqa: S105 - the same


class SlapdServer(DatabaseServer):
    """One server."""

    name = "slapd"
    user = "openldap"

    def __init__(self) -> None:
        super().__init__()
        (self.tls_port,) = free_ports(1)
        self.certificate = ""
        """A file with certificate and key; empty: it speaks in clear only."""
        self.authority = ""
        self.authority_kept = Path()
        """The same where a test may read it."""

    def prepare(self) -> None:
        """Write its configuration."""
        data = self.folder / "data"
        data.mkdir(mode=0o700)
        lines = [
            *(
                f"include /etc/ldap/schema/{it}.schema"
                for it in ("core", "cosine", "inetorgperson")
            ),
            f"pidfile {self.folder}/pid",
            "modulepath /usr/lib/ldap",
            "moduleload back_mdb",
            *self._tls_lines(),
            "database mdb",
            "maxsize 16777216",
            f'suffix "{BASE}"',
            f'rootdn "{ROOT}"',
            f'rootpw "{ROOT_PASSWORD}"',
            f"directory {data}",
            # Whoever is nobody may try a password; only the broker may look around.
            "access to attrs=userPassword by anonymous auth by * none",
            f'access to * by dn.exact="{BROKER}" read by * none',
        ]
        (self.folder / "slapd.conf").write_text("\n".join(lines) + "\n")
        for each in (data, self.folder / "slapd.conf"):
            self.own(each)

    def own(self, path: Path) -> None:
        """Give a file to the user that the server runs as."""
        if os.getuid() == 0:
            shutil.chown(path, self.user)

    def _tls_lines(self) -> list[str]:
        if not self.certificate:
            return []
        return [
            f"TLSCACertificateFile {self.authority}",
            f"TLSCertificateFile {self.certificate}",
            f"TLSCertificateKeyFile {self.certificate}",
        ]

    def command(self) -> list[str]:
        urls = f"ldap://127.0.0.1:{self.port}"
        if self.certificate:
            urls += f" ldaps://127.0.0.1:{self.tls_port}"
        return ["/usr/sbin/slapd", "-f", f"{self.folder}/slapd.conf", "-h", urls, "-d", "0"]

    def is_ready(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
        except OSError:
            return False
        return True

    @contextmanager
    def _rooted(self) -> Iterator[Any]:
        server = ldap3.Server(f"ldap://127.0.0.1:{self.port}", get_info=ldap3.NONE)
        own = ldap3.Connection(server, ROOT, ROOT_PASSWORD, auto_bind=True, receive_timeout=5)
        try:
            yield own
        finally:
            own.unbind()

    def execute(self, statement: str, database: str = "") -> list[tuple[Any, ...]]:
        """Refuse: it knows no SQL."""
        raise ServerFailedError(f"{self.name} knows no SQL")

    def create(self, database: str) -> str:
        """Lay out people, groups and the broker's own entry; give the URL."""
        with self._rooted() as own:
            self._add(own, BASE, ["dcObject", "organization"], dc="example", o="example")
            for each in (PEOPLE, GROUPS):
                self._add(own, each, ["organizationalUnit"])
            broker = ["organizationalRole", "simpleSecurityObject"]
            self._add(own, BROKER, broker, userPassword=BROKER_PASSWORD)
        return self.url(database)

    def _add(self, own: Any, entry: str, kinds: list[str], **values: Any) -> None:
        if not own.add(entry, kinds, values):
            raise ServerFailedError(f"{self.name} did not add {entry}: {own.result}")

    def add_person(self, name: str, password: str) -> str:
        """Add somebody; gives the entry."""
        entry = f"uid={ldap3.utils.dn.escape_rdn(name)},{PEOPLE}"
        with self._rooted() as own:
            values = {"cn": name, "sn": name, "userPassword": password}
            self._add(own, entry, ["inetOrgPerson"], **values)
        return entry

    def remove_person(self, entry: str) -> None:
        """Remove somebody."""
        with self._rooted() as own:
            own.delete(entry)

    def set_group(self, name: str, members: list[str]) -> None:
        """Have a group of these entries, of at least one."""
        entry = f"cn={name},{GROUPS}"
        with self._rooted() as own:
            own.delete(entry)
            if members:
                self._add(own, entry, ["groupOfNames"], member=members)

    def url(self, database: str = "", port: int | None = None) -> str:
        """Where it is in clear, or behind another port."""
        return f"ldap://127.0.0.1:{port or self.port}"

    @property
    def tls_url(self) -> str:
        """Where it is by TLS."""
        return f"ldaps://127.0.0.1:{self.tls_port}"


def missing_slapd() -> str:
    """Why there can be no server here, after an attempt to install one; nothing if there can."""
    for _ in range(2):
        if shutil.which("slapd", path="/usr/sbin:/usr/bin") and has_user("openldap"):
            return ""
        if not install(*PACKAGES):
            break
    return "apt-get install slapd"
