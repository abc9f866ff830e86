"""
The node's own settings, as they are without a word from anybody.
"""

from __future__ import annotations

from holdfast.config.node_settings import NodeSettings


def test_a_node_of_which_nothing_is_said_is_alone_and_on_this_machine() -> None:
    """
    No default opens a port to other machines.
    """
    settings = NodeSettings()
    assert settings.stomp.is_loopback
    assert settings.admin.is_loopback
    assert (settings.peers, settings.members, settings.secret_file) == (None, (), None)
