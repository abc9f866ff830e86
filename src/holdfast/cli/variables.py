"""
Environment variables of ours that nobody reads: misspelled, they would be ignored in silence.

Known are the settings of a node and whatever an option of any command names. Kubernetes sets
variables of its own for every service, also for one whose name begins with `holdfast`; they are
told by their form and left alone.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import typer

from holdfast.config import ENVIRONMENT_PREFIX

OWN_TESTS: Final = frozenset({"HOLDFAST_HYPOTHESIS", "HOLDFAST_SEEDS"})
"""What the project's own tests are told by environment: nobody else meets them."""

PASSWORDS: Final = frozenset({"HOLDFAST_STORE_PASSWORD", "HOLDFAST_ELECTOR_PASSWORD"})
"""What belongs to the addresses of a store and of an elector, and is read where they are opened."""

_KUBERNETES: Final = re.compile(r".+_SERVICE_(HOST|PORT(_\w+)?)|.+_PORT_\d+_(TCP|UDP|SCTP)(_\w+)?")
_KUBERNETES_PORT: Final = re.compile(r"(tcp|udp|sctp)://.+")


@dataclass(frozen=True, slots=True)
class UnknownVariable:
    """A variable that nobody reads, and the one that may have been meant."""

    name: str
    near: str = ""

    def __str__(self) -> str:
        meant = f"; did you mean {self.near}?" if self.near else ""
        return f"environment variable {self.name} is unknown and ignored{meant}"


def unknown_variables(
    environment: Mapping[str, str], context: typer.Context
) -> list[UnknownVariable]:
    """Find what begins like ours in the environment and is no variable of any command."""
    ours = [
        name
        for name, value in sorted(environment.items())
        if name.startswith(ENVIRONMENT_PREFIX) and value and not _is_of_kubernetes(name, value)
    ]
    if not set(ours) - OWN_TESTS:
        return []
    known = set(OWN_TESTS | _of_settings())
    if not known.issuperset(ours):
        root = context.find_root()
        known |= set(_of_options(root.command, root))
    return [UnknownVariable(name, _near(name, known)) for name in ours if name not in known]


def _of_settings() -> set[str]:
    from holdfast.admin.endpoint import VARIABLES as FILES
    from holdfast.config.catalogue import variable_names
    from holdfast.config.format_level import VARIABLE as FORMAT_LEVEL_MAX
    from holdfast.environment.node_users import VARIABLE as NODE_USER

    return {*variable_names(), FORMAT_LEVEL_MAX, *PASSWORDS, NODE_USER, *FILES.values()}


def _near(name: str, known: Collection[str]) -> str:
    """What may have been meant; compared without the beginning that all have."""
    keys = [it.removeprefix(ENVIRONMENT_PREFIX) for it in known]
    near = difflib.get_close_matches(name.removeprefix(ENVIRONMENT_PREFIX), keys, 1, cutoff=0.7)
    return ENVIRONMENT_PREFIX + near[0] if near else ""


def _of_options(command: Any, context: Any) -> Iterator[str]:
    for parameter in command.params:
        names = parameter.envvar or ()
        yield from [names] if isinstance(names, str) else names
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            yield from _of_options(command.get_command(context, name), context)


def _is_of_kubernetes(name: str, value: str) -> bool:
    if name.endswith("_PORT") and _KUBERNETES_PORT.fullmatch(value):
        return True
    return _KUBERNETES.fullmatch(name) is not None
