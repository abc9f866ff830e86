"""
The contract of a session: what the loop may ask of any protocol's end of a connection. Pure.

A session is fed the bytes of one client and leaves bytes in `out`; the loop sends them. It does no
I/O and reads no clock. What it never does it need not write: a protocol without transactions or
heart-beats keeps the answers that stand here.

Invariants:
    Who has put something into `out` stands in the context's list of those who have (`dirty`).
    What long work is left says so (`is_left_off`), and is not fed before `proceed` has done it.
    `leaving` is the same work for all who ask, however often they do.

Owned by the loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Protocol

from holdfast.broker.errands import IsSpent
from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.transactions import Transaction
from holdfast.errors import AuthenticationError
from holdfast.model.limits import KiB
from holdfast.model.records import MessageRecord
from holdfast.security.principal import Principal

LARGE_BYTES: Final = 64 * KiB
"""A piece of this size is not copied: many sockets may wait for the same one."""


class Connection(Protocol):
    """The socket of a session, as far as those may use it who know the session only."""

    session: Session
    """Who is served by it now."""

    @property
    def peer(self) -> str:
        """Where the client is, as an operator reads it."""

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """What the client has shown of itself by TLS, checked; None: nothing."""

    @property
    def is_private(self) -> bool:
        """Whether nobody between can read what is sent: by TLS, or within this machine."""

    @property
    def taken_bytes(self) -> int:
        """How much of what it was given its socket has taken so far."""

    def flush(self) -> int:
        """Send what the session has written and give how much; close if it is done."""

    def abort(self) -> None:
        """End it here and now."""


class Session(ABC):
    """One client connection, whatever it speaks."""

    def __init__(self, session_id: str) -> None:
        self.id = session_id
        self.out: list[bytes] = []
        """What is to be sent."""
        self.large: list[TransientMessage] = []
        """What of that others may have been given, too; see `server.shared_messages`."""
        self.room_bytes = 0
        """What may still be handed to the connection before its socket has taken more."""
        self.is_connected = False
        """It has said who it is, as far as its protocol wants that."""
        self.principal: Principal | None = None
        """Who the client is; None: it is not known yet."""
        self.is_gone = False
        """Its socket is: nobody hears what it is told, and it keeps nothing from who comes."""
        self.is_leaving = False
        """It gives back what it holds: nothing more is done that it asks for."""
        self.is_closing = False
        """Nothing more is read; the connection is to be closed when `out` is sent."""
        self.is_left_off = False
        """Whether `proceed` has something to do before more is taken."""
        self.connection: Connection | None = None
        """Whose end this is; None once nobody serves it any more."""
        self.subscriptions: dict[str, Subscription] = {}
        self.transactions: dict[str, Transaction] = {}
        self.client = ""
        """By what this client can be known again on another connection; empty: by nothing."""
        self.client_id = ""
        self.given_client_id = ""
        """The same as the client gave it, without whose it is."""
        self.sent_as = ""
        """The client-id by which what it sends is its client's own: the same to the end, also of
        what is done for it when another connection has that."""
        self.address = session_id.replace(".", "%2E")
        """What the full names of its temporary destinations begin with, up to a dot. A node may
        have dots in its name, as `db.example`; a client-id `db` must not get at these."""
        self.shown = ""
        """The secret by which a client of ours is known again."""
        self.told_kinds = 0
        """Of what the operator was told about this client: see `Refusals`."""

    @property
    def taken_bytes(self) -> int:
        """How much its socket has taken so far."""
        return 0 if self.connection is None else self.connection.taken_bytes

    @property
    @abstractmethod
    def protocol_name(self) -> str:
        """What it speaks, with the version if one was agreed upon: for operators."""

    @abstractmethod
    def receive(self, data: bytes, is_spent: IsSpent = lambda: False) -> bool:
        """
        Take bytes from the client and do what they ask; answers are in `out`.

        False if `is_spent` said that the time is over: `proceed` must do the rest before more is
        taken. Never raises for anything a client says.
        """

    def authenticated(  # noqa: B027 - who asks nobody is told nothing
        self, answer: Principal | AuthenticationError
    ) -> None:
        """
        Take the answer to what the client has shown, which took longer than the call (`Check`).

        What came meanwhile has waited in its order, and is done by `proceed`. Nobody waits for it
        any more where the client is gone.
        """

    def proceed(self, is_spent: IsSpent) -> bool:
        """Do what was left when the time was over; True if all is done now."""
        return True

    def proceed_with_endings(self, is_spent: IsSpent) -> bool:
        """Of what was left do only what gives back; True if all of that is done."""
        return True

    def go_on(self) -> bool:
        """Let `proceed` do what waited until no other leader may deliver; False: nothing did."""
        return False

    def send_waiting(self, is_spent: IsSpent = lambda: False) -> None:  # noqa: B027 - nothing to do in many protocols
        """Do what waited for room, as far as there is room and time now."""

    @property
    def is_full(self) -> bool:
        """Whether it is not to be read for now: so much waits that it keeps."""
        return False

    @property
    def is_spreading(self) -> bool:
        """Whether what it was left with waits for the deliveries of what it published."""
        return False

    @property
    def is_idle(self) -> bool:
        """Whether it holds nothing of the broker, and nothing of it waits."""
        return not (self.subscriptions or self.transactions)

    @property
    def transaction_bytes(self) -> int:
        """What its open transactions hold; there may be a hundred thousand on a node."""
        return 0

    @property
    def unfinished_bytes(self) -> int:
        """What it keeps of a request that has not come whole."""
        return 0

    @property
    def frame_number(self) -> int:
        """Which one that is: while it stays the same it is the same request."""
        return 0

    def give_up(self) -> None:  # noqa: B027 - nothing to do in many protocols
        """Read nothing more, and keep nothing of the request under way."""

    @property
    def received_at(self) -> float | None:
        """When bytes last came in, or it was opened; None if nobody said so."""
        return None

    def note_received(self, now: float) -> None:  # noqa: B027 - nothing to do in many protocols
        """Bytes came in; also said of a client that is not read for now: it is not silent."""

    def note_sent(self, now: float) -> None:  # noqa: B027 - nothing to do in many protocols
        """Bytes went out."""

    @property
    def deadline(self) -> float | None:
        """
        When to call `handle_deadline`; None for never.

        Once it is connected, what comes and goes only puts it off.
        """
        return None

    def handle_deadline(self, now: float) -> bytes | None:
        """Give what shows the client that we live, if that is due; None: the client is dead."""
        return b""

    @abstractmethod
    def deliver(
        self,
        subscription: Consumer,
        key: int,
        message: MessageRecord | TransientMessage,
        *,
        redelivered: int,
    ) -> None:
        """Write one delivery to the client."""

    def overdue(  # noqa: B027 - a session that holds nothing is asked for nothing
        self, subscription: Consumer, keys: list[int]
    ) -> None:
        """Let be taken back what its client had for too long, as if it had rejected it."""

    def too_slow(  # noqa: B027 - nor is it slow
        self, subscription: Consumer, why: str, *, ends_connection: bool
    ) -> None:
        """End a consumer, or all of this connection, as if that had been lost; say why."""

    @abstractmethod
    def reply(self, receipt: bytes) -> None:
        """Tell the client that a request is complete and, where it must last, stored."""

    @abstractmethod
    def confirm(self, receipt: bytes) -> None:
        """Tell the client that what it published with this receipt is out."""

    @abstractmethod
    def recount_room(self) -> None:
        """
        Let what may be delivered be worked out anew at the end of the turn.

        Something was given room and is not written: else the room would never be there again.
        """

    @abstractmethod
    def farewell(self, text: str, code: str) -> None:
        """Tell the client why this connection ends, and let it end."""

    def judge_again(self, who: Principal | None, why: str) -> Iterator[None]:
        """Obey what users and grants are now, in steps; see `ClientSession`."""
        return iter(())

    def disconnected(self) -> None:
        """
        Note at once that the client is gone; `leave` comes when there is time for it.

        What it sent before may be read after this: nothing that others want may be its own then.
        """
        self.is_gone = True

    def leave(self) -> None:
        """Give back everything this connection holds; called again it goes on where it failed."""
        for _ in self.leaving():
            pass

    @abstractmethod
    def leaving(self) -> Iterator[None]:
        """Do what `leave` does in short steps, the same ones for all who ask."""

    @property
    @abstractmethod
    def held_count(self) -> int:
        """What `leave` has to give back."""

    def forget(self) -> list[Collection[object]]:
        """
        Let go of all that it holds without giving anything back: the broker itself began anew.

        Gives what holds much, for who frees it in steps.
        """
        self.connection = None
        return [self.subscriptions]
