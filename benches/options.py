"""
What can be asked of every measurement that writes a table of docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path


def table_options(
    description: str | None, wanted: str, names: list[str], runs: int = 3
) -> argparse.ArgumentParser:
    """Options of a table whose lines can be chosen by `wanted`; more may be added."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(f"--{wanted}", nargs="+", choices=names, default=names, metavar="NAME",
                        help=f"only these: {', '.join(names)}")  # fmt: skip
    parser.add_argument("--runs", type=int,
                        help=f"of each line ({runs}; --quick: 1)")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="short and few: not for the record")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the table into FILE")
    parser.add_argument("--stompbench", type=Path, metavar="PATH",
                        help="the load generator, or its source (ending in .c)")  # fmt: skip
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()),
                        help="where the brokers' data goes while they run")  # fmt: skip
    return parser
