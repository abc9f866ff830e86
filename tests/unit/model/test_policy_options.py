"""
The table of what may be said of destinations.
"""

from __future__ import annotations

from holdfast.model.policies import read_values
from holdfast.model.policy_options import OPTIONS


def test_every_default_is_a_value_that_may_be_said() -> None:
    """Else to say what holds anyway would be refused."""
    for option in OPTIONS.values():
        if option.setting or option.default == "":
            continue
        spoken = read_values(option.kind, {option.name: option.default})
        assert spoken.values == {option.name: option.default}


def test_each_says_what_it_is_and_what_is_allowed() -> None:
    """For people who ask; a key with a range has no choices, and the other way round."""
    for name, option in OPTIONS.items():
        assert option.name == name
        assert option.meaning
        assert option.says_allowed
        assert bool(option.choices) != (option.allowed is not None)
