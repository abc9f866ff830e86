"""
Which medium keeps the log of a broker that shares it, and who elects: chosen by its configuration.

The packages of a medium are imported only where it is used.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from holdfast.config.node import NodeConfig
from holdfast.leases.contract import LeasedLog
from holdfast.leases.elector import Elector
from holdfast.leases.seen import SeenFile
from holdfast.raidb.settings import RaidbSettings

_SHARE_OF_LEASE: Final = 0.4


def is_leased(config: NodeConfig) -> bool:
    """Whether the log is on a medium that several brokers reach."""
    return bool(config.store) or config.shared is not None


def make_medium(config: NodeConfig, seen: SeenFile | None = None) -> LeasedLog:
    """
    Give the medium; nothing is reached yet.

    `seen`: what this broker knows of the log that it has served or followed so far.

    Raises:
        ConfigError: Its address cannot be used, or its extra packages are not installed.
    """
    if config.shared is not None:
        from holdfast.shared.shared_log import SharedLog

        return SharedLog(config.shared, config.sections.share)
    if len(config.store) > 1:
        from holdfast.raidb.opening import open_raidb_log

        return open_raidb_log(
            [it.text for it in config.store],
            _within_the_lease(config),
            allow_unsafe_database=config.sections.lease.allow_unsafe_database,
            own_directory=config.data,
            seen=seen,
        )
    from holdfast.sql.opening import open_sql_log

    return open_sql_log(
        config.store[0].text,
        allow_unsafe_database=config.sections.lease.allow_unsafe_database,
        own_directory=config.data,
    )


def make_elector(config: NodeConfig) -> Elector | None:
    """
    Give what elects, where something does; nothing is reached yet.

    Raises:
        ConfigError: Its password cannot be read, or its package is not installed.
    """
    if config.elector is None:
        return None
    from holdfast.electors.opening import open_elector

    session_seconds = config.sections.lease.elector_session_seconds
    return open_elector(config.elector, name=config.name, session_seconds=session_seconds)


def _within_the_lease(config: NodeConfig) -> RaidbSettings:
    """A database that fails is left out before the lease is lost for its sake."""
    settings, lease = config.sections.databases, config.sections.lease.lease_seconds
    if not lease:
        return settings
    bound = min(settings.member_timeout_seconds, _SHARE_OF_LEASE * lease)
    return replace(settings, member_timeout_seconds=bound)
