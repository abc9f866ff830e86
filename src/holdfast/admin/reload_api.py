"""
`POST /reload`: have this node read its certificates anew.

It is for the node that is asked, and never passed on: each has its own files.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from holdfast.errors import ConfigError, RefusedError

Renew = Callable[[], Awaitable[list[str]]]
"""Reads all files again, and gives the names of their tables."""


async def nothing() -> list[str]:
    """Read nothing: there is nothing."""
    return []


class ReloadInterface:
    """What is asked of a node's own files."""

    def __init__(self, renew: Renew) -> None:
        self._renew = renew

    async def reload(self, _request: Request, body: bytes) -> Response:
        """
        Read them anew, all or none.

        Raises:
            RefusedError: One cannot be used: what was shown before is shown on.
        """
        from holdfast.admin.bodies import NoArguments, asked_for

        asked_for(body, NoArguments)
        try:
            names = await self._renew()
        except ConfigError as error:
            told = f"not read anew, what was shown before is shown on: {error}"
            raise RefusedError(told) from error
        return JSONResponse({"tls": names})
