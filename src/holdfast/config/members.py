"""
The members of the cluster as the operator names them: a text on the command line, a table in TOML.

Here is the form of one member and of its name; whether the members make a cluster together is a
matter of `relations`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from holdfast.config.address import Address, require_text

MemberKind = Literal["voter", "witness", "learner"]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_MEMBER_KEYS = {"name", "address", "kind", "site"}


@dataclass(frozen=True, slots=True)
class MemberConfig:
    """One member of the cluster as the operator named it."""

    name: str
    address: Address
    kind: MemberKind = "voter"
    site: str = ""

    def __str__(self) -> str:
        kind = f",{self.kind}" if self.kind != "voter" else ""
        site = f",site={self.site}" if self.site else ""
        return f"{self.name}={self.address}{kind}{site}"

    @property
    def keeps_log(self) -> bool:
        """It counts towards `sites`: a witness keeps the log while a voter is away."""
        return self.kind != "learner"


def parse_member(text: str) -> MemberConfig:
    """
    Read `name=host:port[,witness|,learner][,site=NAME]`.

    Raises:
        ValueError: It is not of that form; the sentence says what is expected.
    """
    first, *options = (part.strip() for part in text.split(","))
    name, equals, address = first.partition("=")
    if not equals:
        raise ValueError(f"{text!r} is not NAME=HOST:PORT[,witness|,learner][,site=NAME]")
    table: dict[str, Any] = {"name": name, "address": address}
    for option in options:
        if option in {"voter", "witness", "learner"}:
            table["kind"] = option
        elif option.startswith("site="):
            table["site"] = option.removeprefix("site=")
        else:
            raise ValueError(f"{option!r} in {text!r}: allowed are witness, learner and site=NAME")
    return member_from_table(table)


def member_from_table(table: Mapping[str, Any]) -> MemberConfig:
    """
    Read a member from a table with `name`, `address` and perhaps `kind` and `site`.

    Raises:
        ValueError: A key is missing, unknown or of a wrong form.
    """
    if unknown := sorted(set(table) - _MEMBER_KEYS):
        raise ValueError(f"unknown key {unknown[0]!r}: a member has name, address, kind and site")
    name, kind, site = (table.get(k, d) for k, d in (("name", ""), ("kind", "voter"), ("site", "")))
    if kind not in ("voter", "witness", "learner"):
        raise ValueError(
            f"kind {kind!r} of member {name!r}: allowed are voter, witness and learner"
        )
    address = require_text(table.get("address", ""))
    return MemberConfig(check_name(name), Address.parse(address), kind, check_site(site))


def check_site(text: object) -> str:
    """
    The same of a site, which need not be named.

    Raises:
        ValueError: None may be called so.
    """
    return "" if text == "" else check_name(text)


def check_name(text: object) -> str:
    """
    The name itself, if a node or site may be called so.

    Raises:
        ValueError: It may not.
    """
    if not isinstance(text, str):
        raise ValueError(f"{text!r} is not a text; write it in quotes")
    if not NAME.fullmatch(text):
        raise ValueError(
            f"{text!r}: a name has 1 to 63 letters, digits, dots, hyphens, underscores"
        )
    return text


def read_members(value: object) -> object:
    """Members from flags (a list of texts), from the environment (one text), from TOML (tables)."""
    if isinstance(value, str):
        value = value.split()
    if not isinstance(value, Iterable):
        raise ValueError(f"{value!r} is not a list of members")
    members, faults = [], []
    for item in value:
        try:
            members.append(_read_member(item))
        except ValueError as error:
            faults.append(str(error))
    if faults:
        raise ValueError("; ".join(faults))
    return tuple(members)


def _read_member(item: object) -> object:
    if isinstance(item, str):
        return parse_member(item)
    return member_from_table(item) if isinstance(item, Mapping) else item
