"""
What must not travel in clear: passwords and tokens leave this machine by TLS only.

On the machine itself nobody but its administrator can read what others say to each other; but
another of its users may be who answers (`environment.told_in_clear`), and is sent nothing. What
proves who answers is another question, see `by_password` and `token_file`.
"""

from __future__ import annotations

from http.client import HTTPConnection
from ssl import SSLSocket

from holdfast.environment.told_in_clear import why_not_told
from holdfast.errors import ConfigError
from holdfast.model.networks import is_same_machine


def require_private(connection: HTTPConnection) -> None:
    """
    Open a connection, and let it be used for secrets only where nobody else hears them.

    Raises:
        ConfigError: It is in clear, to another machine or to another person of this one.
        OSError: It cannot be opened.
    """
    if connection.sock is None:
        connection.connect()
    if isinstance(connection.sock, SSLSocket):
        return
    there, here = connection.sock.getpeername(), connection.sock.getsockname()
    if is_same_machine(there[0], here[0]):
        if reason := why_not_told(there, here):
            raise ConfigError([f"{connection.host}:{connection.port} is not asked: {reason}"])
        return
    reason = (
        f"{connection.host}:{connection.port} is another machine and is asked in clear: a password"
        f" or token would be readable on the way. Ask it by TLS (https://HOST:PORT), or run this on"
        f" that machine"
    )
    raise ConfigError([reason])
