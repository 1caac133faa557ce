"""The same again and again: memory stays, and so does the time that a call takes."""

import re

import lanes as package
from lanes import BUILD, lane, mpi, mpi_semantics, require

PROGRAM = BUILD / "test" / "mpi" / "soak"
PART = re.compile(r"^SOAK (\d+) (\S+) (\d+)$", re.MULTILINE)
DONE = re.compile(r"^DONE (\d+) (\d+)$", re.MULTILINE)

# Quick form, long form.
CALLS = (60_000, 10_000_000)
COMMUNICATORS = (400, 10_000)
THREADS = (20, 1_000)
SPAWNS = (2, 50)
FINALIZE = (6, 1_000)
GROWTH = 0.01  # of the memory, from the third tenth on: pools are filled by then
SLOWER = 1.5  # the median of the last four tenths beside that of the four before, in the long form


def lanes():
    return {"soak": soak}


def form(pair):
    return pair[1] if package.long_form else pair[0]


@lane(gpuar=True)
def soak():
    "many calls, communicators, threads, spawned processes, starts and ends: memory flat, no slowdown"
    yield "calls of mixed sizes, 2 ranks", lambda: flat("calls", 2, form(CALLS))
    yield "communicators, 4 ranks", lambda: flat("communicators", 4, form(COMMUNICATORS))
    yield "threads that make and free them, 2 ranks", lambda: run("threads", 2, form(THREADS))
    yield "spawned and merged, 2 ranks", lambda: run("spawn", 2, form(SPAWNS))
    yield "start, one call, end, 8 ranks", lambda: mpi_semantics.finalize(8, form(FINALIZE))


def run(what, ranks, number):
    timeout = 7200 if package.long_form else 100
    mca = {"mpi_yield_when_idle": 1}
    result = mpi.mpirun(ranks, [PROGRAM, what, number], mca=mca, timeout=timeout)
    mpi.succeed(result, what)
    done = DONE.search(result.output)
    require(done and done.groups() == (str(number), "0"), f"not done, or wrong\n{result.tail()}")
    served = {rank: count for rank, count in mpi.counters(result.output).items() if rank < ranks}
    for rank, count in served.items():
        calls = count["blocking"] + count["nonblocking"] + count["persistent"]
        if not calls or count["fallbacks"]:
            raise mpi.NotServed(f"rank {rank}: {count}")
    if sorted(served) != list(range(ranks)):
        raise mpi.NotServed(f"counters of {sorted(served)} alone\n{result.tail()}")
    return result


def flat(what, ranks, number):
    result = run(what, ranks, number)
    parts = [(float(us), int(kib)) for _, us, kib in PART.findall(result.output)]
    require(len(parts) == 10, f"{len(parts)} parts\n{result.tail()}")
    early, late = parts[2][1], parts[-1][1]
    times = [us for us, _ in parts]
    before, after = sorted(times[2:6])[1], sorted(times[6:])[1]
    print(f"    {number} rounds: {early} to {late} KiB, {before:.2f} to {after:.2f} us a round")
    require(
        late <= early * (1 + GROWTH), f"memory grows from {early} to {late} KiB\n{result.tail()}"
    )
    if package.long_form:  # seconds are too short: what two cores cost each other changes under way
        require(after <= before * SLOWER, f"{before} us become {after} us\n{result.tail()}")
