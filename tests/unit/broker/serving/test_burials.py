"""On which queues dead letters stand, and where they would come back to."""

from __future__ import annotations

from holdfast.broker.serving.burials import _LOOKED_AT_MAX, FORWARDED_MAX, Burials
from holdfast.broker.serving.effective import Limits
from holdfast.model.destination import Kind
from holdfast.model.forwarding import Forwarding, read_forwards

DROPS = Limits(length=1, overflow="drop-head", buries=True)


class Said:
    """Policies by name; counts what is asked."""

    def __init__(self, dead: dict[str, str], *, limits: dict[str, Limits], **lists: str) -> None:
        self.dead, self.limits = dead, limits
        self.lists = {name: Forwarding(read_forwards(text)) for name, text in lists.items()}
        self.asked = 0

    def forwarding_of(self, kind: Kind, name: str) -> Forwarding | None:
        assert kind is Kind.QUEUE
        self.asked += 1
        return self.lists.get(name)

    def dead_letters_of(self, name: str) -> tuple[str, Limits | None]:
        return self.dead.get(name, "dlq"), self.limits.get(name)


def burials(dead: dict[str, str] | None = None, limits=(), **lists: str) -> tuple[Burials, Said]:
    said = Said(dead or {}, limits=dict(limits), **lists)
    return Burials(said.forwarding_of, said.dead_letters_of), said


def test_places_are_followed_once_from_list_to_list() -> None:
    """Queues without a selector only; what is worked out is kept until the policies change."""
    found, said = burials(dlq="a, b, topic://t, c when x = 1", a="d, b, dlq")
    assert found.places("dlq") == ("b", "d")
    asked = said.asked
    assert found.places("dlq") == ("b", "d")
    assert said.asked == asked
    assert found.places("other") == ("other",)
    assert found.places("") == ()
    found.clear()
    found.places("dlq")
    assert said.asked > asked


def test_where_there_is_no_place_they_stand_on_the_dead_letter_queue_itself() -> None:
    """Also where there are too many, and where lists lead in a circle."""
    many = {f"m{n}": ",".join(f"m{n}.{k}" for k in range(63)) + f",m{n + 1}" for n in range(6)}
    found, _ = burials(topics="topic://t", a="b", b="a", **many)
    assert found.places("topics") == ("topics",)
    assert found.places("a") == ("a",)
    assert found.places("m0") == ("m0",)
    assert len(found.places("m3")) == 3 * 63 + 1 < FORWARDED_MAX


def test_what_leads_back_is_found_however_long_the_way_is() -> None:
    """Where a queue keeps its own dead letters, they go no further."""
    found, _ = burials({"a": "d1", "b": "d2", "c": "d3"}, d1="b, x", d2="c, x", d3="a, x")
    assert found.lead_back("a", "d1")
    assert not found.lead_back("q", "d1")
    parts, _ = burials(dlq="a, b")
    assert parts.lead_back("a", "dlq")
    assert not parts.lead_back("orders", "dlq")


def test_a_way_of_dropping_goes_by_queues_that_drop() -> None:
    """One that only refuses ends it."""
    dead = {"a": "b", "b": "c", "c": "a"}
    for limits, leads in (({"b": DROPS, "c": DROPS}, True), ({"b": DROPS}, False)):
        found, _ = burials(dead, limits)
        assert found.lead_back("a", "b")
        assert found.lead_back("a", "b", as_dropped=True) == leads


def test_what_comes_too_far_is_taken_to_lead_back() -> None:
    """To follow it all would take long: it is rather moved than copied."""
    dead = {f"q{n}": f"q{n + 1}" for n in range(_LOOKED_AT_MAX + 5)}
    found, said = burials(dead)
    assert found.lead_back("start", "q0")
    assert said.asked <= 2 * _LOOKED_AT_MAX + 5
    assert not found.lead_back("start", f"q{_LOOKED_AT_MAX}")
