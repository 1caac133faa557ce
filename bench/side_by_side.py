"""Runs gpuar_bench with gpuar and with stock Open MPI in turn and prints one table per form.

The two run as A B A B …, and a size's ratio is the median of time(gpuar) / time(stock) over pairs of
samples. Two cores of a virtual machine may share a cache in one minute and not in the next, which
the time of MPI's own messages tells: each sample of stock is paired with the nearest one of gpuar
that found the cores equally far apart, and absolute times are not comparable at all."""

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
from pathlib import Path

from lanes import BUILD, Failure, mpi
from racing import pairing

BENCH = BUILD / "bench" / "gpuar_bench"
FORMS = ("blocking", "nonblocking", "persistent")


def positive(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of 1 or more")
    return int(text)


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="bench/run",
        description="Installs what is missing, builds, and times gpuar side by side with stock "
        "Open MPI. Every element of every result is checked.",
    )
    parser.add_argument("--ranks", type=positive, default=2, help="ranks (default: 2)")
    parser.add_argument("--rounds", type=positive, default=5, help="rounds of gpuar, stock (default: 5)")
    parser.add_argument("--sizes", default="8:64M", help="as of gpuar_bench (default: 8:64M)")
    parser.add_argument("--op", default="sum", help="as of gpuar_bench (default: sum)")
    parser.add_argument("--type", default="float", help="as of gpuar_bench (default: float)")
    parser.add_argument(
        "--min-time", default="0.02", help="seconds of calls per size and round (default: 0.02)"
    )
    parser.add_argument("--json", metavar="FILE", help="write the samples of all rounds here")
    return parser.parse_args()


def sample(component, arguments):
    """One run: {(form, bytes): result}."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.json"
        argv = [BENCH, "--sizes", arguments.sizes, "--op", arguments.op, "--type", arguments.type]
        argv += ["--min-time", arguments.min_time, "--warmup", 2, "--json", file]
        result = mpi.mpirun(arguments.ranks, argv, component, timeout=600)
        mpi.succeed(result, f"gpuar_bench with {component}")
        results = json.loads(file.read_text())["results"]
    return {(entry["form"], entry["bytes"]): entry for entry in results}


def human(size):
    for unit, shift in (("MiB", 20), ("KiB", 10)):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} B"


def samples_of(rounds, key):
    """Those of one form and size, as pairing wants them; any may be paired."""
    return [
        {
            "round": 0,
            "at": 2 * number + place,
            "entrant": side,
            "us": results[side][key]["min_us"],
            "before": results[side][key]["before_ns"],
            "after": results[side][key]["after_ns"],
        }
        for number, results in enumerate(rounds)
        for place, side in enumerate(("gpuar", "stock"))
    ]


def pairs_of(rounds, key):
    """Pairs of (gpuar, stock) in µs, and whether the cores were equally far apart; neighbours in
    time if that never was so."""
    samples = samples_of(rounds, key)
    pairs = pairing.pairs(samples, "gpuar", "stock")
    alike = bool(pairs)
    if not alike:
        pairs = zip(samples[::2], samples[1::2])
    return [(ours["us"], stock["us"]) for ours, stock in pairs], alike


def print_table(form, rounds):
    """Prints a row per size; returns the ratios."""
    print(f"\n{form}")
    print(
        f"{'size':>9} {'gpuar µs':>11} {'stock µs':>11} {'ratio':>6} {'(min–max)':>13} "
        f"{'busbw GB/s':>11}  served by"
    )
    ratios = []
    for key in (key for key in rounds[0]["gpuar"] if key[0] == form):
        pairs, alike = pairs_of(rounds, key)
        ours, stock = (statistics.median(side) for side in zip(*pairs))
        paired = [pair[0] / pair[1] for pair in pairs]
        ratios.append(statistics.median(paired))
        ratio = f"{'' if alike else '~'}{ratios[-1]:.2f}"
        spread = f"({min(paired):.2f}–{max(paired):.2f})"
        per_algbw = rounds[0]["gpuar"][key]["busbw"] / rounds[0]["gpuar"][key]["algbw"]
        busbw = key[1] / ours * 1e-3 * per_algbw
        served_by = {samples["gpuar"][key]["served_by"] for samples in rounds}
        print(
            f"{human(key[1]):>9} {ours:>11.2f} {stock:>11.2f} {ratio:>6} {spread:>13} "
            f"{busbw:>11.3f}  {'/'.join(sorted(served_by))}"
        )
    return ratios


def main():
    arguments = parse_arguments()
    rounds = []
    for number in range(1, arguments.rounds + 1):
        print(f"bench/run: round {number} of {arguments.rounds}", file=sys.stderr)
        rounds.append({side: sample(side, arguments) for side in ("gpuar", "stock")})
    print(f"allreduce, {arguments.op} of {arguments.type}, {arguments.ranks} ranks, host memory")
    print("time of a call in the fastest batch; ratio gpuar / stock, below 1 is faster; medians over")
    print("samples with the cores equally far apart (~: there were none, neighbours in time)")
    busy = os.getloadavg()[0] - arguments.ranks
    if busy > 1:
        print(f"note: {busy:.0f} other processes were running, times are disturbed")
    ratios = [ratio for form in FORMS for ratio in print_table(form, rounds)]
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    print(f"\ngeometric mean of the ratios {mean:.2f}; every element of every size was checked")
    if arguments.json:
        Path(arguments.json).write_text(
            json.dumps(
                [
                    {side: list(results.values()) for side, results in samples.items()}
                    for samples in rounds
                ],
                indent=1,
            )
        )
    others = {
        f"{form} {human(size)}"
        for samples in rounds
        for (form, size), entry in samples["gpuar"].items()
        if entry["served_by"] != "gpuar"
    }
    if others:
        raise Failure(f"gpuar did not serve {len(others)} of the lines above, see 'served by'")


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"bench/run: {failure}")
