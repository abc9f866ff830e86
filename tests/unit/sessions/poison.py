"""
Consumers that die of what they get, with all that they have.
"""

from __future__ import annotations

from holdfast.model.records import PolicyRecord

POISON = "poison"


def said(desk, values: str) -> None:
    desk.broker.receipts.record(PolicyRecord("queue://orders", values))
    desk.turn()


def sent(desk, *all_bodies: str) -> None:
    client = desk.connect()
    for body in all_bodies:
        client.send(body.encode())
    desk.turn()


def consumer(desk, prefetch: int = 100, **headers: str):
    client = desk.connect()
    client.subscribe(**{"activemq__prefetchSize": str(prefetch), **headers})
    desk.turn()
    return client


def messages(client) -> list:
    client.desk.turn()
    return [frame for frame in client.frames() if frame.command == "MESSAGE"]


def die(client) -> None:
    """Break a connection, and let all that it had come back."""
    client.leave()
    client.desk.broker.errands.run(lambda: False)
    client.desk.turn()


def dead(desk) -> list[str]:
    client = desk.connect()
    client.subscribe("/queue/ActiveMQ.DLQ")
    return [message.body.decode() for message in messages(client)]
