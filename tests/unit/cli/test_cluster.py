"""
`holdfast status` and `holdfast cluster`.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from holdfast.admin.certificate_status import CertificateStatus
from holdfast.admin.counters import TopicCounters
from holdfast.admin.status import (
    AwaitedStatus,
    DamageStatus,
    HoldStatus,
    NodeStatus,
    StoreStatus,
    as_json,
)
from holdfast.cli.admin_port import read_status, to_ask

A, B, C = "127.0.0.1:8161", "127.0.0.1:8162", "127.0.0.1:8163"


def now_of(cluster, address: str = A) -> NodeStatus:
    return read_status(to_ask(address))


def test_status_shows_who_and_how_far(cluster, run) -> None:
    """
    One line per fact, for a person in a hurry.
    """
    assert run("status") == 0
    assert "role           leader, serving clients\n" in run.out
    assert "commit index   1,000\n" in run.out
    assert "damage         none\n" in run.out


def test_status_shows_what_is_stored_of_topics(cluster, run) -> None:
    """
    And who does not come for it; where nothing is stored of any topic nothing is said.
    """
    assert run("status") == 0
    assert "topics" not in run.out
    topics = TopicCounters(stored=2, messages=1234, bytes=2048, durable_subscriptions=12, offline=3)
    cluster.set_status(A, replace(now_of(cluster), topics=topics))
    assert run("status") == 0
    assert "stored topics          2, with 1,234 messages, 2.0 KiB\n" in run.out
    assert "durable subscriptions  12, 3 without a consumer\n" in run.out
    cluster.set_status(A, replace(now_of(cluster), topics=replace(topics, offline=None)))
    assert run("status") == 0
    assert "durable subscriptions  12\n" in run.out


def test_status_tells_what_runs_out(cluster, run) -> None:
    """
    The first of all in a field; what does so soon, with what comes of it, beside the answer.
    """
    made = [
        CertificateStatus(
            tls="peers",
            kind=kind,
            named="a",
            ends="2026-12-01T00:00:00Z",
            left_seconds=left,
            state=state,
        )
        for kind, left, state in (("certificate", -90.0, "over"), ("ca", 9e7, "good"))
    ]
    cluster.set_status(A, replace(now_of(cluster), certificates=tuple(made)))
    assert run("status") == 0
    ran_out = "tls.peers.certificate ran out 1 min 30 s ago, 2026-12-01T00:00:00Z\n"
    assert f"certificates   {ran_out}" in run.out
    assert "tls.peers.certificate (a) ran out at 2026-12-01T00:00:00Z: a link" in run.err
    assert "tls.peers.ca" not in run.err
    cluster.set_status(A, replace(now_of(cluster), certificates=tuple(made[1:])))
    assert run("status") == 0
    assert "certificates   tls.peers.ca runs out in 1041 d 16 h" in run.out
    assert run.err == ""


def test_status_as_json_is_what_the_node_said(cluster, run) -> None:
    """
    Fields of a newer node are handed through.
    """
    newer = as_json(now_of(cluster)) | {"invented_later": 1}
    cluster.say("/status", newer)
    assert run("status", "--json", "--admin", A) == 0
    assert json.loads(run.out) == json.loads(json.dumps(newer))


def test_damage_is_shown_with_its_place(cluster, run) -> None:
    """
    Repaired places are history; the others need somebody.
    """
    bad = DamageStatus(segment="s1", byte=8192, index=5, reason="checksum mismatch")
    store = StoreStatus(damage=(bad, replace(bad, segment="s2", repaired=True)), free_bytes=2048)
    cluster.set_status(A, replace(now_of(cluster), store=store, serving=False))
    assert run("status") == 1
    assert run.err == (
        "damage: checksum mismatch in s1 at byte 8,192, entry 5\n"
        "a: leader of term 7, and not serving clients yet\n"
    )
    assert "space          ok, 2.0 KiB free" in run.out
    assert "not serving clients" in run.out


def test_what_does_not_last_is_shown(cluster, run) -> None:
    """
    What is wrong with a place is with the store; a node is well on it all the same.
    """
    cluster.set_status(A, replace(now_of(cluster), store=StoreStatus(warnings=("/d: in memory",))))
    assert run("status") == 0
    assert "store warning  /d: in memory\n" in run.out


def test_status_shows_the_readers_of_the_log(cluster, run) -> None:
    """
    Asked for apart, with a proof; where there is none the rest is shown all the same.
    """
    near = HoldStatus(name="learner:far", held_bytes=9 << 20, bytes_max=10 << 20)
    lost = replace(near, name="notebook", lost_through=7, is_near_bound=True)
    old = replace(near, name="old", lost_through=8, lost_because="space", is_near_expiry=True)
    old = replace(old, silent_seconds=6 * 86_400.0, expiry_seconds=7 * 86_400)
    cluster.say("/holds", {"holds": [as_json(each) for each in (near, lost, old)]})
    assert run("status") == 0
    assert (
        "kept for       learner:far 9.0 MiB of 10.0 MiB, notebook 9.0 MiB of 10.0 MiB,"
        " old 9.0 MiB of 10.0 MiB\n" in run.out
    )
    assert run.err == (
        "the log is kept for notebook almost as far as it may be: beyond that its entries are"
        " dropped\nnotebook has lost entries up to 7: they were dropped before it took them\n"
        "old was not heard of for 6 d 0 h: after 7 d 0 h the log is not kept for it any more\n"
        "old has lost entries up to 8: they were dropped before it took them, as the disk was"
        " almost full\n"
    )
    fault = {"code": "authentication", "message": "a proof is needed"}
    cluster.say("/holds", {"error": fault}, status=403)
    assert run("status") == 0
    assert "kept for       told with a proof only\n" in run.out


def test_no_node_is_one_line(cluster, run) -> None:
    """
    The port is named, so that a wrong one is noticed.
    """
    assert run("status", "--admin", "127.0.0.1:1") == 1
    assert run.err == "holdfast: no answer from the admin port 127.0.0.1:1\n"


def test_cluster_status_is_a_table_with_lag(cluster, run) -> None:
    """
    Roles, and how far each member is behind in entries, bytes and seconds.
    """
    assert run("cluster", "status") == 0
    rows = {line.split()[0]: line.split() for line in run.out.splitlines() if line.strip()}
    assert " ".join(rows["b"]) == "b follower voter north h:2 now 1,234 5.0 MiB 0.2 s"
    assert rows["a"][:6] == ["a", "leader", "voter", "-", "h:1", "now"]
    assert " ".join(rows["c"]).startswith("c dead witness - h:3 not since the start")
    assert run.out.endswith("copies 1, sites 1; seen by a\n")


def test_a_dead_member_is_shown_with_when_it_was_last_seen(cluster, run) -> None:
    """
    In both commands, as a table and for programs.
    """
    seen = now_of(cluster)
    a, b, c = seen.members
    gone = replace(c, dead=True, last_seen_seconds=12.0)
    cluster.set_status(A, replace(seen, members=(a, b, gone)))

    run("status")
    assert "members        a, b, c (dead, last seen 12.0 s ago)\n" in run.out
    run("cluster", "status")
    (row,) = (line for line in run.out.splitlines() if line.startswith("c "))
    assert row.split()[1] == "dead"
    assert "12.0 s ago" in row
    for command in (("status",), ("cluster", "status")):
        run(*command, "--json")
        member = json.loads(run.out)["members"][2]
        assert (member["dead"], member["last_seen_seconds"]) == (True, 12.0)


def test_whom_a_node_waits_for_is_shown(cluster, run) -> None:
    """
    Before there is a cluster, with the reason, which is the command's last word too.
    """
    awaits = (AwaitedStatus(name="b", address="h:2", reason="connection refused"),)
    cluster.set_status(A, NodeStatus(name="a", awaits=awaits))

    assert run("status") == 1
    assert "waits for      b at h:2: connection refused\n" in run.out
    assert run.err == (
        "no leader: a belongs to no cluster yet: it waits for b at h:2 (connection refused)\n"
    )


def test_a_level_that_is_on_its_way_is_told(cluster, run) -> None:
    """
    Whoever would take a member back now must see that it is too late.
    """
    cluster.set_status(A, NodeStatus(name="a", format_level=1, format_level_asked=2))
    run("status")
    assert "1; 2 is written and not committed yet" in run.out


def test_a_disk_that_hangs_is_told(cluster, run) -> None:
    """
    By the node itself, and by the leader of each of its followers.
    """
    seen = now_of(cluster)
    a, b, c = seen.members
    store = StoreStatus(disk_wait_seconds=4.0, disk_hangs=True)
    cluster.set_status(A, replace(seen, store=store, members=(a, replace(b, disk_hangs=True), c)))

    assert run("status") == 1
    assert "disk           hangs: it has got nothing done for 4.0 s" in run.out
    assert run.err == "a: its disk has got nothing done for 4 s\n"
    assert run("cluster", "status") == 0
    assert "the disk of b hangs: it stores nothing until that answers\n" == run.err
    cluster.set_status(A, replace(seen, members=(a, b, replace(c, space_low=True))))
    assert run("cluster", "status") == 0
    assert "the disk of c, a witness, is almost full" in run.err


def test_cluster_status_asks_the_leader_behind_the_node(cluster, run) -> None:
    """
    Lag is the leader's knowledge, whichever node is asked.
    """
    cluster.set_status(B, replace(now_of(cluster), name="b", role="follower"))
    assert run("cluster", "status", "--admin", B, "--json") == 0
    body = json.loads(run.out)
    assert (body["seen_by"], body["members"][1]["lag_entries"]) == ("a", 1234)


def test_cluster_status_without_a_leader_says_so(cluster, run) -> None:
    """
    What is shown then is one node's view; the exit code says it to a script, and the sentence why.
    """
    cluster.lose_leader()
    assert run("cluster", "status", "--admin", B) == 1
    assert "no leader, term 7" in run.out
    assert run.err == (
        "no leader: b is connected to enough voters (2 of 3), and they have elected none yet;"
        " where that lasts, their logs say why\n"
    )
    assert run("cluster", "status", "--admin", B, "--json") == 1
    assert json.loads(run.out)["leader"] is None
    assert run("status", "--admin", B) == 1
    assert run("status", "--admin", B, "--json") == 1
    assert run.err.startswith("no leader: b is connected to")


def test_a_leader_that_cannot_be_asked_is_no_trouble(cluster, run) -> None:
    """
    The cluster is served, only its lag is not known here.
    """
    seen = replace(now_of(cluster), name="b", role="follower")
    cluster.set_status(B, seen)
    del cluster.answers[A, "/status"]
    assert run("cluster", "status", "--admin", B) == 0
    assert run.err == ("only the leader knows how far the others are, and it did not answer\n")


def test_a_member_is_added_as_it_is_written(cluster, run) -> None:
    """
    The same form as `serve --member`.
    """
    cluster.say("/cluster/add", {"added": "d"})
    assert run("cluster", "add", "d=10.0.0.4:7000,learner,site=far") == 0
    body = {"name": "d", "address": "10.0.0.4:7000", "kind": "learner", "site": "far"}
    assert cluster.changes == [(A, "POST", "/cluster/add", body)]
    assert run.out == "d was added as learner\n"


def test_a_member_that_cannot_be_read_is_wrong_usage(cluster, run) -> None:
    """
    Nothing is sent.
    """
    assert run("cluster", "add", "d=10.0.0.4") == 2
    assert run.err.startswith("holdfast: member: '10.0.0.4' is not HOST:PORT")
    assert cluster.changes == []


def test_a_refusal_is_told_in_the_nodes_words(cluster, run) -> None:
    """
    The command line adds nothing to what the leader says.
    """
    fault = {"code": "membership", "message": "x is not a member; members are: a"}
    cluster.say("/cluster/remove", {"error": fault}, status=409)
    assert run("cluster", "remove", "x") == 1
    assert run.err == "holdfast: x is not a member; members are: a\n"


@pytest.mark.parametrize(
    ("arguments", "path", "answer", "body", "line"),
    [
        (["remove", "b"], "/cluster/remove", {}, {"name": "b"}, "b was removed"),
        (["transfer"], "/cluster/transfer", {"leader": "b"}, {"to": None}, "b is the leader now"),
        (
            ["transfer", "--to", "c"],
            "/cluster/transfer",
            {"leader": "c"},
            {"to": "c"},
            "c is the leader now",
        ),
        (["promote", "c"], "/cluster/promote", {}, {"name": "c"}, "c is a voter now"),
    ],
)
def test_changes_are_sent_and_told(cluster, run, arguments, path, answer, body, line) -> None:
    """
    One request, one line.
    """
    cluster.say(path, answer)
    assert run("cluster", *arguments) == 0
    assert cluster.changes == [(A, "POST", path, body)]
    assert run.out == f"{line}\n"


def test_a_person_is_asked_before_a_member_goes(cluster, run, monkeypatch) -> None:
    """
    On a terminal: a removed identity never comes back. "No" leaves everything as it is, --yes asks
    nothing.
    """
    asked = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda text, **_: bool(asked.append(text)))
    cluster.say("/cluster/remove", {})
    assert run("cluster", "remove", "b") == 1
    assert (asked, cluster.changes) == (["Remove b from the cluster, for good?"], [])
    assert run("cluster", "remove", "b", "--yes") == 0
    assert (len(asked), len(cluster.changes)) == (1, 1)


def test_force_tells_what_may_be_missing_and_promotes(cluster, run) -> None:
    """
    With --yes the operator has stated that the others are dead; the account is printed anyway.
    """
    cluster.lose_leader()
    cluster.say("/cluster/promote", {}, address=B)
    assert run("cluster", "promote", "b", "--force", "--yes", "--admin", B) == 0
    body = {"name": "b", "force": True, "peers_are_dead": True, "incomplete": False}
    assert cluster.changes == [(B, "POST", "/cluster/promote", body)]
    assert "b holds the log to entry 1,001 of term 7" in run.err
    assert "shut out for good" in run.err
    assert "a, c" in run.err


def test_force_needs_the_word_for_a_log_that_is_not_full(cluster, run) -> None:
    """
    What is missing is told in messages and time; without --incomplete nothing is asked of the node.
    """
    cluster.lose_leader()
    lack = "up to 1,234 messages of the time before 2026-11-22 01:02:03 UTC are missing"
    present = now_of(cluster, B)
    cluster.set_status(B, replace(present, store=replace(present.store, incomplete=lack)))
    cluster.say("/cluster/promote", {}, address=B)
    assert run("cluster", "promote", "b", "--force", "--yes", "--admin", B) == 1
    assert lack in run.err
    assert "say --incomplete" in run.err
    assert cluster.changes == []
    assert run("cluster", "promote", "b", "--force", "--yes", "--incomplete", "--admin", B) == 0
    assert cluster.changes[0][3]["incomplete"] is True


def test_force_without_the_operators_word_does_nothing(cluster, run, monkeypatch) -> None:
    """
    "No" is the answer that nobody regrets.
    """
    asked = []
    monkeypatch.setattr("typer.confirm", lambda text, **_: bool(asked.append(text)))
    cluster.lose_leader()
    assert run("cluster", "promote", "b", "--force", "--admin", B) == 1
    assert asked == ["Are a and c dead, for good?"]
    assert cluster.changes == []


def test_force_finds_the_node_that_is_to_go_on(cluster, run) -> None:
    """
    Asked through another node, it goes to the promoted one itself.
    """
    cluster.set_status(C, replace(now_of(cluster), name="c", role="witness", leader=None))
    cluster.lose_leader()
    cluster.say("/cluster/promote", {}, address=B)
    del cluster.answers[A, "/queues"]
    assert run("cluster", "promote", "b", "--force", "--yes", "--admin", C) == 1
    assert "c answers at 127.0.0.1:8163 as witness of term 7: it is not dead" in run.err
    assert cluster.changes == []


def test_force_for_a_node_nobody_knows_asks_for_its_port(cluster, run) -> None:
    """
    The operator is told what to give instead.
    """
    assert run("cluster", "promote", "x", "--force", "--yes") == 1
    assert "give the admin port of x itself" in run.err
