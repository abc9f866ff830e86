"""Many at once, or one alone."""

from __future__ import annotations

import threading

from holdfast.mirrors.gate import Gate


def test_many_may_be_inside() -> None:
    """Who writes does not wait for others who do."""
    gate = Gate()
    gate.enter()
    gate.enter()
    gate.leave()
    gate.leave()
    with gate.alone():
        pass


def test_who_is_alone_waits_for_those_inside_and_keeps_others_out() -> None:
    """A piece that is copied does not change meanwhile."""
    gate = Gate()
    order: list[str] = []
    gate.enter()
    is_alone = threading.Event()

    def copy() -> None:
        with gate.alone():
            order.append("alone")
            is_alone.set()

    thread = threading.Thread(target=copy)
    thread.start()
    order.append("inside")
    gate.leave()
    assert is_alone.wait(10)
    gate.enter()
    order.append("after")
    gate.leave()
    thread.join(10)
    assert order == ["inside", "alone", "after"]


def test_gate_opens_again_after_a_failure() -> None:
    """An error while alone does not shut everybody out for ever."""
    gate = Gate()
    try:
        with gate.alone():
            raise OSError
    except OSError:
        pass
    gate.enter()
    gate.leave()
