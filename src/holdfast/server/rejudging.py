"""
What changes of users and grants mean for those who are connected.

After an entry that changes any of them the clients whom it concerns are judged again: who is no
user any more, or came in by what is no more, is sent away; what a client consumes and may not any
more is ended. Ten thousand clients of one role take a tenth of a second, in slices of the turn.

Invariants:
    Until all are judged by what is so now nothing is delivered, and nobody is read: so nobody gets
    anything by a grant that is gone once its end is applied.
    What a change does not concern costs a comparison each.

Owned by the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol

from holdfast.broker.broker import Broker
from holdfast.broker.lasting.access import GrantKey, UserKey
from holdfast.security.principal import Principal
from holdfast.server.clients import Clients
from holdfast.server.containment import Containment
from holdfast.server.turn_budget import TurnBudget
from holdfast.sessions.session import Session

NOT_ANY_MORE: Final = (
    "user {name!r} was removed, or what this client has shown was replaced: log in again"
)
NOBODY: Final = "there are users here now: log in"

_PER_LOOK: Final = 64
"""So many clients are passed between two looks at the clock."""


class _Change(NamedTuple):
    """What has changed."""

    names: set[str]
    roles: set[str]
    is_everybodys: bool

    def concerns(self, who: Principal) -> bool:
        """Whether a client may be another one by it, or may do something else."""
        is_his = who.name in self.names or not self.roles.isdisjoint(who.roles)
        return is_his or self.is_everybodys


class Judged(Protocol):
    """The conductor whose clients they are."""

    broker: Broker
    containment: Containment
    clients: Clients
    budget: TurnBudget
    is_within_entry: bool

    def schedule(self) -> None:
        """Turn as soon as the sockets that are ready now have been read."""


class Rejudging:
    """Judges clients again."""

    __slots__ = (
        *("_begun_count", "_concerned", "_judged", "_left", "_on_change"),
        "_was_guarded",
        *("is_under_way", "seen_count", "still"),
    )

    def __init__(self, judged: Judged, on_change: Callable[[], None]) -> None:
        """Judge the clients of a conductor; `on_change` is told when there are users, or none."""
        self._judged = judged
        self._on_change = on_change
        self._left: Iterator[None] = iter(())
        self._was_guarded = False
        self._begun_count = 0
        self._concerned: set[str] = set()
        self.seen_count = 0
        """How often users and grants had changed when all were judged by them."""
        self.is_under_way = False
        """Some are left to be judged."""
        self.still: Callable[[Principal], Principal | None] = lambda principal: principal
        """Who a user is by what the log says now; None: he is not let in any more."""

    def step(self) -> None:
        """Judge those again whom changes concern that are applied whole, as the time goes."""
        judged = self._judged
        judged.schedule()
        if judged.is_within_entry:
            return
        judged.budget.begin()
        change_count = judged.broker.access_book.change_count
        if change_count != self._begun_count or self._concerned:
            self._begun_count = change_count
            self._begin()
        for _ in self._left:
            if judged.budget.is_spent():
                return
        self.is_under_way = False
        self.seen_count = change_count

    def concern(self, name: str) -> None:
        """Judge the clients of that name again: who vouches for them says something else by now."""
        self._concerned.add(name)
        self.seen_count = -1
        self._judged.schedule()

    def stop(self) -> None:
        """Judge nobody: all are gone, as the leadership is over."""
        self._left = iter(())
        self.is_under_way = False
        self._begun_count = self.seen_count = -1
        self._judged.broker.state.access.changed = None

    def _begin(self) -> None:
        broker = self._judged.broker
        book, access = broker.access_book, broker.state.access
        was_guarded, self._was_guarded = self._was_guarded, book.is_guarded
        # Users and grants are not gone through: there may be ten thousand, changed one by one.
        changed, access.changed = access.changed, set()
        names = self._concerned | {it.name for it in changed or () if isinstance(it, UserKey)}
        roles = {it.role for it in changed or () if isinstance(it, GrantKey)}
        self._concerned = set()
        broker.destinations.leadership.patterns.unsettle()
        if was_guarded != book.is_guarded:
            self._on_change()
        is_everybodys = changed is None or not was_guarded or self.is_under_way
        self._left = self._steps(_Change(names, roles, is_everybodys))
        self.is_under_way = True

    def _steps(self, change: _Change) -> Iterator[None]:
        for count, connection in enumerate(list(self._judged.clients.connections), 1):
            session = connection.session
            who = session.principal
            if who is not None and not session.is_leaving and change.concerns(who):
                yield from self._judge(session, who)
            if not count % _PER_LOOK:
                yield

    def _judge(self, session: Session, who: Principal) -> Iterator[None]:
        containment = self._judged.containment
        now = self._now(who)
        try:
            yield from session.judge_again(now, self._why(who))
        except Exception as error:  # noqa: BLE001 - a mistake of ours costs one client
            containment.broke(session, error)
            return
        if now is None:
            containment.leave(session)
            yield

    def _now(self, who: Principal) -> Principal | None:
        if who.name:
            return self.still(who)
        book = self._judged.broker.access_book
        return book.anonymous if book.is_guarded else who

    def _why(self, who: Principal) -> str:
        return NOT_ANY_MORE.format(name=who.name) if who.name else NOBODY
