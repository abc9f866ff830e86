"""
The admin port of a node, put together from its configuration.

By TLS it has lines of its own for handshakes: whoever fills that of the clients' ports keeps no
operator out. Their share of a turn is a part of theirs, so that both together stay what one was.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace

from holdfast.admin.access import Access, Tell, tell_nobody
from holdfast.admin.endpoint import Files
from holdfast.admin.host_names import own_names
from holdfast.admin.http_api import build_application
from holdfast.admin.http_server import AdminServer
from holdfast.admin.logins import Nobody, People
from holdfast.admin.operations import Operations
from holdfast.admin.reload_api import Renew
from holdfast.admin.token_file import new_token
from holdfast.config.node import NodeConfig
from holdfast.replication.peer_address import split_address
from holdfast.server.administration import Administration
from holdfast.server.parts import Parts
from holdfast.server.port_lines import port_lines


def admin_access(
    config: NodeConfig,
    token_place: Callable[[], str],
    *,
    life: str = "",
    people: People | None = None,
    tell: Tell = tell_nobody,
) -> Access:
    """Give what the port asks for, with a new token."""
    hosts = [split_address(it.removeprefix("https://"))[0] for it in _addresses(config)]
    hosts += [it.address.host for it in config.members if it.name == config.name]
    return Access(
        secret=config.secret,
        local_token=new_token(),
        life=life,
        takes_clear=config.sections.server.plain_without_tls,
        token_place=token_place,
        names=own_names(socket.gethostname(), *hosts, more=config.admin_names),
        places=frozenset(config.admin_names),
        people=people or Nobody(),
        tell=tell,
    )


def _addresses(config: NodeConfig) -> tuple[str, str]:
    return str(config.admin), config.advertised_admin


def admin_server(
    config: NodeConfig,
    parts: Parts,
    administration: Administration,
    *,
    access: Access,
    renew: Renew,
) -> AdminServer:
    """Put the port together; it is not open yet."""
    operations = Operations(administration, secret=config.secret, files=_files(config))
    tls = parts.shown.get(config.admin_tls)
    shares = parts.shares
    lines = port_lines(config.sections.ports, common_count_max=shares.admin_strangers)
    return AdminServer(
        build_application(operations, access=access, renew=renew),
        host=config.admin.host,
        port=config.admin.port,
        settings=replace(config.sections.admin, connection_count_max=shares.admin),
        tls=None if tls is None else (tls, lines.common),
        apart=None if tls is None else lines.apart,
        told_path=access.told_path,
    )


def _files(config: NodeConfig) -> Files:
    """What this node believes, and shows, when it asks the admin port of another."""
    options = config.tls.get(config.admin_tls)
    if options is None:
        return Files()
    authorities = options.ca or options.client_ca
    return Files(
        "" if authorities is None else str(authorities),
        str(options.certificate),
        "" if options.key is None else str(options.key),
    )
