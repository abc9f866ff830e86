"""
Where a database is, read from what the operator wrote: SQLAlchemy's URLs, with several hosts.

    sqlite:////var/lib/holdfast/store.db
    postgresql://holdfast@db1:5432,db2:5432/holdfast?password_file=/etc/holdfast/password
    mysql://holdfast:secret@db1,db2,db3/holdfast

The password stands in the URL, in a file that it names, or in the environment; whatever is said of
a place here leaves it out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from holdfast.environment.remote_server import Host, read_password_file
from holdfast.environment.secret_files import tell_of_readers
from holdfast.errors import ConfigError

PASSWORD_VARIABLE: Final = "HOLDFAST_STORE_PASSWORD"  # noqa: S105 - where it stands
PASSWORD_FILE: Final = "password_file"  # noqa: S105 - where it stands
SQLITE: Final = "sqlite"
POSTGRESQL: Final = "postgresql"
MARIADB: Final = "mysql"

_SCHEMES: Final = {
    "sqlite": SQLITE,
    "postgresql": POSTGRESQL,
    "postgresql+psycopg": POSTGRESQL,
    "mysql": MARIADB,
    "mysql+pymysql": MARIADB,
    "mariadb": MARIADB,
    "mariadb+pymysql": MARIADB,
}
_OPTIONS: Final = {
    SQLITE: frozenset[str](),
    POSTGRESQL: frozenset({"sslmode", "sslrootcert", "sslcert", "sslkey"}),
    MARIADB: frozenset({"ssl_ca", "ssl_cert", "ssl_key"}),
}
_KEYS: Final = frozenset({"sslkey", "ssl_key"})
"""Of these options, what names a private key."""
_PORTS: Final = {SQLITE: 0, POSTGRESQL: 5432, MARIADB: 3306}
_PARTS: Final = re.compile(r"(?P<scheme>[a-z+]+)://(?P<authority>[^/?]*)(?P<rest>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """A place to keep a log in; its `repr` and its text are without the password."""

    kind: str
    """`SQLITE`, `POSTGRESQL` or `MARIADB`."""

    hosts: tuple[Host, ...]
    """To be tried in this order; none for a file."""

    database: str
    """Its name, or the path of its file."""

    user: str = ""
    password: str = field(default="", repr=False)
    options: Mapping[str, str] = field(default_factory=dict)
    is_begun: bool = False
    """A file of that name was used: where none is, none is made."""

    is_glanced_at: bool = False
    """Any host that answers will do, one that takes no writes as well."""

    def __str__(self) -> str:
        """Name the place for people, in a form that is a URL too."""
        if self.kind == SQLITE:
            return f"sqlite:///{self.database}"
        user = f"{self.user}@" if self.user else ""
        return f"{self.kind}://{user}{','.join(map(str, self.hosts))}/{self.database}"


def parse_store_url(
    text: str, *, own_directory: Path, environment: Mapping[str, str] = os.environ
) -> StoreUrl:
    """
    Read where the database is.

    Args:
        own_directory: The broker's own; beside it a file of SQLite is proposed.

    Raises:
        ConfigError: It cannot be used; no sentence repeats what may be a password.
    """
    found = _PARTS.fullmatch(text)
    kind = _SCHEMES.get(found["scheme"]) if found is not None else None
    if found is None or kind is None:
        scheme = f"{text.partition(':')[0]!r} is" if found is not None else "this is"
        raise _wrong(
            f"{scheme} no database that is known: begin with sqlite:, postgresql: or mysql:"
        )
    if kind == SQLITE:
        return _parse_file(text, own_directory)
    user, at, addresses = found["authority"].rpartition("@")
    urls = [
        _parse_one(f"{found['scheme']}://{user}{at}{address}{found['rest']}")
        for address in addresses.split(",")
    ]
    url = urls[0]
    hosts = tuple(Host(it.host or "", it.port or _PORTS[kind]) for it in urls)
    if not all(it.name for it in hosts):
        raise _wrong("a host is missing: write postgresql://user@host:port/database")
    if not url.database:
        raise _wrong(f"the name of the database is missing behind {hosts[-1]}: add /name")
    return StoreUrl(
        kind=kind,
        hosts=hosts,
        database=url.database,
        user=url.username or "",
        password=_password(url, environment),
        options=_options(url, kind),
    )


def standing(text: str, *, own_directory: Path, environment: Mapping[str, str] = os.environ) -> str:
    """
    Give the same place as a text in which the password stands: for a process on another machine.

    Raises:
        ConfigError: As above.
    """
    url = parse_store_url(text, own_directory=own_directory, environment=environment)
    if url.kind == SQLITE:
        return f"sqlite:///{quote(url.database)}"
    secret = f":{quote(url.password, safe='')}" if url.password else ""
    user = f"{quote(url.user, safe='')}{secret}@" if url.user or secret else ""
    options = "&".join(f"{name}={quote(it, safe='')}" for name, it in url.options.items())
    hosts = ",".join(map(str, url.hosts))
    return f"{url.kind}://{user}{hosts}/{quote(url.database, safe='')}{options and '?'}{options}"


def _parse_file(text: str, own_directory: Path) -> StoreUrl:
    url = _parse_one(text)
    if url.host or url.username or url.password:
        raise _wrong("a file of SQLite has no host: write sqlite:////absolute/path")
    if not url.database or url.database == ":memory:":
        raise _wrong("a log in memory keeps nothing: write sqlite:////absolute/path")
    path = Path(url.database)
    if not path.is_absolute():
        proposed = own_directory.absolute().parent / path
        raise _wrong(
            f"{url.database} is another file wherever a broker is started from:"
            f" write all of its path, as in sqlite:///{proposed}"
        )
    return StoreUrl(kind=SQLITE, hosts=(), database=str(path), options=_options(url, SQLITE))


def _parse_one(text: str) -> URL:
    try:
        return make_url(text)
    except (ArgumentError, ValueError):
        # What SQLAlchemy says repeats the whole of it.
        raise _wrong(
            "this is no URL of a database: write postgresql://user@host:port/database, with what is"
            " no letter or digit in user and password as %XX"
        ) from None


def _options(url: URL, kind: str) -> dict[str, str]:
    known = _OPTIONS[kind] | ({PASSWORD_FILE} if kind != SQLITE else set())
    strange = sorted(set(url.query) - known)
    if strange:
        allowed = f"; known are {', '.join(sorted(known))}" if known else ""
        raise _wrong(f"?{strange[0]}= is not known for {kind}{allowed}")
    found = {
        name: value if isinstance(value, str) else value[-1]
        for name, value in url.query.items()
        if name != PASSWORD_FILE
    }
    for name in _KEYS & found.keys():
        tell_of_readers(Path(found[name]))
    return found


def _password(url: URL, environment: Mapping[str, str]) -> str:
    if url.password is not None:
        return str(url.password)
    path = url.query.get(PASSWORD_FILE)
    if path is None:
        return environment.get(PASSWORD_VARIABLE, "")
    try:
        return read_password_file(path if isinstance(path, str) else path[-1])
    except ValueError as error:
        raise _wrong(str(error)) from None


def _wrong(sentence: str) -> ConfigError:
    return ConfigError([f"store: {sentence}"])
