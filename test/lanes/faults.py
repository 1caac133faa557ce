"""A rank that is killed, stopped or cut off in the middle of allreduces: what the others get."""

import contextlib
import re
import tempfile
import threading
import time
from pathlib import Path

import cluster as clusters
import lanes as package
from lanes import BUILD, lane, mpi, require
from lanes.cluster import made

SURVIVE = BUILD / "test" / "mpi" / "survive"
ENDED = re.compile(r"^ENDED (\d+) (\d+) (\d+) (\d+) (\S+)$", re.MULTILINE)

ALGORITHMS = ["recursive_doubling", "ring", "tree", "double_tree", "rabenseifner", "direct"]
ALGORITHMS += ["two_shot", "reduce_broadcast", "hierarchy:ring", "leaders:recursive_doubling"]
FORMS = ["blocking", "nonblocking", "persistent"]
SIZES = [8, 2000, 1 << 20]

# Seconds from a death on this host, or of the only rank of another, to the error (documented in
# docs/reliability.md), and what a busy machine may add.
NOTICED = 1.5
SLACK = 3.0
TIMEOUT = 2  # coll_gpuar_timeout, where it is given


def lanes():
    return {"faults": faults}


def cases():
    """Each algorithm with each form and size; the quick form takes each once."""
    every = [(a, f, s) for a in ALGORITHMS for f in FORMS for s in SIZES]
    if package.long_form:
        return every
    return [
        (algorithm, FORMS[i % len(FORMS)], SIZES[(i + i // 3) % len(SIZES)])
        for i, algorithm in enumerate(ALGORITHMS)
    ]


@lane()
def faults():
    "a rank killed, stopped or cut off while others call: an error in time, or late but right"
    for algorithm, form, size in cases():
        name = f"{algorithm}, {form}, {size} bytes"
        yield f"killed: {name}", lambda a=algorithm, f=form, s=size: killed(a, f, s)
    some = cases() if package.long_form else cases()[::9]
    for algorithm, form, size in some:
        name = f"{algorithm}, {form}, {size} bytes"
        yield f"stopped: {name}", lambda a=algorithm, f=form, s=size: stopped(a, f, s)
    yield "stopped longer than coll_gpuar_timeout", stopped_too_long
    yield "killed, with a progress thread", lambda: killed(
        "ring", "nonblocking", 1 << 20, {"coll_gpuar_progress_thread": 1}
    )
    for form in FORMS if package.long_form else FORMS[1:2]:
        yield f"killed on another host: {form}", lambda form=form: killed_elsewhere(form)
    yield "a host cut off", cut_off
    yield "a host cut off for two seconds", cut_off_and_mended
    yield "5 % of the frames lost", lambda: bad_link(clusters.Relayed(0.0002, loss=0.05))
    yield "a delay of 100 ms", lambda: bad_link(clusters.Relayed(0.1))


def survive(ranks, form, size, fault, seconds, mca=None, built=None, mark=()):
    """Runs the program, on a cluster if one is given; {rank: (right, wrong, error, seconds after the
    fault)} of those that ended."""
    settings = built.mpirun() if built else {}
    mca = (
        settings.pop("mca", {}) | {"mpi_yield_when_idle": 1, "coll_gpuar_counters": 0} | (mca or {})
    )
    options = [*settings.pop("options", ()), "--enable-recovery"]
    argv = [SURVIVE, form, size, fault, seconds, *mark]
    result = mpi.mpirun(ranks, argv, mca=mca, options=options, timeout=60, **settings)
    ended = {
        int(rank): (int(right), int(wrong), int(error), float(after))
        for rank, right, wrong, error, after in ENDED.findall(result.output)
    }
    wrong = {rank: how for rank, how in ended.items() if how[1]}
    require(not wrong, f"wrong sums: {wrong}\n{result.tail()}")
    return ended, result


def all_failed(ended, result, ranks, within):
    """Each of the ranks ended with an error, in time."""
    require(sorted(ended) == list(ranks), f"ended: {ended}\n{result.tail()}")
    late = {rank: how for rank, how in ended.items() if not how[2] or how[3] > within + SLACK}
    require(not late, f"no error within {within} s: {late}\n{result.tail()}")
    print(
        f"    errors {min(e[3] for e in ended.values()):.1f} to "
        f"{max(e[3] for e in ended.values()):.1f} s after the fault"
    )


def killed(algorithm, form, size, mca=None):
    mca = {"coll_gpuar_algorithm": algorithm, "coll_gpuar_test_node_size": 2} | (mca or {})
    ended, result = survive(4, form, size, "kill", 20, mca)
    all_failed(ended, result, range(3), NOTICED)
    for words in ("is gone: its process has ended", "; see what it does or why it ended: its own"):
        require(words in result.output, f"not said\n{result.tail()}")


def all_right(ended, result, ranks, fewest=1):
    require(sorted(ended) == list(ranks), f"ended: {ended}\n{result.tail()}")
    bad = {rank: how for rank, how in ended.items() if how[2] or how[0] < fewest}
    require(not bad, f"errors, or too few calls: {bad}\n{result.tail()}")
    mpi.succeed(result)


def stopped(algorithm, form, size):
    """5 s, while the others wait: silence is no error."""
    mca = {"coll_gpuar_algorithm": algorithm, "coll_gpuar_test_node_size": 2}
    ended, result = survive(4, form, size, "stop", 6, mca)
    all_right(ended, result, range(4))


def stopped_too_long():
    ended, result = survive(4, "blocking", 2000, "stop", 20, {"coll_gpuar_timeout": TIMEOUT})
    require(sorted(ended) == list(range(4)), f"ended: {ended}\n{result.tail()}")
    require(all(how[2] for how in ended.values()), f"no error: {ended}\n{result.tail()}")
    late = [rank for rank in range(3) if ended[rank][3] > TIMEOUT + 1 + SLACK]
    require(not late, f"late: {ended}\n{result.tail()}")
    require("raise coll_gpuar_timeout (peer unreachable); see what" in result.output, result.tail())


def killed_elsewhere(form):
    with made([1, 1, 1], clusters.Veth()) as built:
        ended, result = survive(3, form, 100000, "kill", 20, built=built)
    all_failed(ended, result, range(2), NOTICED)


@contextlib.contextmanager
def told(relay, lines):
    """Tells a relay lines, each so many seconds after the mark is made, which it gives:
    {seconds: line}."""
    with tempfile.TemporaryDirectory() as folder:
        mark, over = Path(folder) / "begun", threading.Event()

        def tell():
            while not mark.exists() and not over.wait(0.02):
                pass
            begun = time.monotonic()
            for seconds, line in lines.items():
                if over.wait(max(0, begun + seconds - time.monotonic())):
                    return
                relay.tell(line)

        thread = threading.Thread(target=tell)
        thread.start()
        try:
            yield [mark]
        finally:
            over.set()
            thread.join()


def cut_off():
    # Mended when all have given up: mpirun's own daemon has to end on that host.
    with made([1, 1, 1], clusters.Relayed()) as built:
        with told(built.relays["node3"], {0.5: "cut", TIMEOUT + 4: "mend"}) as mark:
            mca = {"coll_gpuar_timeout": TIMEOUT}
            ended, result = survive(3, "blocking", 100000, "none", 15, mca, built, mark)
    require({0, 1} <= set(ended), f"ended: {ended}\n{result.tail()}")
    require(all(how[2] for how in ended.values()), f"no error: {ended}\n{result.tail()}")
    require("raise coll_gpuar_timeout (peer unreachable); see what" in result.output, result.tail())


def cut_off_and_mended():
    with made([1, 1, 1], clusters.Relayed()) as built:
        with told(built.relays["node3"], {0.5: "cut", 2.5: "mend"}) as mark:
            ended, result = survive(3, "nonblocking", 100000, "none", 5, None, built, mark)
    all_right(ended, result, range(3))


def bad_link(link):
    with made([1, 1, 1], link) as built:
        ended, result = survive(3, "persistent", 100000, "none", 3, built=built)
    all_right(ended, result, range(3))
