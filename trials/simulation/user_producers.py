"""
Producers of a simulated world's users who all call theirs alike, one of them from before there were
users; and a stranger who sends under the numbers that another comes to next.

The first runs as nobody until the operator makes users, and comes back as one of them: nothing is
known of it then, so it goes on under another id. The second comes then, and begins with 1. What
they are told and what their consumers get is judged as of any other producer: what was confirmed
arrives, and stands once in the log. Nobody waits for anything of the stranger's.

Invariants:
    Whoever runs as nobody has stopped well before there is a user: what he sent came as nobody's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.errors import LevelNotReachedError
from holdfast.model.access_records import AuditRecord
from holdfast.security.grants import read_grant
from trials.simulation.access_books import CLIENTS
from trials.simulation.workload import CONNECT, Client, Producer, ProducerNumbers, make_frame

if TYPE_CHECKING:
    from trials.simulation.simulated_node import SimulatedNode
    from trials.simulation.simulator import Simulation

USERS_CAME: Final = "users came while a producer ran"
TAKEN_FIRST: Final = "stranger had the number that another came to next"

_NAME: Final = "shop-1"
"""What each of them calls his producer."""
_QUEUES: Final = ("q1", "q2", "q4")
_PATTERNS: Final = ("queue://>", "topic://>")
_USERS: Final = ("una", "ugo", "eve")
_COUNT: Final = 60
_TRIES_MAX: Final = 500
_LOOK_SECONDS: Final = 0.2
_SILENT_SECONDS: Final = 2.0
"""So long nothing comes from who was nobody before there are users."""


def _logged_in(name: str) -> bytes:
    return CONNECT.replace(b"\nhost:", b"\nlogin:%b\nhost:" % name.encode())


class _Answer:
    """The operator who waits for one thing to be stored."""

    def __init__(self, missing: dict[str, None], what: str) -> None:
        self._missing = missing
        self._what = what

    def reply(self, _receipt: bytes) -> None:
        """It is stored."""
        self._missing.pop(self._what, None)


class UserProducer(Producer):
    """Of a user; who is `first` runs before there are any, and has the operator make them."""

    def __init__(self, world: Simulation, name: str, *, is_first: bool = False) -> None:
        super().__init__(world, name, queues=[*_QUEUES], count=_COUNT, is_numbered=True)
        self._numbers = ProducerNumbers(_NAME)
        self._missing = dict.fromkeys((*_PATTERNS, *_USERS) if is_first else ())
        """What the operator has to say yet."""
        self._silent_since: float | None = None
        if is_first:
            world.timeline.after(_LOOK_SECONDS, self._look)
        else:
            self.greeting = _logged_in(name)
            self._interval = 0.1  # It comes late: nobody hurries it any more.

    @property
    def next_number(self) -> int:
        """What the next message is numbered."""
        return self._numbers.last + 1

    @property
    def unsure_number(self) -> int:
        """What the first message is numbered that is not confirmed, or the next."""
        return self.next_number - len(self.unconfirmed)

    def _dial(self) -> None:
        if self._silent_since is None:
            super()._dial()
        else:
            self._redial_planned = False
            self._redial()

    def _look(self) -> None:
        """Stop once the first is confirmed and some came after it; go on as a user."""
        now = self.world.timeline.now
        if self._silent_since is None:
            if self.made >= self.count // 4 and 1 not in self.unconfirmed:
                self._silent_since = now
                self.drop()
        elif self._missing:
            leader = self.world.leader()
            if now - self._silent_since >= _SILENT_SECONDS and leader is not None:
                self._say(leader)
        else:
            self.greeting = _logged_in(self.name)
            self.world.count(USERS_CAME)
            self.world.clients.append(UserProducer(self.world, "ugo"))
            self.world.clients.append(Stranger(self.world, self))
            self.world.timeline.after(self.chance.random() * _SILENT_SECONDS, self._go_on)
            return
        self.world.timeline.after(_LOOK_SECONDS, self._look)

    def _go_on(self) -> None:
        self._silent_since = None

    def _say(self, leader: SimulatedNode) -> None:
        """Say what is missing, what they may before who they are."""
        if leader.conductor.is_within_entry:
            return
        changes = leader.broker.access_changes
        now_ms = int(self.world.timeline.now * 1000)
        audit = AuditRecord(now_ms, "operator", "here", "users come", "all", "done")
        patterns = [it for it in _PATTERNS if it in self._missing]
        try:
            for each in patterns:
                grant = read_grant(CLIENTS, "read,write,admin", each)
                changes.grant(grant, audit, _Answer(self._missing, each), b"")
            for name in () if patterns else [*self._missing]:
                answer = _Answer(self._missing, name)
                changes.put_user(name, {"roles": [CLIENTS]}, audit, answer, b"")
        except LevelNotReachedError:
            return
        leader.conductor.schedule()


class Stranger(Client):
    """Sends under another's producer, logged in or not; it waits for no answer."""

    def __init__(self, world: Simulation, other: UserProducer) -> None:
        super().__init__(world, "eve")
        self._other = other
        self._count = 0
        world.timeline.after(0.1, self._send)

    def _dial(self) -> None:
        self.greeting = self.chance.choice((CONNECT, _logged_in("eve")))
        super()._dial()

    def _send(self) -> None:
        if self._other.is_done or self.is_ended or self._count > _TRIES_MAX:
            return
        if self.is_connected:
            # Some that the other comes to, and some to begin with.
            first, following = self._other.unsure_number, self._other.next_number
            for number in (*range(first, following + 2), self.chance.randint(1, 3)):
                self.send(self._numbered(number))
            if self.chance.random() < 0.2:
                self.drop()
        self.world.timeline.after(self.chance.random() * 0.2, self._send)

    def _numbered(self, number: int) -> bytes:
        self._count += 1
        token = f"eve.{self._count}"
        body = token.encode() + b" x"
        queue = self.chance.choice(_QUEUES)
        self.world.history.send(token, queue, body)
        return make_frame(
            b"SEND",
            b"destination:/queue/" + queue.encode(),
            b"persistent:true",
            b"producer-id:" + _NAME.encode(),
            b"producer-sequence:%d" % number,
            b"receipt:%d" % number,
            body=body,
        )

    def frame(self, command: bytes, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        """Note what it got in."""
        if command == b"RECEIPT":
            self.world.count(TAKEN_FIRST)
