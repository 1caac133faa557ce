"""The core with its progress thread under ThreadSanitizer."""

import os

from lanes import ROOT, lane, mpi, require
from lanes.device import RACE, SUPPRESSIONS

FOLDER = ROOT / "build-tsan"
PROGRAM = FOLDER / "test" / "core" / "core_threads"


def lanes():
    return {"core_tsan": core_tsan}


@lane(takes_long=True)
def core_tsan():
    "two processes of three threads each and gpuar's own, without MPI, under ThreadSanitizer"
    yield "build", build
    yield "no race", no_race


def build():
    if not (FOLDER / "build.ninja").exists():
        setup = ["meson", "setup", FOLDER, ROOT, "-Db_sanitize=thread", "-Db_lundef=false"]
        setup += ["-Doptimization=1"]
        options = ("openmpi", "openmpi_source", "ucx", "toolkit")
        setup += [f"-D{name}={mpi.build_option(name)}" for name in options]
        mpi.succeed(mpi.run(setup, timeout=240), "configuring")
    mpi.succeed(
        mpi.run(["ninja", "-C", FOLDER, "test/core/core_threads"], timeout=1200), "compiling"
    )


def no_race():
    env = os.environ | {"TSAN_OPTIONS": f"halt_on_error=1:suppressions={SUPPRESSIONS}"}
    env |= {"UCX_MEM_EVENTS": "no"}  # UCX would patch functions that the sanitizer has replaced
    result = mpi.run([PROGRAM, 300], timeout=300, env=env)
    require(RACE not in result.output, f"a data race\n{result.output[:6000]}")
    mpi.succeed(result, "core_threads")
