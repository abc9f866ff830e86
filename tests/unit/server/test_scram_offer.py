"""Whether SCRAM is offered (S19)."""

from __future__ import annotations

import json

import pytest

from holdfast.broker.lasting.access import LastingAccess
from holdfast.model.access_records import UserRecord
from holdfast.security.scram_keys import keep_keys
from holdfast.server import scram_offer
from holdfast.server.scram_offer import RECORDS_PER_LOOK, ScramOffer

KEPT = "$kept"
KEYS = keep_keys("ann", "right", KEPT, pepper=b"p" * 32, nonce=b"n" * 16)
BOTH = {"password": KEPT, "scram": KEYS}


class Log:
    """What the log says of users."""

    def __init__(self) -> None:
        self.access = LastingAccess()
        self.count = 0

    def say(self, name: str, values: dict[str, object] | None) -> None:
        self.count += 1
        text = "" if values is None else json.dumps(values)
        self.access.apply(UserRecord(name, text, self.count), self.count)

    def offer(self, *, is_wanted: bool = True) -> ScramOffer:
        return ScramOffer(lambda: self.access, is_wanted=is_wanted)


@pytest.fixture
def log() -> Log:
    return Log()


def test_it_is_offered_only_while_each_password_can_be_shown_by_it(log) -> None:
    """
    Clients do not fall back: whoever has a password without keys would be shut out by the offer.
    Who has no password is nobody whom it concerns.
    """
    log.say("tok", {"roles": []})
    offer = log.offer()
    assert not offer.is_made(), "nobody has a password"
    log.say("ann", BOTH)
    assert offer.is_made()
    log.say("ben", {"password": KEPT})
    assert not offer.is_made()
    log.say("ben", {"password": "$other", "scram": KEYS})
    assert not offer.is_made(), "keys of the password before"
    log.say("ben", BOTH)
    assert offer.is_made()
    log.say("cas", {"password": KEPT})
    assert not offer.is_made()
    log.say("cas", None)
    assert offer.is_made()
    log.say("ann", None)
    log.say("ben", None)
    assert not offer.is_made()


def test_where_it_is_not_wanted_it_is_not_offered(log, monkeypatch) -> None:
    """And nobody is looked at for it."""
    log.say("ann", BOTH)
    monkeypatch.setattr(scram_offer, "read_values", None)
    assert not log.offer(is_wanted=False).is_made()


def test_a_question_reads_few_records_and_offers_nothing_before_it_has_read_all(
    log, monkeypatch
) -> None:
    """
    Ten thousand that were imported hold up the loop by none of the questions; those that are there
    at the start are read before anybody is served.
    """
    read: list[str] = []
    real = scram_offer.read_values
    monkeypatch.setattr(scram_offer, "read_values", lambda text: [read.append(text), real(text)][1])
    log.say("ann", BOTH)
    offer = log.offer()
    assert offer.is_made()
    for number in range(2 * RECORDS_PER_LOOK + 1):
        log.say(f"u{number:04}", BOTH)
    for expected in (False, False, True, True):
        read.clear()
        assert offer.is_made() is expected
        assert len(read) <= RECORDS_PER_LOOK
    assert read == []
    unread = log.offer(is_wanted=False)
    assert unread.look(), "nothing is wanted of it"
    assert log.offer().is_made()
    log.access = LastingAccess()
    assert not offer.is_made(), "another state, as it is read anew"
