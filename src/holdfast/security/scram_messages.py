"""
The four messages of SCRAM (RFC 5802, 7), read and written, by either end.

    client-first    n,,n=NAME,r=NONCE[,w=PLACE]
    server-first    r=NONCE+MORE,s=SALT,i=ITERATIONS
    client-final    c=biws,r=NONCE+MORE,p=PROOF
    server-final    v=SIGNATURE, or e=REASON

They are read as strictly as they are written there: what may be read in two ways is no message.
Channel binding is not offered, so a client says that it binds to nothing (`n`), or would (`y`).
An extension of ours says which place the client has opened: the proof is over that as well, so who
listens there cannot pass it on to a server elsewhere.

Invariants:
    No message is longer than `MESSAGE_BYTES_MAX`.
    Nothing that is read here is in what is said of it.

Pure.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from typing import Final, NamedTuple

from holdfast.errors import AuthenticationError
from holdfast.security.scram_keys import ITERATIONS_MAX, ITERATIONS_MIN

MESSAGE_BYTES_MAX: Final = 2048
"""A name of 256 bytes, each written as three, and a nonce; clients send less than 200."""
NONCE_LENGTH_MAX: Final = 512

BASE64: Final = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
_NONCE: Final = rf"(?P<nonce>[\x21-\x2b\x2d-\x7e]{{1,{NONCE_LENGTH_MAX}}})"
_EXTENSIONS: Final = r"(?P<extensions>(?:,[A-Za-z]=[^,\x00]+)*)"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<gs2>(?P<flag>n|y|p=[^,]*),(?:a=(?P<authzid>[^,\x00]*))?,)"
    rf"(?P<bare>(?P<mandatory>m=[^,]*,)?n=(?P<name>[^,\x00]+),r={_NONCE}{_EXTENSIONS})"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<without>c=(?P<binding>{BASE64}),r={_NONCE}{_EXTENSIONS})"
    rf",p=(?P<proof>[A-Za-z0-9+/]{{43}}=)"
)
_SERVER_FIRST: Final = re.compile(
    rf"r={_NONCE},s=(?P<salt>{BASE64}),i=(?P<iterations>[1-9][0-9]{{0,8}}){_EXTENSIONS}"
)
_SERVER_FINAL: Final = re.compile(rf"v=(?P<signature>[A-Za-z0-9+/]{{43}}=){_EXTENSIONS}")
_PLACE: Final = "w="
_RESERVED: Final = frozenset("anmrcsipve")
"""Letters that mean something elsewhere in an exchange are no extensions."""

SALT_BYTES_MAX: Final = 256


class ClientFirst(NamedTuple):
    """Who begins."""

    name: str
    nonce: str
    gs2: str
    """The head, which the client repeats in its last message."""
    bare: str
    """All behind it."""


class ServerFirst(NamedTuple):
    """What the password is to be salted with."""

    nonce: str
    salt: bytes
    iterations: int


class ClientFinal(NamedTuple):
    """The proof that the password is known."""

    binding: bytes
    nonce: str
    proof: bytes
    without_proof: str
    """All before it."""

    def __repr__(self) -> str:
        """Without the proof: passwords could be tried on it."""
        return f"ClientFinal(nonce={self.nonce!r})"


def read_client_first(message: bytes) -> ClientFirst:
    """
    Read the first message of a client.

    Raises:
        AuthenticationError: It is none, or asks for what is not offered.
    """
    found = _matched(_CLIENT_FIRST, message, "first")
    if found["flag"].startswith("p="):
        raise AuthenticationError("SCRAM: channel binding is not offered here")
    if found["mandatory"]:
        raise AuthenticationError("SCRAM: the extension that is asked for is not known here")
    name = _unescaped(found["name"])
    authzid = found["authzid"]
    if name is None or (authzid and _unescaped(authzid) != name):
        raise AuthenticationError("SCRAM: who shows a password can be nobody else: leave out a=")
    return ClientFirst(name, found["nonce"], found["gs2"], found["bare"])


def write_client_first(name: str, nonce: str, place: str = "") -> ClientFirst:
    """Give the first message of a client that binds to nothing, but to a place if one is given."""
    escaped = name.replace("=", "=3D").replace(",", "=2C")
    where = f",{_PLACE}{place}" if place else ""
    return ClientFirst(name, nonce, "n,,", f"n={escaped},r={nonce}{where}")


def places_in(message: bytes) -> list[str]:
    """Give the places that a client's first message is bound to: none, or one if it is valid."""
    parts = message.decode("utf-8", "replace").split(",")
    return [it.removeprefix(_PLACE) for it in parts if it.startswith(_PLACE)]


def read_server_first(message: bytes) -> ServerFirst:
    """
    Read what a server answers to it.

    Raises:
        AuthenticationError: It is no such answer, or would take too long, or none at all.
    """
    found = _matched(_SERVER_FIRST, message, "first")
    salt, iterations = b64decode(found["salt"]), int(found["iterations"])
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX or not 0 < len(salt) <= SALT_BYTES_MAX:
        raise AuthenticationError(
            f"SCRAM: {iterations:,} iterations are asked for, with a salt of {len(salt):,} bytes;"
            f" allowed: {ITERATIONS_MIN:,} to {ITERATIONS_MAX:,}, 1 to {SALT_BYTES_MAX}"
        )
    return ServerFirst(found["nonce"], salt, iterations)


def write_server_first(it: ServerFirst) -> str:
    """Give the first message of a server."""
    return f"r={it.nonce},s={b64encode(it.salt).decode()},i={it.iterations}"


def read_client_final(message: bytes) -> ClientFinal:
    """
    Read the last message of a client.

    Raises:
        AuthenticationError: It is none.
    """
    found = _matched(_CLIENT_FINAL, message, "last")
    binding, proof = (b64decode(found[it]) for it in ("binding", "proof"))
    if b64encode(proof).decode() != found["proof"]:
        raise _none("last")  # There are four ways to write it, and one of them is right.
    return ClientFinal(binding, found["nonce"], proof, found["without"])


def without_proof(gs2: str, nonce: str) -> str:
    """Give what a client's last message begins with, and its proof is over."""
    return f"c={b64encode(gs2.encode()).decode()},r={nonce}"


def write_client_final(before_proof: str, proof: bytes) -> str:
    """Give the last message of a client."""
    return f"{before_proof},p={b64encode(proof).decode()}"


def read_server_final(message: bytes) -> bytes:
    """
    Read the signature by which a server shows that it knows the password as well.

    Raises:
        AuthenticationError: There is none.
    """
    return b64decode(_matched(_SERVER_FINAL, message, "last")["signature"])


def write_server_error(*, is_proof_wrong: bool) -> str:
    """Give the last message of a server that lets nobody in; it never says that a name is wrong."""
    return "e=invalid-proof" if is_proof_wrong else "e=other-error"


def write_server_final(signature: bytes) -> str:
    """Give the last message of a server."""
    return f"v={b64encode(signature).decode()}"


def _matched(form: re.Pattern[str], message: bytes, which: str) -> re.Match[str]:
    if len(message) > MESSAGE_BYTES_MAX:
        raise AuthenticationError(
            f"SCRAM: the {which} message has {len(message):,} bytes; allowed: {MESSAGE_BYTES_MAX:,}"
        )
    try:
        found = form.fullmatch(message.decode())
    except UnicodeDecodeError:
        found = None
    if found is None or not _are_extensions(found["extensions"]):
        raise _none(which)
    return found


def _none(which: str) -> AuthenticationError:
    return AuthenticationError(f"SCRAM: the {which} message is none (RFC 5802, 7)")


def _are_extensions(text: str) -> bool:
    letters = [each[0] for each in text.split(",")[1:]]
    return len(set(letters)) == len(letters) and not _RESERVED & set(letters)


def _unescaped(written: str) -> str | None:
    """Read a name; None: an equals sign stands in it that begins nothing."""
    parts = written.split("=")
    if any(part[:2] not in ("2C", "3D") for part in parts[1:]):
        return None
    return parts[0] + "".join(("," if it[:2] == "2C" else "=") + it[2:] for it in parts[1:])
