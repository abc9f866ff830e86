"""What operators are told of policies is plain: it is JSON as it stands."""

from __future__ import annotations

import json
from dataclasses import asdict

from holdfast.admin.policy_status import PoliciesStatus, PolicyStatus, PolicyValue


def test_what_is_told_is_json() -> None:
    """Names of fields are those of the answer."""
    said = PolicyStatus(pattern="queue://a", source="file", values={"queuePrefetch": 7})
    whole = asdict(PoliciesStatus(revision=3, policies=(said,)))
    assert json.loads(json.dumps(whole)) == {
        "revision": 3,
        "policies": [{"pattern": "queue://a", "source": "file", "values": {"queuePrefetch": 7}}],
    }
    value = asdict(PolicyValue(key="queuePrefetch", value=7, source="default", setting="b.p"))
    assert value["pattern"] == ""
