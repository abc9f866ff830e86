"""
Who may ask the admin port what.

As long as there are no users, what tells numbers and names (`duties`) is answered to whoever can
reach the port, and all else to who has a proof. Once there are, `/health` and `/ready` are open,
and all else asks for a user of the log with the role for it, by HTTP's Basic or by a token; a proof
goes on to be good for everything. A password is shown by SCRAM as well, where that is offered: then
a login takes two requests. As long as the node cannot know whether there are users, it is as if
there were, and whom its own log has up to its end may log in; at a witness nobody may. A proof is
the token made from the cluster's secret (`remote.admin_token`), or, on the node's machine, the
token in a file that only the node's user may read (`token_file`).

A web page can make the operator's browser ask a loopback port, and with a name that changes its
address (DNS rebinding) even read the answer. So each request must name this node as its host: by an
address, or by a name it knows. And no page of ours asks, so what comes from a page is refused.

The port lives on the node's loop, and sixty answers to strangers in one turn of it, a millisecond
each, would keep the clients waiting. So strangers are let in one after the other.

Invariants:
    What has no proof takes no more than a fifth of the loop's time until it has shown who it is,
    however many ask.
    A path that is not listed needs the highest duty, also one that is added later.
    Proofs are compared in constant time; passwords are looked at elsewhere.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.admin.answer_proofs import Expected
from holdfast.admin.asked_of import AskedOf
from holdfast.admin.duties import OPEN_PATHS, duty_for, shows_log
from holdfast.admin.forwarding import (
    ForwardCheck,
    is_forwarded,
    proven_body,
)
from holdfast.admin.host_names import LOCAL_NAMES, host_of
from holdfast.admin.logins import (
    AT_A_WITNESS,
    ITS_LOG_IS_ASKED,
    NOT_KNOWN,
    Nobody,
    People,
    Scram,
    Users,
    read_login,
)
from holdfast.admin.person import (
    CLUSTER,
    MACHINE,
    NOBODY,
    Person,
    act_for,
    read_on_behalf,
)
from holdfast.admin.refusals import (
    ASK_ELSEWHERE,
    CHALLENGE,
    GOES_ON,
    IN_CLEAR,
    NO_PLACE,
    ROLES_NEEDED,
    UNREADABLE,
    refused,
)
from holdfast.admin.remote import admin_token
from holdfast.admin.scram_http import (
    OFFER,
    Said,
    is_scram,
    read_authorization,
    write_challenge,
    write_failure,
    write_info,
)
from holdfast.admin.slices import Turnstile
from holdfast.errors import AuthenticationError
from holdfast.model.networks import is_address
from holdfast.security.checking import BUSY, SHUT_OUT, WRONG, Shown
from holdfast.security.principal import Principal
from holdfast.security.roles import Duty, duty_of
from holdfast.security.scram_messages import places_in, write_server_error

_OUTLIVED: Final = (
    "the password or token that you logged in with at another member was replaced or ended, which"
    " that one does not know yet; log in with the one that counts now"
)

Tell = Callable[[Person, str, str, str], None]
"""Told of a refusal: who, the method, the path, the reason."""


def tell_nobody(_person: Person, _method: str, _path: str, _reason: str) -> None:
    """Let it be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What one node's admin port asks for."""

    secret: bytes = field(default=b"", repr=False)
    """The cluster's; empty if there is none."""

    local_token: str = field(default="", repr=False)
    """What the file in the data directory holds; empty if there is none."""

    life: str = ""
    """Which process this is, see `forwarding`; empty: nothing is passed on to it."""

    token_path: str = ""
    """Where that file is, told to programs on the same machine."""

    token_place: Callable[[], str] | None = None
    """The same, where it may be elsewhere now: a node may have several directories."""

    names: frozenset[str] = frozenset()
    """Host names of this node, in small letters."""

    places: frozenset[str] = frozenset()
    """What leads to this node and to no other beside its own addresses, see `reached`."""

    takes_clear: bool = False
    """Whether passwords and tokens are taken in clear from other machines."""

    people: People = field(default=Nobody(), repr=False)
    """Who knows the users."""

    tell: Tell = field(default=tell_nobody, repr=False)
    """Takes notice of who was refused what."""

    def told_path(self) -> str:
        """Where the file is that a program on this machine may read."""
        return self.token_path if self.token_place is None else self.token_place()

    def is_host(self, header: str) -> bool:
        """Whether a `Host` header names this node: an address always does."""
        host = host_of(header)
        return is_address(host) or host in LOCAL_NAMES or host in self.names

    def proof_of(self, header: bytes) -> str:
        """Say of what an `Authorization` header is a proof; empty: of nothing."""
        expected = {CLUSTER: admin_token(self.secret)} if self.secret else {}
        expected |= {MACHINE: self.local_token} if self.local_token else {}
        found = [
            of
            for of, token in expected.items()
            if hmac.compare_digest(f"Bearer {token}".encode(), header)
        ]
        return found[0] if found else ""


class Gate:
    """Stands before an application and lets in who may ask."""

    def __init__(self, application: ASGIApp, access: Access) -> None:
        self._application = application
        self._access = access
        self._turnstile = Turnstile()
        self._forwards = ForwardCheck(access.secret, access.life)
        self._by_file = ForwardCheck.of_machine(access.local_token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        request = AskedOf(scope)
        refusal = self._misdirected(request)
        if refusal is None and is_forwarded(request.authorization) and not request.is_page:
            refusal, receive = await self._passed_on(request, receive)
        person = NOBODY if refusal or request.is_page else self._proven(request)
        if person.duty is Duty.NONE:
            # By what it asks: who asks whether the node lives does not wait for all the others.
            await self._turnstile.enter(request.path if request.path in OPEN_PATHS else None)
            if refusal is None and not request.is_page and not person.who:
                person, refusal = await self._log_in(request)
            if request.is_lost:
                return  # It left in the meantime, and costs nothing any more.
        refusal = refusal or self._refusal(request, person)
        if refusal is None and person.is_user and not person.is_vouched:
            person, refusal = await self._as_is_heard(request, person)
        is_known = refusal is None and person.duty > Duty.NONE
        if not request.hold(person if is_known else NOBODY):
            refusal = refused(HTTPStatus.TOO_MANY_REQUESTS, NO_PLACE)
        act_for(person)
        await (refusal or self._application)(scope, receive, request.answering(send))

    def _misdirected(self, request: AskedOf) -> JSONResponse | None:
        # A browser always says which host it means; who does not is none.
        if not request.host or self._access.is_host(request.host):
            return None
        return refused(
            HTTPStatus.MISDIRECTED_REQUEST,
            f"this node is not known as {host_of(request.host)[:200]!r}: ask it by its address,"
            f" or add the name to its setting admin_names",
        )

    async def _as_is_heard(
        self, request: AskedOf, person: Person
    ) -> tuple[Person, JSONResponse | None]:
        """
        Judge a user again who is to be shown messages, by all that this node has heard.

        What is changed the leader judges by what it knows itself. Who is known at all is shown to
        admins also where it is not sure: whoever comes to the rescue of what is left needs that.
        """
        needed = duty_for(request.method, request.path, may_have_users=True)
        if not shows_log(request.method, needed):
            return person, None
        people = self._access.people
        if trouble := await people.catch_up():
            told = f"{trouble}, and who may what now is not known here: {ASK_ELSEWHERE}"
            self._access.tell(person, request.method, request.path, told)
            return person, refused(HTTPStatus.SERVICE_UNAVAILABLE, told)
        principal = people.principal(person.who)
        if principal is None or (person.mark and not people.has_mark(person.who, person.mark)):
            self._access.tell(person, request.method, request.path, WRONG)
            return NOBODY, refused(HTTPStatus.UNAUTHORIZED, WRONG, self._challenge())
        person = person._replace(duty=duty_of(principal.roles))
        return person, self._refusal(request, person)

    async def _passed_on(
        self, request: AskedOf, receive: Receive
    ) -> tuple[JSONResponse | None, Receive]:
        """Judge a signed request, as another node passes it on, once: see `forwarding`."""
        at = request.standing(self._access.places)
        is_machines = self._by_file.is_meant(request.authorization)
        check = self._by_file if is_machines else self._forwards
        taken = check.take(request.authorization, request.forwarded, at)
        reason = taken.refusal
        if is_machines and (request.forwarded.by or request.on_behalf):
            reason = "by the node's file nothing is passed on"
        if not reason:
            body = await proven_body(receive, taken.body)
            if body is not None:
                request.proven_by = MACHINE if is_machines else CLUSTER
                key = self._access.local_token.encode() if is_machines else self._access.secret
                request.expected = Expected(key, taken.proof)
                refusal = None
                if request.on_behalf:
                    await self._access.people.look()
                    refusal = self._outlived(request)
                return refusal, body
            reason = "it came with another body than it was passed on with"
        by = request.forwarded.by[:80]
        told = f"this request{f' of {by!r}' if by else ''} is not taken: {reason}"
        self._access.tell(
            Person("", request.address, Duty.NONE), request.method, request.path, told
        )
        more: dict[str, Any] = {"clock": taken.clock} if taken.clock else {}
        more |= {} if by else self._file(request)  # No node may act for the machine's own user.
        return refused(HTTPStatus.FORBIDDEN, told, **more), receive

    def _outlived(self, request: AskedOf) -> JSONResponse | None:
        """Refuse for whom a member asks that does not know yet that his login is replaced."""
        person = read_on_behalf(request.on_behalf)
        if person is None or person.is_vouched or not person.is_user:
            return None
        people = self._access.people
        if people.principal(person.who) is None or people.has_mark(person.who, person.mark):
            return None
        self._access.tell(person, request.method, request.path, _OUTLIVED)
        return refused(HTTPStatus.UNAUTHORIZED, _OUTLIVED)

    def _proven(self, request: AskedOf) -> Person:
        """Give who sends a request by the proof in it; nobody, if there is none."""
        if request.proven_by == MACHINE:
            return Person(MACHINE, request.address, Duty.GOVERN)
        if request.proven_by:
            person = Person(CLUSTER, request.address, Duty.GOVERN)
            return self._behind(request, person) if request.on_behalf else person
        proof = self._access.proof_of(request.authorization)
        return Person(proof, request.address, Duty.GOVERN) if proof else NOBODY

    def _behind(self, request: AskedOf, member: Person) -> Person:
        """Give for whom a member passes a request on, with the roles that he has here."""
        person = read_on_behalf(request.on_behalf)
        if person is None:
            return NOBODY
        principal = self._access.people.principal(person.who)
        if person.is_vouched:
            # Nobody else speaks for whom the log has, nor for the machine.
            is_known = principal is not None or not person.is_user
            return person._replace(duty=Duty.NONE) if is_known else person
        if not person.is_user:
            return person._replace(duty=Duty.GOVERN) if person.who else member
        # Whom the log knew on that member and does not know here was removed.
        roles = principal.roles if principal is not None else ()
        return person._replace(duty=duty_of(roles), mark="")

    async def _log_in(self, request: AskedOf) -> tuple[Person, JSONResponse | None]:
        """Find out who sends a request that has no proof, if it is asked for here."""
        people = self._access.people
        users = people.users
        if users is Users.NONE:
            return NOBODY._replace(address=request.address), None
        if users is Users.ELSEWHERE:
            return self._log_in_elsewhere(request)
        scram = people.scram
        if scram is not None:
            await scram.look()  # Whoever is told that it is not offered sends his password.
            if scram.is_offered and is_scram(request.authorization):
                return await self._by_scram(request, scram)
        more = await self._not_known(request) if users is Users.NOT_KNOWN else ""
        shown = self._shown(request)
        if shown is None:
            return NOBODY._replace(address=request.address), None
        name = shown.name or shown.certified
        if shown.secret and not (request.is_private or self._access.takes_clear):
            return self._not_let_in(request, name, IN_CLEAR)
        try:
            found = await people.authenticate(shown)
        except AuthenticationError as error:
            return self._not_let_in(request, name, str(error), more=more)
        return self._person(request, found), None

    def _person(self, request: AskedOf, found: Principal) -> Person:
        """Give as whom somebody is let in."""
        duty = duty_of(found.roles)
        if found.authority:
            return Person(found.name, request.address, duty, is_vouched=True)
        return Person(found.name, request.address, duty, mark=self._access.people.mark_of(found))

    def _log_in_elsewhere(self, request: AskedOf) -> tuple[Person, JSONResponse | None]:
        """Refuse whoever shows anything, unlooked, and so that no command sends a password."""
        shown = read_login(request.authorization, request.address)
        name = request.certified if shown is None else shown.name
        person = Person(name, request.address, Duty.NONE)
        if not (request.authorization or name) or request.path in OPEN_PATHS:
            return NOBODY._replace(address=request.address), None
        self._access.tell(person, request.method, request.path, AT_A_WITNESS)
        return person, self._at_a_witness(request)

    async def _not_known(self, request: AskedOf) -> str:
        """Have the log asked who somebody is; gives what is added where he is not let in."""
        if not (request.authorization or request.certified):
            return ""
        trouble = await self._access.people.look()
        return f". {NOT_KNOWN}; {trouble or ITS_LOG_IS_ASKED}"

    async def _by_scram(self, request: AskedOf, scram: Scram) -> tuple[Person, JSONResponse | None]:
        """Take one of the two messages of who knows his password and does not send it."""
        said = read_authorization(request.authorization)
        # Passwords can be tried on what goes over the wire.
        if not (request.is_private or self._access.takes_clear):
            return self._not_let_in(request, "", IN_CLEAR)
        if said is None:
            return self._not_let_in(request, "", UNREADABLE)
        name = scram.name_of(said.sid)
        at = request.standing(self._access.places)
        elsewhere = [it for it in places_in(said.message) if not (said.sid or at.has(it))]
        if elsewhere:
            return self._not_let_in(request, name, at.refusal(elsewhere[0]))
        try:
            if said.sid:
                proven = await scram.finish(said.sid, said.message, request.address)
            else:
                begun = await scram.begin(said.message, request.address)
                challenge = write_challenge(Said(begun.sid, begun.message.encode()))
                return NOBODY, refused(HTTPStatus.UNAUTHORIZED, GOES_ON, challenge)
        except AuthenticationError as error:
            return self._not_let_in(request, name, str(error), said.sid)
        request.info = write_info(Said(said.sid, proven.message.encode()))
        return self._person(request, proven.principal), None

    def _not_let_in(
        self, request: AskedOf, name: str, reason: str, sid: str = "", *, more: str = ""
    ) -> tuple[Person, JSONResponse | None]:
        person = Person(name, request.address, Duty.NONE)
        self._access.tell(person, request.method, request.path, reason)
        if reason == IN_CLEAR:
            return person, refused(HTTPStatus.FORBIDDEN, reason)
        if reason in (BUSY, SHUT_OUT):
            return person, refused(HTTPStatus.TOO_MANY_REQUESTS, reason)
        if not sid:
            told = f"{reason}{more}"
            return person, refused(HTTPStatus.UNAUTHORIZED, told, self._challenge())
        failure = write_failure(sid, write_server_error(is_proof_wrong=reason == WRONG))
        return person, refused(HTTPStatus.UNAUTHORIZED, reason, self._challenge(failure))

    def _challenge(self, offer: str = OFFER) -> str:
        """Say by which ways somebody may show who he is, the strongest first."""
        scram = self._access.people.scram
        return f"{offer}, {CHALLENGE}" if scram is not None and scram.is_offered else CHALLENGE

    def _shown(self, request: AskedOf) -> Shown | None:
        """Give what a request shows of who sends it; None: neither a login nor a user's name."""
        if request.authorization:
            return read_login(request.authorization, request.address)
        name = request.certified
        # A certificate of somebody who is no user is as good as none: it may be for something else.
        if not name or self._access.people.principal(name) is None:
            return None
        return Shown(certified=name, address=request.address)

    def _refusal(self, request: AskedOf, person: Person) -> JSONResponse | None:
        users = self._access.people.users
        may_have_users = users is not Users.NONE
        needed = duty_for(request.method, request.path, may_have_users=may_have_users)
        if person.duty >= needed:
            return None
        if request.is_page:
            return refused(HTTPStatus.FORBIDDEN, "this is not answered for web pages")
        if not person.who:
            if may_have_users:
                return self._ask_for_login(request, users)
            return self._ask_for_proof(request)
        reason = (
            f"user {person.who!r} may not {request.method} {request.path[:200]}: that takes role"
            f" {ROLES_NEEDED[needed]}"
        )
        self._access.tell(person, request.method, request.path, reason)
        return refused(HTTPStatus.FORBIDDEN, reason, code="forbidden")

    def _file(self, request: AskedOf) -> dict[str, str | int]:
        """Where the proof of the node's own user is, for whoever is on its machine."""
        path = self._access.told_path()
        return {"token_file": path} if path and request.is_same_machine else {}

    def _at_a_witness(self, request: AskedOf) -> JSONResponse:
        # Not that a proof is missing: who reads the log asks another node then, and gives not up.
        more: dict[str, Any] = {**self._file(request), "code": "forbidden"}
        return refused(HTTPStatus.FORBIDDEN, AT_A_WITNESS, **more)

    def _ask_for_login(self, request: AskedOf, users: Users) -> JSONResponse:
        if users is Users.ELSEWHERE:
            return self._at_a_witness(request)
        what = "a wrong proof was given" if request.authorization else "a login is needed here"
        how = (
            "say who you are by --user NAME or --token-file FILE, or run this as the user of the"
            " node on its machine"
        )
        if users is Users.NOT_KNOWN:
            what = f"{what}. {NOT_KNOWN}; {ITS_LOG_IS_ASKED}"
            how += " or with the cluster's secret (--secret-file)"
        file = self._file(request)
        return refused(HTTPStatus.UNAUTHORIZED, f"{what}: {how}", self._challenge(), **file)

    def _ask_for_proof(self, request: AskedOf) -> JSONResponse:
        access = self._access
        if access.told_path() and request.is_same_machine:
            return refused(
                HTTPStatus.FORBIDDEN,
                f"a proof is needed: run this as the user of the node, who may read"
                f" {access.told_path()}, or give the cluster's secret (--secret-file)",
                token_file=access.told_path(),
            )
        if not access.secret:
            return refused(
                HTTPStatus.FORBIDDEN,
                "this is answered on the node's own machine only, as it has no cluster secret",
            )
        return refused(
            HTTPStatus.FORBIDDEN,
            "the proof is missing or wrong: give the file with the cluster's secret"
            " (--secret-file)",
        )
