"""
Where an elector is, read from what the operator wrote.

    etcd://e1:2379,e2:2379,e3:2379/holdfast/orders
    zookeeper://holdfast@z1:2181,z2:2181/holdfast/orders?password_file=/etc/holdfast/elector

The path is the place of one log's brokers: another log has another one. A password stands in the
URL, in a file that it names, or in the environment; whatever is said of a place leaves it out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote

from holdfast.environment.remote_server import Host, read_password_file

PASSWORD_VARIABLE: Final = "HOLDFAST_ELECTOR_PASSWORD"  # noqa: S105 - where it stands
PASSWORD_FILE: Final = "password_file"  # noqa: S105 - where it stands
ETCD: Final = "etcd"
ZOOKEEPER: Final = "zookeeper"
PORTS: Final = {ETCD: 2379, ZOOKEEPER: 2181}
HOST_COUNT_MAX: Final = 9
TEXT_LENGTH_MAX: Final = 2_000

_PARTS: Final = re.compile(
    r"(?P<scheme>[A-Za-z0-9+.-]+)://(?P<authority>[^/?#]*)(?P<path>/[^?#]*)?(\?(?P<query>[^#]*))?"
)
_HOST: Final = re.compile(r"(?P<name>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{1,5}))?")
_STEP: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")


@dataclass(frozen=True, slots=True)
class ElectorUrl:
    """A place that elects; its `repr` and its text are without the password."""

    kind: str
    """`ETCD` or `ZOOKEEPER`."""

    hosts: tuple[Host, ...]
    path: str
    """Begins with a slash and ends with none."""

    user: str = ""
    password: str = field(default="", repr=False)
    password_file: str = ""

    def __str__(self) -> str:
        """Name the place for people, in a form that is a URL too."""
        user = f"{self.user}@" if self.user else ""
        query = f"?{PASSWORD_FILE}={self.password_file}" if self.password_file else ""
        return f"{self.kind}://{user}{','.join(map(str, self.hosts))}{self.path}{query}"

    def secret(self, environment: Mapping[str, str] = os.environ) -> str:
        """
        Give the password from wherever it is.

        Raises:
            ValueError: Its file cannot be read.
        """
        if self.password:
            return self.password
        if not self.password_file:
            return environment.get(PASSWORD_VARIABLE, "") if self.user else ""
        return read_password_file(self.password_file)


def parse_elector_url(text: str) -> ElectorUrl:
    """
    Read where an elector is.

    Raises:
        ValueError: It cannot be used; no sentence repeats what may be a password.
    """
    found = _PARTS.fullmatch(text) if len(text) <= TEXT_LENGTH_MAX else None
    kind = found["scheme"].lower() if found is not None else ""
    if found is None or kind not in PORTS:
        raise ValueError(
            "this is no address of an elector; write zookeeper://HOST:2181,HOST:2181/PATH or"
            " etcd://HOST:2379,HOST:2379/PATH"
        )
    credentials, at, addresses = found["authority"].rpartition("@")
    user, _, password = credentials.partition(":")
    if at and not user:
        raise ValueError(f"the user is missing before the @: write {kind}://USER@HOST/PATH")
    options = _options(found["query"] or "", kind)
    if password and options:
        raise ValueError(f"the password is given in the address and by {PASSWORD_FILE}; keep one")
    if options and not user:
        raise ValueError(f"{PASSWORD_FILE} is given and no user: write {kind}://USER@HOST/PATH")
    return ElectorUrl(
        kind=kind,
        hosts=_hosts(addresses, kind),
        path=_path(found["path"] or "", kind),
        user=unquote(user),
        password=unquote(password),
        password_file=options.get(PASSWORD_FILE, ""),
    )


def _hosts(addresses: str, kind: str) -> tuple[Host, ...]:
    given = addresses.split(",")
    if len(given) > HOST_COUNT_MAX:
        raise ValueError(f"{len(given)} hosts; allowed: {HOST_COUNT_MAX} or fewer")
    hosts: list[Host] = []
    for place, each in enumerate(given, start=1):
        found = _HOST.fullmatch(each)
        port = int(found["port"] or PORTS[kind]) if found is not None else 0
        if found is None or not 0 < port < 1 << 16:
            # It is not repeated: where an @ is missing it may be a password.
            raise ValueError(f"host {place} is none; write HOST:{PORTS[kind]}, with commas between")
        hosts.append(Host(found["name"].strip("[]"), port))
    return tuple(hosts)


def _path(path: str, kind: str) -> str:
    steps = path.strip("/").split("/")
    if steps == [""]:
        raise ValueError(
            f"the path is missing, which names the log: write {kind}://HOST/holdfast/NAME"
        )
    for step in steps:
        if _STEP.fullmatch(step) is None or step in {".", ".."}:
            raise ValueError(
                f"{step[:40]!r} in its path is no name; allowed: letters, digits, . _ and -"
            )
    return "/" + "/".join(steps)


def _options(query: str, kind: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name in options:
        if name != PASSWORD_FILE:
            raise ValueError(f"?{name[:40]}= is not known for {kind}; known is {PASSWORD_FILE}")
    return options


def read_elector(value: object) -> object:
    """Read a setting's word; what was read already stays."""
    if value is None or isinstance(value, ElectorUrl):
        return value
    if not isinstance(value, str):
        raise ValueError("this is no text; write zookeeper://HOST/PATH or etcd://HOST/PATH")
    return parse_elector_url(value)
