"""
Who a client says it is, and who it is found to be.

To find out may take long: a password is hashed on purpose slowly, a directory is asked over the
network. So whoever checks may answer at once, or say nothing and answer later; the session waits,
and reads on when it knows. Nothing of a secret is ever shown.

Values only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from holdfast.errors import AuthenticationError
from holdfast.security.principal import ANONYMOUS, Principal
from holdfast.sessions.session import Session


class Credential(NamedTuple):
    """What a client shows of itself."""

    name: str
    secret: str

    def __repr__(self) -> str:
        """Without the secret: this stands in logs and traces."""
        return f"Credential(name={self.name!r})"


Answer: TypeAlias = Principal | AuthenticationError

Check: TypeAlias = Callable[[Session, Credential], Answer | None]
"""Says who a client is; None: that is found out, and `Session.authenticated` is called then."""


def anybody(session: Session, credential: Credential) -> Answer:
    """Let everybody in, whatever is shown: there are no users yet."""
    return ANONYMOUS
