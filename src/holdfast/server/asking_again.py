"""
Asks who vouches for those who are connected whether all of it is still so.

A directory tells nobody when somebody leaves it, or a group. So it is asked of each person who is
connected, once in a while, without his password, on a thread of its own. What it says by then is
taken as a change of the log would be: the clients whom it concerns are judged again.

Invariants:
    A person is asked of once at a time, however many clients he has.
    Who cannot be asked of stays as he is, and is asked of again.

Owned by the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Protocol

import structlog

from holdfast.errors import AuthenticationError
from holdfast.security.authority import AskedAgain
from holdfast.security.checking import Checking
from holdfast.security.principal import Principal

LOOK_SECONDS: Final = 1.0
"""Between two looks at who is connected."""
AT_ONCE_MAX: Final = 4
"""So many are asked of between two looks: a directory has other work as well."""

_log = structlog.get_logger("holdfast.server")


class Present(Protocol):
    """Where clients are."""

    def principals(self) -> Iterable[Principal]:
        """Who is connected, each client's."""


class AskingAgain:
    """Asks about those who are connected."""

    def __init__(
        self,
        authorities: Sequence[AskedAgain],
        present: Present,
        checking: Checking,
        *,
        clock: Callable[[], float],
        concern: Callable[[str], None],
        post: Callable[[Callable[[], None]], object],
    ) -> None:
        """
        Ask these about the clients there are.

        Args:
            authorities: Who can be asked again.
            present: Who is connected.
            checking: Is told what they say.
            clock: By which it is time.
            concern: Has the clients of a name judged again.
            post: Has something done on the loop, from any thread.
        """
        self._authorities = {each.label: each for each in authorities}
        self._present = present
        self._checking = checking
        self._clock = clock
        self._concern = concern
        self._post = post
        self._due: dict[tuple[str, str], float] = {}
        """When each is asked of next, by who vouches and his name."""
        self._asked: set[tuple[str, str]] = set()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="holdfast-again")

    def look(self) -> None:
        """Ask about those whose time has come."""
        now = self._clock()
        known = self._known()
        self._checking.forget_said(known)
        due: dict[tuple[str, str], float] = {}
        for each in known:
            due[each] = self._due.get(each, now + self._authorities[each[0]].again_seconds)
        self._due = due
        for each in sorted((it for it in due if due[it] <= now), key=due.__getitem__):
            if len(self._asked) >= AT_ONCE_MAX:
                return
            if each not in self._asked:
                self._ask(each)

    def close(self) -> None:
        """Ask nobody any more."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _known(self) -> dict[tuple[str, str], Principal]:
        there = self._present.principals()
        return {(it.authority, it.name): it for it in there if it.authority in self._authorities}

    def _ask(self, who: tuple[str, str]) -> None:
        self._asked.add(who)
        found = self._executor.submit(self._authorities[who[0]].again, who[1])
        found.add_done_callback(partial(self._found, who))

    def _found(self, who: tuple[str, str], found: Future[Any]) -> None:
        if not found.cancelled():
            self._post(partial(self._told, who, found))

    def _told(self, who: tuple[str, str], found: Future[Any]) -> None:
        self._asked.discard(who)
        label, name = who
        self._due[who] = self._clock() + self._authorities[label].again_seconds
        error = found.exception()
        if error is not None:
            reason = str(error) if isinstance(error, AuthenticationError) else type(error).__name__
            _log.warning("login.not_asked_again", user=name, authority=label, reason=reason)
            return
        said = found.result()
        roles = None if said is None else said.roles
        there = [it for it in self._present.principals() if (it.authority, it.name) == who]
        if any(it.roles != roles for it in there):
            self._checking.say(label, name, roles)
            self._concern(name)
