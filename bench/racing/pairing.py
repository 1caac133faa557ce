"""What the samples of a race say: pure functions of what was measured.

A sample is a dict: `round`, `at` (its place in there), `entrant`, `us` (time of a call), `before`
and `after` (nanoseconds from core to core around it), `preempted`. Two cores of a virtual machine
are near or far, and that changes under a program: samples are compared only within a round, and
only if the cores were equally far apart before and after both of them."""

import math
import statistics
from collections import Counter
from dataclasses import dataclass

NEAR, FAR, CHANGING = "near", "far", "changing"
NEAR_NS = 75  # cores that share a cache take some 20 to 50 ns, others more than 100
# Readings of one distance differ by less, near and far by far more.
SPREAD = 1.5
# How much more a byte may take than at a neighbouring size.
CLIFF = 1.5


@dataclass(frozen=True)
class Ratio:
    """Time of gpuar over that of another, over the pairs of samples."""

    median: float
    least: float
    most: float
    pairs: int


def state(sample):
    """How far apart the cores were."""
    readings = sample["before"], sample["after"]
    if max(readings) > SPREAD * min(readings):
        return CHANGING
    return NEAR if max(readings) <= NEAR_NS else FAR


def equal(one, other):
    readings = [sample[when] for sample in (one, other) for when in ("before", "after")]
    return max(readings) <= SPREAD * min(readings)


def pairs(samples, ours, theirs):
    """Each sample of theirs with the nearest of ours in the same round that is of equal state."""
    found = []
    for other in samples:
        if other["entrant"] != theirs:
            continue
        alike = [
            one
            for one in samples
            if one["entrant"] == ours and one["round"] == other["round"] and equal(one, other)
        ]
        if alike:
            found.append((min(alike, key=lambda one: abs(one["at"] - other["at"])), other))
    return found


def ratio(samples, ours, theirs):
    """None where no two samples may be compared."""
    found = [one["us"] / other["us"] for one, other in pairs(samples, ours, theirs)]
    if not found:
        return None
    return Ratio(statistics.median(found), min(found), max(found), len(found))


def slowest_against(ratios):
    """The peer against which gpuar does worst, of {name: Ratio or None}: the best one, that is. A
    single pair that something disturbed does not count beside those of several rounds."""
    compared = {name: found for name, found in ratios.items() if found}
    most = max((found.pairs for found in compared.values()), default=0)
    sure = [name for name, found in compared.items() if 2 * found.pairs >= most]
    return max(sure, key=lambda name: compared[name].median, default=None)


def time_of(samples, entrant):
    """Median time of a call, in the state that most of its samples had, and that state."""
    own = [sample for sample in samples if sample["entrant"] == entrant]
    if not own:
        return None, None
    states = Counter(state(sample) for sample in own)
    most = max(states, key=lambda name: (name != CHANGING, states[name]))
    return statistics.median(s["us"] for s in own if state(s) == most), most


def geometric_mean(values):
    values = list(values)
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def cliffs(samples, sizes):
    """Sizes at which a byte takes much longer than at the next smaller or the next larger size. The
    samples' `entrant` is the size. As (size, neighbour, how many times longer)."""
    found = []
    for size, neighbour in [*zip(sizes[1:], sizes), *zip(sizes, sizes[1:])]:
        measured = ratio(samples, size, neighbour)
        # Towards a larger size time grows anyway, towards a smaller one time per byte does.
        fair = max(1.0, size / neighbour)
        if measured and measured.median > CLIFF * fair and measured.least > fair:
            found.append((size, neighbour, measured.median / fair))
    return found
