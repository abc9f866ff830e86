"""Who has answered a command last."""

from __future__ import annotations

from contextvars import copy_context

from holdfast.admin.last_answer import last_answered, note_answer


def test_it_is_of_who_asked_and_of_nobody_else() -> None:
    """Until somebody else answers, or it begins anew."""

    def asked() -> list[str]:
        found = [last_answered()]
        for address in ("a:1", "b:2", ""):
            note_answer(address)
            found.append(last_answered())
        return found

    assert copy_context().run(asked) == [last_answered(), "a:1", "b:2", ""]
    copy_context().run(note_answer, "c:3")
    assert last_answered() != "c:3"
