"""`holdfast schedule`: what it shows of what is scheduled, and what it takes back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.admin.endpoint import Endpoint
from holdfast.admin.remote import Answer, RemoteNode
from holdfast.cli.schedules import count_of
from holdfast.model.schedules import FOREVER
from tests.unit.cli.test_queue_messages import Steps, told

NONE = Answer(404, {"error": {"code": "destination", "message": "there is no queue"}})


def job(sequence: int, repeats: int = 0, **headers: str) -> dict[str, Any]:
    return {
        "message_id": f"ID:c-3-{sequence}",
        "sequence": sequence,
        "stored_at": 1_700_000_000_000_000,
        "headers": {"AMQ_SCHEDULED_DESTINATION": "/queue/a", "kind": "x", **headers},
        "body_bytes": 2,
        "body_base64": "Ym8=",
        "in_delivery": False,
        "redelivered": False,
        "due_ms": 1_900_000_000_000 + sequence,
        "repeats": repeats,
    }


JOBS = [
    job(1, AMQ_SCHEDULED_DELAY="5000"),
    job(
        2, FOREVER, AMQ_SCHEDULED_CRON="0 * * * *", AMQ_SCHEDULED_TIME_ZONE="UTC", JMSXUserID="ann"
    ),
]


def test_a_table_has_a_line_for_each(cluster, run, monkeypatch) -> None:
    """With the next time, how often after that, where it goes, and what was said."""
    Steps(monkeypatch, cluster, told(2, 9, is_done=True, messages=JOBS))
    assert run("schedule", "list") == 0
    head, first, second = run.out.splitlines()
    assert head.split() == ["JOB", "NEXT", "(UTC)", "AGAIN", "SENDER", "DESTINATION", "SCHEDULE"]
    due = "2030-03-17T17:46:40.001"
    assert first.split() == ["ID:c-3-1", due, "0", "-", "/queue/a", "delay=5000"]
    assert "for ever  ann " in second and "cron=0 * * * *" in second


def test_programs_get_a_line_of_json_for_each(cluster, run, monkeypatch) -> None:
    """Its own headers apart from those of the schedule."""
    steps = Steps(monkeypatch, cluster, told(2, 9, is_done=True, messages=JOBS))
    asked = ("--json", "--from", "2030-03-17", "--to", "2030-03-18T00:00+00:00")
    assert run("schedule", "list", *asked) == 0
    first, second = (json.loads(line) for line in run.out.splitlines())
    assert first == {
        "job_id": "ID:c-3-1",
        "destination": "/queue/a",
        "sender": "",
        "due": "2030-03-17T17:46:40.001+00:00",
        "due_ms": 1_900_000_000_001,
        "repeats": 0,
        "schedule": {"delay": "5000"},
        "headers": {"kind": "x"},
        "body_bytes": 2,
        "body": "bo",
    }
    assert (second["repeats"], second["schedule"]["time_zone"]) == (None, "UTC")
    assert second["sender"] == "ann"
    ((_, wanted),) = steps.asked
    assert (wanted["due_from"], wanted["due_through"]) == (1_899_936_000_000, 1_900_022_400_000)


@pytest.mark.parametrize("command", [("list",), ("remove", "--all", "--yes")])
def test_where_nothing_was_ever_scheduled_there_is_nothing(
    cluster, run, monkeypatch, command
) -> None:
    """It is no error."""
    Steps(monkeypatch, cluster, NONE)
    assert run("schedule", *command) == 0


def test_jobs_are_removed_by_their_ids(cluster, run, monkeypatch) -> None:
    """One that is another queue's message, or gone, is told of and left alone."""
    steps = Steps(
        monkeypatch,
        cluster,
        told(1, 2, is_done=True, messages=[job(2)]),
        told(1, 2, is_done=True),
        told(1, 7, is_done=True, messages=[job(7)]),
    )
    assert run("schedule", "remove", "ID:c-3-2", "ID:c-9-7") == 0
    assert run.out == "1 scheduled messages removed\n"
    assert "ID:c-9-7 is not scheduled" in run.err
    ends = [(it["action"], it["after"], it["through"]) for _, it in steps.asked]
    assert ends == [("browse", 1, 2), ("remove", 1, 2), ("browse", 6, 7)]


def test_all_that_is_due_in_a_time_is_removed_in_steps(cluster, run, monkeypatch) -> None:
    """Those that are asked for, and no others."""
    steps = Steps(monkeypatch, cluster, told(1_000, 5), told(1, 90, is_done=True))
    assert run("schedule", "remove", "--to", "2030-01-01", "--yes", "--json") == 0
    assert json.loads(run.out) == {"removed": 1_001}
    assert [it["due_through"] for _, it in steps.asked] == [1_893_456_000_000] * 2


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ((), "name jobs, or say --from and --to, or --all"),
        (("ID:c-1-1", "--all"), "name jobs"),
        (("seven",), "seven: no id of a job"),
        (("ID:c-1-0",), "no id of a job"),
        (("--from", "soon"), "--from soon: no time"),
    ],
)
def test_what_cannot_be_meant_is_refused(cluster, run, monkeypatch, asked, why) -> None:
    """Before anything is asked of anybody."""
    Steps(monkeypatch, cluster)
    assert run("schedule", "remove", *asked, "--yes") != 0
    assert why in run.err


def test_what_one_has_scheduled_is_counted(cluster, run, monkeypatch) -> None:
    """As he is removed; over all steps, without bodies, and of nobody else."""
    more = [job(3, JMSXUserID="ben"), job(4, JMSXUserID="ann")]
    steps = [told(2, 2, messages=JOBS), told(2, 9, is_done=True, messages=more)]
    asked = Steps(monkeypatch, cluster, *steps)
    cluster.say("/users/remove", {"removed": "ann"})
    assert count_of(RemoteNode(Endpoint("127.0.0.1:8161")), "ann") == 2
    assert [wanted["body_bytes_max"] for _, wanted in asked.asked] == [0, 0]
