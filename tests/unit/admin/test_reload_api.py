"""
Having certificates read anew by the admin port: all or none, and said which.
"""

from __future__ import annotations

import asyncio
import json

import pytest
from starlette.exceptions import HTTPException

from holdfast.admin.reload_api import ReloadInterface, nothing
from holdfast.errors import ConfigError, RefusedError


async def broken() -> list[str]:
    raise ConfigError(["tls.outside.key: a is not the key of b", "tls.inside.crl: no"])


async def both() -> list[str]:
    return ["outside", "inside"]


def test_the_tables_that_were_read_are_named() -> None:
    """None where there is none."""
    for renew, names in ((both, ["outside", "inside"]), (nothing, [])):
        answer = asyncio.run(ReloadInterface(renew).reload(None, b"{}"))  # type: ignore[arg-type]
        assert json.loads(bytes(answer.body)) == {"tls": names}


def test_a_file_that_cannot_be_used_is_a_refusal_with_all_that_is_wrong() -> None:
    """Whoever asked reads it, and not only the log."""
    with pytest.raises(RefusedError, match=r"is shown on: tls\.outside\.key: .*; tls\.inside\.crl"):
        asyncio.run(ReloadInterface(broken).reload(None, b"{}"))  # type: ignore[arg-type]


def test_nothing_may_be_said_with_it() -> None:
    """What is not understood is not passed over."""
    with pytest.raises(HTTPException, match="cut"):
        asyncio.run(ReloadInterface(both).reload(None, b'{"cut": true}'))  # type: ignore[arg-type]
