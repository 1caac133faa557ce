"""The Catch2 unit tests, as they are and with sanitizers."""

import os
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from lanes import BUILD, ROOT, Failure, Skip, lane, mpi, require, sanitized, toolkit


def lanes():
    return {"unit": unit, "sanitize": sanitize}


@lane()
def unit():
    "unit tests of the rooms, and those of the simulated CUDA driver: no MPI, no device"
    yield from cases(BUILD / "test" / "unit_tests", timeout=300)
    simulator = BUILD / "test" / "simgpu" / "simtest"
    yield "the simulated driver's names", driver_names
    yield "the simulated driver is built", lambda: built(simulator / "simtest")
    if (simulator / "simtest").exists():
        kernels = {"SIMGPU_KERNELS": str(simulator / "libsimtest_kernels.so")}
        yield from cases(simulator / "simtest", timeout=120, env=kernels | {"SIMGPU_PLACEHOLDER": "1"})


def driver_names():
    """The simulated driver exports what the toolkit's stub of the driver does."""
    stubs = sorted(Path("/usr/local").glob("cuda*/lib*/stubs/libcuda.so"))
    if not stubs:
        raise Skip("no CUDA toolkit with a stub of the driver")
    listed = mpi.run(["nm", "-D", "--defined-only", stubs[-1]], timeout=60)
    mpi.succeed(listed, "nm")
    wanted = {line.split()[-1] for line in listed.output.splitlines() if " T cu" in line}
    text = (ROOT / "test" / "simgpu" / "driver" / "names.def").read_text()
    missing = [name for name in sorted(wanted) if f"DRIVER_NAME({name})" not in text]
    require(not missing, f"not in names.def: {', '.join(missing)}")


def built(program):
    if not program.exists():
        raise Skip(
            toolkit.lacking("no simulated driver in this build: it needs cuda.h of CUDA 13, and x86-64")
        )


@lane()
def sanitize():
    "the unit tests up to 128 ranks under AddressSanitizer and UndefinedBehaviorSanitizer"
    program = sanitized.FOLDER / "test" / "unit_tests"
    yield "build", lambda: sanitized.build("test/unit_tests")
    # What hundreds of ranks show beyond tens is a matter of counts: the unit lane has that.
    if program.exists():
        yield from cases(program, "~[scale]", timeout=600)


def cases(program, *chosen, timeout, env=None):
    """Runs the program once; each Catch2 test case is a test of the lane."""
    env = os.environ | sanitized.SETTINGS | (env or {})
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        result = mpi.run([program, *chosen, "-r", "junit", "-o", report], timeout=timeout, env=env)
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
