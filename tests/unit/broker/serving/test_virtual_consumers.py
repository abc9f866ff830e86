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


def test_many_names_are_looked_through_in_steps_while_queues_come_and_go(monkeypatch) -> None:
    """
    What is found then is what is found at once; who asks meanwhile begins nothing.
    """
    monkeypatch.setattr(virtual_consumers, "_LOOKED_AT_PER_STEP", 3)
    form = Form("VTC.*.")
    names = dict.fromkeys(f"VTC.{number}.t" for number in range(10))
    consumers = VirtualConsumers(lambda: names)
    assert consumers.has_to_look(form, 2_000)
    assert not consumers.has_to_look(form, 10)
    steps = consumers.look_through(form, names.__contains__)
    next(steps)
    assert list(consumers.look_through(form, names.__contains__)) == []
    for gone in ("VTC.1.t", "VTC.8.t"):
        del names[gone]
        consumers.remove(gone)
    for come in ("VTC.new.t", "VTC.1.t", "other"):
        names[come] = None
        consumers.add(come)
    assert consumers.has_to_look(form, 2_000)
    for _ in steps:
        pass
    assert not consumers.has_to_look(form, 2_000)
    at_once = VirtualConsumers(lambda: names).of("t", form)
    assert consumers.of("t", form) == at_once
    consumers.remove("VTC.new.t")
    assert "VTC.new.t" not in consumers.of("t", form)


def test_what_is_looked_through_is_kept_as_little_as_the_rest(monkeypatch) -> None:
    """
    One form more, one less.
    """
    monkeypatch.setattr(virtual_consumers, "_FORMS_MAX", 1)
    consumers = VirtualConsumers(lambda: ["VTC.a.t"])
    consumers.of("t", DEFAULT_FORM)
    for _ in consumers.look_through(Form("VTC.*."), lambda _: True):
        pass
    assert consumers.has_to_look(DEFAULT_FORM, 2_000)
    assert consumers.of("t", Form("VTC.*.")) == ["VTC.a.t"]
