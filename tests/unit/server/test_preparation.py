"""
What is needed some day is there afterwards.
"""

from __future__ import annotations

import json
import subprocess
import sys


def test_what_is_asked_for_some_day_is_there_afterwards() -> None:
    """
    Selectors can be read, changes be checked, numbers be scraped, and nothing is imported for it.
    """
    program = (
        "import json, sys\n"
        "from holdfast.server.preparation import prepare\n"
        "wanted = ['lark', 'pydantic', 'prometheus_client', 'anyio._backends._asyncio']\n"
        "before = [name for name in wanted if name in sys.modules]\n"
        "prepare()\n"
        "from holdfast.selectors import grammar\n"
        "after = [name for name in wanted if name in sys.modules]\n"
        "print(json.dumps([before, after, grammar._parser.cache_info().currsize]))\n"
    )
    line = [sys.executable, "-c", program]
    ended = subprocess.run(line, capture_output=True, text=True, check=True, timeout=60)
    wanted = ["lark", "pydantic", "prometheus_client", "anyio._backends._asyncio"]
    assert json.loads(ended.stdout) == [[], wanted, 1]
