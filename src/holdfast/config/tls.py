"""
What a file says of TLS: its tables `[tls.NAME]`, each what ports go by that name it.

    [tls.outside]
    certificate = "/etc/holdfast/node.pem"
    key = "/etc/holdfast/node.key"

The keys are those of `transport.tls.TlsOptions`. The files are read once to see that they can be
used: a node that opens its port in the middle of a failover would find out too late.

Invariants:
    Each mistake is told with its line; whoever names a table that has one need not be told again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, get_args

from holdfast.config.named_tables import Mistakes, read_named
from holdfast.config.paths import read_path
from holdfast.errors import ConfigError
from holdfast.transport.tls import ClientCertificates, Minimum, TlsOptions

TABLE: Final = "tls"
PEERS_TABLE: Final = "peers"
"""The name of the one that links between members go by."""

_PATHS: Final = ("certificate", "key", "client_ca", "crl", "ca")
_WORDS: Final = {"client": get_args(ClientCertificates), "minimum": get_args(Minimum)}
_KEYS: Final = tuple(each.name for each in fields(TlsOptions) if each.name != "name")


def read_tls(table: object, mistakes: Mistakes) -> dict[str, TlsOptions]:
    """Read the tables by their names; one that has a mistake stands as an empty one."""
    made: dict[str, TlsOptions] = {}
    for name, values in read_named(TABLE, table, mistakes, value=_value, unfit=_unfit).items():
        made[name] = TlsOptions(name=name, certificate=Path())
        if values is None:
            continue
        options = TlsOptions(name=name, **values)
        try:
            options.build_context()
        except ConfigError as error:
            key, _, sentence = error.problems[0].removeprefix(f"tls.{name}.").partition(": ")
            mistakes.report((TABLE, name, key), sentence)
        else:
            made[name] = options
    return made


def _value(key: str, value: object) -> object:
    if key in _PATHS:
        if not isinstance(value, str):
            raise ValueError(f"{str(value)[:80]!r} is not a path: write it in quotes")
        read_path(value)
        return Path(value)
    if key in _WORDS:
        if value not in _WORDS[key]:
            allowed = ", ".join(f"'{it}'" for it in _WORDS[key])
            raise ValueError(f"{str(value)[:80]!r} is none of what is allowed: {allowed}")
        return value
    raise ValueError(f"unknown key; a table of TLS has {', '.join(_KEYS)}")


def _unfit(values: Mapping[str, Any]) -> list[str]:
    """What is missing, or given to no use."""
    found = []
    asks = values.get("client", "none") != "none"
    if "certificate" not in values:
        found.append("certificate is missing: the file with what the port shows")
    if asks and "client_ca" not in values:
        found.append("client_ca is missing: without it no certificate of a client can be checked")
    if not asks and "client_ca" in values:
        found.append("client_ca is of use with client = 'wanted' or 'required' only")
    if "crl" in values and not asks:
        found.append("crl is of use with client = 'wanted' or 'required' only")
    return found
