"""
What selectors of policies are asked of: a message that is being sent, and on no queue yet.

A composite destination may forward by what messages say (`broker.addressing`). Who asks is the
leader, once, as the message is sent, or as a scheduled one is due: nothing here is asked again.

A selector is read when it is asked first, and kept: some milliseconds for a long one, of which a
list may have sixty. So it is begun anew, in later turns, until all that it asks have been read.
"""

from __future__ import annotations

from typing import Final

from holdfast.broker.addressing import RouteUnknownError
from holdfast.broker.serving.message import TransientMessage
from holdfast.model.destination import Destination
from holdfast.sessions.selection import Selections
from holdfast.sessions.stomp_lifetimes import with_expiry
from holdfast.sessions.stomp_values import StompValues, written_by_jms

READ_CHARACTERS_MAX: Final = 1_500
"""So much of selectors is read for a message in one turn, one of them at least: 4 ms."""
LEFT_OFF_MAX: Final = 1_000
"""After so often it is read at once: there are more selectors than are kept."""


class SentContent:
    """What one message says, whichever destination it was sent to."""

    __slots__ = (*("_is_stored", "_message", "_readable", "_selections", "_session_id", "effort"),)

    def __init__(
        self,
        selections: Selections,
        lines: bytes,
        body: bytes,
        *,
        now_microseconds: int,
        is_stored: bool,
        session_id: str = "",
        left_off_count: int = 0,
    ) -> None:
        self._selections = selections
        lines = with_expiry(lines, now_microseconds // 1000)
        self._message = TransientMessage(-1, lines, body, 0, now_microseconds)
        self._is_stored = is_stored
        self._session_id = session_id
        self._readable = READ_CHARACTERS_MAX if left_off_count < LEFT_OFF_MAX else 1 << 62
        """So much may be read yet."""
        self.effort = 0
        """What was asked and read, counted in deliveries."""

    def is_selected(self, selector: str, sent_to: Destination) -> bool:
        """
        Whether a selector is true of it; one that cannot be read here is true of nothing.

        Raises:
            RouteUnknownError: So much was read for it in this turn already.
        """
        if not self._selections.has_of_policy(selector):
            if self._readable <= 0:
                raise RouteUnknownError
            self._readable -= len(selector)
            self.effort += len(selector)
        found = self._selections.of_policy(selector)
        if found is None:
            return False
        self.effort += found.effort
        name = written_by_jms(sent_to, self._session_id)
        return found.matches(StompValues(self._message, name, "", is_stored=self._is_stored))
