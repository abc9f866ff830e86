"""
Acknowledgements on their way: sent without a receipt of their own, so perhaps lost with the link.

Now and then an acknowledgement asks for a receipt; when it comes, all before it are certain too. A
refusal is said at once, before those ahead of it are stored, and makes only itself certain.
What is not certain is said again, by message id, as the first thing on a new link, and a message
among them that is delivered again is settled again instead of being shown to the application
twice. Pure.

Invariants:
    Numbers rise; what a receipt confirms is a prefix of what was added.

Owned by the session of one connection.
"""

from __future__ import annotations

from collections import OrderedDict

from holdfast.client.wire import settlement

ACKNOWLEDGE = b"ACK"
REJECT = b"NACK"


class Settlements:
    """The acknowledgements and rejections that are not certain, oldest first."""

    def __init__(self) -> None:
        self.number = 0
        """How many were added, ever: the number of the newest."""

        self._uncertain: OrderedDict[str, tuple[bytes, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._uncertain)

    def add(self, message_id: str, verb: bytes) -> int:
        """Note a settlement; gives its number."""
        self.number = number = self.number + 1
        uncertain = self._uncertain
        if message_id in uncertain:
            del uncertain[message_id]
        uncertain[message_id] = (verb, number)
        return number

    def verb_of(self, message_id: str) -> bytes | None:
        """How a message was settled, if that is not certain yet."""
        found = self._uncertain.get(message_id)
        return None if found is None else found[0]

    @property
    def newest_acknowledged(self) -> tuple[str, int] | None:
        """Message id and number of the newest acknowledgement that is not certain."""
        for message_id, (verb, number) in reversed(self._uncertain.items()):
            if verb == ACKNOWLEDGE:
                return message_id, number
        return None

    def confirm_through(self, number: int) -> None:
        """The broker has everything up to this number."""
        uncertain = self._uncertain
        while uncertain:
            message_id, (_, first) = next(iter(uncertain.items()))
            if first > number:
                return
            del uncertain[message_id]

    def refused(self, message_id: str, number: int) -> None:
        """The broker will not have this one: it need not be said again."""
        found = self._uncertain.get(message_id)
        if found is not None and found[1] == number:
            del self._uncertain[message_id]

    def frames(self) -> list[bytes]:
        """
        Acknowledgements that are not certain, said by message id, for a new link.

        Rejections cannot be said so: a broker rejects what it has delivered on the same link. They
        wait until the message is delivered again.
        """
        return [
            settlement(verb, id) for id, (verb, _) in self._uncertain.items() if verb == ACKNOWLEDGE
        ]
