"""What is kept of passwords, and which password is that one."""

from __future__ import annotations

import pytest

from holdfast.errors import AccessError
from holdfast.security.passwords import NOBODYS, PASSWORD_BYTES_MAX, hash_password, is_password

PEPPER, SALT = b"p" * 32, b"s" * 16


def test_a_password_is_known_again_and_no_other_is() -> None:
    """Nor by another pepper: whoever has only the log cannot even try."""
    kept = hash_password("corréct horse", pepper=PEPPER, salt=SALT)
    assert kept.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert is_password(kept, "corréct horse", pepper=PEPPER)
    assert not is_password(kept, "correct horse", pepper=PEPPER)
    assert not is_password(kept, "corréct horse", pepper=b"q" * 32)
    assert hash_password("corréct horse", pepper=PEPPER, salt=b"t" * 16) != kept


def test_nobodys_costs_as_much_as_anybodys() -> None:
    """The same work, told by its parameters: else who exists could be found out by time."""
    kept = hash_password("x", pepper=PEPPER, salt=SALT)
    assert NOBODYS.rsplit("$", 2)[0] == kept.rsplit("$", 2)[0]
    assert [len(part) for part in NOBODYS.split("$")] == [len(part) for part in kept.split("$")]
    assert not is_password(NOBODYS, "", pepper=PEPPER)


@pytest.mark.parametrize("kept", ["", "x", "$argon2id$", "$argon2id$v=19$m=8,t=1,p=1$YWFh$", "\0"])
def test_of_what_makes_no_sense_no_password_is_the_one(kept: str) -> None:
    """Also of what a later version keeps."""
    assert not is_password(kept, "x", pepper=PEPPER)


def test_what_nobody_types_is_refused_in_a_sentence_without_it() -> None:
    """Empty, or so long that to look at it is work."""
    with pytest.raises(AccessError, match="this has 0"):
        hash_password("", pepper=PEPPER, salt=SALT)
    with pytest.raises(AccessError, match="this has 1,025") as caught:
        hash_password("s3" * (PASSWORD_BYTES_MAX // 2) + "c", pepper=PEPPER, salt=SALT)
    assert "s3s3" not in str(caught.value)


def test_bytes_that_are_no_text_are_a_wrong_password() -> None:
    """What a client sends is decoded leniently: it must not break what looks at it."""
    assert not is_password(NOBODYS, "\udcff", pepper=PEPPER)
