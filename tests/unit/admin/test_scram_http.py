"""SCRAM in the headers of HTTP."""

from __future__ import annotations

import pytest

from holdfast.admin.scram_http import (
    OFFER,
    Said,
    is_offered,
    is_scram,
    read_authorization,
    read_challenge,
    read_info,
    write_authorization,
    write_challenge,
    write_info,
)

# The headers of RFC 7804, 5; its messages end with a line feed, which stands in none of RFC 5802.
FIRST = b"biwsbj11c2VyLHI9ck9wck5HZndFYmVSV2diTkVrcU8="


def test_what_is_written_is_read_by_the_other_end() -> None:
    """Each of the four headers."""
    first, last = Said("", b"n,,n=user,r=abc"), Said("AAAA_-BBBB", b"c=biws,r=abc,p=x")
    for said in (first, last):
        header = write_authorization(said).encode()
        assert is_scram(header)
        assert read_authorization(header) == said
    assert read_challenge([write_challenge(last)]) == last
    assert read_info(write_info(last)) == last
    assert "abc" not in repr(first)


@pytest.mark.parametrize(
    ("header", "sid", "message"),
    [
        (
            b'SCRAM-SHA-256 realm="testrealm@example.com", data=' + FIRST,
            "",
            b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        ),
        (b"scram-sha-256 data=bg==", "", b"n"),
        (b'SCRAM-SHA-256 SID = "A1" ,\tData="bg==", stale=false', "A1", b"n"),
        (b"SCRAM-SHA-256 data=bg==,", "", b"n"),
    ],
)
def test_what_clients_send_is_read(header: bytes, sid: str, message: bytes) -> None:
    """In any order and letters, with quotation marks or without, and with what is not known."""
    assert is_scram(header)
    assert read_authorization(header) == Said(sid, message)


@pytest.mark.parametrize(
    "header",
    [
        b"SCRAM-SHA-256 ",
        b"SCRAM-SHA-256 data",
        b"SCRAM-SHA-256 data=",
        b"SCRAM-SHA-256 data=b",
        b"SCRAM-SHA-256 data=bg=",
        b"SCRAM-SHA-256 data=bg==, data=bg==",
        b"SCRAM-SHA-256 data=bg== sid=a",
        b"SCRAM-SHA-256 sid=a b, data=bg==",
        b"SCRAM-SHA-256 sid=" + b"a" * 6_145 + b", data=bg==",
        b"SCRAM-SHA-256 sid=a+b, data=bg==",
        b'SCRAM-SHA-256 realm="x, data=bg==',
        b'SCRAM-SHA-256 realm="a\\"b", data=bg==',
        b"SCRAM-SHA-256 data=" + b"AAAA" * 1536,
        b"SCRAM-SHA-256 ,,data=bg==",
        b"SCRAM-SHA-256 \xff",
    ],
)
def test_what_makes_no_sense_is_none(header: bytes) -> None:
    """Each field cut, doubled, too long, or of other letters."""
    assert is_scram(header)
    assert read_authorization(header) is None


def test_other_ways_are_not_this_one() -> None:
    """Also one whose name begins alike."""
    for header in (b"", b"Basic x", b"SCRAM-SHA-256", b"SCRAM-SHA-256-PLUS data=bg=="):
        assert not is_scram(header)
    assert not is_offered([])
    assert not is_offered(['Basic realm="holdfast", Bearer', "SCRAM-SHA-256-PLUS"])


def test_an_offer_is_found_among_others() -> None:
    """In one header or in several; a challenge without a message is an offer only."""
    basic = 'Basic realm="holdfast", charset="UTF-8", Bearer'
    for offers in ([f"{OFFER}, {basic}"], [basic, OFFER], [f"{basic},{OFFER}"], ["SCRAM-SHA-256"]):
        assert is_offered(offers)
        assert read_challenge(offers) is None
    goes_on = write_challenge(Said("a1", b"r=abc"))
    assert read_challenge([basic, goes_on]) == Said("a1", b"r=abc")
    assert read_challenge([f"{basic}, {goes_on}"]) == Said("a1", b"r=abc")
    assert read_challenge(["SCRAM-SHA-256 data=bg=="]) is None
    assert read_challenge([goes_on + "A" * 8192]) is None
    assert read_info("x" * 8192) is None
