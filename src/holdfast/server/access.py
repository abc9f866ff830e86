"""
Who may come in at any port of a node, and what passwords are kept of: one place for all of them.

Clients and operators are the same users. What they show is looked at in one place, so that equal
credentials are looked at once and failures from one address count at every port.

Invariants:
    No password is hashed, and none is looked at, on the loop.

Owned by the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from holdfast.broker.broker import Broker
from holdfast.environment.clock import Clock
from holdfast.environment.randomness import Randomness
from holdfast.errors import AuthenticationError
from holdfast.security.authority import AskedAgain, Authority
from holdfast.security.checking import Checking, Shown
from holdfast.security.passwords import KeptPassword
from holdfast.security.principal import Principal
from holdfast.security.scram_exchanges import Exchanges
from holdfast.server.asking_again import LOOK_SECONDS, AskingAgain
from holdfast.server.log_end_users import LogEndUsers
from holdfast.server.logins import Logins
from holdfast.server.password_threads import Key, PasswordThreads
from holdfast.server.rejudging import Rejudging
from holdfast.server.scram_logins import ScramLogins
from holdfast.server.scram_offer import ScramOffer
from holdfast.server.settings import ServerSettings
from holdfast.sessions.credentials import Answer
from holdfast.sessions.session import Connection

_KEY_BYTES: Final = 32


class Told(Protocol):
    """Who tells clients' sessions who their clients are."""

    def authenticated(self, connection: Connection, answer: Answer) -> None:
        """Tell one."""

    def is_there(self, connection: Connection) -> bool:
        """Whether it is not lost yet."""

    def principals(self) -> Iterable[Principal]:
        """Who is connected, each client's."""


class Conducting(Protocol):
    """The conductor of the node."""

    loop: asyncio.AbstractEventLoop | None
    """None: it does not run yet."""

    @property
    def broker(self) -> Broker:
        """What the log says, as far as it is applied here."""

    @property
    def clock(self) -> Clock:
        """By which refusals are due and tokens end."""

    @property
    def settings(self) -> ServerSettings:
        """Whether secrets are taken in clear."""

    @property
    def rejudging(self) -> Rejudging:
        """Who judges clients again."""

    @property
    def clients(self) -> Told:
        """Its clients."""


class NodeAccess:
    """Everybody who may be known to a node."""

    def __init__(
        self,
        conductor: Conducting,
        pepper: Key,
        randomness: Randomness,
        authorities: Sequence[Authority] = (),
        *,
        log_end: LogEndUsers,
    ) -> None:
        """
        Know everybody whom the log knows, or somebody else vouches for.

        Args:
            conductor: Whose log it is.
            pepper: What passwords are hashed with.
            randomness: Of which what is only this process's is made.
            authorities: Who vouches for whom the log does not know.
            log_end: Knows the users where it is not sure how far the log is committed.
        """
        self._conductor = conductor
        self.log_end = log_end
        """Whom the log has through its last entry."""
        self.book = conductor.broker.access_book
        """What everybody may."""
        self.book.has_authorities = bool(authorities)
        self.book.is_sure = lambda: log_end.is_sure
        self.checking = Checking(log_end.record_of, randomness.bytes(_KEY_BYTES), authorities)
        conductor.rejudging.still = self.checking.still
        self._threads = PasswordThreads(pepper, self._post, keeps_scram=conductor.settings.scram)
        self.scram = ScramLogins(
            ScramOffer(lambda: conductor.broker.state.access, is_wanted=conductor.settings.scram),
            Exchanges(
                log_end.record_of, lambda: pepper.keys, self.checking.throttle, randomness.bytes
            ),
            conductor.clock,
        )
        """Logins without the password itself."""
        self.logins = Logins(
            self.book,
            self.checking,
            self._threads,
            conductor.clock,
            takes_clear=conductor.settings.plain_without_tls,
            tell=conductor.clients.authenticated,
            is_there=conductor.clients.is_there,
            call_later=self._call_later,
        )

        asked = [it for it in authorities if isinstance(it, AskedAgain)]
        self._asking_again = AskingAgain(
            asked,
            conductor.clients,
            self.checking,
            clock=conductor.clock.monotonic,
            concern=conductor.rejudging.concern,
            post=self._post,
        )
        self._is_asking_again = bool(asked)

    def run(self) -> None:
        """Ask again about who is connected, once in a while, from now on until `close`."""
        if self._is_asking_again:
            self._asking_again.look()
            self._call_later(LOOK_SECONDS, self.run)

    @property
    def lets_others_in(self) -> bool:
        """Whether clients of other machines may come: there are users, or nobody need be one."""
        return self.book.is_guarded or self.book.anonymous is not None

    async def keep_password(self, name: str, password: str) -> KeptPassword:
        """
        Give what is kept of a user's new password.

        Takes some 20 ms, and longer while many log in; cancelled, it is worked out for nobody.

        Raises:
            AccessError: There can be no such password, or none at all on this node.
        """
        return await asyncio.wrap_future(self._threads.keep(name, password))

    async def authenticate(self, shown: Shown) -> Principal:
        """
        Say who somebody is; as long as there are no users, nobody in particular.

        A refusal takes its time, by the address: see `Throttle`. Cancelled, nobody is told.

        Raises:
            AuthenticationError: He is not let in; the sentence is for him.
        """
        later: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def told(answer: Answer) -> None:
            if not later.done():
                later.set_result(answer)

        answer = self.logins.ask(shown, told, lambda: not later.done())
        if answer is None:
            answer = await later
        if isinstance(answer, AuthenticationError):
            raise answer
        return answer

    def close(self) -> None:
        """Look at nothing more, and ask nobody."""
        self._is_asking_again = False
        self._asking_again.close()
        self._threads.close()
        self.log_end.close()

    def _post(self, work: Callable[[], None]) -> None:
        loop = self._conductor.loop
        assert loop is not None, "nobody shows anything before it runs"
        with suppress(RuntimeError):  # It is closed: nobody waits any more.
            loop.call_soon_threadsafe(work)

    def _call_later(self, seconds: float, work: Callable[[], None]) -> None:
        loop = self._conductor.loop
        assert loop is not None, "nobody shows anything before it runs"
        loop.call_later(seconds, work)
