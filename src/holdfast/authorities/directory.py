"""
People of an LDAP directory: their passwords are tried there, and their groups are their roles.

A person is looked up by the broker's own account, then a connection of its own is bound as what was
found with the password that was shown. A directory answers a bind without a password with success,
as it is nobody's; so an empty one is never tried.

Invariants:
    What somebody says reaches the directory only in a filter, escaped, and as a password.
    No referral is followed, and no password goes over a line in clear but on loopback.

Source: RFC 4511, RFC 4513 section 5.1.2 (binds without a password), RFC 4515 (escaping).
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

import ldap3
from ldap3.core.exceptions import (
    LDAPCommunicationError,
    LDAPException,
    LDAPSASLPrepError,
)
from ldap3.utils.conv import escape_filter_chars

from holdfast.authorities.deadline import Deadline
from holdfast.authorities.options import LdapOptions
from holdfast.environment.secret_files import TooLargeError, read_secret_file
from holdfast.errors import AuthenticationError
from holdfast.security.authority import Vouched
from holdfast.security.names import is_name_of_others

PASSWORD_BYTES_MAX: Final = 1_024
GROUP_COUNT_MAX: Final = 100
_FILE_BYTES_MAX: Final = PASSWORD_BYTES_MAX + 2
"""Of our own password, with the end of its line."""
REST_SECONDS: Final = 3.0
"""After an answer that did not come, everybody is told so for a moment instead of waiting too."""
_WHOLE: Final = 2
"""So many times the time for an answer all of them have, however slowly they come."""
_FOUND: Final = 0
_WRONG_PASSWORD: Final = 49
"""`invalidCredentials`; what else a bind may be answered with is no word on the password."""
_REFUSALS: Final = frozenset({_WRONG_PASSWORD, 19, 53})
"""And: too old or against a rule (`constraintViolation`), locked (`unwillingToPerform`)."""


class Directory:
    """One directory; may be used from several threads, each call with connections of its own."""

    def __init__(
        self,
        options: LdapOptions,
        *,
        connect: Callable[[str, str, Deadline], Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`connect` gives a bound connection of ldap3 for a name and a password."""
        self._options = options
        self._connect = connect or self._bound
        self._clock = clock
        self._rests_until = float("-inf")

    is_guessable = True

    @property
    def label(self) -> str:
        """What operators call it."""
        return f"ldap.{self._options.name}"

    @property
    def again_seconds(self) -> float:
        """After so long it is asked again of who is connected."""
        return self._options.again_seconds

    def recognises(self, name: str, secret: str, *, is_known: bool) -> bool:
        """Whether there is a name that the log does not have, and a password."""
        return bool(name and secret) and not is_known

    def look(self, name: str, secret: str) -> Vouched | None:
        """
        Try somebody's password, and read his groups.

        Raises:
            AuthenticationError: The directory did not answer, or refuses the broker itself.
        """
        if not name or not secret or len(secret.encode(errors="replace")) > PASSWORD_BYTES_MAX:
            return None
        return self._asked(name, secret)

    def again(self, name: str, called: str) -> Vouched | None:
        """
        Read the groups of somebody who is connected; None: he is not in the directory any more, or
        what he was called is somebody else.

        Raises:
            AuthenticationError: The directory did not answer, or refuses the broker itself.
        """
        found = self._asked(called, None)
        return found if found is not None and found.name == name else None

    def _asked(self, name: str, secret: str | None) -> Vouched | None:
        if not is_name_of_others(name):
            return None
        if self._clock() < self._rests_until:
            raise AuthenticationError(f"{self._unanswered}: it did not a moment ago")
        try:
            with Deadline(_WHOLE * self._options.timeout_seconds) as deadline:
                return self._found_out(name, secret, deadline)
        except (LDAPException, OSError) as error:
            if isinstance(error, LDAPCommunicationError):  # No word of anybody's, but silence.
                self._rests_until = self._clock() + REST_SECONDS
            raise AuthenticationError(f"{self._unanswered}: {type(error).__name__}") from None

    @property
    def _unanswered(self) -> str:
        return f"the directory {self.label} does not answer, try again in a moment"

    def _found_out(self, name: str, secret: str | None, deadline: Deadline) -> Vouched | None:
        with self._own(deadline) as own:
            found = self._person(own, name)
            if secret is not None:
                # Of nobody a password is tried as well: it takes as long, and tells nothing.
                nobody = f"cn={uuid4().hex},{self._options.people_base}"
                entry = nobody if found is None else found.entry
                if not self._is_password(entry, secret, deadline):
                    return None
            if found is None:
                return None
            roles = self._roles(own, found)
        return Vouched(found.name, roles, self._options.again_seconds)

    @contextmanager
    def _own(self, deadline: Deadline) -> Iterator[Any]:
        """Give a connection that is bound as the broker."""
        password = _password_of(self._options.bind_password_file)
        try:
            own = self._connect(self._options.bind_dn, password, deadline)
        except _RefusedError:
            raise AuthenticationError(
                f"the directory {self.label} does not let the broker itself in: look at bind_dn"
                f" and the file of its password"
            ) from None
        try:
            yield own
        finally:
            own.unbind()

    def _is_password(self, entry: str, secret: str, deadline: Deadline) -> bool:
        try:
            self._connect(entry, secret, deadline).unbind()
        except _RefusedError:
            return False
        return True

    def _bound(self, entry: str, password: str, deadline: Deadline) -> Any:
        options = self._options
        server = ldap3.Server(
            options.url,
            tls=_CheckedTls(ssl.create_default_context(cafile=options.ca), deadline),
            get_info=ldap3.NONE,
            connect_timeout=options.timeout_seconds,
        )
        connection = ldap3.Connection(
            server,
            entry,
            password,
            receive_timeout=options.timeout_seconds,
            auto_referrals=False,
            read_only=True,
        )
        try:
            connection.open(read_server_info=False)
            if not server.ssl:
                deadline.watch(connection.socket)
            self._bind(connection)
        except BaseException:
            # Of a connection that never came about nothing but its socket is left.
            with suppress(LDAPException, OSError):
                connection.unbind()
            if (left := connection.socket) is not None:
                left.close()
            raise
        return connection

    def _bind(self, connection: Any) -> None:
        if self._options.start_tls and not connection.start_tls(read_server_info=False):
            raise OSError("the directory begins no TLS")
        try:
            is_bound = connection.bind()
        except LDAPSASLPrepError:  # Letters that no password has.
            raise _RefusedError from None
        if not is_bound:
            code = connection.result["result"]
            raise _RefusedError if code in _REFUSALS else OSError(f"bind answered {code}")

    def _person(self, own: Any, name: str) -> _Person | None:
        """Give whom that name means; None: nobody, or several."""
        wanted = self._options.people_filter.format(name=escape_filter_chars(name))
        attribute = self._options.name_attribute
        found = self._found(own, self._options.people_base, wanted, [attribute], 2)
        if len(found) != 1:
            return None
        names = _texts(found[0], attribute)
        # A filter knows no capitals and no blanks at the end: who it is, the entry says.
        return _Person(found[0]["dn"], names[0]) if len(names) == 1 else None

    def _roles(self, own: Any, person: _Person) -> frozenset[str]:
        attribute = self._options.role_attribute
        wanted = self._options.group_filter.format(
            dn=escape_filter_chars(person.entry), name=escape_filter_chars(person.name)
        )
        base = self._options.group_base
        found = self._found(own, base, wanted, [attribute], GROUP_COUNT_MAX)
        return frozenset(it for each in found for it in _texts(each, attribute))

    def _found(
        self, own: Any, base: str, wanted: str, attributes: list[str], count_max: int
    ) -> list[Any]:
        own.search(
            base,
            wanted,
            attributes=attributes or None,
            size_limit=count_max,
            time_limit=self._options.timeout_seconds,
        )
        code = own.result["result"]
        if code not in (_FOUND, 4):  # 4: `sizeLimitExceeded`, with as many as were asked for.
            raise OSError(f"search answered {code}")
        return [it for it in own.response or [] if it["type"] == "searchResEntry"]


class _Person(NamedTuple):
    entry: str
    name: str


def _texts(entry: Any, attribute: str) -> list[str]:
    """Give what an attribute of an entry says that can be a name."""
    texts = (it.decode(errors="replace") for it in entry["raw_attributes"].get(attribute, []))
    return [it for it in texts if is_name_of_others(it)]


class _CheckedTls(ldap3.Tls):  # type: ignore[misc]  # ships no type information
    """TLS that checks names as Python does: what ldap3 checks them with has gone from it."""

    def __init__(self, context: ssl.SSLContext, deadline: Deadline) -> None:
        super().__init__(validate=ssl.CERT_REQUIRED)
        self._context = context
        self._deadline = deadline

    def wrap_socket(self, connection: Any, do_handshake: bool = False) -> None:
        """Put TLS on the socket of a connection, and know who is at its other end."""
        self._deadline.watch(connection.socket)
        connection.socket = self._context.wrap_socket(
            connection.socket, server_hostname=connection.server.host
        )


class _RefusedError(Exception):
    """The directory says that the password is wrong, or that it counts no more."""


def _password_of(path: Path) -> str:
    try:
        return read_secret_file(path, _FILE_BYTES_MAX).decode().strip("\r\n")
    except (OSError, ValueError, TooLargeError):
        raise AuthenticationError(
            f"the broker cannot read its own password of the directory: a file of at most"
            f" {_FILE_BYTES_MAX:,} bytes is expected"
        ) from None
