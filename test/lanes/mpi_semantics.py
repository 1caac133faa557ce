"""What MPI asks of an allreduce, proved by plain MPI programs with gpuar loaded (test/mpi/)."""

import re
import shutil

from lanes import BUILD, ROOT, Failure, Skip, lane, mpi, require

PROGRAMS = BUILD / "test" / "mpi"

# Whole programs: every case that is not reserved for its name.
WHOLE = [
    ("buffers", 2, []),
    ("buffers", 4, ["counts=600", "power=16"]),
    ("predefined", 2, []),
    ("predefined", 5, []),
    ("user_ops", 3, []),
    ("user_ops", 4, []),
    ("user_ops", 5, []),
    ("user_ops", 8, []),
    ("requests", 2, []),
    ("requests", 4, []),
    ("communicators", 2, []),
    ("communicators", 5, []),
    ("threads", 2, ["rounds=120"]),
    ("threads", 4, ["rounds=60"]),
    ("errors", 3, []),
]

# Cases that stock Open MPI 4.1.4 fails, and cases that must be the first of their process.
NAMED = [
    ("requests", 3, "communicator_freed_while_active"),
    ("requests", 3, "type_and_op_freed_after_init"),
    ("user_ops", 3, "negative_extent"),
    ("communicators", 3, "hints_in_use"),
    ("errors", 3, "counts_differ"),
    ("errors", 3, "healthy_after_broken"),
    ("first_call", 2, "nonblocking_small"),
    ("first_call", 3, "nonblocking_large"),
    ("first_call", 2, "persistent_small"),
    ("first_call", 3, "persistent_large"),
    ("first_call", 3, "on_new_communicator"),
]


def lanes():
    return {"mpi_semantics": mpi_semantics, "mpi_huge": mpi_huge, "mpi_finalize": mpi_finalize}


def run_program(program, ranks, operands=(), **arguments):
    """Runs a program of test/mpi with gpuar; it must be served and must end well. Where the counters
    are there they are asked first: some cases fail with stock Open MPI, crash it, or hang, and with a
    gpuar that declines (the lane mutant_fallback) that must show as "not served"."""
    mca = {"mpi_yield_when_idle": 1} | arguments.pop("mca", {})
    result = mpi.mpirun(ranks, [PROGRAMS / program, *operands], mca=mca, **arguments)
    lost = "exited on signal" in result.output or "still there after" in result.output
    if mpi.counters(result.output) or (lost and mpi.extra_mca):
        mpi.check_served(ranks, result)
    mpi.succeed(result, program)
    mpi.check_served(ranks, result)
    return result


@lane(gpuar=True)
def mpi_semantics():
    "buffers, types, operations, requests, communicators, threads, errors: exact results"
    for program, ranks, operands in WHOLE:
        yield (
            f"{program}, {ranks} ranks",
            lambda program=program, ranks=ranks, operands=operands: run_program(
                program, ranks, operands
            ),
        )
    for program, ranks, case in NAMED:
        yield (
            f"{case}, {ranks} ranks",
            lambda program=program, ranks=ranks, case=case: run_program(
                program, ranks, [case, "limit=30"]
            ),
        )
    for ranks in (2, 3, 4):
        yield (
            f"parent used while duplicated, {ranks} ranks",
            lambda ranks=ranks: parent_used_while_duplicated(ranks),
        )
    for program, ranks in (("buffers", 3), ("requests", 2), ("communicators", 4)):
        yield (
            f"ranks ask each other: {program}, {ranks} ranks",
            lambda program=program, ranks=ranks: ranks_ask(program, ranks),
        )
    yield "fortran", fortran
    yield "MPI_T counters", mpi_t_counters
    yield "MPI_T control variables, and the pools released", mpi_t_variables


def parent_used_while_duplicated(ranks, **arguments):
    """Stock Open MPI 4.1.4 crashes or hangs in it."""
    if mpi.extra_mca:  # whether it is served shows at once, in another case
        run_program("communicators", ranks, ["duplicates"], **arguments)
    operands = ["parent_used_while_duplicated", "limit=60"]
    run_program("communicators", ranks, operands, **arguments)


def ranks_ask(program, ranks):
    """What memory long messages are planned for is asked in band, before the first of them: on host
    memory the answer is always the same, and nothing else may change."""
    short = {"buffers": ["power=18", "around_powers_of_two"], "requests": ["calls=100"]}
    run_program(program, ranks, short.get(program, []), mca={"coll_gpuar_expect": "ask"})


def fortran():
    """Open MPI's Fortran compiler wrapper builds it here: the build needs no Fortran."""
    if not shutil.which("gfortran"):
        raise Skip("gfortran is not installed")
    program = PROGRAMS / "fortran"
    compile_it = [mpi.tool("mpif90"), "-J", PROGRAMS, "-o", program]
    compile_it += [ROOT / "test" / "mpi" / "fortran.f90"]
    mpi.succeed(mpi.run(compile_it, timeout=120), "compiling the Fortran program")
    result = run_program("fortran", 3)
    cases = (ROOT / "test" / "mpi" / "fortran.f90").read_text().count("call check(")
    require(result.output.count("PASS ") == cases, f"not every case ran\n{result.tail()}")


def mpi_t_counters():
    result = run_program("counters", 2)
    values = {}
    for line in result.output.splitlines():
        if line.startswith("COUNTER "):
            _, name, before, after = line.split()
            values[name] = int(after) - int(before)
    require(values.get("coll_gpuar_blocking") == 7, f"7 calls were made, MPI_T says {values}")
    require(values.get("coll_gpuar_bytes_sent", 0) >= 7 * 800, f"too few bytes sent: {values}")
    require(values.get("coll_gpuar_fallbacks") == 0, f"fallbacks: {values}")


def mpi_t_variables():
    result = run_program("variables", 2)
    written = dict(re.findall(r"WRITE coll_gpuar_(\w+) (\w+)", result.output))
    for name in ("algorithm", "reproducible", "segment_size", "progress_thread", "trace"):
        require(written.get(name) == "never", f"a write to {name} is not refused: {written}")
    for name in ("spin", "device_limit", "verbose", "release_pools"):
        require(written.get(name) == "done", f"{name} cannot be written: {written}")
    told = re.findall(r"gpuar: MPI_COMM_WORLD: (\d+) bytes, \d+ elements", result.output)
    require(told == [str(78 * 8)], f"calls of {told} bytes told of, instead of {78 * 8}")
    value = {name: int(number) for name, number in re.findall(r"VALUE (\w+) (\d+)", result.output)}
    require(value["before"] >= 1 << 16, f"nothing in the pools: {value}")
    require(value["released"] == 0, f"not released: {value}")
    require(value["again"] >= 1 << 16, f"{value}")


@lane(gpuar=True)
def mpi_huge():
    "messages beyond 2 GiB, 2^31 - 1 elements, huge types (needs 8 GiB of memory)"
    for case in ("doubles_beyond_2_gib", "most_bytes", "huge_type"):
        yield case, lambda case=case: huge(case)


def free_memory():
    """In GiB."""
    with open("/proc/meminfo") as lines:
        fields = dict(line.split(":") for line in lines)
    return int(fields["MemAvailable"].split()[0]) >> 20


def huge(case):
    available = free_memory()
    if available < 8:
        raise Skip(f"{available} GiB of memory are free; it needs 8")
    if mpi.extra_mca:  # that it is served shows at once, in a small message
        run_program("first_call", 2)
    run_program("huge", 2, [case, "limit=150"], timeout=170)


@lane(gpuar=True)
def mpi_finalize():
    "MPI_Finalize right after a call, many times"
    yield "2 ranks, 5 times", lambda: finalize(2, 5)
    yield "4 ranks, 25 times", lambda: finalize(4, 25)


def finalize(ranks, times):
    for time in range(times):
        try:
            run_program("finalize", ranks, timeout=30)
        except mpi.NotServed:
            raise
        except Failure as failure:
            raise Failure(f"run {time + 1} of {times}: {failure}") from failure
