"""Checked calls (coll_gpuar_check): what the ranks do not agree on is named on every rank."""

import re

from lanes import BUILD, lane, mpi, require
from lanes.mpi_semantics import run_program

PROGRAMS = BUILD / "test" / "mpi"
FORMS = ("blocking", "nonblocking", "persistent")
CALLS = {"blocking": "MPI_Allreduce", "nonblocking": "MPI_Iallreduce"}
CALLS["persistent"] = "MPI_Start of MPI_Allreduce_init"
SUM = "100 elements of float32, sum"
ODD = {
    "count": "101 elements of float32, sum",
    "op": "100 elements of float32, maximum",
    "type": "100 elements of int32, sum",
}
MOST_US = 2.0


def lanes():
    return {"check": check}


@lane(gpuar=True)
def check():
    "checked calls: a rank with another count, type, operation or order, or without, is named"
    for ranks in (2, 4):
        for form in FORMS:
            for case in ODD:
                yield (
                    f"another {case}, {form}, {ranks} ranks",
                    lambda case=case, form=form, ranks=ranks: differs(case, form, ranks),
                )
            yield (
                f"a rank that does not call, {form}, {ranks} ranks",
                lambda form=form, ranks=ranks: missing("absent", form, ranks),
            )
        yield f"another order, {ranks} ranks", lambda ranks=ranks: order(ranks)
    yield "a rank that sleeps", lambda: missing("asleep", "blocking", 3)
    yield "the job ends, unless errors are returned", job_ends
    yield "right programs run as before", right_programs
    yield f"at most {MOST_US} us a call", cost


def run(case, form, ranks):
    mca = {"coll_gpuar_check": 1, "coll_gpuar_check_timeout": 1}
    result = run_program("mismatch", ranks, [case, form], mca=mca, timeout=40)
    require("WRONG" not in result.output, f"the right call before it went wrong\n{result.tail()}")
    ended = dict(re.findall(r"^ENDED (\d+) (\d+)$", result.output, re.MULTILINE))
    require(len(ended) == ranks, f"only {sorted(ended)} ended\n{result.tail()}")
    require("0" not in ended.values(), f"success on a rank: {ended}\n{result.tail()}")
    return result


def require_on(ranks, result, call, words):
    """The line that says which call fails and why, with the words, from each of the ranks."""
    for rank in ranks:
        lines = re.findall(rf"^gpuar: {call} on .* fails on rank {rank}: .*$", result.output, re.M)
        require(len(lines) == 1, f"{len(lines)} lines from rank {rank}\n{result.tail()}")
        for word in words:
            require(word in lines[0], f"rank {rank} does not say \"{word}\": {lines[0]}")


def differs(case, form, ranks):
    result = run(case, form, ranks)
    call, odd = CALLS[form], ranks - 1
    named = [f"rank 0 is in {call} of {SUM}", f"rank {odd} is in {call} of {ODD[case]}"]
    require_on(range(ranks), result, call, named)


def order(ranks):
    result = run("order", "blocking", ranks)
    odd = ranks - 1
    named = [f"rank 0 is in MPI_Allreduce of {SUM}", f"rank {odd} is in MPI_Iallreduce of {SUM}"]
    require_on(range(odd), result, "MPI_Allreduce", named)
    require_on([odd], result, "MPI_Iallreduce, MPI_Allreduce", named)


def missing(case, form, ranks):
    result = run(case, form, ranks)
    odd = ranks - 1
    says = f"rank {odd} is elsewhere in MPI" if case == "absent" else f"rank {odd} does not answer"
    for rank in range(odd):
        require_on([rank], result, CALLS[form], [f"rank {rank} is in {CALLS[form]} of {SUM}", says])


def job_ends():
    """Where errors are fatal, as they are by default, mpirun ends with an error."""
    argv = [PROGRAMS / "errors", "counts_differ"]
    mca = {"coll_gpuar_check": 1, "mpi_abort_print_stack": 0}
    result = mpi.served(3, argv, mca=mca, timeout=40)
    require("the ranks disagree on the call" in result.output, result.tail())
    argv = [PROGRAMS / "mismatch", "count", "blocking", "fatal"]
    result = mpi.mpirun(2, argv, mca=mca, timeout=40)
    require(result.status != 0, f"no error\n{result.tail()}")
    require("the ranks disagree on the call" in result.output, result.tail())


def right_programs():
    mca = {"coll_gpuar_check": 1, "mpi_yield_when_idle": 1}
    for program, ranks, operands in (
        ("buffers", 3, ["counts=100", "power=15"]),
        ("requests", 3, ["calls=100"]),
        ("communicators", 3, []),
        ("user_ops", 3, []),
    ):
        mpi.served(ranks, [PROGRAMS / program, *operands], mca=mca)
    mca |= {"coll_gpuar_expect": "ask", "coll_gpuar_report": 1}
    mpi.served(2, [PROGRAMS / "requests", "calls=50"], mca=mca)


def microseconds(check):
    mca = {"coll_gpuar_check": check}
    result = mpi.served(2, [PROGRAMS / "latency", "eight_bytes"], mca=mca)
    return float(re.search(r"^MICROSECONDS allreduce (\S+)", result.output, re.MULTILINE)[1])


def cost():
    pairs = [(microseconds(0), microseconds(1)) for _ in range(3)]
    costs = sorted(checked - plain for plain, checked in pairs)
    print(f"    a check costs {costs[0]:.2f} to {costs[-1]:.2f} us of a call")
    require(costs[0] <= MOST_US, f"{costs} us; without and with: {pairs}")
