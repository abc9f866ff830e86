"""
What the operator wrote, checked as a whole, as one frozen value.

A setting comes from a flag, else from an environment variable (`HOLDFAST_` and its key in
capitals), else from the TOML file, else it has its default. The shape of each value is checked by
pydantic; how the values fit together is checked here. All mistakes are reported in one ConfigError,
each with its key and what is allowed: nobody starts a node five times to learn of five mistakes.

Invariants:
    A NodeConfig that exists is consistent: whoever holds one need not check again.
    There is no switch that trades safety for speed: fsync before confirm is not a setting.

Immutable; safe to use from any thread.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from annotated_types import Ge, Le
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from holdfast.errors import ConfigError
from holdfast.model.limits import GiB, KiB, MiB

MemberKind = Literal["voter", "witness", "learner"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["human", "json"]

MEMBERS_MAX = 15
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?")
SECRET_BYTES_MIN = 16
ENVIRONMENT_PREFIX = "HOLDFAST_"

# Fewer heartbeats than this in the shortest election timeout, and one late packet deposes a leader.
HEARTBEATS_PER_ELECTION_MIN = 5

_SIZE = re.compile(r"(\d+)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_SIZE_UNITS = {"": 1, "k": KiB, "m": MiB, "g": GiB, "t": 1024 * GiB}
_WILDCARD_HOSTS = {"0.0.0.0", "::", ""}  # noqa: S104 - compared with, not bound to
_MEMBER_KEYS = {"name", "address", "kind", "site"}


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a TCP port; written `host:port`, with an IPv6 host in square brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Only programs on this machine can reach it."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @classmethod
    def parse(cls, text: str) -> Self:
        """
        Read `host:port`.

        Raises:
            ValueError: It is not of that form; the sentence says what is expected.
        """
        host, colon, port = text.strip().rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
            raise ValueError(f"{text!r} is not HOST:PORT with a port from 0 to 65535")
        return cls(host, int(port))


@dataclass(frozen=True, slots=True)
class MemberConfig:
    """One member of the cluster as the operator named it."""

    name: str
    address: Address
    kind: MemberKind = "voter"
    site: str = ""

    @property
    def keeps_log(self) -> bool:
        """It counts towards `sites`: a witness keeps the log while a voter is away."""
        return self.kind != "learner"


def variable_names() -> frozenset[str]:
    """The environment variables that stand for settings of a node."""
    return frozenset(ENVIRONMENT_PREFIX + key.upper() for key in _Fields.model_fields)


def parse_size(text: str | int) -> int:
    """
    Read a number of bytes: `268435456`, `256MiB`, `256M`, `256mb`, `64k`, in powers of 1024.

    Raises:
        ValueError: It is none of these.
    """
    found = _SIZE.fullmatch(str(text).strip())
    if found is None or isinstance(text, bool):
        raise ValueError(f"{text!r} is not a size such as 268435456, 64k or 256MiB")
    return int(found[1]) * _SIZE_UNITS[found[2].lower()]


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
    address = Address.parse(str(table.get("address", "")))
    return MemberConfig(check_name(str(name)), address, kind, check_name(str(site)) if site else "")


def check_name(text: str) -> str:
    """
    The name itself, if a node or site may be called so.

    Raises:
        ValueError: It may not.
    """
    if not NAME.fullmatch(text):
        raise ValueError(
            f"{text!r}: a name has 1 to 63 letters, digits, dots, hyphens, underscores"
        )
    return text


def _read_address(value: object) -> object:
    return Address.parse(value) if isinstance(value, str) else value


def _read_names(value: object) -> object:
    """Host names from a flag or the environment (one text), or from TOML (a list)."""
    names = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(names, list | tuple):
        raise ValueError(f"{value!r} is not a list of host names")
    for name in names:
        if not isinstance(name, str) or not HOST_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a host, without a port")
    return tuple(name.lower().removesuffix(".") for name in names)


def _read_size(value: object) -> object:
    return parse_size(value) if isinstance(value, str) else value


def _read_members(value: object) -> object:
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


_AddressField = Annotated[Address, BeforeValidator(_read_address)]
_MemberFields = Annotated[tuple[MemberConfig, ...], BeforeValidator(_read_members)]
_NamesField = Annotated[tuple[str, ...], BeforeValidator(_read_names)]
_NameField = Annotated[str, BeforeValidator(lambda value: check_name(str(value)))]
_SecondsField = Annotated[float, Field(ge=0.005, le=600)]


class _Fields(BaseModel):
    """Every key that may be set, its shape, range and default; `None` is worked out from others."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True, frozen=True)

    data: Path
    name: _NameField = "holdfast"
    stomp: _AddressField = Address("127.0.0.1", 61613)
    admin: _AddressField = Address("127.0.0.1", 8161)
    admin_names: _NamesField = ()
    connections: Annotated[int, Field(ge=16, le=1_000_000)] = 10_000
    admin_connections: Annotated[int, Field(ge=8, le=10_000)] = 64
    peers: _AddressField | None = None
    members: _MemberFields = ()
    secret_file: Path | None = None
    site: _NameField | None = None
    copies: Annotated[int | None, Field(ge=1, le=MEMBERS_MAX)] = None
    sites: Annotated[int, Field(ge=1, le=MEMBERS_MAX)] = 1
    memory: Annotated[int, BeforeValidator(_read_size), Field(ge=16 * MiB)] = 256 * MiB
    learner_hold: Annotated[int, BeforeValidator(_read_size), Field(ge=64 * MiB)] = 16 * GiB
    reader_hold: Annotated[int, BeforeValidator(_read_size), Field(ge=64 * MiB)] = 64 * GiB
    default_persistent: bool = False
    stomp_strict: bool = False
    segment: Annotated[int, BeforeValidator(_read_size), Field(ge=64 * KiB, le=4 * GiB)] = 64 * MiB
    heartbeat_seconds: _SecondsField = 0.1
    election_seconds_min: _SecondsField = 1.0
    election_seconds_max: _SecondsField = 2.0
    log_level: LogLevel = "info"
    log_format: LogFormat = "human"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """Everything one node needs to know to start, complete and consistent."""

    data: Path
    """The directory that holds all that must survive."""

    name: str
    stomp: Address
    admin: Address
    admin_names: tuple[str, ...]
    """Names under which the admin port may be asked, beside those it knows by itself."""

    connections: int
    """Client connections at one time; beyond it silent ones go, then new ones are closed."""

    admin_connections: int
    """The same for the admin port."""

    peers: Address | None
    """Where peers connect; None on a single node, which listens for none."""

    members: tuple[MemberConfig, ...]
    """All members, this node among them; empty on a single node."""

    secret_file: Path | None
    secret: bytes = field(repr=False)
    """What the members of a cluster know of each other; empty if there is none."""

    site: str
    copies: int
    """Nodes with data that must hold a message before its producer is told so; 0: the default."""

    sites: int
    """Distinct sites, a witness's among them, that must hold it."""

    memory_bytes: int
    """Message bodies kept in memory; beyond it they are read back from the log."""

    learner_hold_bytes: int
    """Of the log that is kept for a learner that is behind; beyond it, it must begin anew."""

    reader_hold_bytes: int
    """Of the log that is kept for one named reader at most, whatever it asks for."""

    default_persistent: bool
    """Whether a message without a `persistent` header is kept; False, as ActiveMQ has it."""

    stomp_strict: bool
    """Whether STOMP connections end where the specification has it end, and ActiveMQ goes on."""

    segment_bytes: int
    heartbeat_seconds: float
    election_seconds_min: float
    election_seconds_max: float
    log_level: LogLevel
    log_format: LogFormat

    @classmethod
    def load(
        cls,
        *,
        flags: Mapping[str, Any],
        environment: Mapping[str, str],
        file: Path | None = None,
    ) -> Self:
        """
        Put together flags, environment variables and file, in this order of precedence.

        A flag that is None was not given. An environment variable that is empty counts as not set.

        Raises:
            ConfigError: With every mistake at once.
        """
        problems: list[str] = []
        table = _read_file(file, problems)
        variables = {
            key: environment[ENVIRONMENT_PREFIX + key.upper()]
            for key in _Fields.model_fields
            if environment.get(ENVIRONMENT_PREFIX + key.upper())
        }
        given = {key: value for key, value in flags.items() if value is not None and value != []}
        merged = table | variables | given
        fields, wrong = _check_fields(merged, problems)
        secret = _read_secret(fields.secret_file, problems)
        _check_relations(fields, _Trusted(wrong, problems), has_secret=bool(secret))
        if problems:
            raise ConfigError(problems)
        return cls._complete(fields, secret)

    @classmethod
    def _complete(cls, fields: _Fields, secret: bytes) -> Self:
        """Work out what was left open."""
        own = _own_member(fields)
        plain = fields.model_dump(
            exclude={
                "peers",
                "site",
                "copies",
                "memory",
                "learner_hold",
                "reader_hold",
                "segment",
            }
        )
        return cls(
            **plain
            | {"members": _place_own(fields, own), "stomp": fields.stomp, "admin": fields.admin},
            peers=fields.peers or (own.address if own else None),
            site=fields.site or (own.site if own else ""),
            copies=fields.copies or 0,
            memory_bytes=fields.memory,
            learner_hold_bytes=fields.learner_hold,
            reader_hold_bytes=fields.reader_hold,
            segment_bytes=fields.segment,
            secret=secret,
        )

    @property
    def advertised_stomp(self) -> str:
        """Where other machines reach the STOMP port, `host:port`."""
        return str(self._reachable(self.stomp))

    @property
    def advertised_admin(self) -> str:
        """Where other machines reach the admin port, `host:port`."""
        return str(self._reachable(self.admin))

    def _reachable(self, address: Address) -> Address:
        """A wildcard host replaced by the one the other members use for this node."""
        own = next((member for member in self.members if member.name == self.name), None)
        if address.host not in _WILDCARD_HOSTS or own is None:
            return address
        return Address(own.address.host, address.port)


def _read_file(file: Path | None, problems: list[str]) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        return _with_plain_keys(tomllib.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        problems.append(f"config: {file} cannot be read: {error.strerror}")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        problems.append(f"config: {file} is not TOML: {error}")
    return {}


def _with_plain_keys(table: dict[str, Any]) -> dict[str, Any]:
    """`[stomp]` with `address` and `strict` is another way to write `stomp` and `stomp_strict`."""
    section = table.get("stomp")
    if not isinstance(section, dict):
        return table
    rest = {key: value for key, value in table.items() if key != "stomp"}
    named = {f"stomp_{key}": value for key, value in section.items() if key != "address"}
    address = {"stomp": section["address"]} if "address" in section else {}
    return named | rest | address


def _check_fields(merged: dict[str, Any], problems: list[str]) -> tuple[_Fields, set[str]]:
    """
    Check each value by itself; wrong ones are reported and replaced by their default.

    Returns the fields and the keys that were wrong, so that the relations between the right ones
    can still be checked.
    """
    try:
        return _Fields.model_validate(merged), set()
    except ValidationError as error:
        wrong = set()
        for detail in error.errors(include_url=False):
            key = str(detail["loc"][0])
            if key not in wrong:
                problems.append(_sentence(key, dict(detail)))
            wrong.add(key)
    kept = {key: value for key, value in merged.items() if key not in wrong}
    return _Fields.model_validate({"data": Path(), **kept}), wrong


def _sentence(key: str, detail: dict[str, Any]) -> str:
    """One of pydantic's findings in our words: the key, what is wrong, what is allowed."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "missing":
        return f"{key}: missing; give --{key}, {ENVIRONMENT_PREFIX}{key.upper()} or '{key} = …'"
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(key, _Fields.model_fields, n=1)
        return f"{key}: unknown setting" + (f"; did you mean {near[0]}?" if near else "")
    if kind in ("greater_than_equal", "less_than_equal"):
        return f"{key}: {detail['input']} is out of range; {_allowed(key)}"
    if kind == "value_error":
        return f"{key}: {context['error']}"
    return f"{key}: {detail['input']!r}: {str(detail['msg']).lower()}"


def _allowed(key: str) -> str:
    """The range of a number, read from the field itself so that it cannot differ from the check."""
    bounds = _Fields.model_fields[key].metadata
    least = next(bound.ge for bound in bounds if isinstance(bound, Ge))
    most = next((bound.le for bound in bounds if isinstance(bound, Le)), None)
    return f"allowed: {least:,} or more" if most is None else f"allowed: {least:,} to {most:,}"


def _read_secret(file: Path | None, problems: list[str]) -> bytes:
    """The secret without the newline that editors add."""
    if file is None:
        return b""
    try:
        secret = file.read_bytes().strip()
    except OSError as error:
        problems.append(f"secret_file: {file} cannot be read: {error.strerror}")
        return b"?"
    if len(secret) < SECRET_BYTES_MIN:
        problems.append(
            f"secret_file: {file} holds {len(secret)} bytes; allowed: {SECRET_BYTES_MIN} or more"
        )
    return secret


@dataclass(frozen=True, slots=True)
class _Trusted:
    """Where findings about related keys go, unless one of the keys is itself wrong."""

    wrong: set[str]
    problems: list[str]

    def require(self, holds: bool, keys: str, sentence: str) -> None:
        if not holds and self.wrong.isdisjoint(keys.split()):
            self.problems.append(sentence)


def _check_relations(fields: _Fields, check: _Trusted, *, has_secret: bool) -> None:
    _check_members(fields, check)
    _check_placement(fields, check)
    _check_timing(fields, check)
    _check_directory(fields, check)
    peers = fields.peers or (own.address if (own := _own_member(fields)) else None)
    check.require(
        peers is None or peers.is_loopback or has_secret or fields.secret_file is not None,
        "peers secret_file members",
        f"secret_file: missing; peers bound to {peers} can be reached from other machines,"
        " which needs a shared secret (--secret-file)",
    )


def _check_members(fields: _Fields, check: _Trusted) -> None:
    names = [member.name for member in fields.members]
    addresses = [str(member.address) for member in fields.members]
    check.require(
        len(names) <= MEMBERS_MAX,
        "members",
        f"members: {len(names)} members; allowed: at most {MEMBERS_MAX}",
    )
    for what, values in (("name", names), ("address", addresses)):
        for twice in sorted({value for value in values if values.count(value) > 1}):
            check.require(False, "members", f"members: the {what} {twice} is given twice")
    if not names:
        check.require(
            fields.peers is None,
            "members peers",
            "members: missing; with --peers give every member, this node too, as --member",
        )
        return
    check.require(
        fields.name in names,
        "name members",
        f"name: {fields.name} is not among the members ({', '.join(names)})",
    )
    check.require(
        any(member.kind == "voter" for member in fields.members),
        "members",
        "members: none of them is a voter that holds data",
    )
    own = _own_member(fields)
    check.require(
        own is None or not (own.site and fields.site) or own.site == fields.site,
        "site members",
        f"site: {fields.site} here, but {own.site if own else ''} in the list of members",
    )


def _check_placement(fields: _Fields, check: _Trusted) -> None:
    keeping = [member for member in _place_own(fields, _own_member(fields)) if member.keeps_log]
    count = sum(it.kind == "voter" for it in keeping) if fields.members else 1
    check.require(
        fields.copies is None or fields.copies <= count,
        "copies members",
        f"copies: {fields.copies} is more than the voters with data; allowed: 1 to {count}",
    )
    places = max(1, len({member.site for member in keeping}))
    check.require(
        fields.sites <= places,
        "sites site members",
        f"sites: {fields.sites} is more than the distinct sites of the members that keep the log;"
        f" allowed: 1 to {places}",
    )
    unplaced = [member.name for member in keeping if not member.site]
    check.require(
        fields.sites == 1 or not unplaced,
        "sites site members",
        f"sites: {fields.sites} asked for, but no site is given for: {', '.join(unplaced)}",
    )
    check.require(
        fields.copies is None or fields.sites <= fields.copies,
        "copies sites",
        f"copies: {fields.copies} copies cannot stand on {fields.sites} sites;"
        f" allowed: {fields.sites} or more",
    )


def _check_timing(fields: _Fields, check: _Trusted) -> None:
    least = HEARTBEATS_PER_ELECTION_MIN * fields.heartbeat_seconds
    check.require(
        fields.election_seconds_min >= least,
        "heartbeat_seconds election_seconds_min",
        f"election_seconds_min: {fields.election_seconds_min:g} is less than"
        f" {HEARTBEATS_PER_ELECTION_MIN} heartbeats; allowed: {least:g} or more",
    )
    # Equal bounds would make all followers stand at once, again and again.
    least = 1.2 * fields.election_seconds_min
    check.require(
        fields.election_seconds_max >= least,
        "election_seconds_min election_seconds_max",
        f"election_seconds_max: {fields.election_seconds_max:g} leaves no room to differ from"
        f" election_seconds_min; allowed: {least:g} or more",
    )


def _check_directory(fields: _Fields, check: _Trusted) -> None:
    check.require(
        not fields.data.exists() or fields.data.is_dir(),
        "data",
        f"data: {fields.data} is not a directory",
    )
    given = [str(address) for address in (fields.stomp, fields.admin, fields.peers) if address]
    fixed = [address for address in given if not address.endswith(":0")]
    for twice in sorted({address for address in fixed if fixed.count(address) > 1}):
        check.require(
            False, "stomp admin peers", f"stomp, admin, peers: two of them are bound to {twice}"
        )


def _own_member(fields: _Fields) -> MemberConfig | None:
    return next((member for member in fields.members if member.name == fields.name), None)


def _place_own(fields: _Fields, own: MemberConfig | None) -> tuple[MemberConfig, ...]:
    """The members, with --site filled in for this node where the list has none for it."""
    if own is None or own.site or not fields.site:
        return fields.members
    placed = MemberConfig(own.name, own.address, own.kind, fields.site)
    return tuple(placed if member is own else member for member in fields.members)
