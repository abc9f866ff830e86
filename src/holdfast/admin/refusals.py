"""
What the admin port says to whom it does not answer: sentences, and the form that they come in.

Pure.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from starlette.responses import JSONResponse

from holdfast.security.roles import ADMIN, OPERATOR, VIEWER, Duty

IN_CLEAR: Final = (
    "passwords and tokens are not taken in clear from other machines: ask by TLS (https), or let"
    " the node have plain_without_tls"
)

NO_PLACE: Final = (
    "there is no place for one more connection of yours, as all that users may have are taken:"
    " close one, or raise admin_connections"
)

ASK_ELSEWHERE: Final = (
    "ask another member, or this one as the node's own user on its machine or with the cluster's"
    " secret (--secret-file)"
)
"""What a user does whom a node cannot judge, as it is behind or cut off."""

ROLES_NEEDED: Final = {Duty.VIEW: VIEWER, Duty.OPERATE: OPERATOR, Duty.GOVERN: ADMIN}
"""What a request takes, as it is told to who may not send it."""

GOES_ON: Final = "this login goes on: answer what the header WWW-Authenticate asks"
UNREADABLE: Final = "SCRAM: the header Authorization cannot be read (RFC 7804, 5)"

_BUSY: Final = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
"""What may be answered elsewhere, or later: whoever reads the log asks the next member."""

CHALLENGE: Final = 'Basic realm="holdfast", charset="UTF-8", Bearer'


def refused(
    status: HTTPStatus, message: str, challenge: str = "", **more: str | int
) -> JSONResponse:
    """
    Answer that something is not answered.

    Args:
        challenge: By which ways somebody may show who he is, as `WWW-Authenticate` has it.
        more: What else stands beside the sentence, by its key.
    """
    code = "busy" if status in _BUSY else "authentication"
    fault: dict[str, Any] = {"code": code, "message": message, **more}
    headers = {"WWW-Authenticate": challenge} if challenge else None
    return JSONResponse({"error": fault}, status_code=status, headers=headers)
