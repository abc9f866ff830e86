"""Who somebody is, by what he shows; what is refused looks alike whoever there is."""

from __future__ import annotations

import json

import pytest

from holdfast.errors import AuthenticationError
from holdfast.model.access_records import UserRecord
from holdfast.security import checking as module
from holdfast.security.authority import Vouched
from holdfast.security.checking import Checking, Refusal, Shown, Waiting
from holdfast.security.passwords import NOBODYS
from holdfast.security.principal import ANONYMOUS, Principal
from holdfast.security.tokens import digest_of, make_token

TOKEN = make_token("bot", b"t" * 32)
HERE = "10.0.0.1"


def user(name: str, **values: object) -> UserRecord:
    return UserRecord(name, json.dumps({"roles": ["r"], **values}), 1)


@pytest.fixture
def users() -> dict[str, UserRecord]:
    tokens = [{"name": "ci", "sha256": digest_of(TOKEN)}]
    found = [user("ann", password="kept"), user("bot", tokens=tokens), user("ben")]
    return {it.name: it for it in found}


@pytest.fixture
def checking(users) -> Checking:
    return Checking(users.get, b"k" * 32)


def show(checking: Checking, *shown: str, now: float = 1.0, now_ms: int = 0, **more: object):
    return checking.check(Shown(*shown, address=HERE, **more), now, now_ms)


def test_a_password_is_looked_at_once_for_all_who_show_it(checking, users) -> None:
    """Who comes while it is looked at waits for that; who comes afterwards need not wait (S3)."""
    waiting = show(checking, "ann", "pw")
    assert isinstance(waiting, Waiting)
    assert (waiting.kept, waiting.secret) == ("kept", "pw")
    assert all(show(checking, "ann", "pw") is waiting for _ in range(1_000))
    assert show(checking, "ann", "other") is not waiting
    principal = checking.looked_at(waiting, True, now=2.0, now_ms=0)
    assert principal == Principal("ann", frozenset({"r"}), kept="kept")
    assert show(checking, "ann", "pw") == principal
    assert isinstance(show(checking, "ann", "pw", now=602.5), Waiting)


def test_what_was_right_is_so_only_by_the_same_record(checking, users) -> None:
    """Another password, other roles, or a user who was removed and is there again."""
    waiting = show(checking, "ann", "pw")
    checking.looked_at(waiting, True, now=2.0, now_ms=0)
    users["ann"] = user("ann", password="kept")
    assert isinstance(show(checking, "ann", "pw"), Waiting)
    waiting = show(checking, "ann", "pw")
    users["ann"] = user("ann", password="changed meanwhile")
    assert checking.looked_at(waiting, True, now=3.0, now_ms=0) is None
    fresh = show(checking, "ann", "pw")
    assert fresh is not waiting
    assert fresh.kept == "changed meanwhile"
    del users["ann"]
    assert checking.looked_at(fresh, True, now=3.0, now_ms=0) is None


def test_who_does_not_exist_costs_the_same_work_and_gets_the_same_words(checking) -> None:
    """And who exists and has no password (S2)."""
    for name in ("nobody", "ben"):
        waiting = show(checking, name, "pw")
        assert isinstance(waiting, Waiting)
        assert waiting.kept == NOBODYS
        assert show(checking, name, "pw") is waiting
    assert checking.looked_at(show(checking, "nobody", "pw"), True, now=1.0, now_ms=0) is None
    wrong = {
        checking.refused(Shown("nobody", "pw", address="10.0.1.1"), 1.0),
        checking.check(Shown("bot", "hf_", address="10.0.1.2"), 1.0, 0),
        checking.check(Shown("nobody", TOKEN, address="10.0.1.3"), 1.0, 0),
    }
    assert wrong == {Refusal(module.WRONG, 1.1)}


def test_a_token_is_known_at_once_with_its_users_name_or_without_one(checking) -> None:
    """With another user's it is wrong, and so is one that was changed by a letter."""
    bot = Principal("bot", frozenset({"r"}), kept=digest_of(TOKEN))
    assert show(checking, "bot", TOKEN) == bot
    assert show(checking, "", TOKEN) == bot
    other = "A" if TOKEN[-1] != "A" else "B"
    for shown in (("ann", TOKEN), ("bot", TOKEN[:-1] + other), ("", TOKEN + "A")):
        assert isinstance(show(checking, *shown), Refusal)


def test_a_token_that_ends_says_when(checking, users) -> None:
    """So that whoever is connected by it can be told goodbye; afterwards it is wrong."""
    tokens = [{"sha256": digest_of(TOKEN), "expires_ms": 5_000}]
    users["bot"] = user("bot", tokens=tokens)
    found = show(checking, "", TOKEN, now=100.0, now_ms=2_000)
    assert isinstance(found, Principal)
    assert found.expires_at == 103.0
    assert isinstance(show(checking, "", TOKEN, now=103.0, now_ms=5_000), Refusal)


def test_a_certificate_counts_where_nothing_else_is_shown(checking) -> None:
    """Whoever shows a wrong password beside it is not let in by the certificate."""
    assert show(checking, certified="ann") == Principal("ann", frozenset({"r"}))
    assert isinstance(show(checking, "ann", "wrong", certified="ann"), Waiting)
    assert isinstance(show(checking, "", "hf_wrong", certified="ann"), Refusal)
    assert show(checking, "ann", certified="ann") == Principal("ann", frozenset({"r"}))
    assert isinstance(show(checking, "ben", certified="ann"), Waiting)


def test_a_certificate_of_no_user_lets_nobody_in_and_is_no_guess(checking) -> None:
    """It may be one of many that an authority gave to machines; nobody is slowed down for it."""
    assert show(checking, certified="nobody", now=1.0) == Refusal(module.UNKNOWN, 1.0)
    found = checking.check(Shown(certified="nobody"), 1.0, 0, anonymous=ANONYMOUS)
    assert isinstance(found, Refusal)
    assert checking.throttle.failed(HERE, b"", 1.0, "ann") == 0.1


def test_who_is_in_stays_so_as_long_as_what_he_was_found_by_is_kept(checking, users) -> None:
    """With the roles of now. Another token more ends nobody; another password ends who had it."""
    bot, ben = show(checking, "", TOKEN), show(checking, certified="ben")
    waiting = show(checking, "ann", "pw")
    ann = checking.looked_at(waiting, True, now=1.0, now_ms=0)
    assert (checking.still(bot), checking.still(ann), checking.still(ben)) == (bot, ann, ben)
    other = {"name": "other", "sha256": "x"}
    token = {"name": "ci", "sha256": digest_of(TOKEN)}
    users["bot"] = user("bot", tokens=[other, token], password="new", roles=["s"])
    users["ann"] = user("ann", password="other", tokens=[other])
    users["ben"] = user("ben", password="other", roles=[])
    assert checking.still(bot) == bot._replace(roles=frozenset({"s"}))
    assert checking.still(ann) is None
    assert checking.still(ben) == Principal("ben")
    users["bot"] = user("bot", tokens=[other])
    del users["ben"]
    assert checking.still(bot) is checking.still(ben) is None


def test_who_shows_nothing_is_let_in_only_where_that_is_said(checking) -> None:
    """And never who showed something: an empty password is one."""
    shown = Shown(address=HERE)
    assert checking.check(shown, 1.0, 0, anonymous=ANONYMOUS) is ANONYMOUS
    assert checking.check(shown, 1.0, 0) == Refusal(module.UNNAMED, 1.0)
    found = checking.check(Shown("ann", address=HERE), 1.0, 0, anonymous=ANONYMOUS)
    assert isinstance(found, Waiting)


def guess_a_lot(checking: Checking, now: float = 1.0) -> None:
    for number in range(21):
        checking.refused(Shown("ann", f"guess {number}", address=HERE), now)


def test_who_guesses_is_not_looked_at_any_more(checking) -> None:
    """Not by what may be right either; from elsewhere he is (S13)."""
    guess_a_lot(checking)
    assert show(checking, "ann", "pw") == Refusal(module.SHUT_OUT, 1.0)
    assert isinstance(checking.check(Shown("ann", "pw", address="10.0.0.2"), 1.0, 0), Waiting)


def test_who_guesses_is_in_nobody_elses_way_who_was_right_or_cannot_guess(checking) -> None:
    """A machine's services, or all behind one address, go on: tokens, certificates, and passwords
    that were right here."""
    waiting = show(checking, "ann", "pw")
    ann = checking.looked_at(waiting, True, now=1.0, now_ms=0)
    guess_a_lot(checking, 700.0)
    assert isinstance(show(checking, "", TOKEN, now=700.0), Principal)
    assert isinstance(show(checking, certified="ann", now=700.0), Principal)
    waiting = show(checking, "ann", "pw", now=700.0)
    assert isinstance(waiting, Waiting), "it was right, and is looked at again"
    assert checking.looked_at(waiting, True, now=700.0, now_ms=0) == ann
    assert isinstance(show(checking, "ben", "pw", now=700.0), Waiting), "nobody guesses at him"
    assert show(checking, "ann", "other", now=700.0) == Refusal(module.SHUT_OUT, 700.0)


def test_wrong_tokens_and_what_is_too_long_guess_at_no_name(checking) -> None:
    """They cost no look, so anybody could fill what is kept of names with them."""
    for number in range(30):
        show(checking, "ann", f"hf_wrong{number}")
        show(checking, "ann", f"{number}" + "x" * 2_000)
    assert isinstance(show(checking, "ann", "pw"), Waiting)


def test_a_program_with_an_old_password_guesses_nothing(checking, users) -> None:
    """It is looked at once a minute, however many of it there are, and shuts nobody out."""
    looked_at = 0
    for number in range(600):
        now = 1.0 + number / 10
        found = show(checking, "ann", "old", now=now)
        if isinstance(found, Waiting):
            looked_at += 1
            assert checking.looked_at(found, False, now=now, now_ms=0) is None
            found = checking.refused(Shown("ann", "old", address=HERE), now)
        assert found == Refusal(module.WRONG, now + 0.1)
    assert looked_at == 1
    assert isinstance(show(checking, "ben", "pw", now=61.0), Waiting)
    users["ann"] = user("ann", password="old again")
    assert isinstance(show(checking, "ann", "old", now=60.5), Waiting)


def test_there_is_a_limit_to_what_is_known(checking, monkeypatch) -> None:
    """What was known longest is looked at again, which counts as no failure."""
    monkeypatch.setattr(module, "VERIFIED_COUNT_MAX", 1)
    waiting = show(checking, "ann", "pw")
    assert show(checking, "ann", "pw") is waiting
    checking.looked_at(waiting, True, now=1.0, now_ms=0)
    other = show(checking, "ann", "other")
    checking.looked_at(other, True, now=1.0, now_ms=0)
    assert isinstance(show(checking, "ann", "pw"), Waiting)
    principal = Principal("ann", frozenset({"r"}), kept="kept")
    assert show(checking, "ann", "other", now=1.0) == principal
    assert checking.throttle.failed(HERE, b"", 1.0, "ann") == 0.1


def test_what_nobody_types_is_not_looked_at(checking) -> None:
    """A megabyte would be a megabyte of work."""
    assert isinstance(show(checking, "ann", "x" * 1_025), Refusal)


def test_secrets_are_not_shown(checking) -> None:
    """Neither by what is shown nor by the work (S14)."""
    shown = Shown("ann", "hunter2", address=HERE)
    assert "hunter2" not in repr(shown)
    assert "hunter2" not in repr(checking.check(shown, 1.0, 0))


class Others:
    """Who vouches for whoever the log does not know, and for any token of its own."""

    label = "ldap.people"
    is_guessable = True

    def recognises(self, name: str, secret: str, *, is_known: bool) -> bool:
        return secret.startswith("eyJ") or not is_known

    def look(self, name: str, secret: str) -> None:
        raise AssertionError("nobody looks here")


def test_whom_the_log_does_not_know_somebody_else_is_asked_of(users) -> None:
    """And nobody else is where the log knows him; what is said of him holds for its time."""
    others = Others()
    checking = Checking(users.get, b"k" * 32, [others])
    assert show(checking, "ann", "pw").authority is None
    waiting = show(checking, "carl", "pw")
    assert waiting.authority is others
    assert checking.looked_at(waiting, False, now=2.0, now_ms=0) is None
    waiting = show(checking, "carl", "pw")
    carl = checking.looked_at(
        waiting, Vouched("carl", frozenset({"orders"}), 300.0), now=2.0, now_ms=0
    )
    assert carl == Principal("carl", frozenset({"orders"}), authority="ldap.people")
    assert show(checking, "carl", "pw", now=301.0) == carl
    assert isinstance(show(checking, "carl", "pw", now=303.0), Waiting)
    assert checking.still(carl) == carl


def test_what_a_new_login_says_is_newer_than_what_was_said_before(users) -> None:
    """A role that he was given since went again at the next change of a grant, until asked of."""
    checking = Checking(users.get, b"k" * 32, [Others()])
    early = show(checking, "carl", "pw")
    checking.looked_at(early, Vouched("carl", frozenset(), 300.0), now=1.0, now_ms=0)
    checking.say("ldap.people", "carl", None)
    again = show(checking, "carl", "pw")
    said = Vouched("carl", frozenset({"orders"}), 300.0)
    carl = checking.looked_at(again, said, now=2.0, now_ms=0)
    assert carl is not None
    assert checking.still(carl) == carl
    assert checking.said_of() == [("ldap.people", "carl")]
    checking.forget_said(("ldap.people", "carl"))
    assert checking.said_of() == []


def test_somebody_who_is_made_known_meanwhile_is_the_logs_from_then_on(users) -> None:
    """What another one says of a name counts only while the log does not have it."""
    checking = Checking(users.get, b"k" * 32, [Others()])
    said = Vouched("carl", frozenset({"admin"}), 300.0)
    waiting, early = show(checking, "carl", "pw"), show(checking, "", "eyJ.carl")
    carl = checking.looked_at(early, said, now=1.0, now_ms=0)
    assert show(checking, "", "eyJ.carl") == carl
    users["carl"] = user("carl", password="kept")
    assert checking.looked_at(waiting, said, now=1.0, now_ms=0) is None
    again = show(checking, "", "eyJ.carl")
    assert isinstance(again, Waiting), "it is no token of the carl that the log has"
    assert checking.looked_at(again, said, now=1.0, now_ms=0) is None
    assert checking.still(carl) is None


def test_a_token_that_ends_lets_nobody_in_afterwards(users) -> None:
    """Not by what was found out earlier either; and a long one is looked at."""
    checking = Checking(users.get, b"k" * 32, [Others()])
    token = "eyJ" + "x" * 4_000
    said = Vouched("anna", frozenset(), 60.0, expires_ms=31_000)
    waiting = show(checking, "", token)
    found = checking.looked_at(waiting, said, now=1.0, now_ms=1_000)
    assert found is not None
    assert found.expires_at == 31.0
    assert show(checking, "", token, now=30.0) == found
    waiting = show(checking, "", token, now=32.0)
    assert isinstance(waiting, Waiting)
    assert checking.looked_at(waiting, said, now=32.0, now_ms=32_000) is None


def test_who_could_not_be_looked_at_has_shown_nothing_wrong(users) -> None:
    """He is told why, and his address is not slowed down for it."""
    checking = Checking(users.get, b"k" * 32, [Others()])
    for _ in range(30):
        waiting = show(checking, "carl", "pw")
        found = checking.looked_at(waiting, AuthenticationError("away"), now=1.0, now_ms=0)
        assert found == Refusal("away", 1.0)


class Signed(Others):
    """Whoever shows what it signed has not guessed that."""

    label = "jwt"
    is_guessable = False

    def recognises(self, name: str, secret: str, *, is_known: bool) -> bool:
        return secret.startswith("eyJ")


def test_signed_tokens_that_ran_out_are_no_guesses_and_shut_nobody_out(users) -> None:
    """
    However many programs show theirs: a good one is looked at, a password too. And who guesses
    passwords keeps no signed token out.
    """
    checking = Checking(users.get, b"k" * 32, [Signed()])
    for number in range(100):
        shown = Shown("", f"eyJ.{number}", address=HERE)
        waiting = checking.check(shown, 1.0, 0)
        assert isinstance(waiting, Waiting)
        assert not waiting.is_guess
        assert checking.looked_at(waiting, False, now=1.0, now_ms=0) is None
        due = 1.0 + module.UNGUESSED_SECONDS
        assert checking.refused(shown, 1.0) == Refusal(module.WRONG, due)
    assert isinstance(show(checking, "ann", "pw"), Waiting)
    for number in range(100):
        checking.refused(Shown("ann", f"guess {number}", address=HERE), 1.0)
    assert show(checking, "ann", "another") == Refusal(module.SHUT_OUT, 1.0)
    waiting = show(checking, "", "eyJ.fresh")
    assert isinstance(waiting, Waiting)
    waiting.waiters.append(Waiter())
    assert checking.reason_to_skip(waiting, 1.0) == ""


class Waiter:
    """Somebody who is still there."""

    def is_there(self) -> bool:
        return True


def test_who_comes_from_where_somebody_came_in_lately_is_told_apart(users) -> None:
    """And so is a password that was right before; names do not count."""
    checking = Checking(users.get, b"k" * 32)
    first = show(checking, "ann", "pw")
    assert (first.is_regular, first.is_guess) == (False, True)
    assert checking.looked_at(first, True, now=1.0, now_ms=0) is not None
    checking.regulars.came_in(HERE, 1.0)
    assert show(checking, "nobody", "x").is_regular
    elsewhere = Shown("ann", "pw", address="10.1.0.1")
    again = checking.check(elsewhere, 700.0, 0)
    assert isinstance(again, Waiting)
    assert (again.is_regular, again.is_guess) == (True, False)
    other = checking.check(Shown("ann", "other", address="10.1.0.1"), 700.0, 0)
    assert isinstance(other, Waiting)
    assert not other.is_regular
