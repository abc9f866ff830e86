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

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from holdfast.config.address import Address
from holdfast.config.members import MemberConfig
from holdfast.config.relations import Trusted, check_relations, own_member, place_own
from holdfast.config.shapes import ENVIRONMENT_PREFIX, Fields, LogFormat, LogLevel, check_fields
from holdfast.config.sources import read_file, read_secret
from holdfast.errors import ConfigError

_WILDCARD_HOSTS = {"0.0.0.0", "::", ""}  # noqa: S104 - compared with, not bound to


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
        table = read_file(file, problems)
        variables = {
            key: environment[ENVIRONMENT_PREFIX + key.upper()]
            for key in Fields.model_fields
            if environment.get(ENVIRONMENT_PREFIX + key.upper())
        }
        given = {key: value for key, value in flags.items() if value is not None and value != []}
        merged = table | variables | given
        fields, wrong = check_fields(merged, problems)
        secret = read_secret(fields.secret_file, problems)
        check_relations(fields, Trusted(wrong, problems), has_secret=bool(secret))
        if problems:
            raise ConfigError(problems)
        return cls._complete(fields, secret)

    @classmethod
    def _complete(cls, fields: Fields, secret: bytes) -> Self:
        """Work out what was left open."""
        own = own_member(fields)
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
            | {"members": place_own(fields, own), "stomp": fields.stomp, "admin": fields.admin},
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
