"""
What the operator wrote, checked as a whole, as one frozen value.

The shape of each value is checked where it is read, how the values fit together in `relations` and
`proportions`. All mistakes are reported in one ConfigError, each with its key and what is allowed:
nobody starts a node five times to learn of five mistakes.

Invariants:
    A NodeConfig that exists is consistent: whoever holds one need not check again.
    There is no switch that trades safety for speed: fsync before confirm is not a setting.

Immutable; safe to use from any thread.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

from holdfast.authorities.options import NO_AUTHORITIES, AuthorityOptions
from holdfast.config.address import Address
from holdfast.config.draft import Draft, draft, require_data
from holdfast.config.exposure import Exposure, exposures
from holdfast.config.named_secrets import named_secrets
from holdfast.config.node_settings import NodeSettings
from holdfast.config.proportions import check_proportions
from holdfast.config.relations import check_relations, own_member, place_own
from holdfast.config.sections import DEFAULTS, Sections
from holdfast.config.shown import Shown, reachable, shown_of
from holdfast.config.sources import Origin, read_secret
from holdfast.errors import ConfigError
from holdfast.model.policies import NO_POLICIES, FilePolicies
from holdfast.transport.tls import TlsOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig(NodeSettings):
    """Everything one node needs to know to start, complete and consistent."""

    sections: Sections = DEFAULTS
    """The settings of every package."""

    policies: FilePolicies = NO_POLICIES
    """What the file says of destinations."""

    tls: Mapping[str, TlsOptions] = field(default_factory=dict)
    """What ports go by that speak TLS, by the name that they give."""

    authorities: AuthorityOptions = NO_AUTHORITIES
    """Who vouches for people beside the log."""

    mirrors: tuple[Path, ...] = ()
    """Directories that hold the same as `data`."""

    secret: bytes = field(default=b"", repr=False)
    """What the members of a cluster know of each other; empty if there is none."""

    origins: Mapping[str, Origin] = field(default_factory=dict, repr=False, compare=False)
    """Where each value that is no default comes from, by the setting's path."""

    @classmethod
    def load(
        cls,
        *,
        flags: Mapping[str, Any],
        environment: Mapping[str, str],
        file: Path | None = None,
        is_data_needed: bool = True,
    ) -> Self:
        """
        Put together flags, environment variables and file, in this order of precedence.

        A flag that is None was not given. An environment variable that is empty counts as not set.
        A configuration without a directory for the data is good for being looked at only.

        Raises:
            ConfigError: With every mistake at once.
        """
        made = draft(flags, environment, file)
        if is_data_needed:
            require_data(made)
        sections, secret = _checked(made)
        if made.problems:
            raise ConfigError(made.problems)
        return cls._complete(made, sections, secret)

    def secrets(self, file: Path | None) -> list[Path]:
        """Give the files with secrets that it names, and `file`, where that is one itself."""
        return list(
            named_secrets(self, self.tls, self.authorities, file=file, origins=self.origins)
        )

    @classmethod
    def _complete(cls, made: Draft, sections: Sections, secret: bytes) -> Self:
        """Work out what was left open."""
        given = made.node_settings()
        own = own_member(given)
        settings = replace(
            given,
            members=place_own(given, own),
            peers=given.peers or (own.address if own else None),
            site=given.site or (own.site if own else ""),
        )
        values = {each.name: getattr(settings, each.name) for each in fields(settings)}
        return cls(
            **values,
            sections=sections,
            secret=secret,
            origins=made.origins,
            policies=made.policies,
            tls=made.tls,
            authorities=made.authorities,
            mirrors=made.mirrors,
        )

    def value(self, path: str) -> Any:
        """What a setting is set to, or was worked out to be."""
        section, _, name = path.rpartition(".")
        if path == "data" and self.mirrors:
            return (self.data, *self.mirrors)
        return getattr(getattr(self.sections, section) if section else self, name)

    def exposures(self) -> list[Exposure]:
        """Say what it lets others on the network read or do."""
        takes_clear = self.sections.server.plain_without_tls
        role = self.sections.broker.anonymous_role
        return list(exposures(self, takes_clear=takes_clear, anonymous_role=role))

    @property
    def advertised_stomp(self) -> str:
        """Where other machines reach the STOMP port, `host:port`."""
        return str(self._reachable(self.stomp))

    @property
    def advertised_admin(self) -> str:
        """Where other machines reach the admin port, `host:port` or `https://host:port`."""
        place = str(self._reachable(self.admin))
        return f"https://{place}" if self.admin_tls else place

    def _reachable(self, address: Address) -> Address:
        """A wildcard host replaced by the one the other members use for this node."""
        own = own_member(self)
        return reachable(address, own.address if own else None)

    @property
    def shown(self) -> Shown:
        """What it shows by TLS."""
        return shown_of(self, self.tls, name=self.name)


def mistakes_in(file: Path, given_elsewhere: Collection[str] = ("data", "name")) -> list[str]:
    """
    Say everything that is wrong with a file by itself, whatever flags and variables may add.

    What differs from node to node, and stands not in it, is taken to be given elsewhere.
    """
    made = draft({}, {}, file)
    made.wrong.update(name for name in given_elsewhere if name not in made.origins)
    _checked(made)
    return made.problems


def exposures_in(file: Path) -> list[Exposure]:
    """Say what a file without mistakes lets others on the network read or do."""
    made = draft({}, {}, file)
    return list(
        exposures(
            made.node_settings(),
            takes_clear=made.value("server.plain_without_tls"),
            anonymous_role=made.value("broker.anonymous_role"),
        )
    )


def secrets_in(file: Path) -> list[Path]:
    """Give the files with secrets that a file without mistakes names, and itself if it is one."""
    made = draft({}, {}, file)
    return list(
        named_secrets(
            made.node_settings(), made.tls, made.authorities, file=file, origins=made.origins
        )
    )


def shown_in(file: Path) -> Shown:
    """Give what a file without mistakes shows by TLS, as whoever's it says that it is."""
    made = draft({}, {}, file)
    settings = made.node_settings()
    name = settings.name if "name" in made.origins else ""
    return shown_of(settings, made.tls, name=name)


def _checked(made: Draft) -> tuple[Sections, bytes]:
    """Check how the values fit together; gives the sections, with defaults where they do not."""
    secret = read_secret(made.value("secret_file"), made.problems)
    check_relations(made, has_secret=bool(secret))
    check_proportions(made)
    _check_policies(made)
    return _build(made), secret


def _check_policies(made: Draft) -> None:
    count, count_max = len(made.policies.values), made.value("broker.policy_count_max")
    made.require(
        count <= count_max,
        "broker.policy_count_max",
        f"broker.policy_count_max: {count_max:,} is less than the {count:,} patterns in [policies]",
    )


def _build(made: Draft) -> Sections:
    """Make each section's class, which says what is wrong among its own fields."""
    built: dict[str, Any] = {}
    for section in fields(Sections):
        if made.is_told_of(section.name):
            continue  # Its class would tell it again, or take it for a mistake of the program.
        kind = type(getattr(DEFAULTS, section.name))
        try:
            built[section.name] = kind(**made.section(section.name))
        except ConfigError as error:
            made.problems += [f"{section.name}.{it}" for it in error.problems]
    return Sections(**built)
