"""
Names of files and directories as the operator writes them, before anything is looked up.

An empty one would mean the directory of whoever starts the node, which is never meant: `--data
"$DIR"` with a variable that is not set.
"""

from __future__ import annotations


def read_path(value: object) -> object:
    """
    A path as it was given; anything but a text is left as it is.

    Raises:
        ValueError: It is empty, or no file can be called so.
    """
    if isinstance(value, str):
        if not value:
            raise ValueError("'' is not a path; '.' is the current directory")
        if "\0" in value:
            raise ValueError(f"{value!r} is not a path: it holds a zero character")
    return value
