"""The trace (coll_gpuar_trace): what is in it, how gpuar_trace merges and draws it, what it costs."""

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import cluster as clusters
import lanes as package
from lanes import BUILD, ROOT, Skip, cluster, host_cost, lane, mpi, mpi_semantics, require

PROGRAMS = BUILD / "test" / "mpi"
TOOL = ["/usr/bin/python3", BUILD / "bench" / "gpuar_trace"]
CALLS = 12
LATE = 5000  # µs
MOST_OFF = 20  # instructions of a call


def lanes():
    return {"trace": trace, "trace_cost": trace_cost}


@lane(gpuar=True)
def trace():
    "the timeline: every call and message is there, late ranks show, hosts' clocks are compared"
    yield "calls, steps and messages of 4 ranks", everything
    yield "a late rank", late
    yield "between hosts whose clocks differ", between_hosts
    yield "every form, and communicators that are gone", forms
    yield "memory is bounded", bounded
    yield "a file that cannot be written", unwritable
    yield "files that are none, or too few", no_trace
    yield "ranges for a profiler", ranges


@lane()
def trace_cost():
    "instructions of an 8-byte MPI_Allreduce that no trace costs; no allocation where there is one; a picture"
    yield "bench/trace draws a picture", picture
    yield f"at most {MOST_OFF} of a call when off", cost_off
    for form in ("blocking", "nonblocking", "persistent") if package.long_form else ("nonblocking",):
        yield f"no allocation, {form}", partial(allocations, form)


@contextmanager
def traced(np, argv, **arguments):
    """Runs a program; its result, and the name that coll_gpuar_trace was given."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        mca = {"coll_gpuar_trace": path} | arguments.pop("mca", {})
        yield mpi.served(np, argv, mca=mca, timeout=100, **arguments), path


def merged(path):
    result = mpi.succeed(mpi.run([*TOOL, path], timeout=60), "gpuar_trace")
    return json.loads(path.read_text()), result.output


def slices(events, *categories):
    return [e for e in events if e["ph"] == "X" and e["cat"] in categories]


def messages(events):
    """(send, receive) by number, as the arrows have them: where they begin and end."""
    ends = defaultdict(dict)
    for event in events:
        if event.get("cat") == "message":
            ends[event["id"]][event["ph"]] = event
    return [(pair["s"], pair["f"]) for pair in ends.values()]


def check_rows(events):
    """Within a row slices lie beside one another, or within one another: viewers draw no others."""
    rows = defaultdict(list)
    for event in slices(events, "call", "wait", "send", "receive", "reduce", "copy"):
        begin = round(event["ts"] * 1000)
        rows[event["pid"], event["tid"]].append((begin, begin + round(event["dur"] * 1000)))
    for row, found in rows.items():
        open_until = []
        for begin, end in sorted(found, key=lambda slice: (slice[0], -slice[1])):
            while open_until and open_until[-1] <= begin:
                open_until.pop()
            require(not open_until or end <= open_until[-1], f"row {row}: slices cross at {begin} ns")
            open_until.append(end)


def everything():
    bytes = 4000
    mca = {"coll_gpuar_algorithm": "ring", "coll_gpuar_segment_size": 2000}
    with traced(4, [PROGRAMS / "late", CALLS, bytes, 9, 0], mca=mca) as (_, path):
        content, said = merged(path)
    events = content["traceEvents"]
    check_rows(events)
    names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    require(len(names) == 4 and all(n.startswith("rank ") for n in names), f"{names}")
    for rank in range(4):
        mine = [e for e in slices(events, "call", "send", "receive", "reduce") if e["pid"] == rank]
        mine = Counter(e["cat"] for e in mine if bytes in (e["args"]["bytes"], 8 * e["args"]["bytes"]))
        # two segments; in each a ring of 4 sends 3 + 3 messages of a quarter, and reduces 3 of them
        wanted = {"call": CALLS, "send": 12 * CALLS, "receive": 12 * CALLS, "reduce": 6 * CALLS}
        require(mine == wanted, f"rank {rank} has {mine} instead of {wanted}")
    sends = slices(events, "send")
    pairs = messages(events)
    require(len(pairs) == len(sends), f"{len(pairs)} arrows of {len(sends)} messages")
    for send, receive in pairs:
        require(send["ts"] <= receive["ts"], f"{receive} before {send}")
    for kind, pattern in (
        ("call", r"ring, 4000 bytes, MPI_COMM_WORLD"),
        ("send", r"send to [0-3]: ring, 500 bytes, MPI_COMM_WORLD"),
        ("receive", r"receive from [0-3]: ring, 500 bytes, MPI_COMM_WORLD"),
        ("wait", r"waiting for data of [0-3]: ring, 500 bytes, MPI_COMM_WORLD"),
    ):
        found = [e["name"] for e in slices(events, kind)]
        require(any(re.fullmatch(pattern, name) for name in found), f"no {pattern} in {set(found)}")
    require("4 ranks" in said and "0.0 µs" in said, said)


def check_late(events, calls, late_rank, microseconds, share):
    """Each other rank's calls show that they waited for the late one, and how long."""
    called = [e for e in slices(events, "call") if e["args"]["bytes"] in calls]
    waits = [e for e in slices(events, "wait") if f"for rank {late_rank} to enter" in e["name"]]
    waits = [e for e in waits if e["args"]["bytes"] in calls and e["dur"] > microseconds * share]
    others = [e for e in called if e["pid"] != late_rank]
    require(len(waits) >= 0.8 * len(others), f"{len(waits)} waits in {len(others)} calls")
    for event in waits:
        require(event["pid"] != late_rank, f"rank {late_rank} waits for itself: {event}")


def late():
    with traced(2, [PROGRAMS / "late", CALLS, 8, 1, 4 * LATE]) as (_, path):
        content, _ = merged(path)
    check_late(content["traceEvents"], [8], 1, 4 * LATE, 0.7)


def between_hosts():
    """One of them has a clock that is 1,000 s ahead."""
    with cluster.made([1, 1], clusters.Veth("1gbit"), clusters.KINDS, [0, 1000]) as built:
        argv = [PROGRAMS / "late", CALLS, 2**18, 1, LATE]
        with traced(2, argv, **built.mpirun()) as (_, path):
            content, said = merged(path)
    off = content["otherData"]["clock_uncertainty_us"]
    require(0 < off < 5000, f"the clocks are said to be known to {off} µs")
    events = content["traceEvents"]
    pairs = messages(events)
    require(len(pairs) >= 2 * CALLS, f"{len(pairs)} messages\n{said}")
    for send, receive in pairs:
        took = receive["ts"] - send["ts"]
        require(-off <= took < 1e6, f"a message took {took} µs; the clocks are known to {off} µs")
    check_late(events, [2**18], 1, LATE, 0.7)


def forms():
    argv = [PROGRAMS / "communicators", "duplicates", "splits", "parent_and_children"]
    with traced(3, argv, mca={"mpi_yield_when_idle": 1}) as (_, path):
        content, _ = merged(path)
    check_rows(content["traceEvents"])
    calls = slices(content["traceEvents"], "call")
    seen = {event["args"]["form"] for event in calls}
    require({"blocking", "nonblocking", "persistent"} <= seen, f"only {seen}")
    comms = {event["name"].rsplit(", ", 1)[1] for event in calls}
    require(len(comms) > 2, f"only {comms}")


def bounded():
    mca = {"coll_gpuar_trace_events": 100}
    with traced(2, [PROGRAMS / "fixed_calls", 500], mca=mca) as (_, path):
        content, said = merged(path)
        mine = json.loads(path.with_name("trace.1.json").read_text())
    kept = len({(e["ts"], e["tid"]) for e in slices(mine["traceEvents"], "call", "send", "reduce")})
    require(20 <= kept <= 100, f"{kept} events are kept")
    calls = [e["args"]["call"] for e in slices(mine["traceEvents"], "call")]
    require(max(calls) >= 499 and min(calls) > 400, f"calls {min(calls)} to {max(calls)} are kept")
    require("earlier events are left out" in said and "rank 1 on" in said, said)
    result = mpi.mpirun(2, [PROGRAMS / "fixed_calls", 5], mca={"coll_gpuar_trace": "x", "coll_gpuar_trace_events": 0})
    require("give a number of events, 1 or more" in result.output, result.tail())


def unwritable():
    mca = {"coll_gpuar_trace": "/no/such/folder/trace.json"}
    result = mpi.served(2, [PROGRAMS / "fixed_calls", 10], mca=mca)
    for rank in range(2):
        words = f"the trace of rank {rank} cannot be written to /no/such/folder/trace.{rank}.json"
        require(words in result.output, result.tail())
    for value in ("", "0"):
        with tempfile.TemporaryDirectory() as folder:
            mca = {"coll_gpuar_trace": value} if value else {}
            mpi.served(2, [PROGRAMS / "fixed_calls", 10], mca=mca, cwd=folder)
            require(not list(Path(folder).iterdir()), f"files, unasked: {list(Path(folder).iterdir())}")


def no_trace():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = mpi.run([*TOOL, folder / "trace.json"], timeout=30)
        require(result.status != 0 and "there is neither" in result.output, result.output)
        (folder / "trace.0.json").write_text("{}")
        result = mpi.run([*TOOL, folder / "trace.json"], timeout=30)
        words = "trace.0.json is no file of one rank"
        require(result.status != 0 and words in result.output, result.output)
    with traced(2, [PROGRAMS / "fixed_calls", 10]) as (_, path):
        path.with_name("trace.1.json").unlink()
        _, said = merged(path)
    require("1 files, but a communicator of 2 ranks" in said, said)


def picture():
    known = subprocess.run([TOOL[0], "-c", "import matplotlib"], capture_output=True)
    if known.returncode != 0:
        raise Skip("there is no python3-matplotlib")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.svg"
        argv = [sys.executable, "-B", ROOT / "bench" / "draw_trace.py", "--picture", file]
        env = mpi.environment("stock") | {"PYTHONPATH": str(ROOT / "test")}
        mpi.succeed(mpi.run(argv, timeout=100, env=env), "bench/trace")
        drawn = file.read_text()
    require("<svg" in drawn and drawn.count("<path") > 50, "an empty picture")
    require("<svg" in (ROOT / "docs" / "trace.svg").read_text(), "run bench/trace")


def ranges():
    """A library in a profiler's place is told of each call."""
    listener = PROGRAMS / "libnvtx_listener.so"
    if not listener.exists():
        raise Skip("the build has no NVTX: the CUDA toolkit lacks nvtx3/nvToolsExt.h, or there is none")
    env = {"NVTX_INJECTION64_PATH": listener}
    result = mpi.served(2, [PROGRAMS / "fixed_calls", 40], env=env)
    told = re.findall(r"RANGES gpuar (\d+) (\d+) (.*)", result.output)
    require(len(told) == 2, f"not heard of by both ranks\n{result.tail()}")
    for begun, ended, name in told:
        require(begun == ended and int(begun) >= 40, f"{begun} ranges begun, {ended} ended")
        require(re.fullmatch(r"allreduce, \w+, \d+ bytes, MPI_COMM_WORLD", name), f"called {name}")
    argv = [PROGRAMS / "communicators", "duplicates"]  # in every form
    result = mpi.served(2, argv, env=env, mca={"mpi_yield_when_idle": 1})
    told = re.findall(r"RANGES gpuar (\d+) (\d+) (.*)", result.output)
    require(len(told) == 2, f"not heard of by both ranks\n{result.tail()}")
    for begun, ended, _ in told:
        require(begun == ended and int(begun) >= 4, f"{begun} ranges begun, {ended} ended")


def cost_off():
    if not host_cost.shutil.which("valgrind"):
        raise Skip("valgrind is not installed")
    found = host_cost.difference(host_cost.TRACE)
    lines = "\n".join(f"{cost:5.1f}  {line}" for line, cost in found.calls.most_common())
    total = found.calls.total()
    print(f"    {total:.1f} instructions of a call")
    require(1 <= total <= MOST_OFF, f"{total:.1f} instructions\n{lines}")


def allocations(form):
    with tempfile.TemporaryDirectory() as folder:
        mca = {"coll_gpuar_trace": Path(folder) / "trace.json"}
        mpi_semantics.run_program("allocations", 2, ["counter_counts", form], mca=mca)
        require(Path(folder, "trace.1.json").exists(), "no trace was kept")
