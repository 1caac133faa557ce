"""The MPIs of other Debian releases: their roots, and the racer compiled for them."""

import sys
from functools import cache

import releases
from lanes import BUILD, ROOT, Skip, mpi

OPEN_MPI = ("openmpi-bin", "libopenmpi-dev")
UCC = ("libucc-dev",)  # the names by which UCC looks for its parts
MPICH = ("mpich", "libmpich-dev")
PURPOSE = "race"  # roots of its own: what tests install or set must not show in a time
SOURCES = (
    "bench/racing/racer.cpp",
    "bench/measure.cpp",
    "bench/served.cpp",
    "bench/data.cpp",
    "bench/device_buffer.cpp",
    "bench/cuda_driver.cpp",
)


def root(release, packages, log, make):
    """The release's root with its MPIs, made if it is not there and `make` allows it. What cannot be
    had raises Skip."""
    folder = releases.kept_folder(release, PURPOSE)
    if not folder.exists():
        if not make:
            raise Skip("its root folder is not made yet: bench/race without --quick makes it")
        log(f"making {folder}: some minutes, once")
    return releases.kept(release, PURPOSE, packages)


def said(root, *words):
    """What a command within prints."""
    answer = root.run(*words, timeout=60)
    if answer.status:
        raise Skip(f"{words[0]}: {answer.tail(1)[:200]}")
    return answer.output


def racer(root, name, libraries):
    """The racer, compiled here for an MPI of this root with those of the libraries that exist."""
    file = BUILD / "bench" / "racing" / f"race_racer-{root.release}-{name}"
    sources = [ROOT / source for source in SOURCES]
    newest = max(path.stat().st_mtime for path in (*sources, root.folder))
    if not file.exists() or file.stat().st_mtime < newest:
        folder = root.folder / "usr" / "lib" / multiarch()
        include = folder / name / "include"
        words = ["g++", "-std=c++20", "-O1", "-DFMT_HEADER_ONLY", "-DOMPI_SKIP_MPICXX"]
        words += ["-DMPICH_SKIP_MPICXX", f"-I{ROOT}", "-isystem", include, *sources]
        # Its C library may be newer than ours: what it lacks here it finds there.
        words += ["-static-libstdc++", "-static-libgcc", "-Wl,--allow-shlib-undefined"]
        found = [folder / library for library in libraries if (folder / library).exists()]
        words += [*found, "-ldl", "-o", file]
        print(f"bench/race: compiling {file.name}", file=sys.stderr)
        built = mpi.run(words, timeout=300)
        if built.status != 0:
            raise Skip(f"the racer does not compile: {built.tail(3)}")
    return file


@cache
def multiarch():
    return mpi.run(["gcc", "-print-multiarch"], timeout=60).output.strip()
