"""
How two members prove to each other that they know the cluster's secret, and say who they are.

    acceptor  CHALLENGE  random A
    dialer    PROOF      random D, HMAC(secret, "dialer", A, D, hello of the dialer), that hello
    acceptor  WELCOME    HMAC(secret, "acceptor", A, D, hello of the acceptor), that hello
          or  REFUSED    HMAC(secret, "refused", A, D, reason), reason: why there is no link
          or  REFUSED    zeros, reason: to a dialer whose proof was not right

The dialer proves itself first, so whoever connects to a member learns nothing it could try secrets
against. Whoever is dialed does: one that stands at a member's address, or on the way to it, may
try them for as long as it likes, so a secret must be random, and long. The secret never travels;
each proof is good for this connection only. In clear what comes after the handshake is not
authenticated; by TLS the hello also says which two certificates the link has, as its sender sees
them, so that nobody stands between who has another one of the same authority.
Pure: frames in, frames out.

Invariants:
    `peer` is set only after the other side's proof was right.
    Nothing keyed by the secret goes to a dialer that has not proven that it knows it.
    A refusal without a right proof is shown to people, never acted upon.
"""

from __future__ import annotations

import hmac
import json
from enum import Enum

from holdfast.errors import AuthenticationError, RemoteProtocolError
from holdfast.model.digits import read_whole
from holdfast.replication.formation import Refusal
from holdfast.replication.link_certificates import Certificates
from holdfast.replication.message_codec import FRAME_HEADER, decode_hello, encode_hello
from holdfast.replication.messages import Hello

PING, CHALLENGE, PROOF, WELCOME, REFUSED = 64, 65, 66, 67, 68
NONCE_BYTES = 32
DIGEST_BYTES = 32
MAGIC = b"HFL1"
SECRETS_DIFFER = "the cluster secret is not the same on both sides"
"""What both sides say, those of older versions too."""


def frame(kind: int, payload: bytes = b"") -> bytes:
    """One frame of the link itself."""
    return FRAME_HEADER.pack(1 + len(payload), kind) + payload


class Step(Enum):
    """Where a handshake is."""

    AWAITING_CHALLENGE = "awaiting challenge"
    AWAITING_PROOF = "awaiting proof"
    AWAITING_WELCOME = "awaiting welcome"
    DECIDING = "deciding"
    DONE = "done"


class _Handshake:
    """What both sides share: the secret, the two nonces, the proofs."""

    __slots__ = (
        *("_acceptor_nonce", "_certificates", "_dialer_nonce", "_secret", "own", "peer", "step"),
    )

    def __init__(self, secret: bytes, own: Hello, certificates: Certificates | None) -> None:
        self._secret = secret
        self._certificates = certificates
        self.own = own
        """What the other side is told of this node."""
        self._acceptor_nonce = b""
        self._dialer_nonce = b""
        self.peer: Hello | None = None
        """Who is at the other end, once proven."""

    def _proof(self, role: bytes, content: bytes) -> bytes:
        text = b"\0".join((MAGIC, role, self._acceptor_nonce + self._dialer_nonce, content))
        return hmac.digest(self._secret, text, "sha256")

    def _hello(self) -> bytes:
        """What the other side is told, and what of the link by which it is told."""
        hello = encode_hello(self.own)
        if self._certificates is None:
            return hello
        return json.dumps(json.loads(hello) | {"tls": self._certificates.as_told()}).encode()

    def _read_hello(self, hello: bytes) -> Hello:
        """
        Read a hello that is proven.

        Raises:
            AuthenticationError: It was told by way of another link than this.
        """
        peer = decode_hello(hello)
        certificates = self._certificates
        if certificates is None:
            return peer
        if not certificates.are_told(json.loads(hello).get("tls")):
            raise AuthenticationError(
                "the two ends do not see the same certificates: somebody stands between them"
            )
        if reason := certificates.refusal(peer.name):
            raise AuthenticationError(reason)
        return peer

    def _check(self, role: bytes, proof: bytes, content: bytes) -> bool:
        return hmac.compare_digest(self._proof(role, content), proof)


class DialerHandshake(_Handshake):
    """The side that made the connection."""

    __slots__ = ("refusal",)

    def __init__(
        self,
        secret: bytes,
        own: Hello,
        nonce: bytes,
        certificates: Certificates | None = None,
    ) -> None:
        super().__init__(secret, own, certificates)
        self._dialer_nonce = nonce
        self.step = Step.AWAITING_CHALLENGE
        self.refusal: Refusal | None = None
        """Why the other side does not want us; `is_fenced` only if it proved itself."""

    def receive(self, kind: int, payload: bytes) -> bytes:
        """
        Take one frame; return the bytes to answer.

        Raises:
            AuthenticationError: The other side does not know the secret, or refused us.
            RemoteProtocolError: This is no handshake.
        """
        if kind == REFUSED:
            self.refusal = self._read_refusal(payload)
            raise AuthenticationError(self.refusal.reason)
        if kind == CHALLENGE and self.step is Step.AWAITING_CHALLENGE:
            if len(payload) != len(MAGIC) + NONCE_BYTES or not payload.startswith(MAGIC):
                raise RemoteProtocolError("the address does not answer as a Holdfast member")
            self._acceptor_nonce = payload[len(MAGIC) :]
            self.step = Step.AWAITING_WELCOME
            hello = self._hello()
            return frame(PROOF, self._dialer_nonce + self._proof(b"dialer", hello) + hello)
        if kind == WELCOME and self.step is Step.AWAITING_WELCOME:
            proof, hello = payload[:DIGEST_BYTES], payload[DIGEST_BYTES:]
            if not self._check(b"acceptor", proof, hello):
                raise AuthenticationError("the other side does not know the cluster's secret")
            self.peer = self._read_hello(hello)
            self.step = Step.DONE
            return b""
        raise RemoteProtocolError(f"frame type {kind} while {self.step.value}")

    def _read_refusal(self, payload: bytes) -> Refusal:
        proof, content = payload[:DIGEST_BYTES], payload[DIGEST_BYTES:]
        try:
            fields = json.loads(content)
            reason, is_fenced = str(fields["reason"]), bool(fields["is_fenced"])
            generation = read_whole(fields.get("generation", 0))  # Older versions do not say it.
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
            raise RemoteProtocolError(f"a refusal that makes no sense: {error}") from error
        is_proven = bool(self._acceptor_nonce) and self._check(b"refused", proof, content)
        is_fenced = is_fenced and is_proven
        return Refusal(reason, is_fenced, generation if is_fenced else 0)


class AcceptorHandshake(_Handshake):
    """The side that was connected to."""

    __slots__ = ("claimed",)

    def __init__(
        self,
        secret: bytes,
        own: Hello,
        nonce: bytes,
        certificates: Certificates | None = None,
    ) -> None:
        super().__init__(secret, own, certificates)
        self._acceptor_nonce = nonce
        self.claimed = ""
        """What a dialer calls itself that does not know the secret; only to be shown."""
        self.step = Step.AWAITING_PROOF

    def challenge(self) -> bytes:
        """The bytes to send first."""
        return frame(CHALLENGE, MAGIC + self._acceptor_nonce)

    def receive(self, kind: int, payload: bytes) -> None:
        """
        Take the proof; then `peer` is known, and `welcome` or `refuse` is to be called.

        Raises:
            AuthenticationError: The other side does not know the secret.
            RemoteProtocolError: This is no handshake.
        """
        if kind != PROOF or self.step is not Step.AWAITING_PROOF:
            raise RemoteProtocolError(f"frame type {kind} while {self.step.value}")
        self._dialer_nonce = payload[:NONCE_BYTES]
        proof = payload[NONCE_BYTES : NONCE_BYTES + DIGEST_BYTES]
        hello = payload[NONCE_BYTES + DIGEST_BYTES :]
        if len(self._dialer_nonce) != NONCE_BYTES or not self._check(b"dialer", proof, hello):
            self.claimed = _claimed_name(hello)
            raise AuthenticationError(SECRETS_DIFFER)
        self.peer = self._read_hello(hello)
        self.step = Step.DECIDING

    def welcome(self) -> bytes:
        """The bytes that make the link."""
        assert self.step is Step.DECIDING
        self.step = Step.DONE
        hello = self._hello()
        return frame(WELCOME, self._proof(b"acceptor", hello) + hello)

    def refuse(self, refusal: Refusal) -> bytes:
        """The bytes that say why there is no link; proven only to who has proven itself."""
        fields: dict[str, object] = {"reason": refusal.reason, "is_fenced": refusal.is_fenced}
        if refusal.generation:
            fields["generation"] = refusal.generation
        content = json.dumps(fields, sort_keys=True).encode()
        is_known = self.peer is not None
        proof = self._proof(b"refused", content) if is_known else bytes(DIGEST_BYTES)
        return frame(REFUSED, proof + content)


def _claimed_name(hello: bytes) -> str:
    try:
        return decode_hello(hello).name
    except RemoteProtocolError:
        return ""
