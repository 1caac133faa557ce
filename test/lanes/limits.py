"""Little of everything: shared memory, address space, open files, locked memory, pinned memory.

Whatever there is too little of: the results are right, or all ranks decline, or all get an error;
where Open MPI itself does not start, gpuar has nothing to do with it.
"""

import shutil

import lanes as package
from lanes import BUILD, Failure, Skip, lane, mpi, on_device, require
from lanes.inject import OUTCOME

PROGRAM = BUILD / "test" / "mpi" / "injected"
RANKS = 2


def lanes():
    return {"limits": limits}


@lane()
def limits():
    "small /dev/shm, ulimit -v, -n and -l, no pinned memory, a full device"
    for kib in (0, 64, 1024) if package.long_form else (64,):
        yield f"/dev/shm of {kib} KiB", lambda kib=kib: small_shm(kib)
    for mib in (300, 350, 400, 450, 500, 600, 800) if package.long_form else (400, 600):
        yield f"ulimit -v: {mib} MiB", lambda mib=mib: limited(f"--as={mib << 20}")
    for files in range(16, 64, 3) if package.long_form else (28, 37):
        yield f"ulimit -n: {files}", lambda files=files: limited(f"--nofile={files}")
    yield "ulimit -l: 0", lambda: limited("--memlock=0")
    yield "no pinned memory", lambda: on_full_device("cuMemHostAlloc@mca_coll_gpuar:1+")
    yield "no device memory", lambda: on_full_device("cuMemAlloc@mca_coll_gpuar:1+")


def outcome(result):
    """ "right", "declined", "error"; fails the test for anything else."""
    found = {int(rank): tuple(map(int, rest)) for rank, *rest in OUTCOME.findall(result.output)}
    require(len(found) == RANKS, f"a rank is lost: {found}\n{result.tail()}")
    require(not any(wrong for _, wrong, _ in found.values()), f"wrong: {found}\n{result.tail()}")
    errors = {error != 0 for _, _, error in found.values()}
    require(len(errors) == 1, f"an error on some ranks alone: {found}\n{result.tail()}")
    declined = {count["fallbacks"] for count in mpi.counters(result.output).values()}
    require(len(declined) == 1, f"declined on some ranks alone\n{result.tail()}")
    if errors == {True}:
        require("gpuar: allreduce on" in result.output, f"an error without a word\n{result.tail()}")
        return "error"
    return "right" if declined == {0} else "declined"


def judge(launch):
    """`launch` runs the program with a component, "gpuar" or "stock"."""
    result = launch("gpuar")
    if len(OUTCOME.findall(result.output)) == RANKS:
        print(f"    {outcome(result)}")
        return
    without = launch("stock")
    if len(OUTCOME.findall(without.output)) == RANKS:
        raise Failure(f"with gpuar it does not run, without it does\n{result.tail()}")
    print("    Open MPI itself does not start")


def limited(limit):
    def launch(component):
        argv = ["prlimit", limit, PROGRAM]
        return mpi.mpirun(RANKS, argv, component, mca={"mpi_yield_when_idle": 1}, timeout=60)

    judge(launch)


def small_shm(kib):
    """Open MPI's own shared memory keeps out of the way."""
    if not shutil.which("unshare"):
        raise Skip("unshare is not installed (Debian package util-linux)")
    script = f'mount -t tmpfs -o size={max(kib, 4)}k shm /dev/shm && exec "$@"'
    prefix = ["unshare", "--mount", "sh", "-c", script, "sh"]
    if mpi.run([*prefix, "true"], timeout=20).status:
        raise Skip("mounting takes root")

    def launch(component):
        mca = {"mpi_yield_when_idle": 1, "btl": "self,tcp"}
        return mpi.mpirun(RANKS, [PROGRAM], component, mca=mca, prefix=prefix, timeout=60)

    judge(launch)


def on_full_device(rule):
    machine = on_device.staged()
    gpu = {"SIMGPU_FAIL": rule, "SIMGPU_STRICT": "mca_coll_gpuar"}
    result = machine.launch(RANKS, [PROGRAM], memory="device", limit=1000, gpu=gpu, timeout=60)
    mpi.succeed(result)
    require(outcome(result) == "right", f"not carried through the host\n{result.tail()}")
