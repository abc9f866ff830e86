"""
Who somebody is, by what he shows: at once where that takes no time, else as work for others.

A certificate's name and a token are found out at once, and so is a password that was right a moment
ago. A password that was not looked at yet is given out as work (`Waiting`); whoever does it says
what came of it. Equal credentials that come meanwhile wait for the same work: ten thousand clients
of one user that come back after a failover cost one.

Invariants:
    What is refused is refused with the same words and after the same work, whoever there is.
    Whoever showed something that is wrong is not let in by anything else.
    A password that was found right counts only while its user's record is the one it was found
    right by.
    No secret is kept, but in work that is under way.
    Whoever guesses holds up nobody who shows what was right, or what nobody can guess; and by one
    name only whose it is, where he guesses.

Pure: time is an argument, chance is handed in.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias, TypeVar

from holdfast.errors import AuthenticationError
from holdfast.model.access_records import UserRecord
from holdfast.security.authority import Authority, Vouched
from holdfast.security.passwords import NOBODYS, PASSWORD_BYTES_MAX
from holdfast.security.principal import Principal
from holdfast.security.regulars import Regulars
from holdfast.security.throttle import Throttle
from holdfast.security.tokens import digest_of, is_token, owner_of
from holdfast.security.user_values import read_values

WRONG: Final = "login or passcode is wrong"
SHUT_OUT: Final = (
    "too many failed logins from this address lately, of this name too: try again in a minute"
)
BUSY: Final = "more logins are being checked than there is time for: try again in a moment"
UNKNOWN: Final = "there is no user of the name that this certificate has: say login and passcode"
UNNAMED: Final = "a login is needed here: say login and passcode"

VERIFIED_COUNT_MAX: Final = 10_000
VERIFIED_SECONDS: Final = 600.0
WRONG_SECONDS: Final = 60.0
UNGUESSED_SECONDS: Final = 1.0
"""After so long it is told that a signed token is wrong."""


class _Wrong(NamedTuple):
    """What was looked at a moment ago and is not right; None: there was no such user."""

    record: UserRecord | None
    until: float


_Kept = TypeVar("_Kept")


class Shown(NamedTuple):
    """What somebody shows of himself."""

    name: str = ""
    secret: str = ""
    certified: str = ""
    """The name that his verified certificate has; empty: he showed none."""
    address: str = ""
    """From where he comes, without a port."""

    def __repr__(self) -> str:
        """Without the secret: this stands in logs and traces."""
        return f"Shown(name={self.name!r}, certified={self.certified!r}, address={self.address!r})"


class Refusal(NamedTuple):
    """Why somebody is not let in, and from when on he may be told."""

    reason: str
    due: float


class Waiter(NamedTuple):
    """Whoever waits for what comes of a look."""

    tell: Callable[[Principal | Refusal | None], None]
    """None: what he has shown is wrong."""
    is_there: Callable[[], bool]
    """Whether he still wants to know."""


class Waiting:
    """What is to be looked at: what is kept, and who waits for what comes of it."""

    __slots__ = (
        *(
            "authority",
            "is_guess",
            "kept",
            "mark",
            "name",
            "record",
            "address",
            "is_regular",
            "secret",
            "waiters",
        ),
    )

    def __init__(
        self,
        mark: bytes,
        name: str,
        secret: str,
        kept: str,
        record: UserRecord | None,
        authority: Authority | None = None,
        *,
        address: str = "",
        is_guess: bool = True,
        is_regular: bool = False,
    ) -> None:
        self.mark = mark
        self.name = name
        self.secret = secret
        self.kept = kept
        self.record = record
        """Whose it would be; None: there is no such user."""
        self.authority = authority
        """Who is asked; None: it is compared with what is kept."""
        self.address = address
        """From where it was shown first."""
        self.is_guess = is_guess
        """False: it was found right before, by the same record, or nobody can guess it."""
        self.is_regular = is_regular
        """It is shown from where somebody came in lately."""
        self.waiters: list[Waiter] = []
        """Whoever asked adds himself."""


Answer: TypeAlias = Principal | Refusal | Waiting
Outcome: TypeAlias = bool | Vouched | AuthenticationError
"""Whether a password is right, who somebody is, or why that could not be found out."""


class _Verified(NamedTuple):
    record: UserRecord | None
    principal: Principal
    until: float


class Checking:
    """Looks at what everybody shows."""

    __slots__ = (
        *("_key", "_record_of", "_said", "_under_way", "_verified", "_wrong"),
        *("authorities", "regulars", "throttle"),
    )

    def __init__(
        self,
        record_of: Callable[[str], UserRecord | None],
        key: bytes,
        authorities: Sequence[Authority] = (),
    ) -> None:
        """
        Look users up by their names as the log has them.

        Args:
            record_of: Gives the record of a user.
            key: 32 bytes of chance, new with each process.
            authorities: Are asked of whom the log does not know, the first that recognises what
                is shown and no other.
        """
        self._record_of = record_of
        self._key = key
        self._verified: dict[bytes, _Verified] = {}
        """By their marks, which tell nothing of them without the key."""
        self._wrong: dict[bytes, _Wrong] = {}
        self._under_way: dict[bytes, Waiting] = {}
        self._said: dict[tuple[str, str], frozenset[str] | None] = {}
        """What was said of who is connected since he came, by who vouches and his name."""
        self.authorities = tuple(authorities)
        self.regulars = Regulars()
        self.throttle = Throttle(self.regulars)

    def check(
        self, shown: Shown, now: float, now_ms: int, *, anonymous: Principal | None = None
    ) -> Answer:
        """
        Say who somebody is, why he is not let in, or what has to be looked at for that.

        Args:
            shown: What he shows.
            now: By the monotonic clock.
            now_ms: Milliseconds since the epoch, by which tokens end.
            anonymous: Who is let in who shows nothing; None: nobody.
        """
        if shown.secret or shown.name not in ("", shown.certified):
            if is_token(shown.secret):
                return self._token(shown, now, now_ms)
            return self._password(shown, now)
        if shown.certified:
            record = self._record_of(shown.certified)
            # It is no guess: whoever has it did not choose the name.
            return Refusal(UNKNOWN, now) if record is None else _principal(record)
        return Refusal(UNNAMED, now) if anonymous is None else anonymous

    def reason_to_skip(self, waiting: Waiting, now: float) -> str:
        """
        Say why something is not looked at whose turn has come; empty: it is.

        Nobody may want to know any more, and much may have been guessed from there meanwhile.
        """
        if not any(it.is_there() for it in waiting.waiters):
            return BUSY
        if waiting.is_guess and self.throttle.is_shut_out(waiting.address, now, waiting.name):
            return SHUT_OUT
        return ""

    def looked_at(
        self, waiting: Waiting, outcome: Outcome, *, now: float, now_ms: int
    ) -> Principal | Refusal | None:
        """
        Take what came of some work; gives who all of its waiters are, None: they are wrong.

        A refusal is given where it could not be found out; nothing wrong was shown then.
        """
        if self._under_way.get(waiting.mark) is waiting:
            del self._under_way[waiting.mark]
        if isinstance(outcome, AuthenticationError):
            return Refusal(str(outcome), now)
        record = waiting.record
        if self._record_of(waiting.name) is not record:
            return None
        if isinstance(outcome, Vouched):
            return self._vouched(waiting, outcome, now, now_ms)
        if not outcome or record is None:
            if waiting.authority is None:
                _keep(self._wrong, waiting.mark, _Wrong(record, now + WRONG_SECONDS))
            return None
        principal = _principal(record, waiting.kept)
        _keep(self._verified, waiting.mark, _Verified(record, principal, now + VERIFIED_SECONDS))
        return principal

    def _vouched(
        self, waiting: Waiting, said: Vouched, now: float, now_ms: int
    ) -> Principal | None:
        if self._record_of(said.name) is not None:
            return None  # Whom the log knows nobody else speaks for.
        ends_at, until = None, now + said.valid_seconds
        if said.expires_ms:
            ends_at = now + (said.expires_ms - now_ms) / 1000
            until = min(until, ends_at)
            if ends_at <= now:
                return None
        label = "" if waiting.authority is None else waiting.authority.label
        called = "" if waiting.name == said.name else waiting.name
        principal = Principal(said.name, said.roles, ends_at, authority=label, called=called)
        _keep(self._verified, waiting.mark, _Verified(waiting.record, principal, until))
        if (label, said.name) in self._said:  # This is newer than what was said before.
            self._said[label, said.name] = said.roles
        return principal

    def still(self, principal: Principal) -> Principal | None:
        """Give who a user is by what the log says now; None: what he was found by is no more."""
        record = self._record_of(principal.name)
        if principal.authority:
            said = self._said.get((principal.authority, principal.name), principal.roles)
            return None if record is not None or said is None else principal._replace(roles=said)
        if record is None:
            return None
        values = read_values(record.values)
        if principal.kept not in ("", values.password):
            tokens = {token.digest: token for token in values.tokens}
            if principal.kept not in tokens:
                return None
        return principal._replace(roles=values.roles)

    def say(self, label: str, name: str, roles: frozenset[str] | None) -> None:
        """Take what somebody who vouches says of a person by now; None: there is none any more."""
        self._said[label, name] = roles
        for mark, verified in list(self._verified.items()):
            if (verified.principal.authority, verified.principal.name) == (label, name):
                del self._verified[mark]

    def said_of(self) -> list[tuple[str, str]]:
        """Give of whom something was said, each by who vouches and the name."""
        return list(self._said)

    def forget_said(self, who: tuple[str, str]) -> None:
        """Forget what was said of one who is connected no more."""
        self._said.pop(who, None)

    def refused(self, shown: Shown, now: float) -> Refusal:
        """
        Give the refusal of who has shown something wrong, and note that.

        A signed token that has run out is no guess, however many programs go on showing theirs.
        """
        is_known = self._record_of(shown.name) is not None
        authority = None if is_token(shown.secret) else self._authority(shown, is_known=is_known)
        if authority is not None and not authority.is_guessable:
            return Refusal(WRONG, now + UNGUESSED_SECONDS)
        is_looked_at = not is_token(shown.secret) and not _is_long(shown.secret)
        name = shown.name if is_looked_at else None
        delay = self.throttle.failed(shown.address, self._mark(shown), now, name)
        return Refusal(WRONG, now + delay)

    def _token(self, shown: Shown, now: float, now_ms: int) -> Answer:
        name = owner_of(shown.secret)
        record = None if name is None else self._record_of(name)
        if record is None or shown.name not in ("", name):
            return self.refused(shown, now)
        digest = digest_of(shown.secret)
        for token in read_values(record.values).tokens:
            if hmac.compare_digest(token.digest.encode(), digest.encode()):
                if not token.expires_ms:
                    return _principal(record, token.digest)
                if token.expires_ms > now_ms:
                    ends_at = now + (token.expires_ms - now_ms) / 1000
                    return _principal(record, token.digest)._replace(expires_at=ends_at)
        return self.refused(shown, now)

    def _password(self, shown: Shown, now: float) -> Answer:
        mark = self._mark(shown)
        record = self._record_of(shown.name)
        verified = self._verified.get(mark)
        was_right = verified is not None and verified.record is record
        if verified is not None and was_right and self._holds(verified, now):
            return verified.principal
        wrong = self._wrong.get(mark)
        if wrong is not None and wrong.record is record and now < wrong.until:
            return self.refused(shown, now)
        waiting = self._under_way.get(mark)
        if waiting is not None and waiting.record is record:
            return waiting
        authority = self._authority(shown, is_known=record is not None)
        # What was right here is no guess, whoever else guesses from the same address.
        is_guess = not was_right and (authority is None or authority.is_guessable)
        if is_guess and self.throttle.is_shut_out(shown.address, now, shown.name):
            return Refusal(SHUT_OUT, now)
        if authority is None and _is_long(shown.secret):
            return self.refused(shown, now)
        kept = "" if record is None else read_values(record.values).password
        waiting = Waiting(
            *(mark, shown.name, shown.secret, kept or NOBODYS, record, authority),
            address=shown.address,
            is_guess=is_guess,
            is_regular=was_right or self.regulars.is_one(shown.address, now),
        )
        self._under_way[mark] = waiting
        return waiting

    def _holds(self, verified: _Verified, now: float) -> bool:
        """Whether it is believed without looking again: not of whom the log knows by now."""
        principal = verified.principal
        is_logs = not principal.authority or self._record_of(principal.name) is None
        return is_logs and now < verified.until

    def _authority(self, shown: Shown, *, is_known: bool) -> Authority | None:
        """Give who is asked of somebody; None: it is compared with what the log has of him."""
        for each in self.authorities:
            if each.recognises(shown.name, shown.secret, is_known=is_known):
                return each
        return None

    def _mark(self, shown: Shown) -> bytes:
        name, secret = (it.encode(errors="surrogatepass") for it in (shown.name, shown.secret))
        mark = blake2b(key=self._key, digest_size=32)
        mark.update(len(name).to_bytes(8, "little") + name + secret)
        return mark.digest()


def _is_long(secret: str) -> bool:
    """Whether it can be no password, and is not looked at."""
    return len(secret.encode(errors="surrogatepass")) > PASSWORD_BYTES_MAX


def _principal(record: UserRecord, kept: str = "") -> Principal:
    return Principal(record.name, read_values(record.values).roles, kept=kept)


def _keep(kept: dict[bytes, _Kept], mark: bytes, what: _Kept) -> None:
    """Keep it as the newest of so many."""
    kept.pop(mark, None)
    if len(kept) >= VERIFIED_COUNT_MAX:
        del kept[next(iter(kept))]
    kept[mark] = what
