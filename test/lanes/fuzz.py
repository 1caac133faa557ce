"""Random calls against a plain reference (test/fuzz), and proof that a difference is found."""

import shlex
from functools import partial

import fuzz as fuzzer
from lanes import ROOT, Failure, Skip, lane, mpi, on_device, require

SECONDS = 3

# Each stands for a kind of job; the long run (python3 -m fuzz) mixes them at random.
SET_UPS = {
    "2 ranks": fuzzer.SetUp(2),
    "5 ranks, small segments": fuzzer.SetUp(5, {"segment_size": 1000, "pipeline_depth": 2}),
    "4 ranks on nodes of 1 and 3": fuzzer.SetUp(
        4, {"test_node_size": "1,3", "algorithm": "hierarchy"}
    ),
    "3 ranks, ring, rendezvous": fuzzer.SetUp(3, {"algorithm": "ring", "eager_limit": 64}),
    "3 ranks, reproducible": fuzzer.SetUp(3, {"reproducible": 1}, options={"rounding": 1}),
    "8 ranks": fuzzer.SetUp(8),
    "4 ranks, communicators that come and go": fuzzer.SetUp(4, options={"storm": 1}),
    "2 ranks, 2 threads, progress thread": fuzzer.SetUp(
        2, {"progress_thread": 1}, options={"threads": 2}
    ),
}
ON_DEVICES = {
    "3 ranks, odd ones on devices": fuzzer.SetUp(3, {}, "odd=device,even=host"),
    "2 ranks, every kind of memory": fuzzer.SetUp(
        2, {}, "device+host+pinned+managed+pool", device_limit=1000
    ),
}


def lanes():
    return {"fuzz": fuzz, "fuzz_mutants": fuzz_mutants}


@lane(gpuar=True)
def fuzz():
    "random communicators, calls, types, operations, forms, placements: equal to a plain reference"
    for seed, (name, set_up) in enumerate((SET_UPS | ON_DEVICES).items(), 1):
        yield name, partial(job, set_up, seed)


def job(set_up, seed):
    if set_up.memory and on_device.lacks():
        raise Skip(on_device.lacks())
    if mpi.extra_mca:  # a gpuar that declines: stock Open MPI fails or hangs in some of the calls
        result = set_up.run({"seed": seed, "last": 0, "keep": 1}, 120)
        mpi.check_served(set_up.ranks, result)
    calls = fuzzer.job(set_up, seed, SECONDS)
    require(calls > 100, f"only {calls} calls were compared")


@lane()
def fuzz_mutants():
    "a planted fault is found, and shrunk to one call of the least count"
    yield "a wrong reference", planted
    yield "a copy left out", copy_left_out


def planted():
    """From 9 elements on, and not below, one operation on one type is taken for wrong."""
    set_up = fuzzer.SetUp(3)
    lines = shrunk(set_up, seed=1, planted=9)
    require("MPI_MAX of MPI_UINT16_T, count 9," in lines[0], f"shrunk to {lines[0]}")
    require("most=9" in lines[1] and "keep=" in lines[1], f"shrunk to {lines[1]}")


def copy_left_out():
    """gpuar leaves out a copy on the simulated device."""
    if on_device.lacks():
        raise Skip(on_device.lacks())
    lines = shrunk(fuzzer.SetUp(2, {"test_fault": "skip_staging_copy"}, "device"), seed=1)
    require("keep=" in lines[1], f"shrunk to {lines[1]}")


def shrunk(set_up, seed, **options):
    """The lines of the failure that a job must end with; its command must fail too."""
    try:
        fuzzer.job(set_up, seed, 30, **options)
    except Failure as failure:
        lines = str(failure).splitlines()
    else:
        raise Failure("no difference was found")
    command = shlex.split(lines[1].removeprefix("reproduce: "))
    again = mpi.run(["env", *command], timeout=120, cwd=ROOT)
    require(again.status == 1, f"passes: {lines[1]}\n{again.tail()}")
    require(lines[0].split(":")[0] in again.output, f"another failure\n{again.tail()}")
    return lines
