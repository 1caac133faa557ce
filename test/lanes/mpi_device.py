"""Device memory without a GPU: the MPI programs of the other lanes with their buffers on simulated
devices, over a UCX without CUDA (staged) and one with it (direct), and what only device memory
brings."""

import re
from functools import partial

from lanes import BUILD, ROOT, Failure, Skip, lane, mpi, on_device, programs, require
from lanes.mpi_device_tables import COPY, FAILURES, MATRIX, NAMED, SET_UPS, TWO

PYTHON = "/usr/bin/python3"
LATE = {"SIMGPU_INLINE": 0, "SIMGPU_DELAY_US": 3000}
REFUSED = re.compile(
    r"gpuar: .*: rank (\d+) cannot open device memory of rank (\d+) "
    r"\(cuIpcOpenMemHandle: CUDA_ERROR_NOT_SUPPORTED\): UCX copies between them"
)
TRAVEL = re.compile(r"gpuar: \w+ memory of .*\((GPU-\S+), .*and (.*)")
QUEUED = ("queued_work", "queued_work_with_gaps", "queued_work_on_another_gpu")


def lanes():
    return {
        "device_none": device_none,
        "device_staged": device_staged,
        "device_direct": device_direct,
        "mpi_device_mutants": mutants,
    }


# --- No device ------------------------------------------------------------------------------------


@lane(gpuar=True)
def device_none():
    "host memory: served, and the CUDA driver is never loaded, whether there is one or not"
    yield "no driver, 2 ranks", lambda: host_memory(2, ())
    yield "a driver within reach, 3 ranks", lambda: host_memory(3, (on_device.DRIVER,))


def host_memory(np, libraries):
    machine = on_device.Machine("none", libraries, "host memory")
    argv = [on_device.PROGRAMS / "mix", "rounds=2"]
    result = machine.launch(np, argv, memory="host", limit=None)
    mpi.check_served(np, mpi.succeed(result, "mix"))
    moved = on_device.moved_calls(result.output)
    require(len(moved) == np, f"{len(moved)} of {np} ranks reported\n{result.tail()}")
    for rank, found in moved.items():
        require(found["driver"] == "absent", f"rank {rank} has loaded the CUDA driver")


# --- The whole matrix -----------------------------------------------------------------------------


@lane()
def device_staged():
    "device memory by a UCX without CUDA: every program of test/mpi, every kind of memory"
    yield from on_machine(on_device.staged)
    yield "8 MiB are cut into segments", lambda: segments(on_device.staged(), range(4, 100))
    yield "LAMMPS, 2 ranks", lambda: real_program(programs.lammps)
    yield "mpi4py, 2 ranks", lambda: real_program(programs.mpi4py)


@lane()
def device_direct():
    "device memory by CUDA-aware UCX: every program of test/mpi, every kind of memory"
    yield from on_machine(on_device.direct)
    yield "8 MiB are one segment", lambda: segments(on_device.direct(), range(1, 2))
    yield "a large sum stays on the device", lambda: large_sum(on_device.direct())
    yield "who cannot open a peer's memory says so, once", lambda: refusals(("0", "1"), "open")
    yield "nobody does where it is opened", lambda: refusals((), "1")
    yield "nobody does unasked", lambda: refusals((), "open", verbose=0)
    yield "each GPU and each way is named once", each_way_once


def on_machine(make):
    """The tests of both machines. One SKIP says it all where there is no such machine."""
    try:
        machine = make()
    except Skip as skip:
        yield "machine", partial(skip_all, str(skip))
        return
    yield "what UCX carries", lambda: what_ucx_carries(machine)
    for program, ranks, operands in MATRIX:
        yield f"{program}, {ranks} ranks", partial(machine.run, ranks, program, operands)
    for program, ranks, case in NAMED:
        yield f"{case}, {ranks} ranks", partial(machine.run, ranks, program, [case, "limit=60"])
    for name, ranks, settings in SET_UPS:
        yield f"mix: {name}", partial(set_up, machine, ranks, **settings)
    yield "one GPU per rank", lambda: one_gpu_per_rank(machine)
    yield "1000 rounds, flat memory", lambda: machine.run(
        2, "device", ["flat_memory", "rounds=1000"], memory=None, limit=2000
    )
    yield "8 bytes need no launch", lambda: machine.run(
        2, "device", ["small_needs_no_launch"], memory=None, limit=None
    )
    for case in QUEUED:
        yield f"{case} is waited for", partial(queued_work, machine, 1, case)
    yield "without coll_gpuar_sync_device it is not", lambda: not_waited_for(machine)
    yield "an old driver cannot wait for all streams, and says so", partial(old_driver, machine)
    yield "packing fails on one rank", lambda: packing_fails(machine)
    for rule, errors in FAILURES:
        if rule == COPY and machine.name == "direct":
            continue
        yield f"failing device: {rule}", partial(failing_device, machine, rule, errors)
    yield "mpi4py client", lambda: mpi4py_client(machine)


def skip_all(why):
    raise Skip(why)


def what_ucx_carries(machine):
    result = machine.run(2, "finalize", mca={"coll_gpuar_verbose": 1})
    found = on_device.UCX.search(result.output)
    require(found, f"no line says what UCX carries\n{result.tail()}")
    carries = found[3].split(";")[0].split(", ")
    require(
        machine.carries == carries[-1] or machine.carries in carries,
        f"UCX {found[1]} ({found[2]}) carries {carries}, not {machine.carries}",
    )
    if not mpi.build_option("ucx"):
        other = machine.name == "direct"  # than that of the system, which the build has
        require(("warning: gpuar was built for UCX" in found[3]) == other, f"it says {found[3]}")


def set_up(machine, ranks, memory="device", reused=False, through_host=None, **settings):
    """The program `mix` in one set-up. `through_host`: whether calls must, or must not, have been
    carried through the host."""
    result = machine.run(ranks, "mix", ["rounds=4"], memory=memory, **settings)
    counters = mpi.counters(result.output)
    for rank, moved in on_device.moved_calls(result.output).items():
        if reused:
            require(moved["reused"] > 0, f"rank {rank} reused no address\n{result.tail()}")
        carried = counters[rank]["through_host"]
        require(
            through_host is None or (carried > 0) == through_host,
            f"rank {rank} carried {carried} calls through the host\n{result.tail()}",
        )


def one_gpu_per_rank(machine):
    """Slurm's way: each rank sees one GPU, another one, as its device 0."""
    one = 'CUDA_VISIBLE_DEVICES=$OMPI_COMM_WORLD_LOCAL_RANK exec "$@"'
    argv = ["bash", "-c", one, "bash", on_device.PROGRAMS / "mix"]
    mca = {"coll_gpuar_verbose": 1}
    result = machine.launch(3, argv, memory="device", gpu={"SIMGPU_DEVICES": 3}, mca=mca)
    machine.check(3, mpi.succeed(result, "mix"), "device")
    gpus = set(on_device.GPU.findall(result.output))
    require(len(gpus) == 3, f"the ranks use {gpus}, not three GPUs\n{result.tail()}")


def large_sum(machine):
    """16 MiB: gpuar copies nothing between device and host."""
    machine.run(2, "device", ["large_stays_on_the_device"], memory=None, limit=None, timeout=180)


def refusals(ranks, ipc, verbose=1):
    """The results are right in any case."""
    argv = {"gpu": {"SIMGPU_IPC": ipc}, "mca": {"coll_gpuar_verbose": verbose}}
    result = on_device.direct().run(2, "mix", ["rounds=2"], **argv)
    told = sorted(REFUSED.findall(result.output))
    expected = [(rank, str(1 - int(rank))) for rank in ranks]
    require(told == expected, f"refused: {told}, not {expected}\n{result.tail()}")


def each_way_once():
    memory = "devices=2,device+pool"
    mca = {"coll_gpuar_verbose": 1}
    result = on_device.direct().run(2, "mix", ["rounds=4"], memory=memory, gpu=TWO, mca=mca)
    told = TRAVEL.findall(result.output)
    require(
        len(set(told)) == 4 and len(told) == 8,
        f"2 ranks with 2 GPUs and 2 kinds of memory say {told}\n{result.tail()}",
    )


def queued_work(machine, sync, case="queued_work"):
    mca = {"coll_gpuar_sync_device": sync}
    machine.run(2, "device", [case], memory=None, limit=5000, gpu=LATE | TWO, mca=mca)


def segments(machine, wanted):
    """What is staged overlaps copies down, messages, reductions and copies up; what goes direct has
    the fewest messages."""
    argv = [BUILD / "bench" / "gpuar_bench", "--sizes", "8M", "--form", "blocking", "--memory", "device"]
    mca = {"coll_gpuar_expect": "device", "coll_gpuar_verbose": 1}
    result = machine.launch(2, [*argv, "--iterations", 2], memory=None, mca=mca)
    mpi.succeed(result, "gpuar_bench")
    found = re.search(r"8388608 bytes, .*?, (\d+) segments? of", result.output)
    require(found and int(found[1]) in wanted, f"not {wanted} segments\n{result.tail()}")


def old_driver(machine):
    mca = {"coll_gpuar_sync_device": 1, "coll_gpuar_test_fault": "old_driver"}
    case = ["small_needs_no_launch"]
    result = machine.run(2, "device", case, memory=None, limit=None, mca=mca)
    lines = re.findall(r"gpuar: coll_gpuar_sync_device: this driver is older than CUDA 12.5", result.output)
    require(len(lines) == 2, f"{len(lines)} lines of 2 ranks\n{result.tail()}")


def not_waited_for(machine):
    """Proof that the test before this one would notice."""
    try:
        queued_work(machine, 0)
    except Failure as failure:
        require("did not wait" in str(failure), str(failure))
        return
    raise Failure("gpuar waited unasked, or the simulated device was never late")


def packing_fails(machine):
    """On rank 0 every copy fails, so that it has none to show."""
    argv = [on_device.PROGRAMS / "device", "packing_fails_on_one_rank", "limit=30"]
    result = mpi.succeed(machine.launch(3, argv, memory=None), "device")
    require(mpi.check_served(3, result)[1]["copies"] > 0, f"nothing was packed\n{result.tail()}")


def failing_device(machine, rule, errors):
    """Every call gives an error or the right result. The rule must have taken effect: errors where
    they are expected, and a line that says what has failed."""
    argv = [on_device.PROGRAMS / "device", "failing_device", "limit=30"]
    result = machine.launch(2, argv, memory=None, gpu={"SIMGPU_FAIL": rule, "SIMGPU_STRICT": 0})
    mpi.succeed(result, "device")
    said = re.search("failed: CUDA_ERROR|the CUDA driver does not say", result.output)
    require(said, f"nothing has failed\n{result.tail()}")
    found = re.search(r"ERRORS (\d+)", result.output)
    require(
        found and (int(found[1]) > 0) == errors,
        f"{found and found[1]} calls gave an error\n{result.tail()}",
    )


def mpi4py_client(machine):
    programs.require_module("mpi4py", "python3-mpi4py")
    argv = [PYTHON, ROOT / "test" / "programs" / "mpi4py_device.py"]
    for limit in (0, None):
        result = machine.launch(2, argv, memory=None, limit=limit)
        machine.check(2, mpi.succeed(result, "mpi4py"), None)


def real_program(code):
    """The numbers of stock Open MPI on host memory."""
    machine = on_device.staged()

    def execute(component, argv, *, blocking, nonblocking=0, env=None, cwd=None):
        if component == "stock":
            return programs.execute(
                2, "stock", argv, blocking=blocking, nonblocking=nonblocking, env=env, cwd=cwd
            )
        result = machine.launch(2, argv, memory="device", env=programs.ONE_THREAD | (env or {}), cwd=cwd)
        machine.check(2, mpi.succeed(result, str(argv[0])), "device")
        return result.output

    programs.compare(code(2, partial(execute, "stock")), code(2, partial(execute, "gpuar")))


# --- Mutants --------------------------------------------------------------------------------------


@lane()
def mutants():
    "the lanes notice when gpuar leaves out a wait, a context pop, a copy, or the device"
    for name, make, fault, test in (
        ("no context pop", on_device.staged, "skip_context_pop", tiny_mix),
        ("no event wait", on_device.staged, "skip_event_wait", late_mix),
        ("no event wait", on_device.direct, "skip_event_wait", late_mix),
        ("no staging copy", on_device.staged, "skip_staging_copy", tiny_mix),
        ("all through the host", on_device.direct, "through_host", large_sum),
        ("no call served", on_device.staged, "decline", tiny_mix),
    ):
        yield f"{make.__name__}: {name}", partial(caught, make, fault, test)


def tiny_mix(machine):
    machine.run(2, "mix", ["rounds=2"])


def late_mix(machine):
    machine.run(2, "mix", gpu=on_device.DELAYED)


def caught(make, fault, test):
    machine = make()
    test(machine)  # it passes without the fault
    mpi.extra_mca = {"coll_gpuar_test_fault": fault}
    try:
        test(machine)
    except Failure:
        return
    finally:
        mpi.extra_mca = {}
    raise Failure(f"passes with coll_gpuar_test_fault={fault}")
