"""
Where on the network a process is: under which start of which kernel, in which namespace.

Of two processes that are at the same place, one reaches the other's ports of loopback themselves.
Anywhere else something stands between them that may close while both live: a tunnel, a forwarder of
a container's ports.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from holdfast.environment.machine import BOOT_ID

_NAMESPACE: Final = Path("/proc/self/ns/net")


def network_place(boot_id: Path = BOOT_ID, namespace: Path = _NAMESPACE) -> str:
    """Give a word for it that no other place has; empty where the system does not say."""
    try:
        return f"{boot_id.read_text().strip()} {namespace.stat().st_ino}"
    except (OSError, ValueError):
        return ""
