"""
Requests by who knows the secret: who passes on what, for whom, to whom, and only once.

    Authorization: Holdfast-Forward v=2,to=LIFE,place=PLACE,at=SECONDS,nonce=HEX,body=SHA256,
                   proof=HEX

The proof is keyed by a word made from the cluster's secret, and is over the method, the path with
its query, the digest of the body, who passes it on, for whom, the life of the node that is asked,
the place that was opened, the time and the nonce. So whoever sees one on its way can neither change
it nor send it again, also not to another node, where the token of before was good for everything
and for ever.

A command that was given the secret proves each of its requests so as well; it passes on nothing.
It learns of the node's life from whoever answers it: so it also proves which place it has opened
(`reached`), and a node takes only what is one of its own. On the node's machine a command does the
same with the token of the node's file, which each process draws anew: the mark of that stands for
its life.

A node's life is a word drawn anew by each process, which it tells the other members: it need be no
secret. A command asks for the mark of that (`process_mark`). What was taken is remembered by the
process, and dies with it; so does what it is good for.

Invariants:
    A proof is taken once, and by one process; what is remembered for that is bounded, and what
    there is no room to remember is refused.
    However many questions are passed on, which anybody may ask, there is room for changes.
    No body is waited for before the proof is right, and nothing done before it has come whole and
    is the one that was proven.

Owned by the loop; signing is for any thread.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from starlette.types import Message, Receive

from holdfast.admin.process_mark import mark_of
from holdfast.admin.reached import NOWHERE, Standing
from holdfast.environment.clock import SystemClock

FORWARDED_HEADER: Final = "holdfast-forwarded-by"
"""Who passes a request on; one that has it is not passed on again."""

AGE_SECONDS_MAX: Final = 60
"""So far from the clock of who is asked may its time be, and so long may a request take to come."""

SKEW_SECONDS_MAX: Final = 900
"""So far apart may they be where who is asked says its own time: what was refused for it is signed
anew by that time, once. Whoever stands between can then keep it back for as long, and no longer."""

REMEMBERED_MAX: Final = 20_000
"""So many proofs of questions are remembered for twice that time, and as many of changes: some 150
a second, where each node passes on twenty questions at most (`leader_questions`)."""

BODY_BYTES_MAX: Final = 64 * 1024
"""As large as any change may be."""

LIFE: Final = "life"
"""Under this name a node tells the other members its life."""

LIFE_LENGTH: Final = 32

_SCHEME: Final = "Holdfast-Forward "
_CONTEXT: Final = b"holdfast forwarded request, version 2"
_NONCE_BYTES: Final = 16
_QUESTIONS: Final = {"GET", "HEAD"}
_FORM: Final = re.compile(
    r"Holdfast-Forward v=2,to=(?P<to>[0-9a-f]{32}),place=(?P<place>[!-+\--~]{0,400})"
    r",at=(?P<at>[0-9]{1,12})"
    r",nonce=(?P<nonce>[0-9a-f]{32}),body=(?P<body>[0-9a-f]{64}),proof=(?P<proof>[0-9a-f]{64})",
    re.ASCII,
)


class Forwarded(NamedTuple):
    """One request as it is passed on, all that the proof is over but its body."""

    method: str
    path: str
    """With its query, as it goes over the wire."""

    by: str
    """The node that passes it on; empty: nobody does, it comes from who knows the secret."""

    person: str
    """For whom, as the header has it; empty: for nobody in particular."""

    to: str
    """The life of the node that is asked, or its mark, `LIFE_LENGTH` hexadecimal digits."""

    place: str = ""
    """Which place was opened, see `reached`; a member, who knows the life by a link, tells none."""


class Taken(NamedTuple):
    """What became of one."""

    refusal: str = ""
    """Why it is not taken; empty: it is."""

    body: str = ""
    """The digest that its body must have."""

    proof: str = ""
    """What it was taken by; the answer is proven by that."""

    clock: int = 0
    """By which it was judged, where its time is what it was refused for."""


def _wall_seconds() -> int:
    return SystemClock().wall_microseconds() // 1_000_000


def sign(secret: bytes, request: Forwarded, body: bytes, *, now: int | None = None) -> str:
    """Give the `Authorization` header of a request that is passed on."""
    at = _wall_seconds() if now is None else now
    nonce, digest = secrets.token_hex(_NONCE_BYTES), digest_of(body)
    proof = _proof(secret, request, (str(at), nonce, digest))
    return (
        f"{_SCHEME}v=2,to={request.to},place={request.place},at={at},nonce={nonce},body={digest}"
        f",proof={proof}"
    )


def sign_as_machine(
    token: str, request: tuple[str, str, bytes | None], place: str, *, now: int | None = None
) -> str:
    """Give the header of a request by the token of the node's file: method, path and body."""
    method, path, body = request
    asked = Forwarded(method, path, by="", person="", to=mark_of(token), place=place)
    return sign(token.encode(), asked, body or b"", now=now)


def proof_in(header: str) -> str:
    """Give the proof in a header that `sign` has made; empty: it is another one."""
    return header.rpartition(",proof=")[2] if header.startswith(_SCHEME) else ""


def clock_of(answer: Mapping[str, Any], *, now: int | None = None) -> int | None:
    """Give by which time to sign anew what an answer refuses for its time; None: by none."""
    error = answer.get("error")
    clock = error.get("clock") if isinstance(error, dict) else None
    own = _wall_seconds() if now is None else now
    return clock if type(clock) is int and abs(clock - own) <= SKEW_SECONDS_MAX else None


def digest_of(body: bytes) -> str:
    """Give what stands for a body in the header."""
    return hashlib.sha256(body).hexdigest()


def _proof(secret: bytes, request: Forwarded, said: tuple[str, str, str]) -> str:
    key = hmac.digest(secret, _CONTEXT, "sha256")
    parts = [it.encode("utf-8", "surrogateescape") for it in (*request, *said)]
    text = b"".join(len(it).to_bytes(4, "big") + it for it in parts)  # No field can be another's.
    return hmac.new(key, text, hashlib.sha256).hexdigest()


def is_forwarded(header: bytes) -> bool:
    """Whether an `Authorization` header is that of a request that was passed on."""
    return header.startswith(_SCHEME.encode())


class ForwardCheck:
    """Which requests were passed on by who knows the secret, and not before."""

    __slots__ = ("_changes", "_clock", "_life", "_mark", "_questions", "_secret")

    def __init__(self, secret: bytes, life: str, clock: Callable[[], int] = _wall_seconds) -> None:
        self._secret = secret
        self._life = life
        self._mark = mark_of(life)
        self._clock = clock
        self._questions: dict[str, int] = {}
        """Until when each is remembered, in the order in which they came."""
        self._changes: dict[str, int] = {}
        """The same of what may change something."""

    @classmethod
    def of_machine(cls, token: str) -> ForwardCheck:
        """Give what checks requests that are signed by the token of the node's file."""
        return cls(token.encode(), token)

    def is_meant(self, header: bytes) -> bool:
        """Whether a header is for this process, and by what this one checks."""
        found = _FORM.fullmatch(header.decode("latin-1"))
        return found is not None and found["to"] in (self._life, self._mark)

    def take(self, header: bytes, request: Forwarded, at: Standing = NOWHERE) -> Taken:
        """
        Judge a request by its header; one that is taken is not taken again.

        Args:
            at: Where this node was reached. What no member passes on must have been sent there.
        """
        found = _FORM.fullmatch(header.decode("latin-1"))
        if not self._secret:
            return Taken(
                "it is signed by a secret, and this node has none: leave out --secret-file, and run"
                " the command as the node's user on its machine, or with --user"
            )
        if found is None:
            return Taken("it was passed on in a way that is not known here")
        if found["to"] not in (self._life, self._mark):
            return Taken("it is meant for another node, or for this one before it was started anew")
        request = request._replace(to=found["to"], place=found["place"])
        expected = _proof(self._secret, request, (found["at"], found["nonce"], found["body"]))
        if not hmac.compare_digest(expected, found["proof"]):
            return Taken(
                "what proves that it comes from somebody with this cluster's secret does not fit it"
            )
        if not request.by and not at.has(request.place):
            return Taken(at.refusal(request.place))
        now, sent = self._clock(), int(found["at"])
        if abs(now - sent) > AGE_SECONDS_MAX:
            when = "ago" if now > sent else "from now"
            return Taken(
                f"it was passed on {abs(now - sent):,} s {when}, and {AGE_SECONDS_MAX} s are"
                f" allowed: look at the clocks of both nodes",
                clock=now,
            )
        seen = self._questions if request.method in _QUESTIONS else self._changes
        return Taken(_note(seen, found["proof"], now), found["body"], found["proof"])


def _note(seen: dict[str, int], proof: str, now: int) -> str:
    while seen and next(iter(seen.values())) < now:
        del seen[next(iter(seen))]
    if proof in seen:
        return "it came before: somebody sends again what he saw"
    if len(seen) >= REMEMBERED_MAX:
        return "more is passed on than can be remembered; ask again in a minute"
    # By this clock, however wrong the other one is: it cannot come again after that.
    seen[proof] = now + 2 * AGE_SECONDS_MAX + 1
    return ""


async def proven_body(receive: Receive, digest: str) -> Receive | None:
    """
    Wait for a body, and give it to be received again; None: it is not the one that was proven.

    Whoever leaves before all of it has come is not answered: what is given then says so.
    """
    content = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return _again(message, receive)
        content += message.get("body", b"")
        if len(content) > BODY_BYTES_MAX:
            return None
        if not message.get("more_body", False):
            break
    if not hmac.compare_digest(digest_of(bytes(content)), digest):
        return None
    return _again({"type": "http.request", "body": bytes(content), "more_body": False}, receive)


def _again(first: Message, receive: Receive) -> Receive:
    waiting = [first]

    async def received() -> Message:
        return waiting.pop() if waiting else await receive()

    return received
