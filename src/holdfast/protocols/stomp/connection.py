"""
One STOMP connection without its socket: feed it bytes, drain events; both roles.

    connection = StompConnection("server", settings, opened_at=now)
    connection.receive_data(data)
    for event in connection.events_received(): ...

Reading is the reader's (`reader`, and `heads`); here is what a connection says, and when.

Owned by one connection's session; not safe to call from two tasks at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.errors import LocalProtocolError
from holdfast.protocols.stomp import codec, states
from holdfast.protocols.stomp.heart_beat import HeartBeat, HeartBeats
from holdfast.protocols.stomp.reader import FrameReader
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.protocols.stomp.states import Role


class StompConnection(FrameReader):
    """The protocol of one connection; see the module's docstring for its use."""

    __slots__ = ("_outgoing",)

    def __init__(
        self,
        role: Role,
        settings: StompSettings | None = None,
        *,
        opened_at: float | None = None,
    ) -> None:
        """
        Start a connection that is not established yet.

        Args:
            role: What we are: "server" reads client frames, "client" reads server frames.
            opened_at: Starts the connect timeout; None for no timeout.
        """
        settings = settings or StompSettings()
        super().__init__(role, settings, HeartBeats(settings, opened_at=opened_at))
        self._outgoing: list[bytes] = []

    def send_frame(
        self, command: str, headers: Iterable[tuple[str, str]] = (), body: bytes = b""
    ) -> None:
        """
        Queue a frame of our role, escaped for the version agreed on.

        Raises:
            LocalProtocolError: Not a frame of our role or version, or a body it must not have.
        """
        rule = states.COMMANDS_SENT[self._role].get(command.encode())
        if rule is None or self._version not in rule.mandatory:
            raise LocalProtocolError(
                f"a {self._role} does not send {command} in STOMP {self._version}",
                code="unknown-command",
            )
        if body and not rule.has_body:
            raise LocalProtocolError(f"{command} must not have a body", code="body-not-allowed")
        self._outgoing.append(codec.encode_frame(command, headers, body, self._version))

    def data_to_send(self) -> bytes:
        """Take the bytes queued by `send_frame`."""
        outgoing = b"".join(self._outgoing)
        self._outgoing.clear()
        return outgoing

    def negotiate_heart_beats(self, mine: tuple[int, int], theirs: tuple[int, int]) -> None:
        """
        Agree on heart-beats from both sides' (can send every, want every), in milliseconds.

        `theirs` is usually `peer_heart_beat`.
        """
        self._beats.negotiate(mine, theirs)

    @property
    def deadline(self) -> float | None:
        """When to call `handle_deadline`, in the seconds of `now`; None for never."""
        return self._beats.deadline

    def handle_deadline(self, now: float) -> HeartBeat:
        """Say whether a beat is to be sent or the peer is dead (also: did not connect in time)."""
        return self._beats.handle_deadline(now)

    @property
    def received_at(self) -> float | None:
        """When bytes last came in, by `note_received`; None before that."""
        return self._beats.received_at

    def note_received(self, now: float) -> None:
        """Bytes came in; call it once per read, before or after `receive_data`."""
        self._beats.received_at = now

    def note_sent(self, now: float) -> None:
        """Bytes went out."""
        self._beats.sent_at = now
