"""Logins by SCRAM on a node."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from holdfast.environment.clock import SystemClock
from holdfast.errors import AuthenticationError
from holdfast.security.checking import WRONG, Refusal
from holdfast.security.principal import Principal
from holdfast.security.scram_exchanges import Begun, Proven
from holdfast.server.scram_logins import ScramLogins

PROVEN = Proven(Principal("ann"), "v=")


def logins(answer: object, *, is_offered: bool = True) -> ScramLogins:
    def step(*_said: object) -> object:
        return answer

    exchanges = SimpleNamespace(begin=step, finish=step, name_of={"s": "ann"}.get)
    offer = SimpleNamespace(is_made=lambda: is_offered)
    return ScramLogins(offer, exchanges, SystemClock())


def test_what_is_found_is_told_at_once() -> None:
    """Nothing of it takes time."""
    begun = Begun("s", "r=")
    assert asyncio.run(logins(begun).begin(b"", "::1")) is begun
    assert asyncio.run(logins(PROVEN).finish("s", b"", "::1")) is PROVEN
    assert logins(PROVEN).name_of("s") == "ann"
    assert [logins(None, is_offered=it).is_offered for it in (True, False)] == [True, False]


def test_what_is_not_known_yet_is_found_out_before_anybody_is_told() -> None:
    """Who was told that it is not offered would send his password; others have their turns."""
    left = [False, False, True]
    offer = SimpleNamespace(look=lambda: left.pop(0), is_made=lambda: not left)
    finding = ScramLogins(offer, SimpleNamespace(), SystemClock())
    turns: list[int] = []

    async def work() -> None:
        looking = asyncio.create_task(finding.look())
        while not looking.done():
            turns.append(len(left))
            await asyncio.sleep(0)

    asyncio.run(work())
    assert finding.is_offered
    assert turns == [3, 2, 1]


def test_a_refusal_is_told_when_it_is_due() -> None:
    """Not before: who guesses waits, and nobody else."""

    async def work() -> None:
        loop = asyncio.get_running_loop()
        for delay in (0.0, 0.1):
            for step in ("begin", "finish"):
                refusing = logins(Refusal(WRONG, SystemClock().monotonic() + delay))
                said = (b"", "::1") if step == "begin" else ("s", b"", "::1")
                begun = loop.time()
                with pytest.raises(AuthenticationError, match=WRONG):
                    await getattr(refusing, step)(*said)
                assert loop.time() - begun >= 0.9 * delay

    asyncio.run(work())
