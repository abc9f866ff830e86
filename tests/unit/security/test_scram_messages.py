"""The messages of SCRAM, by either end."""

from __future__ import annotations

import pytest

from holdfast.errors import AuthenticationError
from holdfast.security.scram_messages import (
    MESSAGE_BYTES_MAX,
    ClientFirst,
    ServerFirst,
    read_client_final,
    read_client_first,
    read_server_final,
    read_server_first,
    without_proof,
    write_client_final,
    write_client_first,
    write_server_error,
    write_server_final,
    write_server_first,
)

PROOF = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="


@pytest.mark.parametrize("name", ["user", "a,b=c", "=2C", "J\u00fcrgen", "\u0627\u0628"])
def test_a_first_message_is_read_as_it_was_written(name: str) -> None:
    """Commas and equals signs in names are the only letters that are written otherwise."""
    written = write_client_first(name, "fyko+d2lbbFgONRv9qkxdawL")
    assert read_client_first(f"{written.gs2}{written.bare}".encode()) == written


@pytest.mark.parametrize(
    ("message", "name", "gs2"),
    [
        (b"n,,n=user,r=abc", "user", "n,,"),
        (b"y,,n=user,r=abc", "user", "y,,"),
        (b"n,a=user,n=user,r=abc,x=1,Y=\xc3\xbc", "user", "n,a=user,"),
        (b"n,a=a=2Cb,n=a=2Cb,r=abc", "a,b", "n,a=a=2Cb,"),
    ],
)
def test_what_clients_send_is_read(message: bytes, name: str, gs2: str) -> None:
    """With or without knowing channel binding, as nobody else, with extensions that are none."""
    found = read_client_first(message)
    assert found == ClientFirst(name, "abc", gs2, message[len(gs2) :].decode())


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (b"", "first message is none"),
        (b"n,,n=user", "first message is none"),
        (b"n,,r=abc,n=user", "first message is none"),
        (b"n,,n=user,n=user,r=abc", "first message is none"),
        (b"n,,n=,r=abc", "first message is none"),
        (b"n,,n=user,r=", "first message is none"),
        (b"n,,n=user,r=a\x7fc", "first message is none"),
        (b"n,,n=user,r=abc,r=abc", "first message is none"),
        (b"n,,n=user,r=abc,x=1,x=2", "first message is none"),
        (b"n,,n=user,r=abc,", "first message is none"),
        (b"n,,n=user,r=abc\n", "first message is none"),
        (b"n,,n=us\x00er,r=abc", "first message is none"),
        (b"n,,n=\xff,r=abc", "first message is none"),
        (b"x,,n=user,r=abc", "first message is none"),
        (b"n,n=user,r=abc", "first message is none"),
        (b"n,,n=user,r=" + b"a" * 513, "first message is none"),
        (b"n,,n=" + b"u" * MESSAGE_BYTES_MAX + b",r=abc", "bytes; allowed: 2,048"),
        (b"p=tls-exporter,,n=user,r=abc", "channel binding is not offered"),
        (b"n,,m=x,n=user,r=abc", "extension that is asked for is not known"),
        (b"n,a=root,n=user,r=abc", "can be nobody else"),
        (b"n,,n=us=2Xer,r=abc", "can be nobody else"),
        (b"n,,n=user=,r=abc", "can be nobody else"),
    ],
)
def test_what_is_no_first_message_is_told_so(message: bytes, said: str) -> None:
    """One sentence, with nothing of the message in it."""
    with pytest.raises(AuthenticationError, match=said) as refused:
        read_client_first(message)
    assert "user" not in str(refused.value)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "c=biws,r=abc",
        f"c=biws,p={PROOF},r=abc",
        f"c=biws,r=abc,p={PROOF},p={PROOF}",
        f"c=biws,c=biws,r=abc,p={PROOF}",
        f"c=bi%s,r=abc,p={PROOF}",
        f"c=biw,r=abc,p={PROOF}",
        f"c=biws,r=abc,p={PROOF[:-2]}",
        f"c=biws,r=abc,p={PROOF}A",
        f"c=biws,r=abc,p={PROOF[:-2]}R=",
        "c=biws,r=abc,p=" + "A" * 64,
        f"c=biws,r=abc,p={PROOF}\n",
        f"c=biws,r=abc,m=x,p={PROOF}",
        f"c=biws,r=abc,x=,p={PROOF}",
    ],
)
def test_what_is_no_last_message_is_told_so(message: str) -> None:
    """Each field cut, doubled, of another length or in another order."""
    with pytest.raises(AuthenticationError, match="SCRAM: the last message is none"):
        read_client_final(message.encode())


def test_a_last_message_is_read_as_it_was_written() -> None:
    """The proof is over all before it, as it came: extensions too."""
    before = without_proof("n,,", "abc%def")
    final = read_client_final(write_client_final(before, b"x" * 32).encode())
    assert final == (b"n,,", "abc%def", b"x" * 32, "c=biws,r=abc%def")
    assert "x" * 32 not in repr(final)
    final = read_client_final(f"c=,r=abc,x=y,p={PROOF}".encode())
    assert (final.binding, final.without_proof) == (b"", "c=,r=abc,x=y")


def test_what_a_server_says_is_read_as_it_was_written() -> None:
    """By a client, which does as much work as is asked for and no more than may be."""
    said = ServerFirst("abcdef", b"salt", 4096)
    assert read_server_first(write_server_first(said).encode()) == said
    assert read_server_final(write_server_final(b"v" * 32).encode()) == b"v" * 32
    assert write_server_error(is_proof_wrong=True) == "e=invalid-proof"
    assert write_server_error(is_proof_wrong=False) == "e=other-error"
    for text in ("i=1", "i=4095", "i=1000001", "i=999999999"):
        with pytest.raises(AuthenticationError, match="iterations are asked for"):
            read_server_first(b"r=abc,s=c2FsdA==," + text.encode())
    for message in (b"r=abc,s=,i=4096", b"r=a,s=" + b"AAAA" * 100 + b",i=4096"):
        with pytest.raises(AuthenticationError, match="with a salt of"):
            read_server_first(message)
    for message in (b"e=other-error", b"r=abc,s=c2FsdA==,i=04096", b"m=x,r=abc,s=c2FsdA==,i=4096"):
        with pytest.raises(AuthenticationError, match="first message is none"):
            read_server_first(message)
    for message in (b"e=invalid-proof", b"v=", b"v=AAAA", b"\xff"):
        with pytest.raises(AuthenticationError, match="last message is none"):
            read_server_final(message)
