"""
What selectors of policies are asked of: a message that is being sent, and on no queue yet.

A composite destination may forward by what messages say (`broker.addressing`). Who asks is the
leader, once, as the message is sent, or as a scheduled one is due: nothing here is asked again.
"""

from __future__ import annotations

from holdfast.broker.serving.message import TransientMessage
from holdfast.model.destination import Destination
from holdfast.sessions.selection import Selections
from holdfast.sessions.stomp_lifetimes import with_expiry
from holdfast.sessions.stomp_values import StompValues, written_by_jms


class SentContent:
    """What one message says, whichever destination it was sent to."""

    __slots__ = ("_is_stored", "_message", "_selections", "_session_id", "effort")

    def __init__(
        self,
        selections: Selections,
        lines: bytes,
        body: bytes,
        *,
        now_microseconds: int,
        is_stored: bool,
        session_id: str = "",
    ) -> None:
        self._selections = selections
        lines = with_expiry(lines, now_microseconds // 1000)
        self._message = TransientMessage(-1, lines, body, 0, now_microseconds)
        self._is_stored = is_stored
        self._session_id = session_id
        self.effort = 0
        """What was asked, counted in deliveries."""

    def is_selected(self, selector: str, sent_to: Destination) -> bool:
        """Whether a selector is true of it; one that cannot be read here is true of nothing."""
        found = self._selections.of_policy(selector)
        if found is None:
            return False
        self.effort += found.effort
        name = written_by_jms(sent_to, self._session_id)
        return found.matches(StompValues(self._message, name, "", is_stored=self._is_stored))
