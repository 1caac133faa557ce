"""gpuar in real MPI programs under valgrind, and its progress thread under ThreadSanitizer."""

import re
import shutil
from pathlib import Path

from lanes import BUILD, ROOT, Skip, lane, mpi, require

PROGRAMS = BUILD / "test" / "mpi"
OPEN_MPI = Path("/usr/share/openmpi/openmpi-valgrind.supp")  # Debian's, of Open MPI's own code
OURS = ROOT / "test" / "valgrind.supp"
# Each in short: what makes thousands of communicators takes too long, and what leaves some behind,
# as a program may, leaks by itself.
COMMUNICATORS = ["self", "duplicates", "hints", "nonblocking_duplicates", "splits", "groups"]
COMMUNICATORS += ["topologies", "intercommunicator", "parent_and_children", "windows", "files"]
CHECKED = [
    ("first_call", 2, ["on_new_communicator"]),
    ("buffers", 2, ["counts=40", "power=14", "hundred_chars"]),
    ("requests", 2, ["calls=30", "many_outstanding_backwards", "communicator_freed_while_active"]),
    ("communicators", 3, COMMUNICATORS),
    ("user_ops", 3, []),
    ("errors", 3, ["healthy_after_broken"]),
    ("finalize", 2, []),
]
ERRORS = re.compile(r"ERROR SUMMARY: (\d+) errors")


def lanes():
    return {"memcheck": memcheck}


@lane(takes_long=True)
def memcheck():
    "MPI programs under valgrind: no invalid access, no use of what is not set, no leak of gpuar's"
    if not shutil.which("valgrind"):
        raise Skip("valgrind is not installed")
    for program, ranks, operands in CHECKED:
        yield f"{program}, {ranks} ranks", lambda p=program, r=ranks, o=operands: clean(p, r, o)


def clean(program, ranks, operands):
    words = ["valgrind", "-q", "-v", "--num-callers=40", "--child-silent-after-fork=yes"]
    words += ["--leak-check=full", "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"]
    words += ["--keep-debuginfo=yes"]  # names, for suppressions, of what Open MPI has unloaded
    words += [f"--suppressions={file}" for file in (OPEN_MPI, OURS) if file.exists()]
    argv = [*words, PROGRAMS / program, *operands]
    mca = {"mpi_yield_when_idle": 1}
    result = mpi.mpirun(ranks, argv, mca=mca, timeout=400)
    mpi.check_served(ranks, result)
    mpi.succeed(result, program)
    counts = ERRORS.findall(result.output)
    require(len(counts) >= ranks, f"{len(counts)} ranks under valgrind\n{result.tail()}")
    require(set(counts) == {"0"}, f"{counts} errors\n{errors(result.output)}")


def errors(output):
    """What valgrind says, without the frames that every call has."""
    lines = [line for line in output.splitlines() if line.startswith("==")]
    return "\n".join(lines[:120])
