"""The door: each thing that a client may do, granted and not (S6)."""

from __future__ import annotations

import pytest

from holdfast.model.wildcards import parse_pattern
from holdfast.security.principal import Principal
from holdfast.sessions.client_ids import address_key, address_of, hidden_address
from holdfast.sessions.permissions import named, who_is
from tests.unit.sessions.guarded import ALL, Guarded

REFUSED = "user 'ann' may not {right} {what}: no role of theirs was granted that"
NOTHING = "; nothing at all was granted to sales yet ('holdfast grant')"
"""What is added where that is so; see `verdicts.hint`."""


@pytest.fixture
def guarded(desk) -> Guarded:
    made = Guarded(desk)
    made.add("ann", ["sales"])
    return made


def refusal(client, command: str, body: bytes = b"", **headers: str) -> str:
    """Send what must be refused; the connection lives."""
    frame = client.refusal(command, body, receipt="r", **headers)
    assert frame.headers["code"] == "forbidden"
    assert frame.headers["receipt-id"] == "r"
    assert not client.session.is_closing
    return frame.headers["message"].removesuffix(NOTHING)


def take(client) -> list[str]:
    """Give the bodies of what came, and see that nothing else did."""
    client.desk.turn()
    frames = client.frames()
    assert {frame.command for frame in frames} <= {"MESSAGE", "RECEIPT"}, frames
    return [frame.body.decode() for frame in frames if frame.command == "MESSAGE"]


def make_queue(guarded: Guarded, *names: str) -> None:
    root = guarded.connect("root")
    for name in names:
        root.send(b"made", f"/queue/{name}", receipt="x")
    guarded.desk.turn()
    assert len(root.frames()) == len(names)


@pytest.mark.parametrize("persistent", ["true", "false"])
@pytest.mark.parametrize("destination", ["/queue/a", "/topic/a"])
def test_a_send_needs_to_write(guarded, destination: str, persistent: str) -> None:
    """Each time anew: a grant counts at once, and so does its end."""
    make_queue(guarded, "a")
    ann = guarded.connect("ann")
    kind = destination[1:6]
    send = {"destination": destination, "persistent": persistent}
    guarded.grant("sales", "read,admin", f"{kind}://a")
    assert refusal(ann, "SEND", b"1", **send) == REFUSED.format(right="write", what=destination)
    for _ in range(2):
        guarded.grant("sales", "write", f"{kind}://a")
        for _ in range(3):
            (answer,) = ann.ask("SEND", b"2", receipt="r", **send)
            assert answer.command == "RECEIPT"
        guarded.grant("sales", "-", f"{kind}://a")
        assert refusal(ann, "SEND", b"3", **send) == REFUSED.format(right="write", what=destination)


@pytest.mark.parametrize("headers", [{}, {"browser": "true"}, {"ack": "auto"}])
def test_a_subscribe_needs_to_read(guarded, headers) -> None:
    """Who only looks through a queue reads it, too."""
    make_queue(guarded, "a")
    ann = guarded.connect("ann")
    guarded.grant("sales", "write,admin", "queue://a")
    found = refusal(ann, "SUBSCRIBE", destination="/queue/a", id="s", **headers)
    assert found == REFUSED.format(right="read", what="/queue/a")
    assert ann.session.subscriptions == {}
    guarded.grant("sales", "read", "queue://a")
    ann.subscribe("/queue/a", **headers)
    assert take(ann)[0] == "made"


def test_what_would_make_a_queue_needs_to_administer_it(guarded) -> None:
    """To send there or to consume from it is not enough, as in ActiveMQ."""
    ann = guarded.connect("ann")
    guarded.grant("sales", "read,write", "queue://a")
    expected = (
        "there is no /queue/a, and user 'ann' may not create it:"
        " no role of theirs was granted admin of it"
    )
    assert refusal(ann, "SEND", b"1", destination="/queue/a") == expected
    assert refusal(ann, "SUBSCRIBE", destination="/queue/a", id="s") == expected
    assert refusal(ann, "SUBSCRIBE", destination="/queue/a,/topic/t,/queue/b", id="s")
    assert not guarded.desk.broker.destinations.has_queue("a")
    guarded.grant("sales", "admin", "queue://*")
    ann.send(b"1", "/queue/a")
    guarded.desk.turn()
    assert ann.frames() == []
    guarded.grant("sales", "-", "queue://*")
    ann.send(b"2", "/queue/a")
    assert take(ann) == []


def test_each_part_of_a_composite_is_judged(guarded) -> None:
    """Who may send to one of them may not for that send to another; nothing goes to either."""
    make_queue(guarded, "a", "b")
    ann = guarded.connect("ann")
    guarded.grant("sales", "read,write", "queue://a")
    both = "/queue/a,/queue/b"
    found = refusal(ann, "SEND", b"1", destination=both, persistent="true")
    assert found == REFUSED.format(right="write", what="/queue/b")
    found = refusal(ann, "SUBSCRIBE", destination=both, id="s")
    assert found == REFUSED.format(right="read", what="/queue/b")
    queues = guarded.desk.broker.state.by_name
    assert [queues[name].enqueued_total for name in "ab"] == [1, 1]
    guarded.grant("sales", "read,write", "queue://b")
    ann.send(b"2", both)
    ann.subscribe(both)
    assert sorted(take(ann)) == ["2", "2", "made", "made"]


def test_a_wildcard_is_judged_as_a_whole(guarded) -> None:
    """Also by what nobody has made yet: what comes later is not looked at again."""
    make_queue(guarded, "a.1")
    ann = guarded.connect("ann")
    guarded.grant("sales", "read", "queue://a.*")
    found = refusal(ann, "SUBSCRIBE", destination="/queue/a.>", id="s")
    assert found == REFUSED.format(right="read", what="/queue/a.>")
    ann.subscribe("/queue/a.*")
    make_queue(guarded, "a.2")
    assert sorted(take(ann)) == ["made", "made"]


def test_temporary_destinations_are_their_owners_and_for_answers(guarded) -> None:
    """Nobody grants them; only the owner consumes, and whoever was told may answer."""
    make_queue(guarded, "asked")
    ann, root = guarded.connect("ann"), guarded.connect("root")
    guarded.grant("sales", "write", "queue://asked")
    ann.subscribe("/temp-queue/answers")
    ann.send(b"?", "/queue/asked", **{"reply-to": "/temp-queue/answers"})
    root.subscribe("/queue/asked", id="r")
    guarded.desk.turn()
    asked = [it for it in root.frames() if "reply-to" in it.headers]
    reply_to = asked[0].headers["reply-to"]
    root.send(b"!", reply_to, persistent="false")
    assert take(ann) == ["!"]
    (error,) = root.ask("SUBSCRIBE", destination=reply_to, id="x")
    assert error.headers["code"] == "destination"


@pytest.mark.parametrize("named", [{}, {"client_id": "shop"}, {"holdfast_client": "s"}], ids=str)
def test_nobody_guesses_where_somebody_awaits_answers(guarded, named: dict[str, str]) -> None:
    """
    Client-ids and numbers of sessions are no secrets: who was not told the address cannot answer.
    Who was may, also under the next leader where the client can be known again.
    """
    make_queue(guarded, "asked")
    context = guarded.desk.context
    key = address_key(b"k" * 32, "ab" * 16)
    context.address_key = lambda: key
    ann, root = guarded.connect("ann", **named), guarded.connect("root")
    guarded.grant("sales", "write", "queue://asked")
    ann.subscribe("/temp-queue/answers")
    ann.send(b"?", "/queue/asked", **{"reply-to": "/temp-queue/answers"})
    root.subscribe("/queue/asked", id="r")
    guarded.desk.turn()
    told = next(it.headers["reply-to"] for it in root.frames() if "reply-to" in it.headers)
    own = ann.session
    guesses = {own.id, "shop", "ann%3Ashop", address_of("ann:shop", ""), address_of("", "s")}
    for guess in guesses:
        root.send(b"forged", f"/remote-temp-queue/{guess}.answers", persistent="false")
        root.frames()
    root.send(b"!", told, persistent="false")
    assert take(ann) == ["!"]
    assert not guesses & {own.address}
    other = hidden_address(own.client, own.id, address_key(b"s" * 16, "ab" * 16))
    assert own.address == hidden_address(own.client, own.id, key) != other
    assert f"/remote-temp-queue/{own.address}.answers" == told
    with pytest.raises(AssertionError, match="hides nothing"):
        address_key(b"", "ab" * 16)


@pytest.mark.parametrize("named", [{"client_id": "desk"}, {"holdfast_client": "s"}], ids=str)
def test_who_has_a_name_again_gets_no_answers_meant_for_the_one_before(
    guarded, named: dict[str, str]
) -> None:
    """
    She connects as he did and listens at the same place, while somebody answers what he had asked.
    Of one who comes back in the same life the address is the same.
    """
    guarded.desk.context.address_key = lambda: b"k" * 32
    guarded.add("ann", ["sales"], life=7)
    first = guarded.connect("ann", **named)
    told = first.session.address
    first.subscribe("/temp-queue/r")
    first.leave()
    again = guarded.connect("ann", **named)
    assert again.session.address == told
    again.leave()
    guarded.remove("ann")
    guarded.add("ann", ["sales"], life=9)
    other = guarded.connect("ann", **named)
    other.subscribe("/temp-queue/r")
    root = guarded.connect("root")
    root.send(b"his balance", f"/remote-temp-queue/{told}.r", persistent="false")
    assert take(other) == []
    root.send(b"hers", f"/remote-temp-queue/{other.session.address}.r", persistent="false")
    assert take(other) == ["hers"]


def test_nobody_is_another_users_client_by_what_that_one_shows(guarded) -> None:
    """Each user's clients are his own, whatever they show: hers stays, and so does her address."""
    context = guarded.desk.context
    context.address_key = lambda: b"k" * 32
    guarded.add("ann", ["sales"])
    guarded.add("eve", ["sales"])
    ann = guarded.connect("ann", holdfast_client="s")
    eve = guarded.connect("eve", holdfast_client="s")
    guarded.desk.turn()
    assert not ann.session.is_closing
    assert ann.session.address != eve.session.address
    again = guarded.connect("ann", holdfast_client="s")
    guarded.desk.turn()
    assert ann.session.is_closing
    assert again.session.address == ann.session.address
    assert not eve.session.is_closing


def test_a_message_says_who_has_sent_it_and_nobody_says_that_himself(guarded) -> None:
    """By the login, in a header and for selectors; a client's own word is not passed on (S18)."""
    make_queue(guarded, "a")
    root, ann = guarded.connect("root"), guarded.connect("ann")
    guarded.grant("sales", ALL, "queue://a")
    for persistent in ("true", "false"):
        ann.send(b"1", "/queue/a", persistent=persistent, JMSXUserID="root")
        root.send(b"2", "/queue/a", persistent=persistent)
    root.subscribe("/queue/a", selector="JMSXUserID = 'ann'")
    guarded.desk.turn()
    found = [(it.body, it.headers["JMSXUserID"]) for it in root.frames()]
    assert found == [(b"1", "ann")] * 2
    guarded.add("a\\b", ["sales"])
    other = guarded.connect("a\\b")
    root.subscribe("/queue/a", id="all", ack="auto")
    take(root)
    other.send(b"3", "/queue/a")
    guarded.desk.turn()
    assert [it.headers["JMSXUserID"] for it in root.frames()] == ["a\\b"]


def test_what_nobody_in_particular_sends_says_nothing_of_that(desk) -> None:
    """Whatever the client says: there are no users."""
    client = desk.connect()
    client.subscribe()
    client.send(b"1", JMSXUserID="root")
    desk.turn()
    assert "JMSXUserID" not in client.frames()[0].headers


def test_a_transaction_is_judged_at_each_send_and_once_more_where_grants_changed(guarded) -> None:
    """What was revoked since is not committed; the transaction is there to be rolled back."""
    make_queue(guarded, "a", "b")
    ann = guarded.connect("ann")
    guarded.grant("sales", "write", "queue://>")
    ann.say("BEGIN", transaction="t")
    for name in "aab":
        ann.send(name.encode(), f"/queue/{name}", transaction="t")
    guarded.grant("sales", "-", "queue://>")
    guarded.grant("sales", "write", "queue://a")
    assert refusal(ann, "COMMIT", transaction="t") == REFUSED.format(right="write", what="/queue/b")
    guarded.grant("sales", "write", "queue://b")
    assert [it.command for it in ann.ask("COMMIT", transaction="t", receipt="r")] == ["RECEIPT"]
    queues = guarded.desk.broker.state.by_name
    assert [queues[name].enqueued_total for name in "ab"] == [3, 2]
    ann.say("BEGIN", transaction="u")
    guarded.grant("sales", "-", "queue://b")
    found = refusal(ann, "SEND", b"", destination="/queue/b", transaction="u", persistent="true")
    assert found == REFUSED.format(right="write", what="/queue/b")
    (error,) = ann.ask("COMMIT", transaction="u", receipt="r")
    assert error.headers["code"] == "transaction"
    ann.say("BEGIN", transaction="v")
    ann.leave()


def test_a_transaction_is_judged_once_more_where_its_clients_roles_changed(guarded) -> None:
    """Whom a directory vouches for has others without any change in the log."""
    make_queue(guarded, "a")
    guarded.grant("sales", "write", "queue://a")
    ann = guarded.connect("ann")
    for name in "tu":
        ann.say("BEGIN", transaction=name)
    ann.send(b"1", "/queue/a", transaction="t")
    for _ in ann.session.judge_again(Principal("ann"), "never"):
        pass
    found = refusal(ann, "COMMIT", transaction="t")
    assert found.startswith(REFUSED.format(right="write", what="/queue/a"))
    assert [it.command for it in ann.ask("COMMIT", transaction="u", receipt="r")] == ["RECEIPT"]
    for _ in ann.session.judge_again(Principal("ann", frozenset({"sales"})), "never"):
        pass
    assert [it.command for it in ann.ask("COMMIT", transaction="t", receipt="r")] == ["RECEIPT"]


def test_a_transaction_is_judged_once_more_by_what_it_schedules(guarded) -> None:
    """As by what it sends at once."""
    make_queue(guarded, "a")
    guarded.grant("sales", "write", "queue://a")
    ann = guarded.connect("ann")
    ann.say("BEGIN", transaction="t")
    ann.send(b"1", "/queue/a", transaction="t", AMQ_SCHEDULED_DELAY="60000")
    guarded.grant("sales", "-", "queue://a")
    found = refusal(ann, "COMMIT", transaction="t")
    assert found == REFUSED.format(right="write", what="/queue/a")


def test_a_consumer_that_is_not_allowed_any_more_ends_and_what_it_had_comes_back(guarded) -> None:
    """At once, told why; its others, and its connection, go on (S5)."""
    make_queue(guarded, "a", "b")
    root, ann = guarded.connect("root"), guarded.connect("ann")
    guarded.grant("sales", "read", "queue://*")
    for each in ("/queue/a", "/queue/b", "/queue/a,/queue/b", "/queue/*"):
        ann.subscribe(each, id=each)
    assert take(ann) == ["made", "made"]
    guarded.grant("sales", "read", "queue://b")
    guarded.grant("sales", "-", "queue://*")
    errors = {it.headers["subscription"]: it for it in ann.frames()}
    assert errors.keys() == {"/queue/a", "/queue/a,/queue/b", "/queue/*"}
    assert {it.headers["code"] for it in errors.values()} == {"forbidden"}
    message = errors["/queue/*"].headers["message"]
    assert message == REFUSED.format(right="read", what="/queue/*")
    assert list(ann.session.subscriptions) == ["/queue/b"]
    root.subscribe("/queue/a", id="r")
    guarded.desk.turn()
    (again,) = root.frames()
    assert (again.body, again.headers["redelivered"]) == (b"made", "true")
    assert not ann.session.is_closing


@pytest.mark.parametrize("leaves", [False, True])
def test_what_is_held_in_a_transaction_comes_back_with_the_right_to_read(guarded, leaves) -> None:
    """
    At once, and it is not committed any more; what else the transaction has is rolled back.

    Also where the consumer had left before.
    """
    make_queue(guarded, "a", "b")
    root, ann = guarded.connect("root"), guarded.connect("ann")
    guarded.grant("sales", "read", "queue://a")
    guarded.grant("sales", "read", "queue://b")
    ann.say("BEGIN", transaction="t")
    for each in ("a", "b"):
        ann.subscribe(f"/queue/{each}", id=each, ack="client-individual")
        guarded.desk.turn()
        (had,) = [it for it in ann.frames() if it.command == "MESSAGE"]
        ann.say("ACK", id=had.headers["ack"], transaction="t")
    if leaves:
        ann.say("UNSUBSCRIBE", id="a")
    guarded.grant("sales", "-", "queue://a")
    assert [it.command for it in ann.frames()] == ([] if leaves else ["ERROR"])
    root.subscribe("/queue/a", id="ra")
    root.subscribe("/queue/b", id="rb")
    assert take(root) == ["made"]
    (error,) = ann.ask("COMMIT", transaction="t", receipt="r")
    assert error.headers["code"] == "transaction"
    assert REFUSED.format(right="read", what="/queue/a") in error.headers["message"]
    guarded.desk.turn()
    assert (ann.session.transactions, ann.session.transaction_bytes) == ({}, 0)
    assert guarded.desk.broker.flow.held_bytes == 0
    ann.say("UNSUBSCRIBE", id="b")
    assert take(root) == ["made"]


def test_whose_a_durable_subscription_is_ends_it_without_the_right_to_read(guarded) -> None:
    """
    It stores what is sent meanwhile, for when he may read again, and nobody else ends it.
    """
    guarded.add("eve", ["sales"])
    guarded.grant("sales", "read", "topic://news")
    named = {"activemq.subscriptionName": "n"}
    root = guarded.connect("root")
    ann = guarded.connect("ann", **{"client-id": "c"})
    ann.subscribe("/topic/news", id="s", **named)
    guarded.grant("sales", "-", "topic://news")
    assert [it.headers["code"] for it in ann.frames()] == ["forbidden"]
    root.send(b"meanwhile", "/topic/news")
    guarded.desk.turn()
    find, key = guarded.desk.broker.durables.find, ("ann:c", "n")
    assert find(key) is not None
    eve = guarded.connect("eve", **{"client-id": "c"})
    eve.ask("UNSUBSCRIBE", id="s", receipt="r", **named)
    assert find(key) is not None
    answers = ann.ask("UNSUBSCRIBE", id="s", receipt="r", **named)
    assert [it.command for it in answers] == ["RECEIPT"]
    assert find(key) is None


def test_a_late_word_on_what_was_delivered_while_it_was_allowed_is_taken(guarded) -> None:
    """It is this client's, as is known, and done: nobody need do it again."""
    make_queue(guarded, "a")
    ann = guarded.connect("ann", **{"client-id": "c"})
    guarded.grant("sales", "read", "queue://a")
    ann.subscribe("/queue/a")
    guarded.desk.turn()
    (message,) = ann.frames()
    identity = message.headers["message-id"]
    guarded.grant("sales", "-", "queue://a")
    assert [it.headers["code"] for it in ann.frames()] == ["forbidden"]
    eve = guarded.connect("ann", **{"client-id": "d"})
    found = refusal(eve, "ACK", id=identity)
    assert found == REFUSED.format(right="read", what="/queue/a")
    assert [it.command for it in ann.ask("ACK", id=identity, receipt="r")] == ["RECEIPT"]
    assert guarded.desk.broker.state.live_count() == 0
    assert [it.command for it in eve.ask("ACK", id="ID:c0ffee-999-1", receipt="r")] == ["ERROR"]


def test_who_may_not_read_takes_nothing_by_a_name_that_can_be_guessed(guarded) -> None:
    """After a failover it is not known who had a message: only who may read there is believed."""
    make_queue(guarded, "a")
    root = guarded.connect("root")
    root.subscribe("/queue/a")
    guarded.desk.turn()
    identity = root.frames()[0].headers["message-id"]
    guarded.desk.fail_over()
    guarded.clients.clear()
    ann = guarded.connect("ann")
    for transaction in ({}, {"transaction": "t"}):
        ann.say("BEGIN", transaction="t")
        assert refusal(ann, "ACK", id=identity, **transaction).startswith("user 'ann' may not read")
        ann.say("ABORT", transaction="t")
    assert guarded.desk.broker.state.live_count() == 1
    guarded.grant("sales", "read", "queue://a")
    assert [it.command for it in ann.ask("ACK", id=identity, receipt="r")] == ["RECEIPT"]
    assert guarded.desk.broker.state.live_count() == 0


def test_questions_are_judged_by_the_names_they_are_sent_to(guarded) -> None:
    """And what looks at everybody's scheduled messages needs to administer that."""
    ann = guarded.connect("ann")
    asked = {"destination": "/queue/ActiveMQ.Statistics.Broker", "reply-to": "/temp-queue/x"}
    ann.subscribe("/temp-queue/x")
    found = refusal(ann, "SEND", **asked)
    assert found == REFUSED.format(right="write", what="/queue/ActiveMQ.Statistics.Broker")
    guarded.grant("sales", "write", "queue://ActiveMQ.Statistics.Broker")
    ann.say("SEND", **asked)
    assert len(take(ann)) == 1
    found = refusal(ann, "SEND", **{**asked, "reply-to": "/queue/a"})
    assert found == REFUSED.format(right="write", what="/queue/a")
    management = "/topic/ActiveMQ.Scheduler.Management"
    guarded.grant("sales", "read,write", "topic://>")
    browse = {"destination": management, "reply-to": "/temp-queue/x"}
    found = refusal(ann, "SEND", AMQ_SCHEDULER_ACTION="BROWSE", **browse)
    assert found == REFUSED.format(right="admin", what=management)


def test_what_is_scheduled_is_judged_as_it_is_sent(guarded) -> None:
    """When its time comes nobody is there to be asked."""
    make_queue(guarded, "a")
    ann = guarded.connect("ann")
    later = {"AMQ_SCHEDULED_DELAY": "60000", "persistent": "true"}
    found = refusal(ann, "SEND", destination="/queue/a", **later)
    assert found == REFUSED.format(right="write", what="/queue/a")
    guarded.grant("sales", "write", "queue://*")
    found = refusal(ann, "SEND", destination="/queue/b", **later)
    assert found.startswith("there is no /queue/b, and user 'ann' may not create it")
    (answer,) = ann.ask("SEND", destination="/queue/a", receipt="r", **later)
    assert answer.command == "RECEIPT"


def test_where_policies_send_a_message_on_is_the_operators_affair(guarded) -> None:
    """The client need not even know of the queue; nor is one made of the name it wrote."""
    broker = guarded.desk.broker
    root = guarded.connect("root")
    ann = guarded.connect("ann")
    guarded.grant("sales", "write", "topic://VirtualTopic.a")
    root.subscribe("/queue/Consumer.x.VirtualTopic.a")
    guarded.desk.turn()
    ann.send(b"1", "/topic/VirtualTopic.a")
    assert take(ann) == []
    assert take(root) == ["1"]
    assert broker.access_book.has_users


def test_who_shows_nothing_has_what_its_role_was_granted(guarded) -> None:
    """It is told that it has not logged in."""
    make_queue(guarded, "a")
    anybody = guarded.connect()
    found = refusal(anybody, "SEND", destination="/queue/a")
    assert (
        found == "who is not logged in may not write /queue/a: no role of theirs was granted that"
    )
    assert named(who_is(anybody.session)) == "who is not logged in"
    anybody.session.principal = Principal("", frozenset({"sales"}))
    guarded.clients.clear()
    guarded.grant("sales", "write", "queue://a")
    anybody.send(b"1", "/queue/a")
    assert take(anybody) == []
    anybody.session.principal = None
    assert named(who_is(anybody.session)) == "who is not logged in"


def test_without_users_nothing_is_refused_whatever_was_granted(desk) -> None:
    """As it was before there could be any: grants can be prepared."""
    guarded = Guarded(desk)
    guarded.grant("root", "-", "queue://>")
    guarded.remove("root")
    client = guarded.connect()
    client.send(b"1", "/queue/a")
    client.subscribe("/queue/a")
    assert take(client) == ["1"]


@pytest.mark.parametrize(("roles", "stays"), [(["sales"], False), (["sales", "operator"], True)])
def test_a_copy_passes_policies_by_if_an_operator_makes_it(
    guarded, roles: list[str], *, stays: bool
) -> None:
    """Others have no message past what operators laid down, whatever they call it; its headers do
    nothing all the same."""
    guarded.add("ann", roles)
    guarded.grant("sales", "write,admin", "queue://>")
    root = guarded.connect("root").session
    values = {"forwardTo": "checked"}
    guarded.desk.broker.policy_changes.say(parse_pattern("queue://in"), values, root, b"r")
    guarded.desk.turn()
    guarded.connect("ann", holdfast_carry="true").send(b"1", "/queue/in", expires="5")
    guarded.desk.turn()
    queues = guarded.desk.broker.state.by_name
    found = {name for name, it in queues.items() if it.index.live_count}
    assert found == {"in" if stays else "checked"}


def test_an_operators_copies_are_judged_once_more_as_they_are_committed(guarded) -> None:
    """
    Who is no operator any more commits none that pass policies by, and what he sends anew with the
    same headers goes where they lead. One that is rolled back is not in the way of the next.
    """
    guarded.add("ann", ["sales", "operator"])
    guarded.grant("sales", "write,admin", "queue://>")
    root = guarded.connect("root").session
    for name in ("in", "other"):
        values = {"forwardTo": "checked"}
        guarded.desk.broker.policy_changes.say(parse_pattern(f"queue://{name}"), values, root, b"r")
    guarded.desk.turn()
    ann, plain = guarded.connect("ann", holdfast_carry="true"), guarded.connect("ann")
    for client, name in ((ann, "t"), (ann, "u"), (plain, "t")):
        client.say("BEGIN", transaction=name)
        client.send(b"1", "/queue/in", transaction=name)
    assert [it.command for it in ann.ask("COMMIT", transaction="u", receipt="r")] == ["RECEIPT"]
    ann.send(b"2", "/queue/other")
    guarded.add("ann", ["sales"])
    guarded.desk.turn()
    assert "'ann' may not say that these are copies" in refusal(ann, "COMMIT", transaction="t")
    assert [it.command for it in plain.ask("COMMIT", transaction="t", receipt="r")] == ["RECEIPT"]
    ann.send(b"3", "/queue/other")
    guarded.desk.turn()
    queues = guarded.desk.broker.state.by_name
    found = {name: it.index.live_count for name, it in queues.items()}
    assert found == {"in": 1, "other": 1, "checked": 2}
    guarded.add("ann", ["sales", "operator"])
    guarded.desk.turn()
    assert [it.command for it in ann.ask("COMMIT", transaction="t", receipt="r")] == ["RECEIPT"]
