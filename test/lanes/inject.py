"""One thing at a time fails that gpuar asks for: memory, a call of UCX, a transfer, a call of CUDA's
driver.

The library test/inject counts what the component asks for and makes the n-th fail, on one rank or on
all; the program test/mpi/injected uses all that gpuar serves.
"""

import re

import lanes as package
from lanes import BUILD, lane, mpi, on_device, require

PROGRAM = BUILD / "test" / "mpi" / "injected"
LIBRARY = BUILD / "test" / "inject" / "libinject.so"
OUTCOME = re.compile(r"OUTCOME (\d+) (\d+) (\d+) (\d+)")
INJECTED = re.compile(r"INJECTED (\d+) (\d+) (\S+) (-?\d+)")
RANKS = 3
VICTIM = 1
# How many of them the quick form tries.
FEW = [("memory", VICTIM, 4), ("memory", None, 2), ("ucx", VICTIM, 3), ("ucx", None, 1)]
FEW += [("cma", VICTIM, 2), ("cma", None, 1)]

# Calls of the driver that gpuar makes, and how often at least in the program.
DRIVER = ["cuMemAlloc", "cuMemHostAlloc", "cuMemcpyAsync", "cuStreamCreate", "cuEventCreate"]
DRIVER += ["cuEventRecord", "cuLaunchKernel", "cuModuleLoadData"]
# (Not cuCtxPushCurrent: a context that cannot be made current is given up, with what it holds. Nor a
# kernel: the whole context fails with it, and the program's own copies. The lane device has both.)


def lanes():
    return {"inject": inject}


@lane()
def inject():
    "memory, calls of UCX and of CUDA's driver fail one at a time: right, or an error on every rank"
    yield "nothing fails", baseline
    for kind, where, few in FEW:
        yield f"{kind}, {named(where)}", lambda k=kind, w=where, f=few: sweep(k, w, f)
    yield "the driver of a simulated device", driver


def named(where):
    return "on all ranks" if where is None else f"on rank {where}"


def launch(kind, number, where):
    env = {"GPUAR_INJECT": number, "GPUAR_INJECT_KIND": kind}
    if where is not None:
        env["GPUAR_INJECT_RANK"] = where
    env = {name: str(value) for name, value in env.items()}
    exports = [word for name in env for word in ("-x", name)]
    # mpirun itself is not to be preloaded: only its ranks.
    argv = ["env", f"LD_PRELOAD={LIBRARY}", PROGRAM]
    mca = {"mpi_yield_when_idle": 1, "coll_gpuar_test_node_size": 2}
    if kind == "cma":  # longer messages only, or they would be copied through shared memory
        mca["coll_gpuar_eager_limit"] = 8192
    return mpi.mpirun(RANKS, argv, mca=mca, env=env, options=exports, timeout=90)


def read(result):
    """What each rank found, counted, and left: {rank: (right, wrong, error)}, {rank: (count, what,
    left)}."""
    outcomes = {int(r): tuple(map(int, rest)) for r, *rest in OUTCOME.findall(result.output)}
    injected = {
        int(r): (int(count), what, int(left))
        for r, count, what, left in INJECTED.findall(result.output)
    }
    for ranks, what in ((outcomes, "an outcome"), (injected, "a count")):
        require(
            sorted(ranks) == list(range(RANKS)),
            f"{what} of ranks {sorted(ranks)} alone: a crash?\n{result.tail()}",
        )
    return outcomes, injected


def judge(result):
    """Fails the test unless it went as it may; "right", "declined" or "error"."""
    mpi.succeed(result)
    outcomes, injected = read(result)
    wrong = {rank: found for rank, found in outcomes.items() if found[1]}
    require(not wrong, f"wrong results: {wrong}\n{result.tail()}")
    errors = [found[2] != 0 for found in outcomes.values()]
    require(len(set(errors)) == 1, f"an error on some ranks alone: {outcomes}\n{result.tail()}")
    fallbacks = {count["fallbacks"] for count in mpi.counters(result.output).values()}
    require(len(fallbacks) == 1, f"declined on some ranks alone: {fallbacks}\n{result.tail()}")
    if errors[0]:
        return "error"
    left = max(found[2] for found in injected.values())
    require(left <= kept(), f"{left} blocks are left, {kept()} if nothing fails\n{result.tail()}")
    return "declined" if fallbacks != {0} else "right"


calm = {}  # by kind: the counts of a run in which nothing fails; and what it leaves


def counts(kind):
    if kind not in calm:
        _, injected = read(mpi.succeed(launch(kind, 0, None)))
        calm[kind] = {rank: found[0] for rank, found in injected.items()}
        calm["left"] = max(calm.get("left", 0), *(found[2] for found in injected.values()))
    return calm[kind]


def kept():
    """Blocks that live until the process ends, also where nothing fails."""
    if "left" not in calm:
        counts("memory")
    return calm["left"]


def baseline():
    for kind in ("memory", "ucx", "cma"):
        print(f"    {kind}: {counts(kind)}, {kept()} blocks are kept to the end")
    require(min(counts("memory").values()) > 100, "too few: is the component recognised?")
    require(min(counts("ucx").values()) > 100, "too few: are UCX's calls intercepted?")
    require(min(counts("cma").values()) > 10, "too few: are reads of others' memory intercepted?")


def numbers(kind, where, few):
    """Which ones fail: all, or the first of them (those of the set-up) and some of the rest."""
    most = counts(kind)[where or 0]
    if package.long_form:
        return list(range(1, most + 1))
    step = max(1, most // few)
    return [*range(1, most, step)][:few]


def sweep(kind, where, few):
    verdicts = {}
    for number in numbers(kind, where, few):
        try:
            verdict = judge(launch(kind, number, where))
        except package.Failure as failure:
            raise package.Failure(f"number {number} fails: {failure}") from failure
        verdicts[verdict] = verdicts.get(verdict, 0) + 1
    print(f"    {sum(verdicts.values())} times: {verdicts}")


def driver():
    """One function of the driver after the other, by the simulated driver's own injection."""
    if lacks := on_device.lacks():
        raise package.Skip(lacks)
    machine = on_device.staged()
    functions = DRIVER if package.long_form else DRIVER[::4]
    for function in functions:
        for number in (1, 2, 7) if package.long_form else (2,):
            rule = f"{function}@mca_coll_gpuar:{number}"
            result = machine.launch(
                RANKS, [PROGRAM], memory="device", limit=1000, gpu={"SIMGPU_FAIL": rule},
                timeout=90,
            )  # fmt: skip
            mpi.succeed(result, rule)
            outcomes = {int(r): tuple(map(int, x)) for r, *x in OUTCOME.findall(result.output)}
            require(len(outcomes) == RANKS, f"{rule}: {outcomes}\n{result.tail()}")
            require(
                not any(o[1] for o in outcomes.values()), f"{rule}: {outcomes}\n{result.tail()}"
            )
            errors = {o[2] != 0 for o in outcomes.values()}
            require(len(errors) == 1, f"{rule}: on some ranks alone: {outcomes}\n{result.tail()}")
