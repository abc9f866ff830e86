"""
Which elector is asked, by its URL: the one door of the package.

The client of ZooKeeper is imported only where one is used, so that a broker without it can say what
it wants.
"""

from __future__ import annotations

from holdfast.electors.etcd import EtcdElector
from holdfast.electors.url import ZOOKEEPER, ElectorUrl
from holdfast.errors import ConfigError
from holdfast.leases.elector import Elector

MISSING = (
    "elector: kazoo is not installed, which ZooKeeper needs: pip install 'holdfast[zookeeper]'"
)


def open_elector(url: ElectorUrl, *, name: str, session_seconds: float) -> Elector:
    """
    Give the elector at this URL; nothing is reached before it is asked.

    Args:
        name: This broker's, for people who look there.
        session_seconds: So long it may be silent.

    Raises:
        ConfigError: Its password cannot be read, or its package is not installed.
    """
    try:
        password = url.secret()
    except ValueError as error:
        raise ConfigError([f"elector: {error}"]) from None
    if url.kind != ZOOKEEPER:
        return EtcdElector(url, password=password, name=name, session_seconds=session_seconds)
    try:
        from holdfast.electors.zookeeper import ZookeeperElector
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("kazoo"):
            raise
        raise ConfigError([MISSING]) from None
    return ZookeeperElector(url, password=password, name=name, session_seconds=session_seconds)
