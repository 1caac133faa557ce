"""The tables: on the terminal, and as Markdown for the documentation. Both show the same cells."""

from dataclasses import dataclass, field

from racing import pairing
from racing.entrants import AGAIN, BOUND, DEFAULT, GPUAR


def human(size):
    for unit, shift in (("MiB", 20), ("KiB", 10)):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} B"


@dataclass
class Row:
    """One size of one form."""

    size: int
    us: float  # gpuar
    state: str
    peers: dict  # {peer: (Ratio or None by default, Ratio or None at its best, that setting)}
    noise: object  # Ratio of gpuar to itself
    bound: object  # Ratio of gpuar to the copies
    pairs: tuple = (0, 0)  # of equal state, of all

    @property
    def best(self):
        """The peer to beat."""
        return pairing.slowest_against({peer: best for peer, (_, best, _) in self.peers.items()})


@dataclass
class Table:
    title: str
    peers: list
    rows: list = field(default_factory=list)

    def column(self, peer):
        """The ratios to a peer at its best, over the sizes that it ran."""
        return [row.peers[peer][1] for row in self.rows if row.peers.get(peer, (0, None))[1]]

    @property
    def against_best(self):
        return {row.size: row.peers[row.best][1] for row in self.rows if row.best}


def name_of(peer, setting=DEFAULT):
    return f"{peer}: {setting}"


def row_of(size, samples):
    by_peer = {}
    for sample in samples:
        by_peer.setdefault(sample["peer"], set()).add(sample["entrant"])
    ours = name_of(GPUAR)
    us, state = pairing.time_of(samples, ours)
    peers = {}
    for peer, entrants in by_peer.items():
        if peer in (GPUAR, AGAIN, BOUND):
            continue
        ratios = {name: pairing.ratio(samples, ours, name) for name in sorted(entrants)}
        best = pairing.slowest_against(ratios)
        setting = best.partition(": ")[2] if best else ""
        peers[peer] = ratios.get(name_of(peer)), ratios.get(best), setting
    others = [sample for sample in samples if sample["peer"] not in (GPUAR, AGAIN, BOUND)]
    compared = sum(
        len(pairing.pairs(samples, ours, name)) for name in {s["entrant"] for s in others}
    )
    noise, bound = (pairing.ratio(samples, ours, name_of(name)) for name in (AGAIN, BOUND))
    return Row(size, us, state, peers, noise, bound, (compared, len(others)))


def tables(result):
    """One for each form of a matrix."""
    made = []
    matrix = result["matrix"]
    for form, by_size in result["samples"].items():
        title = f"{form}, {matrix['op']} of {matrix['type']}, {matrix['ranks']} ranks on {matrix['where']}"
        rows = [row_of(int(size), samples) for size, samples in by_size.items()]
        rows = [row for row in rows if row.us is not None]
        peers = list(dict.fromkeys(peer for row in rows for peer in row.peers))
        made.append(Table(title, peers, rows))
    return made


def two(ratio):
    return f"{ratio.median:.2f}" if ratio else "-"


def spread(ratio):
    return f"{ratio.median:.2f} ({ratio.least:.2f}–{ratio.most:.2f})" if ratio else "-"


def cells(table):
    """Heads and rows, all text."""
    heads = [
        "size",
        "µs",
        "cores",
        *table.peers,
        "best peer",
        "gpuar / best peer",
        "noise",
        "of copies",
    ]
    lines = []
    for row in table.rows:
        columns = [human(row.size), f"{row.us:.2f}", row.state]
        for peer in table.peers:
            default, best, _ = row.peers.get(peer, (None, None, ""))
            columns.append(f"{two(default)} {two(best)}" if default or best else "-")
        best = row.best
        columns += [f"{best}, {row.peers[best][2]}" if best else "-"]
        columns += [spread(row.peers[best][1]) if best else "-"]
        columns += [f"{row.noise.least:.2f}–{row.noise.most:.2f}" if row.noise else "-"]
        columns += [f"{100 / row.bound.median:.0f} %" if row.bound else "-"]
        lines.append(columns)
    lines.append(means(table))
    return heads, lines


def means(table):
    columns = ["mean", "", ""]
    for peer in table.peers:
        mean = pairing.geometric_mean(ratio.median for ratio in table.column(peer))
        columns.append(f"{mean:.2f}" if mean else "-")
    mean = pairing.geometric_mean(ratio.median for ratio in table.against_best.values())
    return [*columns, "", f"{mean:.2f}" if mean else "-", "", ""]


def summary(table):
    """The worst ratio, and how many pairs were of equal state."""
    ratios = table.against_best
    if not ratios:
        return "nothing to compare"
    worst = max(ratios, key=lambda size: ratios[size].median)
    row = next(row for row in table.rows if row.size == worst)
    equal, pairs = (sum(row.pairs[i] for row in table.rows) for i in (0, 1))
    mean = pairing.geometric_mean(ratio.median for ratio in ratios.values())
    return (
        f"geometric mean {mean:.2f} of the best peer's time, worst {ratios[worst].median:.2f} at "
        f"{human(worst)} ({row.best}); {equal} of {pairs} pairs of samples were of equal state"
    )


def text(table):
    heads, lines = cells(table)
    widths = [max(map(len, column)) for column in zip(heads, *lines)]
    printed = [table.title]
    for line in [heads, *lines]:
        printed.append("  ".join(cell.rjust(width) for cell, width in zip(line, widths)).rstrip())
    return "\n".join([*printed, summary(table)])


def markdown(table):
    heads, lines = cells(table)
    printed = [f"**{table.title}**", ""]
    for line in [heads, ["---"] * len(heads), *lines]:
        printed.append(f"| {' | '.join(line)} |")
    return "\n".join([*printed, "", f"{summary(table)[0].upper()}{summary(table)[1:]}."])
