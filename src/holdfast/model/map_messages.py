"""
Map messages of JMS as STOMP has them: names and values in a body of JSON or XML, in the form that
ActiveMQ gives them (`jms-map-json`, `jms-map-xml`), with the kind of each value beside it.

Pure values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final
from xml.sax.saxutils import escape as escape_xml

MAP_JSON: Final = "jms-map-json"
MAP_XML: Final = "jms-map-xml"

MapValue = str | int | float | bool


def map_body(values: Mapping[str, MapValue], *, is_xml: bool) -> bytes:
    """Write a map."""
    if is_xml:
        entries = (
            f"<entry><string>{escape_xml(name)}</string>{_element(value)}</entry>"
            for name, value in values.items()
        )
        return f"<map>{''.join(entries)}</map>".encode()
    entry = [
        {"string": [name, value]}
        if isinstance(value, str)
        else {"string": name, _kind(value): value}
        for name, value in values.items()
    ]
    whole = {"map": {"entry": entry}}
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode()


def _element(value: MapValue) -> str:
    kind = _kind(value)
    text = str(value).lower() if isinstance(value, bool) else escape_xml(str(value))
    return f"<{kind}>{text}</{kind}>"


def _kind(value: MapValue) -> str:
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "boolean"
    return "long" if isinstance(value, int) else "double"
