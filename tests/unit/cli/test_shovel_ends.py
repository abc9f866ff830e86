"""Both ends of a shovel, and how it is told to stop."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "client"))
from scripted_broker import ScriptedBroker

from holdfast.cli.shovel_ends import End, Ends
from holdfast.cli.shovel_rules import routes_of
from holdfast.cli.shovelling import Shovelling

SECONDS = 10


def shovel() -> Shovelling:
    return Shovelling(
        routes_of(["a=b"]),
        count=None,
        silence_seconds=None,
        durable=None,
        selector=None,
        transformation=None,
        takes_empty=False,
    )


def ends(source: ScriptedBroker, target: ScriptedBroker) -> Ends:
    return Ends(
        End(source.uri, None, None),
        End(target.uri, None, None),
        client_id=None,
        is_endless=True,
        is_quiet=True,
    )


def test_the_first_signal_stops_it_in_order() -> None:
    """What was carried is acknowledged, and both connections say goodbye."""

    async def scenario() -> None:
        async with ScriptedBroker() as source, ScriptedBroker() as target:
            source.store.put("/queue/a", {"persistent": "true"}, b"one")
            running = asyncio.create_task(ends(source, target).joined(shovel()))
            async with asyncio.timeout(SECONDS):
                await target.saw(lambda: target.store.bodies("/queue/b"))
                os.kill(os.getpid(), signal.SIGTERM)
                await running
            assert source.store.bodies("/queue/a") == []

    asyncio.run(scenario())
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_the_second_signal_ends_it_at_once() -> None:
    """Where the target has not answered: nothing was acknowledged, and comes again."""

    async def scenario() -> None:
        async with ScriptedBroker() as source, ScriptedBroker() as target:
            source.store.put("/queue/a", {"persistent": "true"}, b"one")
            target.is_holding = True
            running = asyncio.create_task(ends(source, target).joined(shovel()))
            async with asyncio.timeout(SECONDS):
                await target.saw(lambda: target.sends)
                for _ in range(2):
                    os.kill(os.getpid(), signal.SIGINT)
                with pytest.raises(asyncio.CancelledError):
                    await running
            assert source.store.bodies("/queue/a") == [b"one"]

    asyncio.run(scenario())
