"""
What each request to the admin port asks of who sends it: one table.

The application's routes are compared with it by a test, and so is the reference. What does not
stand here is refused to all but an admin.

Invariants:
    A path that is added needs the highest duty until it is put here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from starlette.routing import compile_path

from holdfast.security.roles import Duty


class Asked(NamedTuple):
    """One kind of request."""

    method: str
    path: str
    duty: Duty
    is_open: bool = False
    """Whether it is answered to anybody as long as there are no users, for sure."""


DUTIES: Final = (
    Asked("GET", "/health", Duty.NONE, is_open=True),
    Asked("GET", "/ready", Duty.NONE, is_open=True),
    Asked("GET", "/status", Duty.VIEW, is_open=True),
    Asked("GET", "/queues", Duty.VIEW, is_open=True),
    Asked("GET", "/metrics", Duty.VIEW, is_open=True),
    Asked("GET", "/connections", Duty.VIEW),
    Asked("GET", "/subscriptions", Duty.VIEW),
    Asked("GET", "/policies", Duty.VIEW),
    Asked("GET", "/segments", Duty.OPERATE),
    Asked("GET", "/log/position", Duty.OPERATE),
    Asked("GET", "/log", Duty.OPERATE),
    Asked("GET", "/holds", Duty.OPERATE),
    Asked("POST", "/holds/{name}", Duty.OPERATE),
    Asked("DELETE", "/holds/{name}", Duty.OPERATE),
    Asked("POST", "/policies", Duty.OPERATE),
    Asked("POST", "/messages", Duty.OPERATE),
    Asked("POST", "/subscriptions/end", Duty.OPERATE),
    Asked("POST", "/queues/{queue:path}/purge", Duty.OPERATE),
    Asked("DELETE", "/queues/{queue:path}", Duty.OPERATE),
    Asked("POST", "/cluster/transfer", Duty.GOVERN),
    Asked("POST", "/cluster/add", Duty.GOVERN),
    Asked("POST", "/cluster/remove", Duty.GOVERN),
    Asked("POST", "/cluster/promote", Duty.GOVERN),
    Asked("POST", "/mirrors", Duty.GOVERN),
    Asked("POST", "/reload", Duty.GOVERN),
    Asked("GET", "/users", Duty.GOVERN),
    Asked("POST", "/users", Duty.GOVERN),
    Asked("POST", "/users/roles", Duty.GOVERN),
    Asked("POST", "/users/password", Duty.GOVERN),
    Asked("POST", "/users/tokens", Duty.GOVERN),
    Asked("POST", "/users/tokens/end", Duty.GOVERN),
    Asked("POST", "/users/remove", Duty.GOVERN),
    Asked("POST", "/subscriptions/give", Duty.GOVERN),
    Asked("GET", "/grants", Duty.GOVERN),
    Asked("POST", "/grants", Duty.GOVERN),
    Asked("POST", "/grants/revoke", Duty.GOVERN),
    Asked("GET", "/access", Duty.GOVERN),
)


def shows_log(method: str, needed: Duty) -> bool:
    """Whether a request shows what stands in the log, and changes nothing; by what it takes."""
    return method in ("GET", "HEAD") and needed is Duty.OPERATE


OPEN_PATHS: Final = frozenset(asked.path for asked in DUTIES if asked.is_open)

_PATTERNS: Final = tuple((asked, compile_path(asked.path)[0]) for asked in DUTIES)


def duty_for(method: str, path: str, *, may_have_users: bool) -> Duty:
    """Give what a request asks for: of what is open without users nothing while there are none."""
    looked_for = "GET" if method == "HEAD" else method
    for asked, pattern in _PATTERNS:
        if asked.method == looked_for and pattern.match(path):
            return Duty.NONE if asked.is_open and not may_have_users else asked.duty
    return Duty.GOVERN
