"""
Which files of a node's configuration hold a secret: for whoever sees who else can read them.

A configuration names such files, and is one itself where a password stands in it. What others
serve us with (a database, an elector, a directory) has its files named here as well.

Pure; no file is opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from holdfast.authorities.options import AuthorityOptions
from holdfast.config.node_settings import NodeSettings
from holdfast.config.sources import Origin
from holdfast.transport.tls import TlsOptions

_NAMED_BY_URL: Final = ("password_file", "sslkey", "ssl_key")
"""Of PostgreSQL and MariaDB; what else their URLs name is no secret."""


def named_secrets(
    settings: NodeSettings,
    tls: Mapping[str, TlsOptions],
    authorities: AuthorityOptions,
    *,
    file: Path | None,
    origins: Mapping[str, Origin],
) -> Iterator[Path]:
    """
    Give all that it names; some may not be there.

    Args:
        settings: What it says.
        tls: What ports go by.
        authorities: Who vouches for people.
        file: It itself, if it is one.
        origins: What stands in it, by setting.
    """
    if file is not None and _has_password(settings, origins):
        yield file
    if settings.secret_file is not None:
        yield settings.secret_file
    for store in settings.store:
        said = parse_qs(urlsplit(store.text).query)
        yield from (Path(it) for key in _NAMED_BY_URL for it in said.get(key, ()))
    if settings.elector is not None and settings.elector.password_file:
        yield Path(settings.elector.password_file)
    for options in tls.values():
        yield options.key or options.certificate
    for directory in authorities.directories:
        yield directory.bind_password_file


def _has_password(settings: NodeSettings, origins: Mapping[str, Origin]) -> bool:
    by_file = {key for key, origin in origins.items() if origin.kind == "file"}
    return ("store" in by_file and any(urlsplit(it.text).password for it in settings.store)) or (
        "elector" in by_file and settings.elector is not None and bool(settings.elector.password)
    )
