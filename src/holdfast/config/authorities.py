"""
What a file says of who vouches for people beside the log: its tables `[jwt.NAME]`, `[ldap.NAME]`.

    [jwt.company]
    issuer = "https://login.example.org/"
    audience = "holdfast"
    keys = "https://login.example.org/keys.json"

    [ldap.people]
    url = "ldaps://directory.example.org"

The keys are those of `authorities.options`.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from holdfast.authorities.options import ALGORITHMS, JwtOptions, LdapOptions
from holdfast.config.address import Address
from holdfast.config.named_tables import Mistakes, read_named
from holdfast.config.paths import read_path

JWT: Final = "jwt"
LDAP: Final = "ldap"

_TEXT_MAX: Final = 1_000


def read_issuers(table: object, mistakes: Mistakes) -> tuple[JwtOptions, ...]:
    """Read the issuers of tokens; one that has a mistake is left out, and told of."""
    values = read_named(JWT, table, mistakes, value=_reader(JwtOptions, _JWT), unfit=_unfit_issuer)
    made = tuple(JwtOptions(name=name, **it) for name, it in values.items() if it is not None)
    for number, each in enumerate(made):
        if each.issuer in {it.issuer for it in made[:number]}:
            mistakes.report((JWT, each.name, "issuer"), "another table has the same issuer")
    return made


def read_directories(table: object, mistakes: Mistakes) -> tuple[LdapOptions, ...]:
    """Read the directories; one that has a mistake is left out, and told of."""
    reader = _reader(LdapOptions, _LDAP)
    values = read_named(LDAP, table, mistakes, value=reader, unfit=_unfit_directory)
    if len(values) > 1:
        mistakes.report(
            (LDAP,), "there is more than one directory: who is wrong in one may be right in another"
        )
    return tuple(LdapOptions(name=name, **it) for name, it in values.items() if it is not None)


def _reader(
    options: type, readers: Mapping[str, Callable[[object], object]]
) -> Callable[[str, object], object]:
    keys = [each.name for each in fields(options) if each.name != "name"]

    def read(key: str, value: object) -> object:
        if key not in keys:
            raise ValueError(f"unknown key; such a table has {', '.join(keys)}")
        return readers.get(key, _text)(value)

    return read


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > _TEXT_MAX:
        raise ValueError(f"{str(value)[:80]!r} is no text of 1 to {_TEXT_MAX:,} letters")
    if not value.isprintable():
        raise ValueError(f"{value[:80]!r} has letters that cannot be seen")
    return value


def _path(value: object) -> Path:
    text = _text(value)
    read_path(text)
    return Path(text)


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{str(value)[:80]!r} is neither true nor false")
    return value


def _seconds(low: int, high: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(
                f"{str(value)[:80]!r} is not allowed: whole seconds from {low:,} to {high:,}"
            )
        return value

    return read


def _algorithms(value: object) -> tuple[str, ...]:
    allowed = ", ".join(f"'{it}'" for it in ALGORITHMS)
    if not isinstance(value, list) or not value:
        raise ValueError(f"{str(value)[:80]!r} is no list of some of {allowed}")
    for each in value:
        if each not in ALGORITHMS:
            raise ValueError(
                f"{str(each)[:80]!r} is not allowed: whoever can check by a secret can sign by it,"
                f" so it is one of {allowed}"
            )
    return tuple(value)


def _keys_place(value: object) -> str:
    """Where keys are: by TLS, or on this machine."""
    text = _text(value)
    scheme, colon, _ = text.partition("://")
    if not colon:
        return str(_path(text))
    host = _host(text)
    if scheme == "https" or (scheme == "http" and Address(host, 0).is_loopback):
        return text
    raise ValueError(f"{text!r} is not allowed: an https URL, or a file of this machine")


def _directory_url(value: object) -> str:
    text = _text(value)
    if text.partition("://")[0] not in ("ldap", "ldaps"):
        raise ValueError(f"{text!r} is no ldaps://HOST[:PORT] or ldap://HOST[:PORT]")
    _host(text)
    parts = urlsplit(text)
    if parts.path.strip("/") or parts.query or parts.username is not None:
        raise ValueError("write scheme, host and port only: all else has keys of its own here")
    return text


def _host(text: str) -> str:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise ValueError(f"{text[:80]!r} is no URL") from None
    if not parts.hostname:
        raise ValueError(f"{text[:80]!r} names no host")
    return parts.hostname


def _filter(*names: str) -> Callable[[object], str]:
    """A filter with places for what is looked for."""

    def read(value: object) -> str:
        text = _text(value)
        shown = " and ".join(f"{{{it}}}" for it in names)
        try:
            used = {name for _, name, form, turn in string.Formatter().parse(text) if name or form}
        except ValueError:
            used = {"?"}
        if not used or not used <= set(names) or not text.startswith("("):
            raise ValueError(f"{text!r} is no filter in parentheses with {shown} in it")
        return text

    return read


_JWT: Final[Mapping[str, Callable[[object], object]]] = {
    "keys": _keys_place,
    "ca": _path,
    "algorithms": _algorithms,
    "keys_seconds": _seconds(60, 86_400),
}
_LDAP: Final[Mapping[str, Callable[[object], object]]] = {
    "url": _directory_url,
    "bind_password_file": _path,
    "ca": _path,
    "start_tls": _switch,
    "people_filter": _filter("name"),
    "group_filter": _filter("dn", "name"),
    "again_seconds": _seconds(10, 86_400),
    "timeout_seconds": _seconds(1, 60),
}


def _unfit_issuer(values: Mapping[str, Any]) -> list[str]:
    found = _missing(JwtOptions, values)
    if find_spec("jwt") is None:
        found.append("needs what is not installed: pip install 'holdfast[jwt]'")
    if "ca" in values and not values.get("keys", "").startswith("https://"):
        found.append("ca is of use with an https URL as keys only")
    return found


def _unfit_directory(values: Mapping[str, Any]) -> list[str]:
    found = _missing(LdapOptions, values)
    if find_spec("ldap3") is None:
        found.append("needs what is not installed: pip install 'holdfast[ldap]'")
    if found:
        return found
    is_plain = values["url"].startswith("ldap://")
    is_tls_begun = values.get("start_tls", False)
    if not is_plain and is_tls_begun:
        found.append("start_tls is of use with ldap:// only: ldaps:// is TLS from the beginning")
    if is_plain and not is_tls_begun and not Address(_host(values["url"]), 0).is_loopback:
        found.append(
            "passwords would go over the network in clear: write ldaps://, or start_tls = true"
        )
    if "ca" in values and is_plain and not is_tls_begun:
        found.append("ca is of use by TLS only")
    return found


def _missing(options: type, values: Mapping[str, Any]) -> list[str]:
    needed = [it.name for it in fields(options) if it.default is MISSING and it.name != "name"]
    return [f"{name} is missing" for name in needed if name not in values]
