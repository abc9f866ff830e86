"""
Maps in the forms that ActiveMQ gives them.
"""

from __future__ import annotations

from holdfast.model.map_messages import map_body


def test_each_value_has_its_kind_beside_it() -> None:
    """
    Two texts stand together, as ActiveMQ's library writes them.
    """
    values = {"name": "é<&", "size": 5, "share": 0.5, "slow": True}
    assert map_body(values, is_xml=False).decode() == (
        '{"map":{"entry":[{"string":["name","é<&"]},{"string":"size","long":5},'
        '{"string":"share","double":0.5},{"string":"slow","boolean":true}]}}'
    )
    assert map_body(values, is_xml=True).decode() == (
        "<map><entry><string>name</string><string>é&lt;&amp;</string></entry>"
        "<entry><string>size</string><long>5</long></entry>"
        "<entry><string>share</string><double>0.5</double></entry>"
        "<entry><string>slow</string><boolean>true</boolean></entry></map>"
    )
    assert map_body({}, is_xml=False) == b'{"map":{"entry":[]}}'
