"""What a change makes of a user's values."""

from __future__ import annotations

import json

import pytest

from holdfast.errors import AccessError
from holdfast.security.passwords import hash_password
from holdfast.security.scram_keys import keep_keys
from holdfast.security.user_changes import (
    ROLE_COUNT_MAX,
    TOKEN_COUNT_MAX,
    with_password,
    with_roles,
    with_token,
    without_token,
)
from holdfast.security.user_values import read_values

KEPT = hash_password("secret", pepper=b"p" * 32, salt=b"s" * 16)


def test_roles_are_replaced_and_all_else_stays() -> None:
    """Each once and in order, so that equal roles are equal values; keys of others stay."""
    before = {"roles": ["a"], "scram": {"x": 1}}
    assert with_roles(before, ["b", "a", "b"]) == {"roles": ["a", "b"], "scram": {"x": 1}}
    assert before == {"roles": ["a"], "scram": {"x": 1}}
    for roles in (["a b"], [""], [f"r{n}" for n in range(ROLE_COUNT_MAX + 1)]):
        with pytest.raises(AccessError):
            with_roles(before, roles)


def test_a_password_is_kept_as_this_version_makes_it_and_in_no_other_way() -> None:
    """What says that it takes 4 GiB and ten thousand rounds would hold up everybody's logins."""
    assert with_password({"roles": []}, KEPT) == {"roles": [], "password": KEPT}
    for kept in (
        "",
        "secret",
        KEPT.replace("m=19456", "m=4194304"),
        KEPT.replace("t=2", "t=9999"),
        f"{KEPT}\n",
        KEPT.replace("argon2id", "argon2i"),
    ):
        with pytest.raises(AccessError, match="was not made by a node") as refused:
            with_password({}, kept)
        assert KEPT[-20:] not in str(refused.value)


def keys_for(name: str, password: str, kept: str, nonce: bytes = b"1" * 16) -> dict[str, object]:
    return keep_keys(name, password, kept, pepper=b"p" * 32, nonce=nonce)


def test_keys_for_scram_belong_to_one_password_and_go_with_it() -> None:
    """
    A password that is set without them, here or by a version that does not know them, leaves none:
    else the old password would go on opening by SCRAM.
    """
    keys = keys_for("ann", "secret", KEPT)
    made = with_password({"roles": []}, KEPT, keys)
    assert made == {"roles": [], "password": KEPT, "scram": keys}
    assert read_values(json.dumps(made)).scram is not None
    other = hash_password("other", pepper=b"p" * 32, salt=b"s" * 16)
    assert "scram" not in with_password(made, other)
    by_earlier_version = {**made, "password": other}
    assert read_values(json.dumps(by_earlier_version)).scram is None
    again = with_password(by_earlier_version, other, keys_for("ann", "other", other))
    assert "before" not in again["scram"], "nothing is known of what that version replaced"


def test_the_password_before_is_known_and_none_before_that() -> None:
    """What programs go on showing for a while."""
    first = with_password({}, KEPT, keys_for("ann", "secret", KEPT))
    other = hash_password("other", pepper=b"p" * 32, salt=b"s" * 16)
    second = with_password(first, other, keys_for("ann", "other", other, b"2" * 16))
    assert second["scram"]["before"] == {key: first["scram"][key] for key in ("nonce", "keys")}
    third = with_password(second, KEPT, keys_for("ann", "secret", KEPT, b"3" * 16))
    assert third["scram"]["before"] == {key: second["scram"][key] for key in ("nonce", "keys")}
    elsewhere = keys_for("ben", "other", other)
    assert "before" not in with_password(first, other, elsewhere)["scram"], "another salt"


@pytest.mark.parametrize(
    "change",
    [
        {"of": "0" * 16},
        {"iterations": 1},
        {"iterations": 10**9},
        {"iterations": True},
        {"salt": "AAAA"},
        {"keys": "x"},
        {"nonce": 7},
        {"before": {}},
    ],
)
def test_keys_of_another_form_or_password_are_refused(change) -> None:
    """A member's word is looked at: a billion iterations would hold up each client of that name."""
    keys = {**keys_for("ann", "secret", KEPT), **change}
    with pytest.raises(AccessError, match="what is to be kept for SCRAM"):
        with_password({}, KEPT, keys)
    with pytest.raises(AccessError, match="what is to be kept for SCRAM"):
        with_password({}, KEPT, {"of": keys["of"]})


def test_a_token_has_a_name_of_its_own_until_it_ends() -> None:
    """One that has ended makes room, also for its own name."""
    one = with_token({}, "ci", "d1", expires_ms=2_000, now_ms=1_000)
    assert one == {"tokens": [{"name": "ci", "sha256": "d1", "expires_ms": 2_000}]}
    with pytest.raises(AccessError, match="a token 'ci' already"):
        with_token(one, "ci", "d2", expires_ms=0, now_ms=1_999)
    after = with_token(one, "ci", "d2", expires_ms=0, now_ms=2_000)
    assert after == {"tokens": [{"name": "ci", "sha256": "d2"}]}
    full = {"tokens": [{"name": f"t{n}", "sha256": "d"} for n in range(TOKEN_COUNT_MAX)]}
    with pytest.raises(AccessError, match="at most 100 tokens"):
        with_token(full, "more", "d", expires_ms=0, now_ms=0)
    with pytest.raises(AccessError):
        with_token({}, "no name", "d", expires_ms=0, now_ms=0)


def test_a_token_is_ended_by_its_name() -> None:
    """Others stay; one that is not there is named, with those that are."""
    two = {"tokens": [{"name": "a", "sha256": "1"}, {"name": "b", "sha256": "2"}]}
    assert without_token(two, "a") == {"tokens": [{"name": "b", "sha256": "2"}]}
    with pytest.raises(AccessError, match="no token 'c'; there are: a, b"):
        without_token(two, "c")
    with pytest.raises(AccessError, match="there are: none"):
        without_token({"tokens": "what"}, "c")
