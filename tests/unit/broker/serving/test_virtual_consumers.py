"""
Which queues consume which virtual topic.
"""

from __future__ import annotations

from holdfast.broker.serving import virtual_consumers
from holdfast.broker.serving.virtual_consumers import VirtualConsumers
from holdfast.model.virtual_topics import DEFAULT_FORM, Form, form_of


def test_queues_come_and_go() -> None:
    """
    In the order in which they came; what is not there is removed without a word.
    """
    names = ["a", "Consumer.A.VirtualTopic.x", "Consumer.B.VirtualTopic.y"]
    consumers = VirtualConsumers(lambda: names)
    assert consumers.of("VirtualTopic.x", DEFAULT_FORM) == [names[1]]
    consumers.add("Consumer.C.VirtualTopic.x")
    consumers.add("orders")
    assert consumers.of("VirtualTopic.x", DEFAULT_FORM) == [names[1], "Consumer.C.VirtualTopic.x"]
    for name in (names[1], names[1], "orders", "Consumer.Z.VirtualTopic.z"):
        consumers.remove(name)
    assert consumers.of("VirtualTopic.x", DEFAULT_FORM) == ["Consumer.C.VirtualTopic.x"]
    assert consumers.of("VirtualTopic.z", DEFAULT_FORM) == []


def test_each_form_is_looked_up_once_and_few_are_kept(monkeypatch) -> None:
    """
    However often an operator thinks of another one.
    """
    monkeypatch.setattr(virtual_consumers, "_FORMS_MAX", 2)
    looks = []

    def names() -> list[str]:
        looks.append(1)
        return ["VTC.a.t", "all.t.q", "Consumer.A.t"]

    consumers = VirtualConsumers(names)
    forms = [Form("VTC.*."), Form("all.", ".q"), DEFAULT_FORM]
    for _ in range(2):
        assert [consumers.of("t", form) for form in forms[:2]] == [["VTC.a.t"], ["all.t.q"]]
    assert len(looks) == 2
    assert consumers.of("t", forms[2]) == ["Consumer.A.t"]
    assert consumers.of("t", forms[0]) == ["VTC.a.t"]
    assert len(looks) == 4


def test_there_are_never_more_of_one_topic_than_may_be(monkeypatch) -> None:
    """
    Each message goes to all of them in one turn. A topic that is none of theirs counts nothing.
    """
    monkeypatch.setattr(virtual_consumers, "VIRTUAL_CONSUMERS_MAX", 2)
    names = [f"Consumer.{n}.{topic}" for n in range(2) for topic in ("VirtualTopic.x", "orders")]
    consumers = VirtualConsumers(lambda: names)
    consumers.of("VirtualTopic.x", DEFAULT_FORM)
    assert consumers.full_topic(["Consumer.2.VirtualTopic.x"], form_of) == "VirtualTopic.x"
    for name in ("Consumer.2.VirtualTopic.y", "Consumer.2.orders", "orders"):
        assert consumers.full_topic([name], form_of) is None
    two = [f"Consumer.{n}.VirtualTopic.z" for n in range(2)]
    assert consumers.full_topic(two, form_of) is None
    assert consumers.full_topic([*two, "Consumer.2.VirtualTopic.z"], form_of) == "VirtualTopic.z"


def test_what_is_looked_through_ahead_is_looked_through_in_steps(monkeypatch) -> None:
    """
    A hundred thousand names took 187 ms of one turn; who asks later finds what who asks at once
    does, and looks through nothing.
    """
    names = [f"Consumer.A{it}.VirtualTopic.t{it % 7}" for it in range(2000)] + ["a", "VTC.1.t"]
    asked_at_once = VirtualConsumers(lambda: names)
    forms = [DEFAULT_FORM, Form("VTC.*.")]

    def none() -> list[str]:
        raise AssertionError("it was looked through before")

    ahead = VirtualConsumers(none)
    assert sum(1 for _ in ahead.look_ahead(forms, names)) == len(names) // 128
    for form in forms:
        for topic in ("VirtualTopic.t3", "t", "none"):
            assert ahead.of(topic, form) == asked_at_once.of(topic, form)
    assert len(ahead.of("VirtualTopic.t3", DEFAULT_FORM)) > 200


def test_of_a_queue_it_is_known_what_it_consumes() -> None:
    """
    In the usual form, or one that was asked for, as long as the topic's is that.
    """
    consumers = VirtualConsumers(list)
    assert list(consumers.consumed_by("Consumer.A.VirtualTopic.x", form_of)) == ["VirtualTopic.x"]
    assert list(consumers.consumed_by("Consumer.A.orders", form_of)) == []
    own, before = Form("VTC.*."), consumers.form_serial
    assert list(consumers.consumed_by("VTC.a.t", lambda _: own)) == []
    consumers.of("t", own)
    assert consumers.form_serial > before
    assert list(consumers.consumed_by("VTC.a.t", lambda _: own)) == ["t"]
