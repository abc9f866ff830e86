"""
Whatever a client sends for a login by SCRAM: a refusal with a sentence, or he knows the password.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode

from hypothesis import given
from hypothesis import strategies as st

from holdfast.admin.scram_http import Said, read_authorization, write_authorization
from holdfast.model.access_records import UserRecord
from holdfast.security.checking import SHUT_OUT, WRONG, Refusal
from holdfast.security.regulars import Regulars
from holdfast.security.saslprep import prepare
from holdfast.security.scram_exchanges import Begun, Exchanges, Proven
from holdfast.security.scram_keys import client_proof, keep_keys, salted
from holdfast.security.scram_messages import (
    read_server_first,
    without_proof,
    write_client_final,
    write_client_first,
)
from holdfast.security.throttle import Throttle

PEPPER = b"p" * 32
HERE = "192.0.2.1"
KEYS = keep_keys("ann", "right", "$kept", pepper=PEPPER, nonce=b"n" * 16)
ANN = UserRecord("ann", json.dumps({"roles": [], "password": "$kept", "scram": KEYS}), 1)
FIRST = write_client_first("ann", "fyko+d2lbbFgONRv9qkxdawL")
_SALTED: dict[tuple[bytes, int], bytes | None] = {}


def exchanges() -> Exchanges:
    return Exchanges({"ann": ANN}.get, lambda: (PEPPER,), Throttle(Regulars()), os.urandom)


def right_final(begun: Begun) -> str:
    """What a client ends with who knows the password."""
    asked = read_server_first(begun.message.encode())
    mark = asked.salt, asked.iterations
    known = _SALTED.setdefault(mark, salted("right", *mark))
    assert known is not None
    before_proof = without_proof(FIRST.gs2, asked.nonce)
    over = f"{FIRST.bare},{begun.message},{before_proof}".encode()
    return write_client_final(before_proof, client_proof(known, over))


@st.composite
def damaged(draw: st.DrawFn, message: str) -> bytes:
    """A message with one thing wrong: a field cut, doubled, moved, huge, or bytes that are none."""
    fields = message.split(",")
    place = draw(st.integers(0, len(fields) - 1))
    kind = draw(st.sampled_from(("cut", "gone", "doubled", "huge", "more", "moved", "bytes")))
    field = fields[place]
    if kind == "cut":
        fields[place] = field[: draw(st.integers(0, max(0, len(field) - 1)))]
    elif kind == "gone":
        del fields[place]
    elif kind == "doubled":
        fields.insert(place, field)
    elif kind == "huge":
        fields[place] = field + "A" * draw(st.integers(1, 5000))
    elif kind == "more":
        fields.insert(place, draw(st.sampled_from(("m=x", "i=1", "a=x", "x", "", "=", "\0=\0"))))
    elif kind == "moved":
        fields.append(fields.pop(place))
    else:
        data = bytearray(message.encode())
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
        return bytes(data)
    return ",".join(fields).encode()


@given(st.data())
def test_a_last_message_with_anything_wrong_lets_nobody_in(data: st.DataObject) -> None:
    """Whoever ends with the right one after it is let in, once."""
    ours = exchanges()
    begun = ours.begin((FIRST.gs2 + FIRST.bare).encode(), HERE, 0.0)
    assert isinstance(begun, Begun)
    right = right_final(begun)
    message = data.draw(damaged(right))
    found = ours.finish(begun.sid, message, HERE, 0.0)
    if message != right.encode():
        assert isinstance(found, Refusal)
        assert found.reason == WRONG or found.reason.startswith("SCRAM: the last message")
        found = ours.finish(begun.sid, right.encode(), HERE, 0.0)
    assert isinstance(found, Proven)
    assert isinstance(ours.finish(begun.sid, right.encode(), HERE, 0.0), Refusal)


@given(st.data())
def test_a_first_message_with_anything_wrong_is_refused_or_is_another_login(
    data: st.DataObject,
) -> None:
    """Nothing else is raised; what is begun answers with a nonce that goes on from the client's."""
    ours = exchanges()
    message = data.draw(damaged(FIRST.gs2 + FIRST.bare) | st.binary(max_size=300).map(bytes))
    found = ours.begin(message, HERE, 3.0)
    if isinstance(found, Begun):
        assert read_server_first(found.message.encode()).nonce.isprintable()
        assert ours.name_of(found.sid)
    else:
        assert found.due == 3.0
        assert found.reason.startswith("SCRAM: ")
        assert found.reason != SHUT_OUT


@given(st.text(max_size=300) | st.binary(max_size=300).map(lambda it: it.decode("latin-1")))
def test_any_header_is_read_or_is_none(text: str) -> None:
    """And what is read is written so again, in effect."""
    found = read_authorization(b"SCRAM-SHA-256 " + text.encode("latin-1", "replace"))
    if found is not None:
        assert read_authorization(write_authorization(found).encode()) == found


@given(st.text(alphabet="abcXYZ019_-", max_size=10), st.binary(min_size=1, max_size=100))
def test_what_is_written_in_a_header_is_read(sid: str, message: bytes) -> None:
    """Any message, to any exchange."""
    said = Said(sid, message)
    assert read_authorization(write_authorization(said).encode()) == said
    quoted = f'SCRAM-SHA-256 data="{b64encode(message).decode()}"'
    assert read_authorization(quoted.encode()) == Said("", message)


@given(st.text(max_size=60))
def test_a_text_that_was_brought_into_its_form_stays_in_it(text: str) -> None:
    """So both ends come to one text, also where one of them has done it before."""
    prepared = prepare(text)
    if prepared is not None:
        assert prepare(prepared) == prepared
