"""Is it right, and does device memory go direct?"""

import os
import re
import shutil
from pathlib import Path

from lanes import Failure, Skip, mpi, require

from gpu_check.places import BENCH, KERNEL_TIMES, ON_DEVICE, REDUCTIONS

# Programs of test/mpi with their operands; each checks every element on every rank.
PROGRAMS = [
    ("predefined", []),
    ("buffers", ["counts=200", "power=16"]),
    ("user_ops", []),
    ("requests", []),
    ("communicators", []),
    ("threads", ["rounds=20"]),
]
MIXES = [
    ("managed", "managed"),
    ("pool memory, not to be shared by IPC", "pool"),
    ("device on odd ranks only", "even=host,odd=device"),
    ("kinds in turn", "send=device+pinned+managed,receive=managed+device+host"),
    ("a context before MPI_Init", "early,device"),
    ("no current context", "current=none,device"),
    ("devices reset before MPI_Finalize", "shutdown,device"),
]
DEVICE_TESTS = [
    ("every operation on every type", "[device][reduce]"),
    ("memory kinds, contexts, copies, pools", "[device]~[reduce]~[failure]"),
]


def served(place, ranks, argv, timeout, **arguments):
    """Runs with gpuar; every rank must say that gpuar served it. Returns the counters by rank."""
    result = mpi.succeed(place.ranks(ranks, argv, "gpuar", timeout, **arguments), Path(argv[0]).name)
    return mpi.check_served(ranks, result), result.output


def about_ucx(report, place, plan, deadline):
    """What gpuar says of the UCX that it runs on; asked once."""
    if "ucx" not in report.document["figures"]:
        argv = [place.program(BENCH), "--memory", "device", "--form", "blocking"]
        argv += ["--sizes", "1M", "--iterations", 2]
        mca = {"coll_gpuar_verbose": 1}
        _, output = served(place, plan.ranks[0], argv, deadline.limit(120), mca=mca)
        lines = [line for line in output.splitlines() if line.startswith("gpuar: ")]
        ucx = [line for line in lines if " carries host memory" in line]
        require(ucx, f"gpuar named no UCX\n{output}")
        memory = sorted({line for line in lines if " memory of " in line or "path: device" in line})
        report.figures("ucx", ucx[0].removeprefix("gpuar: "))
        report.figures("memory", [line.removeprefix("gpuar: ") for line in memory])
    return report.document["figures"]["ucx"]


def refusals(output):
    """Ranks that cannot open each other's device memory, in gpuar's words."""
    return sorted({line for line in output.splitlines() if " cannot open device memory " in line})


def carries_device(ucx):
    return ", CUDA memory" in ucx


def machine(report, place, plan, deadline):
    "a first call, and what UCX carries"

    def first_call():
        about_ucx(report, place, plan, deadline)
        return "\n".join(["served and right", *report.document["figures"]["memory"]])

    def ucx():
        text = about_ucx(report, place, plan, deadline)
        if carries_device(text):
            return text
        why = f"{text}: gpuar stages device memory through pinned host memory"
        raise Skip(why) if plan.may_stage else Failure(why)

    report.check("a call on device memory", first_call)
    report.check("UCX carries device memory", ucx)


def direct(report, place, plan, deadline):
    "what gpuar says of one size alone, by its counters and of its peers"

    def count(size, test):
        argv = [place.program(BENCH), "--memory", "device", "--form", "blocking"]
        argv += ["--sizes", size, "--warmup", 1, "--iterations", 3]
        mca = {"coll_gpuar_verbose": 1}
        ranks, output = served(place, plan.ranks[0], argv, deadline.limit(120), mca=mca)
        require(not refusals(output), "\n".join(refusals(output)))
        for rank, counters in ranks.items():
            require(counters["device_calls"] > 0, f"rank {rank} saw no device memory: {counters}")
            test(rank, counters)
        names = ("device_calls", "through_host", "launches", "copies")
        sums = {name: sum(counters[name] for counters in ranks.values()) for name in names}
        return ", ".join(f"{name} {value}" for name, value in sums.items())

    def on_device(rank, counters):
        require(counters["through_host"] == 0, f"rank {rank} went through the host: {counters}")
        require(counters["launches"] > 0, f"rank {rank} reduced elsewhere: {counters}")
        if plan.may_stage and not carries_device(about_ucx(report, place, plan, deadline)):
            raise Skip(f"this UCX has no CUDA; staged with {counters['copies']} copies")
        require(counters["copies"] == 0, f"rank {rank} copied: {counters}")

    def by_host(rank, counters):
        require(counters["launches"] == 0, f"rank {rank} launched kernels for 8 bytes: {counters}")
        most = 2 * counters["device_calls"]
        require(counters["copies"] <= most, f"rank {rank}: more than a copy each way: {counters}")

    report.check(
        f"{plan.direct_size} go direct: no copy, no host",
        lambda: count(plan.direct_size, on_device),
    )
    report.check("8 B: no launch, a copy each way at most", lambda: count("8", by_host))


def reductions(report, place, plan, deadline):
    "the device against the host, bit by bit"

    def run(tests):
        limit = deadline.limit(plan.reductions_seconds)
        answer = mpi.succeed(place.run([place.program(REDUCTIONS), tests], limit), "device_tests")
        require("All tests passed" in answer.output, f"ran nothing\n{answer.tail()}")
        return answer.tail(2).strip().splitlines()[-1]

    for name, tests in plan.device_tests:
        report.check(name, lambda tests=tests: run(tests))


def programs(report, place, plan, deadline):
    "MPI programs of the test lanes, their buffers moved to device memory"

    def run(program, operands, ranks, memory, device_limit):
        library = place.program(ON_DEVICE)
        argv = [place.program(f"test/mpi/{program}"), "limit=100", *operands]
        env = {"LD_PRELOAD": library, "GPUAR_TEST_MEMORY": f"devices={plan.devices},{memory}"}
        mca = {"mpi_yield_when_idle": 1, "coll_gpuar_device_limit": device_limit}
        limit = deadline.limit(plan.program_seconds)
        counters, _ = served(place, ranks, argv, limit, env=env, mca=mca)
        calls = sum(counter["device_calls"] for counter in counters.values())
        require(calls, f"no rank saw device memory: {counters}")
        return f"{calls} calls on device memory"

    def all_programs(ranks):
        for program, operands in plan.programs:
            report.check(
                f"{program}, {ranks} ranks, all on the device",
                lambda program=program, operands=operands: run(
                    program, operands, ranks, "device", 0
                ),
            )

    all_programs(plan.ranks[0])
    ranks = plan.ranks[-1]
    for name, memory in plan.mixes:
        report.check(
            f"buffers, {ranks} ranks, {name}",
            lambda memory=memory: run(
                "buffers", plan.few_buffers, ranks, memory, plan.device_limit
            ),
        )
    for ranks in plan.ranks[1:]:
        all_programs(ranks)


def find_sanitizer():
    found = shutil.which("compute-sanitizer")
    for folder in (os.environ.get("CUDA_HOME", ""), "/usr/local/cuda", "/opt/cuda"):
        for inside in ("bin", "compute-sanitizer"):
            candidate = Path(folder) / inside / "compute-sanitizer"
            if not found and folder and os.access(candidate, os.X_OK):
                found = str(candidate)
    return found


def sanitizer(report, place, plan, deadline):
    "NVIDIA's memory and race checkers over the kernels, on sizes with heads and tails"

    def run(tool):
        checker = find_sanitizer()
        if not checker:
            raise Skip("there is no compute-sanitizer on this machine (CUDA toolkit)")
        argv = [place.program(KERNEL_TIMES), "--sizes", "24,56,4100,100012", "--arena", "4000000"]
        argv += ["--min-time", "0.00001", "--rounds", 1]
        checked = [checker, "--tool", tool, "--error-exitcode", "86", *argv]
        answer = place.run(checked, deadline.limit(90))
        refusals = ("Device not supported", "not supported on", "Unable to launch")
        if answer.status and any(word in answer.output for word in refusals):
            raise Skip(f"compute-sanitizer refuses this machine\n{answer.tail(5)}")
        mpi.succeed(answer, f"compute-sanitizer --tool {tool}")
        return next((line for line in answer.output.splitlines() if "SUMMARY" in line), "")

    for tool in ("memcheck", "racecheck"):
        report.check(f"compute-sanitizer {tool}", lambda tool=tool: run(tool))
