"""
The bodies of requests that change something: what may stand in them, checked by pydantic.

To import this takes a tenth of a node's start, and a node that starts is asked for no change yet.
So it is imported where a body is read, and beforehand by a node that has served for a while
(`server.preparation`).
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from starlette.exceptions import HTTPException

from holdfast.admin.message_requests import MessageAction
from holdfast.admin.status import MemberKind
from holdfast.model.limits import (
    HOLD_EXPIRY_SECONDS_MAX,
    HOLD_EXPIRY_SECONDS_MIN,
    MEMBERS_MAX,
    QUEUE_NAME_BYTES_MAX,
    MiB,
)
from holdfast.replication.peer_address import split_address
from holdfast.replication.promotion import LogEnd

FAULTS_MAX: Final = 20
"""So many are told at once."""

FAULTS_LOOKED_AT_MAX: Final = 200
"""Of more it is only told how many: pydantic writes all of them, for tens of milliseconds."""

_KEYS_MAX: Final = 200
"""Twice as many as a policy knows; a list that has more is not read to its end."""

_NUMBER_MAX: Final = 2**63 - 1

BodyT = TypeVar("BodyT", bound=BaseModel)


class BodyError(ValueError):
    """What stands in a body is not what may; the sentence names each field."""


class NoArguments(BaseModel):
    """Nothing."""

    model_config = ConfigDict(extra="forbid")


class EndSubscription(BaseModel):
    """Which durable subscription is to end."""

    model_config = ConfigDict(extra="forbid")

    client_id: str
    name: str


class Transfer(BaseModel):
    """Who shall lead; whoever is best, if nobody is named."""

    model_config = ConfigDict(extra="forbid")

    to: str | None = None


class Add(BaseModel):
    """A new member."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")
    address: str
    kind: MemberKind = "voter"
    site: str = ""

    @field_validator("address")
    @classmethod
    def _has_a_port(cls, address: str) -> str:
        host, _ = split_address(address)
        if not host:
            raise ValueError(f"{address!r} has no host")
        return address


class Remove(BaseModel):
    """Which member goes."""

    model_config = ConfigDict(extra="forbid")

    name: str


class ChangeMirror(BaseModel):
    """What is to become of one of the node's own directories."""

    model_config = ConfigDict(extra="forbid")

    action: Literal["disable", "enable", "replace"]
    directory: str
    by: str = ""


class Promote(BaseModel):
    """Which learner becomes a voter, and by what right without a quorum."""

    model_config = ConfigDict(extra="forbid")

    name: str
    force: bool = False
    peers_are_dead: bool = False
    incomplete: bool = False
    companions: list[LogEnd] = Field([], max_length=MEMBERS_MAX)


class Keep(BaseModel):
    """From where on the log is kept for a reader, for how long and how much of it."""

    model_config = ConfigDict(extra="forbid")

    index: int = Field(ge=1, le=_NUMBER_MAX)
    bytes_max: int | None = Field(default=None, ge=1, le=_NUMBER_MAX)
    expiry_seconds: int | None = Field(
        default=None, ge=HOLD_EXPIRY_SECONDS_MIN, le=HOLD_EXPIRY_SECONDS_MAX
    )
    or_first: bool = False
    only_renews: bool = False


class ChangePolicy(BaseModel):
    """What is said of a pattern's destinations, or taken back."""

    model_config = ConfigDict(extra="forbid")

    pattern: str
    set: dict[str, str | int | bool] | None = None
    unset: list[str] | None = Field(None, max_length=_KEYS_MAX)


class StepOfMessages(BaseModel):
    """One step of something with single messages; see `message_requests`."""

    model_config = ConfigDict(extra="forbid")

    action: MessageAction
    queue: str = Field(min_length=1, max_length=QUEUE_NAME_BYTES_MAX)
    target: str = Field("", max_length=QUEUE_NAME_BYTES_MAX)
    selector: str = ""
    after: int = Field(0, ge=0, le=_NUMBER_MAX)
    through: int = Field(0, ge=0, le=_NUMBER_MAX)
    count_max: int = Field(1_000, ge=1, le=1_000)
    body_bytes_max: int = Field(0, ge=0, le=MiB)
    due_from: int = Field(0, ge=0, le=_NUMBER_MAX)
    due_through: int = Field(0, ge=0, le=_NUMBER_MAX)
    dry_run: bool = False


def read_body(body: bytes, kind: type[BodyT]) -> BodyT:
    """
    Read a JSON object.

    Raises:
        BodyError: It is none, or has not what may stand there.
    """
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        if (count := error.error_count()) > FAULTS_LOOKED_AT_MAX:
            raise BodyError(f"body: {count:,} things in it are not what may stand there") from error
        faults = error.errors(include_url=False, include_input=False)[:FAULTS_MAX]
        told = [f"{'.'.join(map(str, it['loc'])) or 'body'}: {it['msg'].lower()}" for it in faults]
        raise BodyError("; ".join(told)) from error


def asked_for(body: bytes, kind: type[BodyT]) -> BodyT:
    """
    Read what a request asks for.

    Raises:
        HTTPException: It is not of that form: the answer is 400, with what `read_body` says.
    """
    try:
        return read_body(body, kind)
    except BodyError as error:
        raise HTTPException(HTTPStatus.BAD_REQUEST, str(error)) from error
