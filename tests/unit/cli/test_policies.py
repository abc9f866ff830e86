"""`holdfast queues set`, `unset` and `show`."""

from __future__ import annotations

import json

import pytest

SAID = {"pattern": "queue://a.>", "values": {"queuePrefetch": 7}, "notices": []}


def test_values_are_sent_as_they_are_written(cluster, run) -> None:
    """The leader reads them: it knows what is allowed."""
    cluster.say("/policies", SAID | {"notices": ["useCache: nothing is done"]})
    arguments = ("queuePrefetch=7", "queuePrefix = D=.", "useCache=true")
    assert run("queues", "set", "a.>", *arguments) == 0
    assert run.out == "queue://a.>: queuePrefetch = 7\n"
    assert run.err == "note: useCache: nothing is done\n"
    (change,) = cluster.changes
    said = {"queuePrefetch": "7", "queuePrefix": "D=.", "useCache": "true"}
    assert change[1:] == ("POST", "/policies", {"pattern": "a.>", "set": said})
    assert run("queues", "set", "a.>", "queuePrefetch=7", "--json") == 0
    assert json.loads(run.out)["values"] == {"queuePrefetch": 7}


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (["queuePrefetch"], "'queuePrefetch': not KEY=VALUE"),
        (["=7"], "'=7': not KEY=VALUE"),
        (["a=1", "a=2"], "'a=2': given twice"),
        (["a=1", "a =2"], "'a =2': given twice"),
    ],
)
def test_what_is_no_value_is_told_before_anything_is_asked(
    cluster, run, values: list[str], why: str
) -> None:
    """With what it was."""
    assert run("queues", "set", "a", *values) == 1
    assert why in run.err
    assert cluster.changes == []


def test_some_or_all_is_taken_back(cluster, run) -> None:
    """What is left is told."""
    cluster.say("/policies", SAID | {"values": {}})
    assert run("queues", "unset", "a.>", "queuePrefetch", "queuePrefix") == 0
    assert run("queues", "unset", "a.>") == 0
    assert run.out == "queue://a.>: nothing is set\n"
    bodies = [change[3] for change in cluster.changes]
    keys = ["queuePrefetch", "queuePrefix"]
    assert bodies == [{"pattern": "a.>", "unset": keys}, {"pattern": "a.>", "unset": []}]


def test_a_refusal_is_one_sentence(cluster, run) -> None:
    """That of the leader."""
    fault = {"error": {"code": "policy", "message": "queue://a: 'x': unknown key"}}
    cluster.say("/policies", fault, status=400)
    assert run("queues", "set", "a", "x=1") == 1
    assert run.err == "holdfast: queue://a: 'x': unknown key\n"


def test_one_destination_is_shown_key_by_key(cluster, run) -> None:
    """Each value with where it is from."""
    keys = [
        {"key": "queuePrefetch", "value": 1_000, "source": "file", "pattern": "queue://>"},
        {"key": "deadLetterQueue", "value": "D", "source": "default", "setting": "broker.x"},
        {"key": "queueSuffix", "value": "", "source": "default", "setting": ""},
    ]
    cluster.say("/policies?destination=a%20b", {"destination": "queue://a b", "keys": keys})
    assert run("queues", "show", "a b") == 0
    rows = [line.split() for line in run.out.splitlines()[2:]]
    assert rows == [
        ["queuePrefetch", "1,000", "file", "queue://>"],
        ["deadLetterQueue", "D", "default,", "broker.x"],
        ["queueSuffix", "-", "default"],
    ]
    assert run("queues", "show", "a b", "--json") == 0
    assert json.loads(run.out)["keys"] == keys


def test_all_patterns_are_shown(cluster, run) -> None:
    """By pattern and key; and that there are none."""
    policies = [
        {
            "pattern": "queue://a",
            "source": "set",
            "values": {"queuePrefetch": 7, "queuePrefix": "p"},
        }
    ]
    cluster.say("/policies", {"policies": policies, "revision": 3})
    assert run("queues", "show") == 0
    assert [line.split() for line in run.out.splitlines()[2:4]] == [
        ["queue://a", "queuePrefetch", "7", "set"],
        ["queue://a", "queuePrefix", "p", "set"],
    ]
    assert run.out.endswith("of revision 3\n")
    cluster.say("/policies", {"policies": [], "revision": 0})
    assert run("queues", "show") == 0
    assert run.out == "nothing is said of any destination: all have the defaults\n"


def test_a_queue_is_paused_and_goes_on(cluster, run) -> None:
    """What was set is taken back; if a file pauses it, too, this says no."""
    said = {"pattern": "queue://a", "values": {"paused": "true"}, "notices": []}
    cluster.say("/policies", said)
    cluster.say("/policies?destination=queue%3A%2F%2Fa", {"keys": []})
    assert run("queues", "pause", "a") == 0
    assert run.out == "queue://a: paused = true\n"
    assert run("queues", "resume", "a") == 0
    bodies = [change[3] for change in cluster.changes]
    assert bodies == [
        {"pattern": "a", "set": {"paused": "true"}},
        {"pattern": "a", "unset": ["paused"]},
    ]
    answer = {"keys": [{"key": "paused", "value": "true"}]}
    cluster.say("/policies?destination=queue%3A%2F%2Fa", answer)
    assert run("queues", "resume", "a") == 0
    assert [change[3] for change in cluster.changes][3:] == [
        {"pattern": "a", "set": {"paused": "false"}}
    ]


def test_who_lets_many_go_on_is_told_what_still_pauses_some(cluster, run) -> None:
    """Those that something else pauses."""
    policies = [{"pattern": "queue://a.b", "values": {"paused": "true"}, "source": "set"}]
    said = {"pattern": "queue://a.>", "values": {}, "notices": [], "policies": policies}
    cluster.say("/policies", said)
    assert run("queues", "resume", "a.>") == 0
    assert run.out == "queue://a.>: nothing is set\n"
    assert run.err == "note: there are paused queues still, by queue://a.b\n"
