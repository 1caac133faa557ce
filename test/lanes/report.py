"""The report (coll_gpuar_report): late ranks and slow links told apart, and what it costs."""

import json
import re
import tempfile
from pathlib import Path

import cluster as clusters
from lanes import BUILD, Skip, cluster, host_cost, lane, mpi, require

PROGRAMS = BUILD / "test" / "mpi"
TRUTH = re.compile(r"^TRUTH (\d+) (\S+) (\S+)$", re.MULTILINE)
CALLS = 30
LATE = 5000  # µs
MOST_ON = 420  # instructions of a call; what the kernel's page does to read the clock aside
MOST_OFF = 16  # with readings of the clock that the watch over silent calls makes
SHOWN = "most of the time went on waiting for late ranks, most of all for rank 1"


def lanes():
    return {"report": report, "report_cost": report_cost}


@lane(gpuar=True)
def report():
    "the report blames a late rank, or the transfer, and is right about how much"
    yield "a rank 5 ms late", late
    yield "a slow link", slow_link
    yield "both, between hosts whose clocks differ", both
    yield "every form, and communicators that are gone", forms
    yield "as a table, and none unless asked for", table
    yield "a file that cannot be written", unwritable
    yield "performance variables", variables


@lane()
def report_cost():
    "instructions of an 8-byte MPI_Allreduce that a report costs, and that no report costs"
    yield f"at most {MOST_ON} of a call when on", costs_on
    yield f"at most {MOST_OFF} of a call when off", costs_off


def reported(np, argv, **arguments):
    """Runs a program; its result, and the report."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        mca = {"coll_gpuar_report": path} | arguments.pop("mca", {})
        result = mpi.served(np, argv, mca=mca, timeout=100, **arguments)
        return result, json.loads(path.read_text())


def only_row(found, bytes):
    rows = [row for comm in found["communicators"] for row in comm["rows"]]
    rows = [row for row in rows if row["bytes_from"] <= bytes < row["bytes_below"]]
    require(len(rows) == 1, f"{len(rows)} rows instead of one: {json.dumps(rows, indent=1)}")
    return rows[0]


def late_calls(bytes, rank, delay, **arguments):
    np = arguments.pop("np", 4)
    argv = [PROGRAMS / "late", CALLS, bytes, rank, delay]
    result, found = reported(np, argv, **arguments)
    row = only_row(found, bytes)
    truth = {int(r): (float(w), float(m)) for r, w, m in TRUTH.findall(result.output)}
    share = row["compared_calls"] / (np * CALLS)
    require(share > 0.9, f"only {share:.0%} of the calls are compared")
    check_near(row, truth, share)
    return row, found


def check_near(row, truth, share):
    """Waiting and moving of each rank as it measured them itself, within 10 %."""
    require(len(row["by_rank"]) == len(truth), f"ranks {row['by_rank']} instead of {truth}")
    whole = max(waiting + moving for waiting, moving in truth.values())
    for rank in row["by_rank"]:
        true_waiting, true_moving = truth[rank["rank"]]
        for name, true in (("waiting", true_waiting), ("moving", true_moving)):
            said = rank[f"{name}_seconds"] / share
            print(f"    rank {rank['rank']}: {name} {said * 1e3:.1f} ms, measured {true * 1e3:.1f} ms")
            near = abs(said - true) <= max(0.1 * true, 0.03 * whole)
            require(near, f"rank {rank['rank']} says {said:.4f} s of {name}; measured {true:.4f} s")


def late():
    row, _ = late_calls(8, 1, LATE, mca={"mpi_yield_when_idle": 1})
    require(row["blame"] == "rank 1", f"blames {row['blame']}: {row}")
    require(row["last_most_often"]["rank"] == 1, f"{row['last_most_often']}")
    require(row["last_most_often"]["calls_share"] > 0.5, f"{row['last_most_often']}")


def slow_link():
    with cluster.made([1, 1], clusters.Veth("100mbit")) as built:
        row, found = late_calls(2**18, 1, 0, np=2, **built.mpirun())
    require(row["blame"] == "transfer", f"blames {row['blame']}: {row}")
    require(row["waiting_share"] < 0.2, f"{row['waiting_share']:.0%} of the time is called waiting")
    ports = {host["host"]: host["ports"] for host in found["hosts"]}
    for host in built.names:
        sent = ports[host]["eth0"]["tx_bytes"]
        require(sent > CALLS * 2**17, f"{host} sent {sent} bytes")


def both():
    with cluster.made([1, 1], clusters.Veth("1gbit"), clusters.KINDS, [0, 1000]) as built:
        row, found = late_calls(2**21, 1, 3 * LATE, np=2, **built.mpirun())
    require(0 < found["clock_uncertainty_seconds"] < 0.002, f"{found['clock_uncertainty_seconds']}")
    waited = {rank["rank"]: rank["waiting_seconds"] for rank in row["by_rank"]}
    require(waited[0] > 0.8 * CALLS * 3 * LATE * 1e-6, f"rank 0 waited for {waited[0]} s")
    require(waited[1] < 0.1 * waited[0], f"the late rank waited for {waited[1]} s")
    # 2 MiB over 1 Gbit/s take 16 ms: that much of a call moved data on every rank.
    for rank in row["by_rank"]:
        moved = rank["moving_seconds"] / row["compared_calls"] * 2
        require(moved > 0.012, f"rank {rank['rank']} moved data for {moved * 1e3:.1f} ms a call")


def forms():
    _, found = reported(2, [PROGRAMS / "requests", "calls=50"], mca={"mpi_yield_when_idle": 1})
    seen = {row["form"] for comm in found["communicators"] for row in comm["rows"]}
    require({"blocking", "nonblocking", "persistent"} <= seen, f"only {seen}")
    _, found = reported(3, [PROGRAMS / "communicators"], mca={"mpi_yield_when_idle": 1})
    require(len(found["communicators"]) > 2, f"{len(found['communicators'])} communicators")


def table():
    argv = [PROGRAMS / "late", CALLS, 8, 1, 4 * LATE]
    result = mpi.served(2, argv, mca={"coll_gpuar_report": 1})
    require(SHOWN in result.output, f"no line \"{SHOWN}\"\n{result.tail()}")
    for value in ("", "0"):
        result = mpi.served(2, argv, mca={"coll_gpuar_report": value} if value else {})
        require("report" not in result.output, f"a report, unasked\n{result.tail()}")


def unwritable():
    argv = [PROGRAMS / "fixed_calls", 10]
    result = mpi.served(2, argv, mca={"coll_gpuar_report": "/no/such/folder/report.json"})
    require("cannot be written to /no/such/folder" in result.output, result.tail())
    require("gpuar report: 2 processes" in result.output, f"no table instead\n{result.tail()}")


def variables():
    for report_on in (0, 1):
        result = mpi.served(2, [PROGRAMS / "counters"], mca={"coll_gpuar_report": report_on})
        lines = re.findall(r"COUNTER coll_gpuar_(\w+) (\d+) (\d+)", result.output)
        value = {name: int(after) - int(before) for name, before, after in lines}
        require((value["time_ns"] > 0) == bool(report_on), f"time_ns is {value['time_ns']}")
        require(value["wait_ns"] <= value["time_ns"], f"{value}")


def costs(mca):
    if not host_cost.shutil.which("valgrind"):
        raise Skip("valgrind is not installed")
    found = host_cost.difference(host_cost.REPORT, mca)
    lines = "\n".join(f"{cost:5.1f}  {line}" for line, cost in found.calls.most_common())
    print(f"    {found.calls.total():.1f} instructions of a call")
    return found.calls.total(), lines


def costs_on():
    total, lines = costs("1")
    require(MOST_OFF < total <= MOST_ON, f"{total:.1f} instructions\n{lines}")


def costs_off():
    total, lines = costs("0")
    require(1 <= total <= MOST_OFF, f"{total:.1f} instructions\n{lines}")
