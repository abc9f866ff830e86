"""
The log over HTTP: committed entries as they are on disk, and the holds of named readers.

    GET /log/position[?from=I&bytes=N]      where the log begins and ends; how far N bytes reach;
                     [?bases=false]         without the first entries of its segments
    GET /log?from=I&bytes=N[&through=J]     whole entries, at least one, of one segment; 429: later
    GET /holds    DELETE /holds/{name}
    POST /holds/{name} {"index", "bytes_max", "expiry_seconds", "or_first", "only_renews"}

Entries are sent in small pieces read in a thread, so that a reader costs the broker's loop little
whatever it asks for. They are not verified here: every entry carries its checksums, and the reader
checks them anyway. Entries that were dropped are 410 Gone.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from http import HTTPStatus
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from holdfast.admin.operations import Operations
from holdfast.admin.reader_slots import ReaderSlots, Slot, stand_back
from holdfast.admin.slices import Desk, Pace, Slices
from holdfast.admin.status import HoldRequest, LogSlice, as_json
from holdfast.errors import RecordNotFoundError
from holdfast.model.digits import read_digits
from holdfast.model.limits import HOLD_NAME

SLICE_BYTES_DEFAULT: Final = 8 * 1024 * 1024
SLICE_BYTES_MAX: Final = 64 * 1024 * 1024
REACH_BYTES_MAX: Final = 64 * 1024 * 1024 * 1024
"""A reach takes 2 µs a segment, in one go: two milliseconds for segments of 64 MiB."""
PIECE_BYTES: Final = 256 * 1024
"""What is read and sent at once; a piece takes the loop about a tenth of a millisecond."""

_INDEX_MAX: Final = 2**63 - 1
_BASES_AT_ONCE: Final = 4096
"""So many numbers are written, and later sent, between two looks at the clock: 0.2 ms, 50 KB."""


class LogInterface:
    """The endpoints about the log of one node."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._desk = Desk()
        """For what a long log makes long: however many ask, it is put together for all of them."""
        self._pace = Pace()
        """They all have it at the same moment, and are answered one after the other."""
        self._slots = ReaderSlots()

    async def position(self, request: Request) -> Response:
        """Where the log begins and ends on this node."""
        from_index = read_number(request, "from", 0)
        bytes_max = min(read_number(request, "bytes", SLICE_BYTES_DEFAULT), REACH_BYTES_MAX)
        if request.query_params.get("bases") == "false":
            return JSONResponse(self._head(from_index, bytes_max))
        bases = await self._desk.answer("bases", self._list_bases)
        await self._pace.turn()
        if await _has_left(request):
            return Response()
        # Made now: who shares the list of another may have been told of more entries than there
        # were when that was begun. That it lacks the newest segments makes some ranges longer.
        head = json.dumps(self._head(from_index, bytes_max))[:-1].encode() + b", "
        length = str(len(head) + sum(map(len, bases)))
        headers = {"Content-Type": "application/json", "Content-Length": length}
        return StreamingResponse(self._paced([head, *bases]), headers=headers)

    def _head(self, from_index: int, bytes_max: int) -> dict[str, Any]:
        head = as_json(self._operations.log_position(from_index, bytes_max, with_bases=False))
        del head["bases"]
        return head

    async def _list_bases(self, slices: Slices) -> list[bytes]:
        """All segments' first entries, as the end of a JSON object, in pieces of some size."""
        # A log of ten terabytes has 160,000 segments: they are not written in one go.
        bases = self._operations.log_position().bases
        found: list[bytes] = []
        before = '"bases": ['
        for start in range(0, len(bases), _BASES_AT_ONCE):
            some = json.dumps(list(bases[start : start + _BASES_AT_ONCE]))
            found.append((before + some[1:-1]).encode())
            before = ", "
            await slices.rest()
        return [*found[:-1], found[-1] + b"]}"]

    async def _paced(self, pieces: list[bytes]) -> AsyncIterator[bytes]:
        for piece in pieces:
            await self._pace.turn()
            yield piece

    async def entries(self, request: Request) -> Response:
        """
        Entries as they are on disk.

        Raises:
            BusyError: This node answers as many readers as it does at once.
        """
        from_index = read_number(request, "from", None)
        bytes_max = min(read_number(request, "bytes", SLICE_BYTES_DEFAULT), SLICE_BYTES_MAX)
        through = read_number(request, "through", _INDEX_MAX)
        position = self._operations.log_position(with_bases=False)
        found = self._operations.log_slice(from_index, bytes_max, through)
        slot = self._slots.take(leads=position.role == "leader") if found.size else None
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Length": str(found.size),
            "Holdfast-Next-Index": str(found.next_index),
            "Holdfast-Commit-Index": str(position.commit_index),
            "Holdfast-First-Index": str(position.first_index),
            "Holdfast-Cluster": position.cluster_id,
        }
        if slot is None:
            return Response(headers=headers)
        try:
            file = await asyncio.to_thread(_open, found)
        except BaseException:
            slot.give_back()
            raise
        return _Entries(file, found, slot, headers)

    async def holds(self, request: Request) -> Response:
        """The named readers of the log."""
        return JSONResponse({"holds": [as_json(it) for it in self._operations.status().holds]})

    async def keep(self, request: Request, body: bytes) -> Response:
        """Set a hold."""
        from holdfast.admin.bodies import Keep, asked_for

        wanted = asked_for(body, Keep)
        name = request.path_params["name"]
        if not HOLD_NAME.fullmatch(name) and all(
            hold.name != name for hold in self._operations.status().holds
        ):
            raise HTTPException(
                HTTPStatus.BAD_REQUEST, "name: letters, digits and _.- are expected, 63 at most"
            )
        hold = await self._operations.keep_log(name, HoldRequest(**wanted.model_dump()))
        return JSONResponse(as_json(hold))

    async def release(self, request: Request, body: bytes) -> Response:
        """End a hold."""
        name = request.path_params["name"]
        await self._operations.release_log(name)
        return JSONResponse({"released": name})


class _Entries(StreamingResponse):
    """An answer in pieces; ends with file and slot given back, however it ends."""

    def __init__(self, file: int, found: LogSlice, slot: Slot, headers: Mapping[str, str]) -> None:
        super().__init__(_pieces(file, found, slot), headers=headers)
        self._file = file
        self._slot = slot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; also where nobody reads it any more."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            os.close(self._file)
            self._slot.give_back()


def read_number(request: Request, name: str, default: int | None) -> int:
    """
    Return a whole number from the question; the default where it is not there.

    Raises:
        HTTPException: It is none, or is missing without a default.
    """
    text = request.query_params.get(name)
    if text is None and default is not None:
        return default
    number = None if text is None else read_digits(text, 18)
    if number is None:
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"{name}: a whole number is expected")
    return number


async def _has_left(request: Request) -> bool:
    """Whether nobody is there any more to take the answer."""
    await request.body()  # What was asked comes first; only then it is told that somebody left.
    return await request.is_disconnected()


def _open(found: LogSlice) -> int:
    try:
        return os.open(found.path, os.O_RDONLY)
    except FileNotFoundError as error:
        raise RecordNotFoundError(
            "the segment was dropped just now; ask for the position"
        ) from error


async def _pieces(file: int, found: LogSlice, slot: Slot) -> AsyncIterator[bytes]:
    offset, end = found.start, found.start + found.size
    while offset < end:
        wanted = min(PIECE_BYTES, end - offset)
        piece = await asyncio.to_thread(os.pread, file, wanted, offset)
        if not piece:
            return  # cut short: the length that was promised tells the reader
        offset += len(piece)
        yield piece
        slot.keep()
        await stand_back()
