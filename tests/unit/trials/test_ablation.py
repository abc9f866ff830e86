"""
Every ablation finds what it replaces, and puts it back.

The ablations themselves take long: whoever moves a function that one replaces finds out here.
"""

from __future__ import annotations

from collections import Counter

import pytest

from trials.ablations import ABLATIONS, ABLATIONS_BY_TOPIC
from trials.safeguards.ablation import Ablation, without

ALL = list({it.name: it for it in [*ABLATIONS, *ABLATIONS_BY_TOPIC]}.values())


@pytest.mark.parametrize("ablation", ALL, ids=lambda it: it.name)
def test_what_it_replaces_is_there_and_comes_back(ablation: Ablation) -> None:
    """A patch names an attribute of the owner's own, is in force within, and is undone after."""
    patches = ablation.patches()
    before = [owner.__dict__[name] for owner, name, _ in patches]

    with without(ablation):
        assert [owner.__dict__[name] for owner, name, _ in patches] != before or not patches

    assert [owner.__dict__[name] for owner, name, _ in patches] == before


def test_each_has_a_name_of_its_own() -> None:
    """The runner chooses by name."""
    assert not [name for name, count in Counter(it.name for it in ABLATIONS).items() if count > 1]
