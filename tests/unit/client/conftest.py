"""
What the client's tests share: tests may be coroutines, which run on both event loops.

`scripted_broker` lies beside this file and is no package, so its folder is put on the path.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import uvloop

sys.path.insert(0, str(Path(__file__).parent))

if TYPE_CHECKING:
    from threaded_broker import Threaded

SECONDS_MAX = 20
"""A test that waits longer waits for something that will not happen."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {
        name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters
    }

    async def scenario() -> None:
        async with asyncio.timeout(SECONDS_MAX):
            await pyfuncitem.obj(**arguments)

    # On both event loops: their transports differ where it hurts.
    asyncio.run(scenario())
    uvloop.run(scenario())
    return True


@pytest.fixture
def threaded() -> Iterator[Threaded]:
    from threaded_broker import Threaded

    served = Threaded()
    yield served
    served.close()
