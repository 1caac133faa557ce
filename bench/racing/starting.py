"""What a job pays for gpuar at its start and end, beyond what bringing UCX up and down takes."""

import re
from statistics import median

from lanes import BUILD, mpi
from racing.homes import CORES

STARTER = BUILD / "bench" / "racing" / "race_starter"
TOOK = re.compile(r"^TOOK (\S+)$", re.MULTILINE)
# Who starts: the component of Open MPI, and the program's words.
KINDS = {"stock": ("stock", ()), "UCX": ("stock", ("ucx",)), "gpuar": ("gpuar", ())}
ROUNDS = 20


def took(kind):
    """Milliseconds from before MPI_Init to after MPI_Finalize on 2 ranks."""
    component, operands = KINDS[kind]
    mca = {"coll_gpuar_counters": None, "mpi_yield_when_idle": int(CORES < 2)}
    result = mpi.mpirun(2, [STARTER, *operands], component, mca=mca, timeout=60)
    return float(TOOK.search(mpi.succeed(result, f"starting with {kind}").output)[1])


def measure(rounds=ROUNDS):
    """By kind the times of all rounds; in a round each starts once, after the other."""
    times = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        for kind, found in times.items():
            found.append(took(kind))
    return times


def quartiles(values):
    ordered = sorted(values)
    return ordered[len(ordered) // 4], ordered[(3 * len(ordered)) // 4]


def differences(times, kind, other):
    """Pairs of a round."""
    return [a - b for a, b in zip(times[kind], times[other])]


def sentence(times):
    own, ucx = differences(times, "gpuar", "UCX"), differences(times, "UCX", "stock")
    low, high = quartiles(own)
    return (
        f"starting and ending, with one call between: stock {median(times['stock']):.0f} ms, UCX "
        f"besides {median(ucx):+.1f} ms, gpuar beyond that {median(own):+.1f} ms (half of "
        f"{len(own)} rounds: {low:+.1f} to {high:+.1f})"
    )
