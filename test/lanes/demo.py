"""bench/demo shows what it promises."""

import re

from lanes import ROOT, Skip, lane, mpi, require


def lanes():
    return {"demo": demo}


@lane()
def demo():
    "bench/demo: the late rank is named, so is the one that disagrees, hierarchy beats flat"
    shown = {}
    yield "ends well", lambda: shown.update(text=run())
    yield "the late rank", lambda: says(shown["text"], r"most of all for rank 2 on ")
    yield "the rank that disagrees", lambda: says(shown["text"], r"rank 2 is in MPI_Allreduce of 101 ")
    yield "hierarchy beats flat", lambda: beats(shown["text"])


def run():
    return mpi.succeed(mpi.run([ROOT / "bench" / "demo", "--rounds", 1], timeout=200)).output


def says(text, pattern):
    require(re.search(pattern, text), f"no {pattern}\n{text}")


def beats(text):
    if "left out" in text:
        raise Skip(text.splitlines()[-1])
    ratios = [float(value) for value in re.findall(r"^ +(?:8 B|32 KiB|2 MiB) .* (\d+\.\d\d)$", text, re.M)]
    require(len(ratios) == 3, text)
    # Short messages are a matter of latency: who knows of the hosts gains little. One size may be
    # disturbed.
    require(min(ratios) < 0.75 and sorted(ratios)[1] < 1.1, f"ratios {ratios}\n{text}")
