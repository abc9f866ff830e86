"""
The installed Spark as a folder of links, in which its Python stands as files, not in archives.

Spark gives the Python processes that it starts PySpark as an archive, and of that Python keeps
nothing compiled: each of them compiled a hundred modules anew, for 0.5 s of a processor and more.
A session has four or more of them, and each query of a stream one more.
Here a folder with a link to the installed package stands in the place of each archive.

Invariants:
    What is read is what is installed: nothing is copied.
    A home that can be seen is whole: it is made elsewhere, and gets its name at the end.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Final

import pyspark

BUILD: Final = Path(__file__).parents[2] / "build"
ARCHIVES: Final = Path("python", "lib")


def home_path() -> Path:
    """Where the home of this pyspark is, or would be."""
    place = f"{pyspark.__version__} at {pyspark.__file__}".encode()
    return BUILD / f"spark-home-{sha256(place).hexdigest()[:16]}"


def spark_home() -> Path:
    """
    Give the folder, to be named by SPARK_HOME; make it if it is not there.

    Raises:
        OSError: It cannot be made.
    """
    home = home_path()
    if home.exists():
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=home.parent))
    _link_all(Path(pyspark.__file__).parent, draft)
    with suppress(OSError):  # Another process was first.
        draft.rename(home)
    shutil.rmtree(draft, ignore_errors=True)
    if not home.exists():
        raise FileNotFoundError(f"{home} could not be made")
    return home


def _link_all(installed: Path, home: Path) -> None:
    for each in installed.iterdir():
        if each.name != ARCHIVES.parts[0]:
            (home / each.name).symlink_to(each)
    for archive in (installed / ARCHIVES).glob("*.zip"):
        package = archive.stem.partition("-")[0]
        folder = home / ARCHIVES / archive.name
        folder.mkdir(parents=True)
        (folder / package).symlink_to(Path(str(import_module(package).__file__)).parent)
