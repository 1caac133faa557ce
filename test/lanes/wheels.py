"""Python wheels that carry programs and libraries for tests, fetched once into the build folder."""

import sys
from functools import cache

from lanes import BUILD, mpi


@cache
def fetch(folder, *wheels):
    """The path of BUILD/folder with the wheels unpacked in it. None if they cannot be had, and why."""
    target = BUILD / folder
    if not target.exists():
        part = BUILD / f"{folder}.part"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
        command += ["--disable-pip-version-check", "--root-user-action=ignore"]
        command += ["--only-binary=:all:", "--target", part, *wheels]
        answer = mpi.run(command, timeout=300)
        if answer.status:
            return None, f"pip cannot fetch {' '.join(wheels)}: {answer.tail(1)}"
        part.rename(target)
    return target, ""
