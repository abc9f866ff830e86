"""
What `holdfast send` says of each message: the options are the client library's properties.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
import typer

from holdfast.cli.message_properties import said_of_each, with_properties
from holdfast.client.sent_properties import WRITTEN
from holdfast.errors import ConfigError


def test_what_is_not_given_is_not_said() -> None:
    """An empty group is none."""
    assert set(said_of_each(group="").values()) == {None}


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2030-01-31", datetime(2030, 1, 31, tzinfo=UTC)),
        ("2030-01-31T18:00:00.5", datetime(2030, 1, 31, 18, 0, 0, 500_000, tzinfo=UTC)),
        ("2030-01-31 18:00Z", datetime(2030, 1, 31, 18, tzinfo=UTC)),
        (
            "2030-01-31T18:00+02:00",
            datetime(2030, 1, 31, 18, tzinfo=timezone(timedelta(hours=2))),
        ),
    ],
)
def test_a_moment_is_in_utc_if_it_has_no_zone(text: str, moment: datetime) -> None:
    """As everywhere on this command line."""
    assert said_of_each(expires=text)["expires_at"] == moment


@pytest.mark.parametrize(
    ("ttl", "expires", "why"),
    [(None, "60", "--expires 60: no time"), (5.0, "2030-01-31", "say one of them")],
)
def test_a_life_that_is_none_is_refused(ttl: float | None, expires: str, why: str) -> None:
    """With what to write instead."""
    with pytest.raises(ConfigError, match=why):
        said_of_each(ttl=ttl, expires=expires)


def test_a_schedule_is_said_by_options() -> None:
    """As the client library takes it; a time that is none is refused with what to write."""
    said = said_of_each(delay=5.0, period=1.0, repeats=-1, cron="* * * * *", cron_zone="UTC")
    said |= {"send_at": said_of_each(send_at="2030-01-31T18:00")["send_at"]}
    assert {name: it for name, it in said.items() if it is not None} == {
        "delay": 5.0,
        "send_at": datetime(2030, 1, 31, 18, tzinfo=UTC),
        "period": 1.0,
        "repeats": -1,
        "cron": "* * * * *",
        "cron_zone": "UTC",
    }
    with pytest.raises(ConfigError, match=r"--at soon: no time.*--delay SECONDS"):
        said_of_each(send_at="soon")


def test_a_command_has_an_option_for_each_property() -> None:
    """What the client library takes by name the command line does, under one name or another."""
    said = said_of_each(
        group="ann", ttl=5.0, correlation_id="c", reply_to="/queue/r", type="order"
    ) | {"expires_at": None}
    assert said.keys() <= WRITTEN.keys()
    app = typer.Typer()
    seen: list[dict[str, object]] = []

    @app.command()
    @with_properties
    def tell(name: str, *, properties: dict[str, object]) -> None:
        """Note what was said."""
        seen.append({"name": name, **properties})

    app(["x", "--group", "ann", "--ttl", "5"], standalone_mode=False)
    assert (seen[0]["name"], seen[0]["group"], seen[0]["ttl"]) == ("x", "ann", 5.0)
