"""What each request to the admin port asks of who sends it."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.routing import Route

from holdfast.admin.duties import DUTIES, OPEN_PATHS, duty_for, shows_log
from holdfast.admin.http_api import build_application
from holdfast.admin.operations import Operations
from holdfast.security.roles import Duty


def test_every_route_stands_in_the_table_and_nothing_else_does(node) -> None:
    """A route that was forgotten would be an admin's; one that is gone would mislead readers."""
    gate = build_application(Operations(node))
    routes = [it for it in gate._application.routes if isinstance(it, Route)]
    there = {(method, it.path) for it in routes for method in it.methods - {"HEAD"}}
    assert there == {(asked.method, asked.path) for asked in DUTIES}


@pytest.mark.parametrize("asked", DUTIES, ids=lambda it: f"{it.method} {it.path}")
def test_each_is_found_by_a_path_as_it_comes(asked) -> None:
    """Also one whose name has slashes."""
    path = asked.path.replace("{queue:path}", "a/purge/b").replace("{name}", "x")
    assert duty_for(asked.method, path, may_have_users=True) == asked.duty
    expected = Duty.NONE if asked.is_open else asked.duty
    assert duty_for(asked.method, path, may_have_users=False) == expected


def test_what_shows_the_log_is_told_apart_from_what_changes_something() -> None:
    """Changes are judged by the leader; what is shown, by whoever shows it."""
    shown = [it.path for it in DUTIES if shows_log(it.method, it.duty)]
    assert shown == ["/segments", "/log/position", "/log", "/holds"]
    assert shows_log("HEAD", Duty.OPERATE)
    assert not shows_log("POST", Duty.OPERATE)


def test_what_is_not_in_the_table_is_an_admins() -> None:
    """Also by another method, or with something before or behind."""
    for method, path in [
        ("GET", "/"),
        ("POST", "/health"),
        ("GET", "/health/"),
        ("GET", "/healthy"),
        ("GET", "//health"),
        ("PUT", "/queues"),
        ("OPTIONS", "/status"),
        ("GET", "/users/x/y"),
    ]:
        assert duty_for(method, path, may_have_users=False) is Duty.GOVERN
    assert duty_for("HEAD", "/queues", may_have_users=True) is Duty.VIEW
    assert {"/health", "/ready", "/status", "/queues", "/metrics"} == OPEN_PATHS


def test_the_reference_has_the_same_table() -> None:
    """What is read there is what is asked for."""
    roles = {Duty.NONE: "nobody in particular", Duty.VIEW: "`viewer`"}
    roles |= {Duty.OPERATE: "`operator`", Duty.GOVERN: "`admin`"}
    rows = []
    for asked in DUTIES:
        path = asked.path.replace("{queue:path}", "NAME").replace("{name}", "NAME")
        until_then = "whoever reaches the port" if asked.is_open else "a proof"
        rows.append(f"| `{asked.method} {path}` | {roles[asked.duty]} | {until_then} |")
    text = Path("docs/reference/admin.md").read_text(encoding="utf-8")
    assert "\n".join(rows) in text
