"""How fast is it? Both sides of a ratio are neighbours in time: A B A B …; a ratio is the median
over the rounds of time(gpuar) / time(the other way) within one round."""

import json
import statistics
import tempfile
import time
from pathlib import Path

from lanes import Failure, Skip, mpi, require

from gpu_check.places import BENCH, KERNEL_TIMES

LEAST_OF_COPY = 0.9  # of the device's copy bandwidth, from FROM_BYTES on
FROM_BYTES = 16 << 20
MOST_OF_OTHER_WAY = 1.1  # of the time that the way through the host takes
MEANINGLESS = "simulated driver: times mean nothing"


def human(size):
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} B"


def microseconds(value):
    return f"{value:.1f} µs" if value < 10_000 else f"{value / 1000:.1f} ms"


def judge(plan, good, text, why):
    """A text for the line, or the failure. The simulator is not judged."""
    if plan.simulated:
        return f"{text} ({MEANINGLESS})"
    if not good:
        raise Failure(f"{text}; {why}")
    return text


def kernels(report, place, plan, deadline):
    "reduction kernels beside the device's own copy"
    rows = []

    def run():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "kernels.json"
            argv = [place.program(KERNEL_TIMES), *plan.kernel_times, "--json", file]
            mpi.succeed(place.run(argv, deadline.limit(150)), "kernel_times")
            rows.extend(json.loads(file.read_text())["results"])
        report.figures("kernels", rows)
        return f"{len(rows)} cases, every element compared with the host's"

    def row_text(row):
        text = f"{row['reduce_gbs']:.0f} GB/s, copy {row['copy_gbs']:.0f} GB/s, ratio "
        text += f"{row['ratio']:.2f} ({row['ratio_min']:.2f}–{row['ratio_max']:.2f})"
        good = row["ratio"] >= LEAST_OF_COPY or row["bytes"] < FROM_BYTES
        return judge(plan, good, text, f"at least {LEAST_OF_COPY} is wanted")

    report.check("reduction kernels", run)
    for row in rows:
        name = f"{row['op']} of {row['type']}, {row['inputs']} inputs, {human(row['bytes'])}"
        report.check(name, lambda row=row: row_text(row))


# What is timed: MPI's side, and gpuar_bench's options.
SIDES = {
    "gpuar": ("gpuar", ["--memory", "device"]),
    "through host": ("stock", ["--memory", "device", "--stage"]),
}


def sample(place, plan, side, ranks, sizes, deadline):
    """One run: {bytes: result}."""
    component, options = SIDES[side]
    with tempfile.TemporaryDirectory(dir=plan.shared_folder) as folder:
        file = Path(folder) / "results.json"
        argv = [place.program(BENCH), *options, "--form", "blocking", "--sizes", sizes]
        argv += ["--min-time", plan.min_time, "--warmup", 2, "--json", file]
        limit = deadline.limit(plan.sample_seconds)
        mpi.succeed(place.ranks(ranks, argv, component, limit), f"gpuar_bench, {side}")
        results = json.loads(file.read_text())["results"]
    served_by = {"gpuar": "gpuar", "stock": "other"}[component]
    others = [human(row["bytes"]) for row in results if row["served_by"] != served_by]
    require(not others, f"{side}: not served by {served_by}: {', '.join(others)}")
    return {row["bytes"]: row for row in results}


def row_of(size, rounds):
    of = {side: [samples[side][size]["median_us"] for samples in rounds] for side in SIDES}
    ratios = [ours / other for ours, other in zip(of["gpuar"], of["through host"])]
    return {
        "bytes": size,
        "gpuar_us": statistics.median(of["gpuar"]),
        "through_host_us": statistics.median(of["through host"]),
        "ratio": statistics.median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
        "rounds": len(rounds),
    }


def row_text(plan, row):
    text = f"gpuar {microseconds(row['gpuar_us'])}, through host "
    text += f"{microseconds(row['through_host_us'])}, ratio {row['ratio']:.2f} "
    text += f"({row['ratio_min']:.2f}–{row['ratio_max']:.2f}, {row['rounds']} rounds)"
    return judge(plan, row["ratio"] <= MOST_OF_OTHER_WAY, text, "slower than through the host")


def allreduce(report, place, plan, deadline):
    "device buffers as they are, against copy to pinned host memory + stock allreduce + copy back"
    for ranks, sizes in plan.times:
        rounds = []

        def run(ranks=ranks, sizes=sizes, rounds=rounds):
            start = time.monotonic()
            for _ in range(plan.rounds):
                if rounds and time.monotonic() - start > plan.times_seconds / len(plan.times):
                    break
                try:
                    rounds.append(
                        {
                            side: sample(place, plan, side, ranks, sizes, deadline)
                            for side in SIDES
                        }
                    )
                except Skip:  # out of time: what there is counts
                    if not rounds:
                        raise
                    break
            return f"{len(rounds)} of {plan.rounds} rounds, every element checked"

        report.check(f"allreduce of device memory, {ranks} ranks", run)
        sizes = rounds[0]["gpuar"] if rounds else []
        rows = [row_of(size, rounds) for size in sizes]
        report.figures(f"allreduce, {ranks} ranks", rows)
        for row in rows:
            name = f"float sum, {ranks} ranks, {human(row['bytes'])}"
            report.check(name, lambda row=row: row_text(plan, row))
