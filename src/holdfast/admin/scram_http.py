"""
SCRAM in the headers of HTTP (RFC 7804), read and written, by either end.

    Authorization:       SCRAM-SHA-256 realm="holdfast", data=…     the client's first message
    WWW-Authenticate:    SCRAM-SHA-256 sid=…, data=…                the server's, with status 401;
                                                                    also its last one that says no
    Authorization:       SCRAM-SHA-256 sid=…, data=…                the client's last one
    Authentication-Info: sid=…, data=…                              the server's, with the answer

The messages stand there in Base64. `sid` ties the two requests of a client together: all that the
server has to know of the first one stands in it.

Invariants:
    Whatever stands in a header, it is one of these or none: nothing of it is an error.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Final, NamedTuple

from holdfast.security.scram_messages import BASE64, MESSAGE_BYTES_MAX

SCHEME: Final = "SCRAM-SHA-256"
REALM: Final = "holdfast"
OFFER: Final = f'{SCHEME} realm="{REALM}"'
"""How it is offered, among other ways."""

_HEADER_BYTES_MAX: Final = 3 * MESSAGE_BYTES_MAX
"""Both messages of a client, in Base64."""
_PARAMETER: Final = re.compile(r'[ \t]*([A-Za-z0-9]+)[ \t]*=[ \t]*(?:"([^"\\]*)"|([^\s",]*))[ \t]*')
_SID: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{_HEADER_BYTES_MAX}}}")
_DATA: Final = re.compile(BASE64)
_CHALLENGE: Final = re.compile(rf"(?:^|,)[ \t]*{SCHEME}(?:[ \t]+([^ \t].*))?$", re.IGNORECASE)


class Said(NamedTuple):
    """A message, and to which exchange it belongs."""

    sid: str
    """Empty: it begins one."""
    message: bytes

    def __repr__(self) -> str:
        """Without the message: passwords could be tried on it."""
        return f"Said({self.sid!r})"


def is_scram(header: bytes) -> bool:
    """Whether an `Authorization` header is of this kind."""
    return header[: len(SCHEME) + 1].lower() == f"{SCHEME} ".lower().encode()


def read_authorization(header: bytes) -> Said | None:
    """Read what a client says; None: it makes no sense."""
    if len(header) > _HEADER_BYTES_MAX:
        return None
    return _said(header[len(SCHEME) + 1 :].decode("latin-1"))


def write_authorization(said: Said) -> str:
    """Give what a client says."""
    head = f"sid={said.sid}" if said.sid else f'realm="{REALM}"'
    return f"{SCHEME} {head}, data={b64encode(said.message).decode()}"


def write_challenge(said: Said) -> str:
    """Give what a server answers to a first message."""
    return f"{SCHEME} {write_info(said)}"


def write_failure(sid: str, message: str) -> str:
    """Give what a server answers to a last message that lets nobody in: it may be tried anew."""
    return f"{OFFER}, {write_info(Said(sid, message.encode()))}"


def write_info(said: Said) -> str:
    """Give what a server answers to a last message."""
    return f"sid={said.sid}, data={b64encode(said.message).decode()}"


def read_info(header: str) -> Said | None:
    """Read that; None: it makes no sense."""
    return _said(header) if len(header) <= _HEADER_BYTES_MAX else None


def is_offered(headers: Iterable[str]) -> bool:
    """Whether one of the ways that a server offers is this one."""
    return any(f" {SCHEME.lower()} " in f" {it.lower().replace(',', ' , ')} " for it in headers)


def read_challenge(headers: Iterable[str]) -> Said | None:
    """Read what a server answers to a first message; None: nothing."""
    for header in headers:
        found = _CHALLENGE.search(header) if len(header) <= _HEADER_BYTES_MAX else None
        said = _said(found[1] or "") if found is not None else None
        if said is not None and said.sid:
            return said
    return None


def _said(text: str) -> Said | None:
    found: dict[str, str] = {}
    place = 0
    while place < len(text):
        matched = _PARAMETER.match(text, place)
        if matched is None or matched[1].lower() in found:
            return None
        found[matched[1].lower()] = matched[2] if matched[2] is not None else matched[3]
        place = matched.end()
        if place < len(text) and text[place] != ",":
            return None
        place += 1
    sid, data = found.get("sid", ""), found.get("data", "")
    is_named = not sid or _SID.fullmatch(sid) is not None
    if not data or not is_named or _DATA.fullmatch(data) is None:
        return None
    return Said(sid, b64decode(data))
