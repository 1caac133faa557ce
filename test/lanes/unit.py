"""The Catch2 unit tests, as they are and with sanitizers."""

import os
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from lanes import BUILD, ROOT, Failure, lane, mpi, require


def lanes():
    return {"unit": unit, "sanitize": sanitize}


@lane()
def unit():
    "unit tests of the rooms: no MPI, no device"
    yield from cases(BUILD / "test" / "unit_tests", timeout=300)


@lane()
def sanitize():
    "the unit tests under AddressSanitizer and UndefinedBehaviorSanitizer"
    folder = ROOT / "build-asan"
    yield "build", lambda: build(folder)
    yield from cases(folder / "test" / "unit_tests", timeout=600)


def build(folder):
    if not (folder / "build.ninja").exists():
        setup = ["meson", "setup", folder, ROOT, "-Db_sanitize=address,undefined"]
        setup += ["-Doptimization=1", "-Db_ndebug=false", "-Db_lundef=false"]
        setup += [f"-D{name}={mpi.build_option(name)}" for name in ("openmpi", "ucx")]
        mpi.succeed(mpi.run(setup, timeout=120), "configuring")
    mpi.succeed(mpi.run(["ninja", "-C", folder, "test/unit_tests"], timeout=900), "compiling")


def cases(program, timeout):
    """Runs the program once; each Catch2 test case is a test of the lane."""
    env = os.environ | {"UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        result = mpi.run([program, "-r", "junit", "-o", report], timeout=timeout, env=env)
        try:
            found = list(ElementTree.parse(report).iter("testcase"))
        except (OSError, ElementTree.ParseError):
            found = []
    for case in found:
        yield f"{case.get('classname')}: {case.get('name')}", lambda case=case: verdict(case)
    yield program.name, lambda: finished(program, result, found)


def verdict(case):
    faults = [*case.iter("failure"), *case.iter("error")]
    if faults:
        raise Failure(f"{faults[0].get('message')}\n{(faults[0].text or '').strip()}")


def finished(program, result, found):
    require(found, f"{program.name} reported no test case\n{result.tail()}")
    mpi.succeed(result, program.name)
