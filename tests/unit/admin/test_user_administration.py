"""What the admin port needs of a node for its users: both ends of it agree."""

from __future__ import annotations

import inspect

from holdfast.admin.user_administration import UserAdministration
from holdfast.server import user_administration


def test_a_node_has_all_that_the_port_asks_for() -> None:
    """By the same names and parameters."""
    made = user_administration.UserAdministration
    asked = {name: it for name, it in vars(UserAdministration).items() if not name.startswith("_")}
    assert len(asked) == 16
    assert isinstance(made.keeps_scram, property)
    del asked["keeps_scram"]
    for name, wanted in asked.items():
        found = getattr(made, name)
        assert list(inspect.signature(found).parameters) == list(
            inspect.signature(wanted).parameters
        )
