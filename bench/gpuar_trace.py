#!/usr/bin/python3
"""Puts the files of coll_gpuar_trace, one for each rank, on one line of time: the timeline of the job,
for Perfetto (ui.perfetto.dev) or Chrome (chrome://tracing), and as a picture."""

import argparse
import heapq
import json
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

COLORS = {
    "call": "#c9ccd3",
    "wait": "#f2a65a",
    "send": "#4c78a8",
    "receive": "#54a24b",
    "reduce": "#b279a2",
    "copy": "#d6a5c9",
}
LEGEND = {
    "call": "call",
    "wait": "waiting",
    "send": "send",
    "receive": "receive",
    "reduce": "reduction",
}
ROWS_PER_KIND = 1000


def say(text):
    print(f"gpuar_trace: {text}", file=sys.stderr)


@dataclass
class Process:
    """What one file says."""

    path: Path
    about: dict
    events: list
    pid: int = 0
    shift: int = 0  # ns, to be added to its times

    @property
    def name(self):
        return f"rank {self.about['rank']} on {self.about['host']}"


def files_of(names):
    """The files that are meant: those named, or of a name that coll_gpuar_trace was given, all."""
    found = []
    for name in names:
        path = Path(name)
        stem = path.name.removesuffix(".json")
        of_rank = re.compile(re.escape(stem) + r"\.(spawned-[0-9a-f]+\.)?\d+\.json")
        parts = [p for p in path.parent.glob("*.json") if of_rank.fullmatch(p.name)]
        if not parts and not path.exists():
            sys.exit(f"gpuar_trace: there is neither {path} nor {path.parent / stem}.RANK.json")
        found += parts or [path]
    return found


def load(path):
    try:
        content = json.loads(path.read_text())
        about = content["otherData"]
        if "gpuar" not in about:
            raise KeyError("gpuar")
        return Process(path, about, content["traceEvents"])
    except (OSError, ValueError, KeyError, TypeError) as why:
        sys.exit(f"gpuar_trace: {path} is no file of one rank that coll_gpuar_trace wrote: {why!r}")


def align(processes):
    """Sets the shift of each process, by the offsets that are known best from the first one. Returns
    how far the clocks may be off, in ns."""
    edges = defaultdict(list)  # by process: (how uncertain, other process, to be added to its shift)
    by_host = {}
    for process in processes:
        name = process.about["process"]
        first = by_host.setdefault(process.about["host_id"], name)
        edges[name].append((0, first, 0))
        edges[first].append((0, name, 0))
        for clock in process.about["clocks"]:
            offset, uncertainty = clock["offset_ns"], clock["uncertainty_ns"]
            edges[name].append((uncertainty, clock["process"], -offset))
            edges[clock["process"]].append((uncertainty, name, offset))
    known = {}
    queue = [(0, processes[0].about["process"], 0)]
    while queue:
        uncertainty, name, shift = heapq.heappop(queue)
        if name in known:
            continue
        known[name] = shift, uncertainty
        for more, other, step in edges[name]:
            heapq.heappush(queue, (uncertainty + more, other, shift + step))
    lost = [process.name for process in processes if process.about["process"] not in known]
    if lost:
        say(f"no message tells how the clocks of these compare; they stay as they are: {', '.join(lost)}")
    for process in processes:
        process.shift = known.get(process.about["process"], (0, 0))[0]
    return max(known[process.about["process"]][1] for process in processes if process.name not in lost)


def tell_what_is_missing(processes):
    for process in processes:
        if process.about["left_out"]:
            say(
                f"{process.name}: {process.about['left_out']} earlier events are left out "
                "(coll_gpuar_trace_events is how many are kept)"
            )
    ranks = max((comm["size"] for p in processes for comm in p.about["communicators"]), default=0)
    if len(processes) < ranks:
        say(f"{len(processes)} files, but a communicator of {ranks} ranks: are all of them there?")


def key_of_message(process, event):
    """What both ends of a message agree on, and nothing else has."""
    args = event["args"]
    comm = process.about["communicators"][args["comm"]]
    ends = (comm["rank"], args["peer"])
    form = "call" if args["form"] in ("blocking", "nonblocking") else args["form"]
    which = (comm["key"], form, args["call"], args["round"], args["segment"], args["message"])
    return which + (ends if event["cat"] == "send" else ends[::-1])


def pairs(slices):
    """(send, receive) of each message that both ends have noted."""
    sent = defaultdict(list)
    for process, event in slices:
        if event["cat"] == "send":
            sent[key_of_message(process, event)].append((process, event))
    for process, event in slices:
        if event["cat"] == "receive" and sent[key_of_message(process, event)]:
            yield sent[key_of_message(process, event)].pop(0), (process, event)


def arrow(number, sender, receiver):
    flow = {"cat": "message", "name": "message", "id": number}
    (process, send), (other, receive) = sender, receiver
    return [
        flow | {"ph": "s", "pid": process.pid, "tid": send["tid"], "ts": send["ts"]},
        flow
        | {
            "ph": "f",
            "bp": "e",
            "pid": other.pid,
            "tid": receive["tid"],
            "ts": round(receive["ts"] + receive["dur"], 3),
        },
    ]


def merge(processes):
    """One list of events, times in microseconds from the first one."""
    slices = []
    for pid, process in enumerate(processes):
        process.pid = pid
        for event in process.events:
            event["pid"] = pid
            if event["name"] == "process_sort_index":
                event["args"]["sort_index"] = pid
            if event["ph"] == "X":
                event["ts"] = round(event["ts"] * 1000) + process.shift  # ns, exactly
                slices.append((process, event))
    start = min((event["ts"] for _, event in slices), default=0)
    for _, event in slices:
        event["ts"] = (event["ts"] - start) / 1000
    events = [event for process in processes for event in process.events]
    messages = list(pairs(slices))
    for number, (sender, receiver) in enumerate(messages):
        events += arrow(number, sender, receiver)
    return events, messages


# --- The picture ---------------------------------------------------------------------------------


def in_window(event, window):
    return event["ts"] < window[1] and event["ts"] + event["dur"] > window[0]


def kinds_shown(event):
    """By kind of row: its place in a rank's band, and its height."""
    return ((0.0, 0.4), (0.42, 0.12), (0.56, 0.12), (0.70, 0.12))[event["tid"] // ROWS_PER_KIND]


def draw_slice(axes, base, event):
    place, height = kinds_shown(event)
    rows = 3 if event["tid"] >= ROWS_PER_KIND else 2  # what overlaps more is drawn over
    row = min(event["tid"] % ROWS_PER_KIND, rows - 1)
    bottom = base + place + row * height / rows
    height /= 1 if event["tid"] % ROWS_PER_KIND == 0 else rows
    inner = event["cat"] == "wait" and event["tid"] < ROWS_PER_KIND
    axes.barh(
        bottom + (0.2 if inner else 0),
        event["dur"],
        left=event["ts"],
        height=height - 0.2 if inner else height,
        align="edge",
        color=COLORS[event["cat"]],
        linewidth=0,
    )


def draw(axes, processes, events, messages, window):
    """Times are shown from the beginning of the window."""
    begin, end = window
    width = end - begin
    for event in events:
        if event["ph"] != "X" or not in_window(event, window):
            continue
        draw_slice(axes, event["pid"], event | {"ts": event["ts"] - begin})
        left, right = max(event["ts"], begin), min(event["ts"] + event["dur"], end)
        if event["cat"] == "call" and right - left > width / 6:
            label = ", ".join(event["name"].split(", ")[:2])
            middle = (left + right) / 2 - begin
            axes.text(middle, event["pid"] + 0.1, label, ha="center", va="center", size=7)
    for (_, send), (_, receive) in messages:
        if in_window(send, window) and in_window(receive, window):
            ends = [send["ts"] - begin, receive["ts"] + receive["dur"] - begin]
            axes.plot(ends, [send["pid"] + 0.48, receive["pid"] + 0.62], color="#555555", lw=0.4)
    axes.set(xlim=(0, width), ylim=(len(processes), 0), xlabel="µs")
    axes.set_yticks([process.pid + 0.42 for process in processes])
    axes.set_yticklabels([process.name for process in processes])


def picture(processes, events, messages, window, file):
    try:
        import matplotlib
    except ImportError:
        sys.exit("gpuar_trace: --picture wants matplotlib: install python3-matplotlib")
    matplotlib.use("svg" if file.endswith(".svg") else "agg")
    matplotlib.rcParams["svg.hashsalt"] = "gpuar"  # the same picture each time
    from matplotlib import patches, pyplot

    figure, axes = pyplot.subplots(figsize=(10, 1.2 + 0.9 * len(processes)))
    draw(axes, processes, events, messages, window)
    handles = [patches.Patch(color=COLORS[kind], label=name) for kind, name in LEGEND.items()]
    axes.legend(handles=handles, ncol=len(handles), loc="lower center", bbox_to_anchor=(0.5, 1))
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(left=False)
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None} if file.endswith(".svg") else None)


def window_of(arguments, events):
    ends = [event["ts"] + event["dur"] for event in events if event["ph"] == "X"]
    if not ends:
        sys.exit("gpuar_trace: these files have no events: was there any call?")
    last = max(ends) if arguments.to is None else arguments.to
    if not arguments.begin < last:
        sys.exit(f"gpuar_trace: there is nothing from {arguments.begin} to {last} µs")
    return arguments.begin, last


def main():
    parser = argparse.ArgumentParser(prog="gpuar_trace", description=__doc__)
    parser.add_argument(
        "files", nargs="+", metavar="FILE", help="what coll_gpuar_trace was given, or each rank's file"
    )
    parser.add_argument("-o", "--output", help="the timeline (default: the first FILE, if it is not there)")
    parser.add_argument("--picture", metavar="FILE", help="draw it: .svg, .png or .pdf; takes matplotlib")
    parser.add_argument(
        "--from", dest="begin", type=float, default=0, metavar="US", help="draw from here (default: 0)"
    )
    parser.add_argument("--to", type=float, metavar="US", help="draw up to here (default: the end)")
    arguments = parser.parse_args()

    processes = [load(path) for path in files_of(arguments.files)]
    processes.sort(key=lambda p: ("spawned" in p.path.name, p.about["process"], p.about["rank"]))
    processes.sort(key=lambda p: ("spawned" in p.path.name, p.about["rank"]))
    uncertainty = align(processes)
    tell_what_is_missing(processes)
    events, messages = merge(processes)
    output = arguments.output or arguments.files[0]
    if not arguments.output and (len(arguments.files) > 1 or processes[0].path == Path(output)):
        sys.exit("gpuar_trace: say with --output where the timeline goes")
    about = {"clock_uncertainty_us": uncertainty / 1000, "messages": len(messages)}
    content = {"displayTimeUnit": "ns", "otherData": about, "traceEvents": events}
    Path(output).write_text(json.dumps(content, separators=(",", ":")))
    print(
        f"{output}: {len(processes)} ranks, {len(messages)} messages, clocks known to "
        f"{uncertainty / 1000:.1f} µs"
    )
    if arguments.picture:
        picture(processes, events, messages, window_of(arguments, events), arguments.picture)


if __name__ == "__main__":
    main()
