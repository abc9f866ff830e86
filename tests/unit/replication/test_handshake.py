"""Tests of replication/handshake.py: who knows the secret gets in, nobody else does."""

from __future__ import annotations

import pytest

from holdfast.errors import AuthenticationError, RemoteProtocolError
from holdfast.replication.formation import Refusal
from holdfast.replication.frame_buffer import FrameBuffer
from holdfast.replication.handshake import (
    CHALLENGE,
    DIGEST_BYTES,
    NONCE_BYTES,
    PROOF,
    REFUSED,
    WELCOME,
    AcceptorHandshake,
    DialerHandshake,
    Step,
    frame,
)
from holdfast.replication.link_certificates import Certificates
from holdfast.replication.messages import Hello

DIALER = Hello("a", "aa" * 16)
ACCEPTOR = Hello("b", "bb" * 16)


def pair(
    dialer_secret: bytes = b"s", acceptor_secret: bytes = b"s"
) -> tuple[DialerHandshake, AcceptorHandshake]:
    return (
        DialerHandshake(dialer_secret, DIALER, b"d" * NONCE_BYTES),
        AcceptorHandshake(acceptor_secret, ACCEPTOR, b"a" * NONCE_BYTES),
    )


def only(data: bytes) -> tuple[int, bytes]:
    ((kind, buffer, start, end),) = FrameBuffer(1 << 16).feed(data)
    return kind, buffer[start:end]


def test_two_that_share_the_secret_know_each_other() -> None:
    """After three frames each side has the other's hello, and the secret was never sent."""
    dialer, acceptor = pair(b"secret", b"secret")
    challenge = acceptor.challenge()
    proof = dialer.receive(*only(challenge))
    acceptor.receive(*only(proof))
    welcome = acceptor.welcome()
    dialer.receive(*only(welcome))

    assert (ACCEPTOR, DIALER) == (dialer.peer, acceptor.peer)
    assert Step.DONE is dialer.step is acceptor.step
    assert b"secret" not in challenge + proof + welcome


def test_a_dialer_without_the_secret_is_not_known() -> None:
    """A wrong proof is refused before its hello is believed."""
    dialer, acceptor = pair(b"wrong", b"right")
    proof = dialer.receive(*only(acceptor.challenge()))

    with pytest.raises(AuthenticationError):
        acceptor.receive(*only(proof))
    assert acceptor.peer is None


def test_an_acceptor_without_the_secret_is_not_known() -> None:
    """A welcome with a wrong proof does not make a link."""
    dialer, acceptor = pair()
    dialer.receive(*only(acceptor.challenge()))

    with pytest.raises(AuthenticationError):
        dialer.receive(WELCOME, bytes(32) + b"{}")
    assert dialer.peer is None


def test_a_proof_is_good_for_one_connection() -> None:
    """A recorded proof does not open another connection: its challenge is another one."""
    dialer, acceptor = pair()
    kind, proof = only(dialer.receive(*only(acceptor.challenge())))
    other = AcceptorHandshake(b"s", ACCEPTOR, b"x" * NONCE_BYTES)

    with pytest.raises(AuthenticationError):
        other.receive(kind, proof)


def test_a_proof_is_not_its_own_answer() -> None:
    """Sending the dialer's proof back does not make one the acceptor."""
    dialer, acceptor = pair()
    _, proof = only(dialer.receive(*only(acceptor.challenge())))

    with pytest.raises(AuthenticationError):
        dialer.receive(WELCOME, proof[NONCE_BYTES:])


def test_a_proven_refusal_may_fence() -> None:
    """Only who knows the secret can tell a node that it is shut out for good."""
    dialer, acceptor = pair()
    acceptor.receive(*only(dialer.receive(*only(acceptor.challenge()))))
    refusal = Refusal("you were removed", is_fenced=True)

    with pytest.raises(AuthenticationError, match="you were removed"):
        dialer.receive(*only(acceptor.refuse(refusal)))
    assert refusal == dialer.refusal


@pytest.mark.parametrize(
    "number", [b"1e999", b"1e30", b"-1", b"9223372036854775808", b"1.5", b'"7"', b"true"]
)
def test_a_refusal_with_a_number_out_of_bounds_breaks_nothing(number: bytes) -> None:
    """It may be anybody's that listens at a member's address."""
    dialer, stranger = pair()
    dialer.receive(*only(stranger.challenge()))
    content = b'{"reason":"you were removed","is_fenced":true,"generation":' + number + b"}"

    with pytest.raises((AuthenticationError, RemoteProtocolError)):
        dialer.receive(REFUSED, bytes(DIGEST_BYTES) + content)
    assert dialer.refusal in {None, Refusal("you were removed")}


def test_an_unproven_refusal_is_only_shown() -> None:
    """A stranger's refusal is for people to read and fences nobody."""
    dialer, stranger = pair(b"right", b"wrong")
    dialer.receive(*only(stranger.challenge()))

    with pytest.raises(AuthenticationError):
        dialer.receive(*only(stranger.refuse(Refusal("you were removed", is_fenced=True))))
    assert Refusal("you were removed", is_fenced=False) == dialer.refusal


def test_nothing_keyed_goes_to_who_has_proven_nothing() -> None:
    """Whatever the secret, the refusal of a wrong proof is the same; the dialer still reads it."""
    refusals = []
    for secret in (b"right", b"other"):
        dialer, acceptor = pair(b"wrong", secret)
        with pytest.raises(AuthenticationError):
            acceptor.receive(*only(dialer.receive(*only(acceptor.challenge()))))
        refusals.append(acceptor.refuse(Refusal("not the same secret", is_fenced=True)))

    assert refusals[0] == refusals[1]
    with pytest.raises(AuthenticationError, match="not the same secret"):
        dialer.receive(*only(refusals[0]))
    assert Refusal("not the same secret", is_fenced=False) == dialer.refusal


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (CHALLENGE, b"GET / HTTP/1.1"),
        (WELCOME, b""),
        (1, b""),
        (68, b"not json" * 9),
        (68, bytes(32) + b"[" * 60_000),
    ],
)
def test_something_else_is_no_handshake(kind: int, payload: bytes) -> None:
    """Whatever else answers at the address is named as such."""
    with pytest.raises(RemoteProtocolError):
        pair()[0].receive(kind, payload)


@pytest.mark.parametrize(("kind", "payload"), [(PROOF, b""), (WELCOME, b""), (PROOF, bytes(80))])
def test_a_short_or_wrong_proof_is_refused(kind: int, payload: bytes) -> None:
    """A frame of the wrong kind or size never makes a peer."""
    with pytest.raises((RemoteProtocolError, AuthenticationError)):
        pair()[1].receive(kind, payload)


def test_a_frame_tells_its_length() -> None:
    """An empty frame is its type alone."""
    assert b"\1\0\0\0\x40" == frame(64)


def secured(there: Certificates) -> tuple[DialerHandshake, AcceptorHandshake]:
    here = Certificates("aa", "bb", frozenset({"b"}))
    return (
        DialerHandshake(b"s", DIALER, b"d" * NONCE_BYTES, here),
        AcceptorHandshake(b"s", ACCEPTOR, b"a" * NONCE_BYTES, there),
    )


def test_by_tls_both_ends_prove_which_certificates_they_see() -> None:
    """The same two, each its own and the other's: then they know each other as ever."""
    dialer, acceptor = secured(Certificates("bb", "aa", frozenset({"a"})))
    acceptor.receive(*only(dialer.receive(*only(acceptor.challenge()))))
    dialer.receive(*only(acceptor.welcome()))
    assert (ACCEPTOR, DIALER) == (dialer.peer, acceptor.peer)


@pytest.mark.parametrize(
    ("there", "told"),
    [
        (Certificates("bb", "cc", frozenset({"a"})), "somebody stands between them"),
        (Certificates("cc", "aa", frozenset({"a"})), "somebody stands between them"),
        (Certificates("bb", "aa", frozenset({"c"})), "its certificate is that of c, not of a"),
        (None, ""),
    ],
)
def test_nobody_stands_between_who_has_another_certificate(there, told: str) -> None:
    """
    Though it is one of the same authority, and both ends know the secret: each would see that of
    the one between. One end in clear and one by TLS is no link either.
    """
    dialer, acceptor = secured(there)
    proof = only(dialer.receive(*only(acceptor.challenge())))
    if there is not None:
        with pytest.raises(AuthenticationError, match=told):
            acceptor.receive(*proof)
        assert acceptor.peer is None
        return
    acceptor.receive(*proof)
    with pytest.raises(AuthenticationError, match="somebody stands between them"):
        dialer.receive(*only(acceptor.welcome()))
    assert dialer.peer is None
