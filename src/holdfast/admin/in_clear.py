"""
What must not travel in clear: passwords and tokens leave this machine by TLS only.

On the machine itself nobody but its administrator can read what others say to each other. Who it is
that answers there is another question, see `by_password` and `token_file`.
"""

from __future__ import annotations

from http.client import HTTPConnection
from ssl import SSLSocket

from holdfast.errors import ConfigError
from holdfast.model.networks import is_same_machine


def require_private(connection: HTTPConnection) -> None:
    """
    Open a connection, and let it be used for secrets only where nobody can listen.

    Raises:
        ConfigError: It is in clear, to another machine.
        OSError: It cannot be opened.
    """
    if connection.sock is None:
        connection.connect()
    if isinstance(connection.sock, SSLSocket) or _is_here(connection):
        return
    reason = (
        f"{connection.host}:{connection.port} is another machine and is asked in clear: a password"
        f" or token would be readable on the way. Ask it by TLS (https://HOST:PORT), or run this on"
        f" that machine"
    )
    raise ConfigError([reason])


def _is_here(connection: HTTPConnection) -> bool:
    there, here = connection.sock.getpeername(), connection.sock.getsockname()
    return is_same_machine(there[0], here[0])
