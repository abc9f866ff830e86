"""
Users, groups and rights as ActiveMQ's files have them, read with the line of each.

Of `activemq.xml`: `simpleAuthenticationPlugin` and `authorizationPlugin`. Of JAAS' properties login
module: `users.properties` and `groups.properties`. What is found and cannot be carried over is
told with its place, never passed over in silence.

Invariants:
    No entity, no document type and no other file is read because of what stands in one.
    No password is part of what is said of anything.

Pure: files are handed in as bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from xml.parsers import expat

from holdfast.cli.java_properties import Property, read_properties
from holdfast.errors import ConfigError
from holdfast.model.limits import MiB
from holdfast.security.grants import Right

FILE_BYTES_MAX: Final = 16 * MiB
DEPTH_MAX: Final = 100
EVERYBODY: Final = "*"

_NAMESPACES: Final = ("", "http://activemq.apache.org/schema/core")
_PLACEHOLDER: Final = re.compile(r"\$\{([^}]*)\}")
_NOT_READ: Final = {
    "jaasAuthenticationPlugin": "its users stand in JAAS' files: --jaas-users, --jaas-groups",
    "jaasCertificateAuthenticationPlugin": "give each certificate's name a user (--no-password)",
    "jaasDualAuthenticationPlugin": "its users stand in JAAS' files or are certificates",
    "cachedLDAPAuthorizationMap": "what LDAP grants has to be granted here",
    "tempDestinationAuthorizationEntry": "temporary destinations are their connection's own here",
    "messageAuthorizationPolicy": "there is no policy for single messages",
}


class Place(NamedTuple):
    """Where something stands."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignUser:
    """A user of theirs."""

    name: str
    place: Place
    password: str = field(default="", repr=False)
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignEntry:
    """What groups may do with some destinations."""

    patterns: tuple[str, ...]
    """As grants are written here: `queue://A.>`."""
    groups: Mapping[Right, tuple[str, ...]]
    place: Place


@dataclass(slots=True)
class Found:
    """All that was read."""

    users: list[ForeignUser] = field(default_factory=list)
    entries: list[ForeignEntry] = field(default_factory=list)
    left_out: list[tuple[Place, str]] = field(default_factory=list)


def read_activemq_xml(name: str, data: bytes, properties: Mapping[str, Property]) -> Found:
    """
    Read an `activemq.xml`.

    Args:
        name: What the file is called.
        data: What stands in it.
        properties: What its placeholders `${…}` mean.

    Raises:
        ConfigError: It is no such XML, or has a document type.
    """
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError([f"{name}: it has more than {FILE_BYTES_MAX // MiB} MiB"])
    reading = _Reading(name, properties)
    try:
        reading.parser.Parse(data, True)
    except expat.ExpatError as error:
        why = expat.ErrorString(error.code)
        raise ConfigError([f"{name}:{error.lineno}: it is no XML: {why}"]) from error
    except (LookupError, ValueError) as error:
        raise ConfigError([f"{name}: its encoding is not known: {error}"]) from error
    return reading.found


class _Reading:
    """One file on its way through the parser."""

    def __init__(self, name: str, properties: Mapping[str, Property]) -> None:
        self._name = name
        self._properties = properties
        self._depth = 0
        self.found = Found()
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        self.parser.StartDoctypeDeclHandler = self._refuse_doctype
        self.parser.StartElementHandler = self._begin
        self.parser.EndElementHandler = self._end

    @property
    def _place(self) -> Place:
        return Place(self._name, self.parser.CurrentLineNumber)

    def _refuse_doctype(self, *_said: Any) -> None:
        raise ConfigError([f"{self._place}: a document type (DOCTYPE) is not read: take it out"])

    def _begin(self, written: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise ConfigError([f"{self._place}: elements stand more than {DEPTH_MAX} deep"])
        namespace, _, element = written.rpartition(" ")
        if namespace not in _NAMESPACES:
            return
        if element == "authenticationUser":
            self._user(attributes)
        elif element == "authorizationEntry":
            self._entry(attributes)
        elif element in _NOT_READ:
            self._leave_out(f"{element}: {_NOT_READ[element]}")
        elif element == "simpleAuthenticationPlugin" and (
            attributes.get("anonymousAccessAllowed", "false").strip().lower() != "false"
        ):
            self._leave_out("anonymousAccessAllowed: here nobody comes in without a login")

    def _end(self, _written: str) -> None:
        self._depth -= 1

    def _user(self, attributes: dict[str, str]) -> None:
        said = {key: self._filled(attributes.get(key, "")) for key in ("username", "groups")}
        name, groups = said["username"], said["groups"]
        if name is None or groups is None or not name:
            self._leave_out("authenticationUser: its name or groups are not known: --properties")
            return
        password = self._filled(attributes.get("password", ""))
        self._add_user(name, password, _words(groups))

    def _add_user(self, name: str, password: str | None, groups: tuple[str, ...]) -> None:
        kept = usable(password)
        if kept is None:
            self._leave_out(f"user {name}: {_WHY_NONE}")
        self.found.users.append(
            ForeignUser(name=name, place=self._place, password=kept or "", groups=groups)
        )

    def _entry(self, attributes: dict[str, str]) -> None:
        patterns = tuple(
            f"{kind}://{word}"
            for kind in ("queue", "topic")
            for word in _words(attributes.get(kind, ""))
        )
        if not patterns:
            self._leave_out("authorizationEntry: it names neither a queue nor a topic")
            return
        if "groupClass" in attributes:
            self._leave_out("groupClass: a group is its name here")
        groups = {right: _words(attributes.get(right.value, "")) for right in Right}
        self.found.entries.append(ForeignEntry(patterns=patterns, groups=groups, place=self._place))

    def _filled(self, text: str) -> str | None:
        """Give a text with what its placeholders mean; None: one of them is not known."""
        names = _PLACEHOLDER.findall(text)
        if any(name not in self._properties for name in names):
            return None
        return _PLACEHOLDER.sub(lambda it: self._properties[it[1]].value, text)

    def _leave_out(self, why: str) -> None:
        self.found.left_out.append((self._place, why))


def read_jaas(users: tuple[str, bytes], groups: tuple[str, bytes] | None) -> Found:
    """Read `users.properties` and `groups.properties`, each by its name and what stands in it."""
    found = Found()
    groups_of: dict[str, list[str]] = {}
    known = read_properties(users[1])
    for group in read_properties(groups[1]).values() if groups is not None else ():
        for member in _words(group.value):
            groups_of.setdefault(member, []).append(group.name)
            if member not in known:
                assert groups is not None, "there is this one"
                why = f"group {group.name}: there is no user {member}"
                found.left_out.append((Place(groups[0], group.line), why))
    for user in known.values():
        place = Place(users[0], user.line)
        password = usable(user.value.strip())
        if password is None:
            found.left_out.append((place, f"user {user.name}: {_WHY_NONE}"))
        found.users.append(
            ForeignUser(
                name=user.name,
                place=place,
                password=password or "",
                groups=tuple(groups_of.get(user.name, ())),
            )
        )
    return found


_WHY_NONE: Final = (
    "the password is encrypted or not known: it gets none; see 'holdfast users password'"
)


def usable(password: str | None) -> str | None:
    """Give a password as it is; None: it stands there in a form that nobody can read."""
    if password is None or password.startswith("ENC(") or _PLACEHOLDER.search(password):
        return None
    return password


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
