"""
What the clients of a simulated world did and were told, and what must be true of it.

Clients write down what they send, what was confirmed, what was delivered and what they settled;
each line is checked against all earlier ones at once, so that a violation stops the run where it
happens. Nothing here looks into a broker.

Invariants (each violation is raised with its name):
    S7: nothing is delivered after its acknowledgement was confirmed.
    S8: what is delivered was sent, with this very content.
    S10: first deliveries of a queue come to a consumer in the queue's order.
    S11: a delivery that is not the first says so.
    S13: who saw a term is told nothing by an older one.
"""

from __future__ import annotations

from collections.abc import Callable


class ViolationError(AssertionError):
    """A promise was broken; `name` is the invariant's."""

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(f"{name}: {sentence}")
        self.name = name


class Sent:
    """One message as its producer sent it, once or more often."""

    __slots__ = ("body", "is_aborted", "others", "queue", "unit")

    def __init__(
        self, queue: str, body: bytes, unit: str = "", others: tuple[str, ...] = ()
    ) -> None:
        self.queue = queue
        self.others = others
        """Further queues that it is sent to with the same SEND."""
        self.body = body
        self.unit = unit
        """The transaction it belongs to; empty for none."""
        self.is_aborted = False


class Removal:
    """What an operator wants off a queue: all up to a sequence, or the queue itself (None)."""

    __slots__ = ("confirmed_at", "through")

    def __init__(self, through: int | None) -> None:
        self.through = through
        self.confirmed_at: float | None = None

    def covers(self, sequence: int) -> bool:
        """Whether a message is among what is to be removed."""
        return self.through is None or sequence <= self.through


class History:
    """The books of all clients together."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.sent: dict[str, Sent] = {}
        self.transactions: dict[str, int] = {}
        """How many messages each transaction sends."""
        self.confirmed: dict[str, float] = {}
        self.confirmed_units: set[str] = set()
        self.delivered: dict[bytes, tuple[float, bool, str]] = {}
        """By message id: when the earliest delivery was sent, whether flagged, the token."""
        self.received: set[str] = set()
        self.given_up: set[str] = set()
        """Messages that were confirmed, and lost with what a forced promotion gave up."""
        self.settling: set[tuple[str, int, str]] = set()
        """Queue name, sequence and token of everything a client tried to settle."""
        self.settled_at: dict[bytes, float] = {}
        self.removals: dict[int, list[Removal]] = {}
        """By queue number: what operators asked to be removed."""
        self.periods: dict[str, int] = {}
        """By token: the milliseconds between two times of what is scheduled and repeated."""
        self.moving: set[tuple[int, int]] = set()
        """Queue number and sequence of what operators asked to be moved, copied or removed."""
        self.short_lived: set[str] = set()
        """Producers that are carried on without a message of theirs in this log."""
        self.doubtful: set[str] = set()
        """Messages sent under another number although the one before may be stored."""
        self.unnumbered: set[str] = set()
        """Messages without a number: sent again they are stored again."""
        self.settled_queues: set[str] = set()
        """Queues that somebody consumes without acknowledging."""
        self._newest: dict[tuple[str, bytes], int] = {}
        """By consumer and queue: the place of the newest first delivery."""
        self.topics: set[str] = set()
        """What is sent to where durable subscriptions are: it arrives when all are done with it."""
        self.grouped_queues: set[str] = set()
        """Queues on which the order is that of each group; see `group_clients`."""
        self.newest_of_groups: dict[tuple[bytes, bytes, str], tuple[int, float]] = {}
        """By queue and group: the place of the newest first delivery, and when it was sent."""
        self.group_owners: dict[bytes, str] = {}
        """By group: who got something of it last."""
        self.is_order_known = True
        """False where damage makes messages come later than their turn."""
        self.delivery_count = self.duplicate_count = self.confirm_count = 0
        self.operation_count = 0
        self.confirm_checks: list[Callable[[str], None]] = []
        self.delivery_checks: list[Callable[[bytes, str, float], None]] = []
        self.settle_checks: list[Callable[[tuple[int, int], str], None]] = []
        self.dead_letter_checks: list[Callable[[str, str], None]] = []
        """Asked of the queue and the token of what the log makes a dead letter."""
        self.expiry_checks: list[Callable[[str, str], None]] = []
        """The same of what has expired, as the log says."""

        self.drop_checks: list[Callable[[str, tuple[int, int], str], None]] = []
        """Asked of queue, place and token of what the log drops, as a queue was full."""
        self.idle_names: set[str] = set()
        """Queues that go by themselves while nobody uses them, with no message on them."""
        self.entry_checks: list[Callable[[], None]] = []
        """Asked once what an entry says is done."""

    # Producers ------------------------------------------------------------------------------------

    def send(
        self, token: str, queue: str, body: bytes, unit: str = "", others: tuple[str, ...] = ()
    ) -> None:
        """Note that a message is about to be sent for the first time."""
        self.sent[token] = Sent(queue, body, unit, others)
        if unit:
            self.transactions[unit] = self.transactions.get(unit, 0) + 1

    def confirm(self, tokens: list[str]) -> None:
        """Note that the broker said: stored."""
        for token in tokens:
            self.confirm_count += 1
            self.confirmed.setdefault(token, self._now())
            for check in self.confirm_checks:
                check(token)

    @staticmethod
    def check_term(client: str, seen: int, term: int) -> None:
        """Hold a success in `term` against the newest term this client saw."""
        if term < seen:
            raise ViolationError("S13", f"{client} saw term {seen} and was told yes in {term}")

    # Consumers ------------------------------------------------------------------------------------

    def deliver(
        self, message_id: bytes, body: bytes, *, flagged: bool, sent_at: float, consumer: str
    ) -> str:
        """Note a delivery and return the message's token."""
        token = body.split(b" ", 1)[0].decode()
        self.delivery_count += 1
        note = self.sent.get(token)
        if note is None or note.body != body:
            raise ViolationError("S8", f"{consumer} got {token}, which nobody sent so")
        if note.is_aborted:
            raise ViolationError("S14", f"{consumer} got {token}, which was rolled back")
        for check in self.delivery_checks:
            check(message_id, token, sent_at)
        settled_at = self.settled_at.get(message_id)
        if settled_at is not None and sent_at > settled_at:
            raise ViolationError("S7", f"{token} came to {consumer} after it was settled")
        number, sequence = place_of(message_id)
        for removal in self.removals.get(number, ()):
            removed_at = removal.confirmed_at
            if removed_at is not None and sent_at > removed_at and removal.covers(sequence):
                raise ViolationError("S7", f"{token} came to {consumer} after it was removed")
        earlier = self.delivered.get(message_id)
        if earlier is None:
            self.delivered[message_id] = (sent_at, flagged, token)
        else:
            self.duplicate_count += 1
            first_at, was_flagged, known = earlier
            if known != token:
                raise ViolationError("S9", f"{known} and {token} came under one message id")
            if (sent_at >= first_at and not flagged) or (sent_at < first_at and not was_flagged):
                raise ViolationError("S11", f"{token} came to {consumer} again and did not say so")
            if sent_at < first_at:
                self.delivered[message_id] = (sent_at, flagged, token)
        if not flagged and self.is_order_known and not self._is_grouped(token):
            queue = (consumer, message_id.rpartition(b"-")[0])
            sequence = sequence_of(message_id)
            if sequence <= self._newest.get(queue, 0):
                raise ViolationError("S10", f"{token} came to {consumer} out of its turn")
            self._newest[queue] = sequence
        self.received.add(token)
        return token

    def _is_grouped(self, token: str) -> bool:
        """Whether a message's order is that of its group (`group_clients`)."""
        return self.sent[token].queue in self.grouped_queues

    def settle(self, queue: str, message_id: bytes) -> None:
        """Note that a client is about to acknowledge or reject."""
        token = self.delivered[message_id][2]
        self.settling.add((queue, sequence_of(message_id), token))

    def settled(self, queue: str, message_ids: list[bytes]) -> None:
        """Note that the broker confirmed an acknowledgement."""
        now = self._now()
        for message_id in message_ids:
            self.settled_at.setdefault(message_id, now)
            for check in self.settle_checks:
                check(place_of(message_id), queue)

    def check_settled(self, queue: str, place: tuple[int, int], token: str) -> None:
        """Hold a settled message of the log against what clients asked for."""
        if queue in self.settled_queues or (queue, place[1], token) in self.settling:
            return
        raise ViolationError(
            "S6", f"{token}, message {place[1]} of {queue}, was settled by nobody who had it"
        )

    def check_dead(self, queue: str, token: str) -> None:
        """Hold what the log makes a dead letter against what clients know of it."""
        for check in self.dead_letter_checks:
            check(queue, token)

    def check_expired(self, queue: str, token: str, *, is_over: bool) -> None:
        """Hold what the log takes off a queue as expired against when it expires."""
        if not is_over:
            raise ViolationError("M6", f"{token} of {queue} is taken off before its time")
        for check in self.expiry_checks:
            check(queue, token)

    def check_dropped(self, queue: str, place: tuple[int, int], token: str) -> None:
        """Hold what the log takes off a full queue against what may be on it."""
        if not self.drop_checks:
            raise ViolationError("Q59", f"{token} of {queue} was dropped: that has no limits")
        for check in self.drop_checks:
            check(queue, place, token)

    # Operators ------------------------------------------------------------------------------------

    def remove(self, queue_number: int, through: int | None) -> Removal:
        """Note that an operator asks for what stands on a queue up to a sequence, or it, to go."""
        removal = Removal(through)
        self.removals.setdefault(queue_number, []).append(removal)
        return removal

    def check_removed(self, queue_number: int, through: int | None, name: str) -> None:
        """Hold what the log says that is removed against what operators asked for."""
        if all(removal.through != through for removal in self.removals.get(queue_number, ())):
            what = name if through is None else f"up to {through} of {name}"
            raise ViolationError("S6", f"{what} was removed, and nobody asked")

    def check_moved(self, place: tuple[int, int], name: str) -> None:
        """The same of a single message that is moved."""
        if place not in self.moving:
            raise ViolationError("S6", f"message {place[1]} of {name} was moved, and nobody asked")


def sequence_of(message_id: bytes) -> int:
    """The place in its queue that a message id tells."""
    return int(message_id.rpartition(b"-")[2])


def place_of(message_id: bytes) -> tuple[int, int]:
    """The queue's number and the sequence that a message id tells."""
    head, _, sequence = message_id.rpartition(b"-")
    return int(head.rpartition(b"-")[2]), int(sequence)
