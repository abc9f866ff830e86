"""
What the admin port says to whom it does not answer.
"""

from __future__ import annotations

import json
from http import HTTPStatus

from holdfast.admin.refusals import CHALLENGE, refused


def test_a_refusal_has_one_form() -> None:
    """A code for programs, a sentence for people, and beside it what there is to be known."""
    answer = refused(HTTPStatus.UNAUTHORIZED, "who are you?", CHALLENGE, token_file="/d/t")
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == CHALLENGE
    fault = {"code": "authentication", "message": "who are you?", "token_file": "/d/t"}
    assert json.loads(answer.body) == {"error": fault}


def test_who_may_come_again_is_told_so_by_the_code() -> None:
    """And is asked for nothing."""
    answer = refused(HTTPStatus.TOO_MANY_REQUESTS, "later")
    assert json.loads(answer.body)["error"]["code"] == "busy"
    assert "WWW-Authenticate" not in answer.headers


def test_a_refusal_may_have_a_code_of_its_own() -> None:
    """Of who is known, and may not."""
    answer = refused(HTTPStatus.FORBIDDEN, "no", code="forbidden")
    assert json.loads(answer.body)["error"]["code"] == "forbidden"
