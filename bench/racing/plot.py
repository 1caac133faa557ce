"""The picture: latency and bus bandwidth against size, gpuar beside every peer at its best."""

import sys

from racing import pairing
from racing.entrants import AGAIN, BOUND, GPUAR


def curves(samples_by_size):
    """{peer: {bytes: µs}}: median time in the state that gpuar was in most, at the best setting."""
    found = {}
    for size, samples in samples_by_size.items():
        _, wanted = pairing.time_of(samples, f"{GPUAR}: default")
        times = {}
        for name, peer in {(s["entrant"], s["peer"]) for s in samples}:
            us, state = pairing.time_of(samples, name)
            if peer != AGAIN and state == wanted:
                times[peer] = min(us, times.get(peer, us))
        for peer, us in times.items():
            found.setdefault(peer, {})[int(size)] = us
    return found


def draw(document, file):
    """Of the first matrix."""
    result, machine = document["matrices"][0], document["processor"]
    try:
        import matplotlib
    except ImportError:
        sys.exit("bench/race: a picture takes matplotlib: install python3-matplotlib")
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "gpuar"  # the same picture of the same data
    from matplotlib import pyplot

    forms = result["samples"]
    ranks = result["matrix"]["ranks"]
    figure, axes = pyplot.subplots(
        2, len(forms), figsize=(5 * len(forms), 8), sharex=True, sharey="row", squeeze=False
    )
    colors = {}
    for (form, by_size), latency, bandwidth in zip(forms.items(), *axes):
        for peer, times in sorted(curves(by_size).items(), key=lambda item: item[0] != GPUAR):
            sizes = sorted(times)
            style = style_of(peer, colors)
            latency.plot(sizes, [times[size] for size in sizes], **style)
            per_us = 2 * (ranks - 1) / ranks * 1e-3
            bandwidth.plot(sizes, [size / times[size] * per_us for size in sizes], **style)
        latency.set(title=form, xscale="log", yscale="log")
        bandwidth.set(xlabel="bytes", xscale="log")
        for each in (latency, bandwidth):
            each.set_xscale("log", base=2)
            each.grid(alpha=0.3)
        latency.legend(fontsize="small")
    axes[0][0].set_ylabel("time of a call, µs")
    axes[1][0].set_ylabel("bus bandwidth, GB/s")
    matrix = result["matrix"]
    figure.suptitle(
        f"{matrix['op']} of {matrix['type']}, {ranks} ranks on {matrix['where']}, {machine}"
    )
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)


def style_of(peer, colors):
    if peer == GPUAR:
        return {"label": peer, "color": "black", "linewidth": 2.2, "zorder": 3}
    if peer == BOUND:
        return {"label": "copies alone", "color": "gray", "linestyle": ":"}
    color = colors.setdefault(peer, f"C{len(colors) % 10}")
    return {"label": peer, "color": color, "linewidth": 1.1, "marker": ".", "markersize": 4}
