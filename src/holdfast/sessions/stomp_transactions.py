"""
BEGIN, COMMIT and ABORT: what they say is read here, what they do is done by the holdings.

Of a COMMIT our own client says more: its producer's number, so that a repetition after a failover
is known, and which of its producers are done with.

Called by its session.
"""

from __future__ import annotations

from holdfast.errors import TransactionError
from holdfast.protocols.stomp.frames import Frame
from holdfast.sessions.client_session import ClientSession
from holdfast.sessions.permissions import is_writer, require_writer
from holdfast.sessions.producer_rooms import known_producer
from holdfast.sessions.requirements import read_number, read_producer_id, require_short
from holdfast.sessions.stomp_headers import read_finished


def begin(session: ClientSession, frame: Frame) -> None:
    """
    Begin a transaction.

    Raises:
        RefusedError: It has begun already, or there may be no more.
    """
    name = frame.headers["transaction"]
    require_short(name, "transaction name")
    session.holdings.transactions.begin(name, session)
    if frame.receipt is not None:
        session.reply(frame.receipt)


def commit(session: ClientSession, frame: Frame) -> None:
    """
    Commit one, or roll it back where a part of it was refused.

    Raises:
        RefusedError: It has not begun, it cannot commit, or there is no room for it.
    """
    holdings = session.holdings
    transaction = holdings.transactions.get(frame.headers["transaction"])
    if transaction.failure is not None:
        holdings.roll_back(session, transaction, None)
        raise TransactionError(
            f"transaction {transaction.name!r} is rolled back, because a part of it was"
            f" refused: {transaction.failure}"
        )
    producer_id = frame.headers.get("producer-id")
    sequence = 0
    if producer_id is not None:
        producer_id = known_producer(session, read_producer_id(producer_id))
        text = frame.headers.get("producer-sequence", "")
        sequence = read_number(text.encode(), "producer-sequence")
        if not (
            holdings.sending.has_taken(producer_id, b"1") or is_writer(session, holdings.broker)
        ):
            # Nothing lasting can be in it but acknowledgements, which may be repeated without a
            # number. So it begins no producer: that would stand in the log.
            producer_id, sequence = None, 0
    finished = read_finished(frame)
    if finished is not None:
        require_writer(session, holdings.broker, "that producers are done with")
        finished = known_producer(session, finished[0]), finished[1]
    holdings.commit(session, transaction, frame.receipt, producer_id, sequence, finished)


def abort(session: ClientSession, frame: Frame) -> None:
    """
    Roll one back.

    Raises:
        TransactionError: It has not begun.
    """
    holdings = session.holdings
    transaction = holdings.transactions.get(frame.headers["transaction"])
    holdings.roll_back(session, transaction, frame.receipt)
