"""What a file says of destinations: read as a whole, each mistake with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.node import NodeConfig, mistakes_in
from holdfast.model.policies import NO_POLICIES, FilePolicies

GOOD = """
name = "a"
[policies]
revision = 3
[policies."queue://ORDERS.>"]
queuePrefetch = 10
useCache = true
[policies."/topic/NEWS"]
topicPrefetch = 100
[broker]
policy_count_max = 2
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "h.toml"
    file.write_text(text)
    return file


def loaded(folder: Path, text: str) -> NodeConfig:
    given = {"flags": {}, "environment": {}, "is_data_needed": False}
    return NodeConfig.load(file=written(folder, text), **given)


def test_a_file_says_what_holds_by_pattern(tmp_path) -> None:
    """Patterns in one spelling, values read; and where each stands."""
    found = loaded(tmp_path, GOOD).policies
    assert found == FilePolicies(
        3,
        {"queue://ORDERS.>": {"queuePrefetch": 10}, "topic://NEWS": {"topicPrefetch": 100}},
        ("useCache",),
    )
    assert found.places == {
        ("queue://ORDERS.>", "queuePrefetch"): "h.toml line 6",
        ("topic://NEWS", "topicPrefetch"): "h.toml line 9",
    }
    assert mistakes_in(tmp_path / "h.toml") == []


def test_a_file_without_the_table_says_nothing(tmp_path) -> None:
    """And one with a revision alone says that nothing holds any more."""
    assert loaded(tmp_path, 'name = "a"').policies is NO_POLICIES
    assert loaded(tmp_path, "[policies]\nrevision = 9").policies == FilePolicies(9)


QUEUE = '[policies]\nrevision=1\n[policies."queue://a"]\n'
IN_QUEUE = 'policies."queue://a".'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("policies = 3", "policies: is a table: write [policies] and its keys below it (h.toml l"),
        ("[policies]", "policies: revision is missing: give a number, and raise it with a ch"),
        ("[policies]\nrevision = true", "policies.revision: True is not a whole number (h.toml l"),
        ("[policies]\nrevision = 0", "policies.revision: is out of range; allowed: 1 to 4,611,"),
        ("[policies]\nrevision = 1\nx = 1", "policies.x: unknown key; write [policies."),
        ('[policies]\nrevision=1\n[policies."a.>.b"]', "policies.\"a.>.b\": pattern 'a.>.b': '>'"),
        (
            f'{QUEUE}[policies."/queue/a"]\n',
            "policies./queue/a: is the same pattern as queue://a (h.toml line 4)",
        ),
        (
            f"{QUEUE}\nqueuePrefech = 1",
            f"{IN_QUEUE}queuePrefech: unknown key; did you mean queuePrefetch? (h.toml line 5)",
        ),
        (
            '[policies]\nrevision=1\n"queue://a" = {queuePrefetch = 0}',
            f"{IN_QUEUE}queuePrefetch: 0 is out of range; allowed: 1 to 65,535 (h.toml line 3)",
        ),
        (
            f"{QUEUE}dispatchPolicy = 6",
            f"{IN_QUEUE}dispatchPolicy: is not built yet: nothing would obey it (h.toml line",
        ),
        (
            "[broker]\npolicy_count_max = 1\n[policies]\nrevision=1\n[policies.a]\n[policies.b]",
            "broker.policy_count_max: 1 is less than the 2 patterns in [policies] (h.toml line 2)",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path, text: str, told: str) -> None:
    """One sentence for each, and nothing of the file counts."""
    assert [it[: len(told)] for it in mistakes_in(written(tmp_path, text))] == [told]


def test_mistakes_are_told_together_with_those_of_settings_within_reason(tmp_path) -> None:
    """Nobody starts a node five times to learn of five mistakes; nor reads a thousand."""
    many = "".join(f"k{number} = 1\n" for number in range(200))
    text = f'nme = "a"\n[policies]\nrevision = 1\n[policies."queue://a"]\n{many}'
    problems = mistakes_in(written(tmp_path, text))
    assert len(problems) == 1 + 50 + 1
    assert any(problem.startswith("nme: unknown setting") for problem in problems)
    assert "and 150 more in [policies]" in problems


@pytest.mark.parametrize("depth", [50, 5_000])
def test_what_is_nested_deeply_is_a_mistake_like_others(tmp_path, depth: int) -> None:
    """Whatever a file holds, the answer is a sentence."""
    value = "[" * depth + "]" * depth
    text = f'[policies]\nrevision = 1\n[policies."queue://a"]\nqueuePrefetch = {value}'
    problems = mistakes_in(written(tmp_path, text))
    assert len(problems) == 1
    assert len(problems[0]) < 300
