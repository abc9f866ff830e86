"""
Policies over HTTP: what is said of destinations by pattern, and what that means for one of them.

    GET  /policies                      every pattern, and whose word it is
    GET  /policies?destination=NAME     every key of one destination, and where it is from
    POST /policies                      {"pattern", "set": {…}} or {"pattern", "unset": […]}

Asked of another node, the leader answers, as for queues; while there is none, the node itself.

What is said is read here, before it reaches the broker, by `model.policies`, as what a file says.

Invariants:
    What has one mistake changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from holdfast.admin.leader_questions import LeaderSays
from holdfast.admin.operations import Operations
from holdfast.admin.slices import Desk, Slices, listed
from holdfast.errors import PolicyError
from holdfast.model.policies import NEAR_COUNT_MAX, moot_notice, read_values, require_option
from holdfast.model.policy_options import SYNONYMS
from holdfast.model.wildcards import Pattern, parse_pattern

if TYPE_CHECKING:
    from holdfast.admin.bodies import ChangePolicy

LeadersAnswer = Callable[[Request], Awaitable[LeaderSays]]
"""Ask the leader the same."""

_FAULTS_MAX = 20
"""So many are told at once."""


class PolicyInterface:
    """The endpoints about policies of one node."""

    def __init__(self, operations: Operations, leaders_answer: LeadersAnswer) -> None:
        self._operations = operations
        self._leaders_answer = leaders_answer
        self._desk = Desk()

    async def policies(self, request: Request) -> Response:
        """What is said of all destinations, or what that means for one."""
        status = self._operations.status()
        found_out = await self._leaders_answer(request)
        if isinstance(found_out, list):
            return Response(b"".join(found_out), media_type="application/json")
        head: dict[str, Any] = {"node": status.name, "role": status.role, **found_out.head}
        named = request.query_params.get("destination")
        if named is None:
            found = self._operations.policies()
            head |= {"format_level": status.format_level, "revision": found.revision}

            async def write(slices: Slices) -> list[bytes]:
                return await listed(head, "policies", found.policies, slices)

            pieces = await self._desk.answer(object(), write)
            return Response(b"".join(pieces), media_type="application/json")
        destination = parse_pattern(named)
        if not destination.is_exact:
            raise PolicyError(f"destination {named!r}: one destination is expected, no pattern")
        values = self._operations.policy_of(destination.kind, destination.text)
        keys = [asdict(value) for value in values]
        return JSONResponse(head | {"destination": str(destination), "keys": keys})

    async def change(self, _request: Request, body: bytes) -> Response:
        """Say something of a pattern's destinations, or take it back."""
        wanted = _read(body)
        pattern = parse_pattern(wanted.pattern)
        if wanted.set is not None:
            spoken = read_values(pattern.kind, wanted.set)
            _require_none(pattern, spoken.faults)
            notices = [moot_notice(spoken.moot)] if spoken.moot else []
            left = await self._operations.say_policy(pattern, spoken.values)
        else:
            names = [SYNONYMS.get(name, name) for name in wanted.unset or []]
            _require_none(pattern, _unknown(pattern, names))
            notices = []
            left = await self._operations.take_back_policy(pattern, names)
        return JSONResponse({"pattern": str(pattern), "values": left, "notices": notices})


def _read(body: bytes) -> ChangePolicy:
    """
    Read what is asked for.

    Raises:
        PolicyError: It is not of that form.
    """
    from holdfast.admin.bodies import BodyError, ChangePolicy, read_body

    try:
        wanted = read_body(body, ChangePolicy)
    except BodyError as error:
        raise PolicyError(str(error)) from error
    if (wanted.set is None) == (wanted.unset is None) or wanted.set == {}:
        raise PolicyError("one of them is expected: 'set' with keys and values, or 'unset'")
    return wanted


def _unknown(pattern: Pattern, names: list[str]) -> list[tuple[str, str]]:
    faults: list[tuple[str, str]] = []
    for name in names[:_FAULTS_MAX]:
        try:
            is_near_told = len(faults) < NEAR_COUNT_MAX
            require_option(name, pattern.kind, is_near_told=is_near_told)
        except ValueError as error:
            faults.append((name, str(error)))
    return faults


def _require_none(pattern: Pattern, faults: Sequence[tuple[str, str]]) -> None:
    told = [f"{name[:80]!r}: {why}" for name, why in faults[:_FAULTS_MAX]]
    if told:
        raise PolicyError(f"{pattern}: {'; '.join(told)}")
