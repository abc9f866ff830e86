"""
The gate of the admin port: whose requests come through.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import time
from collections.abc import Callable
from typing import Any

import pytest
from starlette.responses import PlainTextResponse

from holdfast.admin.access import Access, Gate
from holdfast.admin.answer_proofs import Expected
from holdfast.admin.asked_of import CONNECTION_STATE, PROVEN
from holdfast.admin.forwarding import Forwarded, proof_in, sign, sign_as_machine
from holdfast.admin.host_names import own_names
from holdfast.admin.logins import AT_A_WITNESS, Users
from holdfast.admin.person import CLUSTER, MACHINE, Person, acting, on_behalf
from holdfast.admin.process_mark import mark_of
from holdfast.admin.refusals import IN_CLEAR
from holdfast.admin.remote import admin_token
from holdfast.errors import AuthenticationError
from holdfast.security.checking import BUSY, WRONG
from holdfast.security.principal import Principal
from holdfast.security.roles import Duty

SECRET = b"0123456789abcdef"
LOCAL = "11" * 32
LIFE = "0a" * 16
ACCESS = Access(
    secret=SECRET,
    local_token=LOCAL,
    life=LIFE,
    token_path="/data/admin-token",
    places=frozenset({"proxy"}),
    names=own_names("Broker-1.Example.org.", "10.0.0.1", more=["proxy"]),
)


class Connection:
    """What requests come on."""

    def __init__(self, *, is_lost: bool = False) -> None:
        self.is_lost = is_lost
        self.has_place = True
        self.held_by = ""

    def hold(self, who: str) -> bool:
        self.held_by = who if self.has_place else ""
        return self.has_place


class Caller:
    """Sends requests through a gate, and keeps the connection they come on."""

    def __init__(self, access: Access = ACCESS) -> None:
        self.gate = Gate(PlainTextResponse("inside"), access)
        self.connection = Connection()
        self.body = b""
        self.headers: dict[bytes, bytes] = {}
        self.scheme = "http"

    def ask(
        self,
        path: str,
        *headers: tuple[bytes, bytes],
        client: tuple[str, int] | None = ("127.0.0.1", 5000),
        method: str = "GET",
        content: bytes | None = None,
    ) -> int:
        """Give the status of the answer; without content nothing may be waited for."""
        sent: list[dict[str, Any]] = []
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "headers": list(headers),
            "client": client,
            "server": ("10.0.0.1", 8161),
            "scheme": self.scheme,
            "state": {CONNECTION_STATE: self.connection},
        }

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            assert content is not None, "nothing is read at the gate"
            return {"type": "http.request", "body": content, "more_body": False}

        asyncio.run(self.gate(scope, receive, send))
        self.body = b"".join(message.get("body", b"") for message in sent)
        self.headers = dict(sent[0]["headers"])
        return int(sent[0]["status"])


def proof(token: str) -> tuple[bytes, bytes]:
    return b"authorization", f"Bearer {token}".encode()


@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        ("localhost", True),
        ("LOCALHOST:8161", True),
        ("127.0.0.1:8161", True),
        ("192.168.7.7", True),
        ("[::1]:8161", True),
        ("[::1]", True),
        ("broker-1", True),
        ("broker-1.example.org.:8161", True),
        ("proxy:80", True),
        ("evil.example", False),
        ("evil.example:8161", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("[evil]", False),
        ("[::1].evil.example", False),
        ("127.0.0.1:80.evil.example", False),
        ("localhost, evil.example", False),
        ("127.0.0.1@evil.example", False),
    ],
)
def test_a_request_must_name_this_node(host: str, is_known: bool) -> None:
    """
    A page whose name was made to mean 127.0.0.1 names itself and gets nothing, nowhere.
    """
    caller = Caller()
    named = (b"host", host.encode())
    for path in ("/status", "/log"):
        status = caller.ask(path, named, proof(LOCAL))
        assert status == (200 if is_known else 421)
    assert is_known or b"is not known as" in caller.body


@pytest.mark.parametrize(
    ("header", "allowed"),
    [
        ((b"origin", b"http://localhost:8161"), False),
        ((b"origin", b"null"), False),
        ((b"sec-fetch-site", b"cross-site"), False),
        ((b"sec-fetch-site", b"same-origin"), False),
        ((b"sec-fetch-site", b"none"), True),
    ],
)
def test_nothing_is_done_or_revealed_for_a_page(header: tuple[bytes, bytes], allowed: bool) -> None:
    """
    Not even with a proof: no page of ours asks.
    """
    caller = Caller()
    assert caller.ask("/log", header, proof(LOCAL)) == (200 if allowed else 403)
    assert caller.ask("/metrics", header) == 200


@pytest.mark.parametrize("token", ["", "x", LOCAL[:-1], LOCAL + "1", SECRET.decode(), "\xff"])
def test_a_wrong_proof_is_none(token: str) -> None:
    """
    A connection that brought none may be closed for another.
    """
    caller = Caller()
    assert caller.ask("/log", proof(token)) == 403
    assert caller.ask("/status", method="POST") == 403
    assert caller.connection.held_by == ""
    for good, who in ((LOCAL, MACHINE), (admin_token(SECRET), CLUSTER)):
        assert caller.ask("/log", proof(good)) == 200
        assert caller.connection.held_by == who
    assert caller.ask("/log", proof(token)) == 403
    assert caller.connection.held_by == "", "what was shown before is no proof of this request"


def test_without_secret_and_file_nobody_has_a_proof() -> None:
    """
    An empty secret makes no token.
    """
    caller = Caller(Access())
    assert caller.ask("/log", proof(admin_token(b""))) == 403
    assert caller.ask("/log", proof("")) == 403
    assert b"has no cluster secret" in caller.body


@pytest.mark.parametrize(
    ("client", "is_told"),
    [
        (("127.0.0.1", 1), True),
        (("::1", 1), True),
        (("10.0.0.1", 1), True),
        (("10.0.0.2", 1), False),
        (None, False),
    ],
)
def test_the_place_of_the_file_is_told_on_this_machine_only(
    client: tuple[str, int] | None, is_told: bool
) -> None:
    """
    The refusal says what to do, to each what he can do.
    """
    caller = Caller()
    assert caller.ask("/log", client=client) == 403
    assert (b'"token_file":"/data/admin-token"' in caller.body) is is_told
    assert b"--secret-file" in caller.body


def test_what_is_no_request_passes() -> None:
    """
    The server's own messages are not for the gate.
    """
    seen: list[str] = []

    async def application(scope: Any, _receive: Any, _send: Any) -> None:
        seen.append(scope["type"])

    asyncio.run(Gate(application, ACCESS)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert seen == ["lifespan"]


def test_secrets_do_not_show() -> None:
    """
    Not in a log line that prints the object.
    """
    assert LOCAL not in repr(ACCESS)
    assert SECRET.decode() not in repr(ACCESS)


class Answers:
    """An application that notes in which turn of the loop it answers, and what that takes."""

    def __init__(self, work_seconds: float = 0.0) -> None:
        self.turn = 0
        self.answered_in: list[int] = []
        self.work_seconds = work_seconds

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.answered_in.append(self.turn)
        end = time.monotonic() + self.work_seconds
        while time.monotonic() < end:
            pass

    async def count_turns(self) -> None:
        while True:
            self.turn += 1
            await asyncio.sleep(0)


def scope_of(path: str, *headers: tuple[bytes, bytes], is_lost: bool = False) -> dict[str, Any]:
    connection = Connection(is_lost=is_lost)
    return {
        "type": "http",
        "method": "GET",
        "path": path,
        "headers": list(headers),
        "state": {CONNECTION_STATE: connection},
    }


async def crowd(
    answers: Answers,
    *headers: tuple[bytes, bytes],
    lost_count: int = 0,
    gate: Gate | None = None,
) -> float:
    """Ask forty times at once; gives how long it took."""
    gate = gate or Gate(answers, ACCESS)
    counting = asyncio.create_task(answers.count_turns())
    scopes = [scope_of("/status", *headers, is_lost=it < lost_count) for it in range(40)]
    began = time.monotonic()
    await asyncio.gather(*(gate(scope, None, None) for scope in scopes))  # type: ignore[arg-type]
    counting.cancel()
    return time.monotonic() - began


def test_strangers_are_let_in_one_after_the_other() -> None:
    """
    Forty at once were all answered in one turn of the loop: clients waited for 1.3 s. Together they
    have a fifth of the time.
    """
    answers = Answers(work_seconds=0.001)
    seconds = asyncio.run(crowd(answers))
    assert len(answers.answered_in) == len(set(answers.answered_in)) == 40
    assert seconds > 39 * 0.005


def test_who_brings_a_proof_does_not_stand_in_that_line() -> None:
    """
    Else strangers would keep operators out.
    """
    answers = Answers()
    asyncio.run(crowd(answers, proof(LOCAL)))
    assert len(set(answers.answered_in)) == 1


def test_who_has_left_the_line_is_not_answered() -> None:
    """
    Whoever connects anew again and again would leave work behind that never ends.
    """
    answers = Answers()
    asyncio.run(crowd(answers, lost_count=39))
    assert len(answers.answered_in) == 1


def test_who_asks_whether_the_node_lives_waits_for_none_of_the_others() -> None:
    """
    But for one who is just being answered: else strangers could have a node taken for dead.
    """

    async def scenario() -> int:
        answers = Answers(work_seconds=0.002)
        gate = Gate(answers, ACCESS)
        asking = asyncio.create_task(crowd(answers, gate=gate))
        while len(answers.answered_in) < 2:
            await asyncio.sleep(0)
        before = len(answers.answered_in)
        await gate(scope_of("/health"), None, None)  # type: ignore[arg-type]
        count = len(answers.answered_in) - before
        asking.cancel()
        return count

    assert asyncio.run(scenario()) <= 3


class Town:
    """Users by name; each one's password is his name backwards."""

    def __init__(self, **roles: str) -> None:
        self.users = Users.SOME
        self.trouble = ""
        self.looked = 0
        self.roles = {name: frozenset(said.split()) for name, said in roles.items()}
        self.asked: list[tuple[str, str]] = []
        self.scram: Any = None
        self.behind = ""
        self.news: Callable[[], None] = lambda: None

    async def catch_up(self) -> str:
        self.news()
        return self.behind

    async def look(self) -> str:
        self.looked += 1
        return self.trouble

    def principal(self, name: str) -> Principal | None:
        return Principal(name, self.roles[name]) if name in self.roles else None

    def mark_of(self, found: Principal) -> str:
        return f"mark of {found.name}"

    def has_mark(self, name: str, mark: str) -> bool:
        return mark == f"mark of {name}" and name in self.roles

    async def authenticate(self, shown: Any) -> Principal:
        self.asked.append((shown.name, shown.address))
        if shown.certified:
            return Principal(shown.certified, self.roles[shown.certified])
        if shown.secret == "later":
            raise AuthenticationError(BUSY)
        principal = self.principal(shown.name)
        if principal is None or shown.secret != shown.name[::-1]:
            raise AuthenticationError(WRONG)
        return principal


def basic(said: str) -> tuple[bytes, bytes]:
    return b"authorization", b"Basic " + base64.b64encode(said.encode())


class Manned(Caller):
    """Asks a node that has users; notes for whom the application works, and who was refused."""

    def __init__(self, **changes: Any) -> None:
        self.refused: list[tuple[Person, str, str, str]] = []
        self.town = Town(vic="viewer", olga="operator x", ada="admin", joe="sales")
        people = {"people": self.town, "tell": lambda *said: self.refused.append(said)}
        super().__init__(dataclasses.replace(ACCESS, **{**people, **changes}))
        self.gate = Gate(self._work, self.gate._access)
        self.acted: list[tuple[Person, bool]] = []

    async def _work(self, scope: Any, receive: Any, send: Any) -> None:
        self.acted.append((acting(), bool(scope.get(PROVEN))))
        await PlainTextResponse("inside")(scope, receive, send)


def test_at_a_witness_nobody_comes_in_by_name() -> None:
    """
    Whatever he shows is not looked at, and by a status after which no command sends a password; the
    machine's own user and the secret are answered, and whoever asks whether it lives.
    """
    caller = Manned()
    caller.town.users = Users.ELSEWHERE
    for path in ("/health", "/ready"):
        assert caller.ask(path) == caller.ask(path, basic("ada:ada")) == 200
    for header in ([], [basic("ada:ada")], [basic("ada:wrong")], [proof("hf_x.y")]):
        for path in ("/status", "/metrics", "/users"):
            assert caller.ask(path, *header) == 403
            assert b"this node is a witness, which knows no users" in caller.body
            # Who reads the log, and has a witness in his list, asks the next one then.
            assert b'"code":"forbidden"' in caller.body
    assert b'"token_file":"/data/admin-token"' in caller.body
    told = {(who.who, reason) for who, *_, reason in caller.refused}
    assert told == {("ada", AT_A_WITNESS), ("", AT_A_WITNESS)}
    for good in (LOCAL, admin_token(SECRET)):
        assert caller.ask("/users", proof(good)) == 200


CONTENTS = ["/log", "/segments", "/log/position", "/holds"]


@pytest.mark.parametrize("path", CONTENTS)
def test_who_is_shown_messages_is_judged_by_all_that_is_heard(path: str) -> None:
    """
    A right that was taken away went on being used at a node that had heard of it and not applied
    it: a user who was removed there, whose password was replaced, or who has another role.
    """
    caller = Manned()
    news: list[tuple[Callable[[], None], int]] = [
        (lambda: None, 200),
        (lambda: caller.town.roles.update(ada=frozenset({"viewer"})), 403),
        (lambda: caller.town.roles.pop("ada"), 401),
    ]
    for caller.town.news, status in news:
        caller.town.roles["ada"] = frozenset({"admin"})
        assert caller.ask(path, basic("ada:ada")) == status
    assert len(caller.acted) == 1
    assert len(caller.refused) == 2


def test_a_password_that_was_replaced_meanwhile_shows_nothing_more() -> None:
    """By what he was found: another password is another mark."""
    caller = Manned()
    caller.town.has_mark = lambda _name, _mark: False  # type: ignore[method-assign]
    assert caller.ask("/log", basic("ada:ada")) == 401
    assert caller.acted == []


def test_a_node_that_is_behind_shows_users_no_messages() -> None:
    """
    What operators need at night goes on: whether it lives, its status, its queues, who there is and
    all that the leader judges; and all of it to the machine's own user and whoever has the secret.
    """
    caller = Manned()
    caller.town.behind = "it has heard of no leader for 11 s"
    for path in CONTENTS:
        assert caller.ask(path, basic("ada:ada")) == 503
        assert b"it has heard of no leader for 11 s, and who may what now is" in caller.body
        assert b"--secret-file" in caller.body
        assert b'"code":"busy"' in caller.body, "whoever reads the log asks the next member"
        assert caller.ask(path, proof(LOCAL)) == caller.ask(path, proof(admin_token(SECRET))) == 200
    for path in ("/health", "/ready", "/status", "/metrics", "/queues", "/connections"):
        assert caller.ask(path, basic("vic:civ")) == 200
    for path in ("/users", "/grants", "/access"):
        assert caller.ask(path, basic("ada:ada")) == 200
    for path in ("/messages", "/users", "/cluster/promote", "/reload"):
        assert caller.ask(path, basic("ada:ada"), method="POST") == 200
    assert {reason.partition(",")[0] for *_, reason in caller.refused} == {caller.town.behind}


@pytest.mark.parametrize(
    ("name", "allowed"),
    [("joe", ""), ("vic", "v"), ("olga", "vo"), ("ada", "voa")],
)
def test_each_role_may_what_stands_in_the_table_and_nothing_beyond(name: str, allowed: str) -> None:
    """
    A viewer looks, an operator changes queues and reads the log, an admin changes members; any
    other role is worth nothing here. Who may not is told which role it takes, and that is noted.
    """
    caller = Manned()
    kinds = {"v": ("GET", "/queues"), "o": ("POST", "/queues/a/b/purge"), "a": ("POST", "/mirrors")}
    for kind, (method, path) in kinds.items():
        status = caller.ask(path, basic(f"{name}:{name[::-1]}"), method=method)
        assert status == (200 if kind in allowed else 403)
    assert [who.who for who, _ in caller.acted] == [name] * len(allowed)
    assert [proven for _, proven in caller.acted] == [name != "vic"] * len(allowed)
    assert len(caller.refused) == 3 - len(allowed)
    for who, method, path, reason in caller.refused:
        assert (who.who, who.address) == (name, "127.0.0.1")
        assert f"user '{name}' may not {method} {path}: that takes role" in reason
    assert caller.ask("/health", basic(f"{name}:wrong")) == 401


def test_once_there_are_users_nothing_but_life_signs_is_open() -> None:
    """
    Who shows nothing hears what to do, in a form that browsers and curl know; on the machine also
    where the proof lies. Machine and secret go on to open everything.
    """
    caller = Manned()
    assert (caller.ask("/health"), caller.ask("/ready")) == (200, 200)
    for path in ("/status", "/queues", "/metrics", "/log"):
        assert caller.ask(path) == 401
        assert b"--user NAME or --token-file FILE" in caller.body
        assert b'"token_file":"/data/admin-token"' in caller.body
        assert caller.ask(path, client=("10.0.0.2", 1)) == 401
        assert b"token_file" not in caller.body
        assert caller.ask(path, proof(LOCAL)) == caller.ask(path, proof(admin_token(SECRET))) == 200
        assert caller.ask(path, proof("wrong")) == 401
    assert not caller.refused
    assert {who.who for who, _ in caller.acted} == {
        "",
        "the node's machine",
        "the cluster's secret",
    }
    caller.town.users = Users.NONE
    assert (caller.ask("/status"), caller.ask("/log")) == (200, 403)
    assert not caller.town.asked


def test_who_knows_the_secret_proves_it_by_a_proof_that_is_good_once() -> None:
    """
    A command passes on nothing for anybody: it is the secret's. With a wrong one it is told, on the
    node's machine, where the proof of its own user is.
    """
    caller = Caller()
    asked = Forwarded("POST", "/cluster/transfer", "", "", mark_of(LIFE), "10.0.0.1#8161||")

    def ask(secret: bytes, asked: Forwarded = asked) -> int:
        header = sign(secret, asked, b"{}")
        status = caller.ask(
            "/cluster/transfer", (b"authorization", header.encode()), method="POST", content=b"{}"
        )
        shown = caller.headers.get(b"holdfast-answer", b"").decode()
        is_right = Expected(secret, proof_in(header)).is_proven(status, shown)
        assert is_right == (status == 200), "the node shows who it is to who has shown it"
        return status

    assert ask(SECRET) == ask(SECRET) == 200
    assert ask(SECRET, asked._replace(place="10.0.0.1#8162|b:8162|")) == 403
    assert b"b:8162, which this node, reached at 10.0.0.1 port 8161, does not" in caller.body
    named = asked._replace(place="10.0.0.9#80|Proxy:8161|")
    assert ask(SECRET, named) == 200, "by its operator's word"
    assert ask(SECRET, asked._replace(place="10.0.0.9#80|proxy:80|")) == 403
    assert ask(b"another secret!!") == 403
    assert b"this request is not taken: what proves that it comes from somebody" in caller.body
    assert b'"token_file":"/data/admin-token"' in caller.body


def test_the_nodes_own_user_signs_with_the_token_of_its_file() -> None:
    """
    Good once, for one request, here; who shows the token itself comes in, and is proven nothing.
    """
    caller = Caller()
    place = "10.0.0.1#8161||"

    def ask(token: str, *more: tuple[bytes, bytes], at: str = place, path: str = "/log") -> int:
        header = sign_as_machine(token, ("GET", path, None), at)
        signed = (b"authorization", header.encode())
        found = [caller.ask("/log", signed, *more, content=b"") for _ in range(2)]
        assert found[1] == 403, "it came before"
        shown = caller.ask("/log", signed, *more, content=b"")
        assert shown == 403
        return found[0]

    assert ask(LOCAL) == 200
    header = sign_as_machine(LOCAL, ("GET", "/health", None), place)
    assert caller.ask("/health", (b"authorization", header.encode()), content=b"") == 200
    answer = caller.headers[b"holdfast-answer"].decode()
    assert Expected(LOCAL.encode(), proof_in(header)).is_proven(200, answer)
    assert caller.connection.held_by == MACHINE
    assert LOCAL not in header
    assert ask("22" * 32) == 403, "of the process before"
    assert b'"token_file":"/data/admin-token"' in caller.body
    assert ask(LOCAL, at="10.0.0.2#8161||") == 403
    assert ask(LOCAL, path="/log?from=1") == 403
    assert ask(LOCAL, (b"holdfast-forwarded-by", b"b")) == 403
    assert ask(LOCAL, (b"holdfast-on-behalf", b'["ann", "::1"]')) == 403
    assert caller.ask("/log", proof(LOCAL)) == 200
    assert b"holdfast-answer" not in caller.headers


def test_as_long_as_it_is_not_known_who_the_users_are_it_is_as_if_there_were_any() -> None:
    """
    A node that was started without a quorum cannot know that there are none: strangers hear nothing
    of it. Whom its own log has may come to its rescue; machine and secret open everything.
    """
    caller = Manned()
    caller.town.users = Users.NOT_KNOWN
    assert (caller.ask("/health"), caller.ask("/ready")) == (200, 200)
    for path in ("/status", "/queues", "/metrics", "/log", "/users"):
        assert caller.ask(path) == 401
        assert b"does not know yet who its users are" in caller.body
        assert b"--secret-file" in caller.body
        assert b'"token_file":"/data/admin-token"' in caller.body
        assert caller.ask(path, proof(LOCAL)) == caller.ask(path, proof(admin_token(SECRET))) == 200
    assert not caller.town.asked
    caller.town.looked = 0
    assert caller.ask("/cluster/promote", basic("ada:ada"), method="POST") == 200
    assert caller.town.looked == 1
    assert caller.ask("/cluster/promote", basic("vic:civ"), method="POST") == 403
    assert caller.ask("/status", basic("ada:wrong")) == 401
    assert WRONG.encode() in caller.body
    assert b"its own log is asked, up to its end" in caller.body
    caller.town.trouble = "entry 7 is damaged"
    assert caller.ask("/status", basic("nobody:x")) == 401
    assert b"entry 7 is damaged" in caller.body


def test_a_wrong_login_is_refused_noted_and_makes_nobody_stay() -> None:
    """
    With who it said and from where, and never the password; one that may be right later has a
    status of its own.
    """
    caller = Manned()
    caller.scheme = "https"
    assert caller.ask("/queues", basic("vic:guess-1"), client=("10.0.0.9", 1)) == 401
    assert caller.body.endswith(b'"message":"login or passcode is wrong"}}')
    assert caller.ask("/queues", basic("vic:later")) == 429
    assert b'"code":"busy"' in caller.body
    assert [(who.who, who.address) for who, *_ in caller.refused] == [
        ("vic", "10.0.0.9"),
        ("vic", "127.0.0.1"),
    ]
    assert "guess" not in repr(caller.refused)
    assert caller.connection.held_by == ""
    assert caller.ask("/queues", basic("vic:civ")) == 200
    assert caller.connection.held_by == "vic"
    caller.connection.has_place = False
    assert caller.ask("/queues", basic("vic:civ")) == 429
    assert b"no place for one more connection of yours" in caller.body


def test_nothing_is_done_for_a_page_though_the_browser_knows_a_password() -> None:
    """
    A browser sends the password of a page that was looked at with every request to this host,
    whichever page makes it (S10).
    """
    caller = Manned()
    for header in ((b"origin", b"http://localhost:8161"), (b"sec-fetch-site", b"same-site")):
        for path in ("/queues", "/log", "/users"):
            assert caller.ask(path, header, basic("ada:ada")) == 403
            assert caller.ask(path, header, proof(LOCAL)) == 403
    assert not caller.acted
    assert not caller.town.asked
    assert caller.ask("/queues", (b"host", b"evil.example"), basic("ada:ada")) == 421


def test_what_a_member_passes_on_is_done_for_whom_it_names_with_his_roles_here() -> None:
    """
    The member may not know yet that a role was taken away. Nobody but who knows the secret is
    believed, and no user can be the machine.
    """
    caller = Manned()

    def passed_on(
        who: str,
        *,
        by: tuple[bytes, bytes] | None = None,
        vouched: Duty | None = None,
        mark: str | None = None,
    ) -> int:
        duty, is_vouched = vouched or Duty.NONE, vouched is not None
        known = f"mark of {who}" if who in caller.town.roles else ""
        mark = known if mark is None else mark
        said = on_behalf(Person(who, "192.0.2.1", duty, is_vouched, mark))
        own = Forwarded("DELETE", "/queues/a", "b", said, LIFE)
        by = by or (b"authorization", sign(SECRET, own, b"{}").encode())
        named = (b"holdfast-on-behalf", said.encode()), (b"holdfast-forwarded-by", b"b")
        return caller.ask("/queues/a", by, *named, method="DELETE", content=b"{}")

    assert passed_on("olga") == 200
    assert caller.acted[-1][0] == Person("olga", "192.0.2.1", Duty.OPERATE)
    assert (passed_on("vic"), passed_on("gone")) == (403, 403)
    for mark in ("", "mark of a password that leaked"):
        assert passed_on("olga", mark=mark) == 401
        assert b"was replaced or ended" in caller.body
        assert caller.refused[-1][0].who == "olga"
    assert len(caller.acted) == 1
    assert passed_on("eve", vouched=Duty.OPERATE) == 200
    assert passed_on("olga", vouched=Duty.GOVERN) == 403, "the log has another one of that name"
    assert passed_on("eve", vouched=Duty.VIEW) == passed_on("vic", vouched=Duty.GOVERN) == 403
    assert passed_on("the node's machine", vouched=Duty.GOVERN) == 403
    assert passed_on("ada", vouched=Duty.GOVERN) == 403
    assert passed_on("the node's machine") == 200
    assert caller.acted[-1][0] == Person("the node's machine", "192.0.2.1", Duty.GOVERN)
    for of, token in (("the node's machine", LOCAL), ("the cluster's secret", admin_token(SECRET))):
        assert passed_on("vic", by=proof(token)) == 200
        assert caller.acted[-1][0].who == of, "a token passes nothing on"
    assert passed_on("ada", by=basic("vic:civ")) == 403


def test_what_is_passed_on_is_taken_as_it_was_and_once() -> None:
    """
    Whoever sees one on its way can send it neither again nor changed, nor keep it for later (S11).
    """
    caller = Caller()
    by = (b"holdfast-forwarded-by", b"b")

    def ask(header: str, path: str = "/cluster/transfer", content: bytes = b"{}") -> int:
        named = (b"authorization", header.encode())
        return caller.ask(path, named, by, method="POST", content=content)

    transfer = Forwarded("POST", "/cluster/transfer", "b", "", LIFE)

    def signed(**given: int) -> str:
        return sign(SECRET, transfer, b"{}", **given)

    seen = signed()
    assert ask(seen) == 200
    assert ask(seen) == 403
    assert b"it came before" in caller.body
    started_anew = Caller(dataclasses.replace(ACCESS, life="0b" * 16))
    named = (b"authorization", signed().encode())
    assert started_anew.ask("/cluster/transfer", named, by, method="POST", content=b"{}") == 403
    assert b"meant for another node" in started_anew.body
    assert ask(signed(), path="/cluster/remove") == 403
    assert b"does not fit" in caller.body
    assert ask(signed(), content=b'{"to": "c"}') == 403
    assert b"another body" in caller.body
    assert ask(signed(now=1_000_000)) == 403
    assert b"look at the clocks of both nodes" in caller.body
    assert ask(sign(b"another secret!!", transfer, b"{}")) == 403
    assert b"token_file" not in caller.body, "no node may act for the machine's own user instead"
    assert ask("Holdfast-Forward what") == 403


def test_a_certificate_of_a_users_name_is_a_login() -> None:
    """
    By TLS and without any header; of a name that is no user's it is as good as none, and whoever
    shows something else is known by that.
    """
    caller = Manned()
    caller.connection.certificate = {"subject": ((("commonName", "vic"),),)}
    assert caller.ask("/queues") == 200
    assert caller.acted[-1][0] == Person("vic", "127.0.0.1", Duty.VIEW, mark="mark of vic")
    assert caller.ask("/queues/a", method="DELETE") == 403
    assert caller.ask("/queues", basic("ada:wrong")) == 401
    assert caller.ask("/log", proof(LOCAL)) == 200
    caller.connection.certificate = {"subject": ((("commonName", "nobody"),),)}
    assert caller.ask("/queues") == 401
    assert b"token_file" in caller.body


def test_passwords_and_tokens_are_not_taken_in_clear_from_other_machines() -> None:
    """
    As at the clients' ports: not even looked at, as that would teach people to send them. A proof
    is as before, and so is whoever shows nothing.
    """
    elsewhere = ("192.0.2.7", 5000)
    caller = Manned()
    token = (b"authorization", b"Bearer hf_dmlj.x")
    for shown in (basic("vic:civ"), token):
        assert caller.ask("/queues", shown, client=elsewhere) == 403
        assert b"not taken in clear" in caller.body
    assert caller.town.asked == []
    assert [reason for _, _, _, reason in caller.refused] == [IN_CLEAR] * 2
    assert caller.ask("/queues", basic("vic:civ"), client=("10.0.0.1", 5000)) == 200, "itself"
    for own in ("127.0.0.2", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1"):
        assert caller.ask("/queues", basic("vic:civ"), client=(own, 5000)) == 200, own
    assert caller.ask("/queues", proof(admin_token(SECRET)), client=elsewhere) == 200
    assert caller.ask("/health", client=elsewhere) == 200
    caller.scheme = "https"
    assert caller.ask("/queues", basic("vic:civ"), client=elsewhere) == 200
    plain = Manned(takes_clear=True)
    assert plain.ask("/queues", basic("vic:civ"), client=elsewhere) == 200
