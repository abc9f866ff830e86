"""
Policies as operators are told of them: what the log says by pattern, and what it means for one.

Any node can say the first of its own log; what holds for a destination depends on the settings of
the node that leads, too, so the leader is asked where it can be (`admin.policy_api`).
"""

from __future__ import annotations

import json

from holdfast.admin.policy_status import PoliciesStatus, PolicyStatus, PolicyValue
from holdfast.broker.broker import Broker
from holdfast.model.destination import Kind
from holdfast.model.policy_options import OPTIONS


def policies_status(broker: Broker) -> PoliciesStatus:
    """All that the log says of destinations, by pattern."""
    policies = broker.state.policies
    return PoliciesStatus(
        revision=policies.revision,
        policies=(
            PolicyStatus(
                pattern=key.pattern,
                source="file" if key.is_of_file else "set",
                values=json.loads(record.values),
            )
            for key, record in sorted(policies.by_key.items(), key=lambda it: it[0][::-1])
            if key.pattern
        ),
    )


def policy_values(broker: Broker, kind: Kind, name: str) -> list[PolicyValue]:
    """What every key is for one destination, and whose word that is."""
    found = []
    for key, (value, record) in broker.policies.explain(kind, name).items():
        if record is None:
            setting = OPTIONS[key].setting
            found.append(PolicyValue(key=key, value=value, source="default", setting=setting))
        else:
            source = PolicyValue(
                key=key,
                value=value,
                source="file" if record.revision else "set",
                pattern=record.pattern,
            )
            found.append(source)
    return found
