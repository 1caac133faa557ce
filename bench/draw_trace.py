"""Traces allreduces which one rank enters late, and draws what gpuar_trace makes of one of them."""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

from lanes import BUILD, ROOT, mpi

BYTES = 256 << 10
CALLS = 60
LATE_US = 100


def main():
    parser = argparse.ArgumentParser(prog="bench/trace", description=__doc__)
    parser.add_argument("--ranks", type=int, default=2, help="default: 2")
    parser.add_argument("--picture", type=Path, default=ROOT / "docs" / "trace.svg")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        late = [BUILD / "test" / "mpi" / "late", CALLS, BYTES, arguments.ranks - 1, LATE_US]
        mpi.served(arguments.ranks, late, mca={"coll_gpuar_trace": trace})
        tool = ["/usr/bin/python3", BUILD / "bench" / "gpuar_trace", trace]
        subprocess.run(tool, check=True)
        begin, end = quickest_call(trace)
        margin = (end - begin) / 50
        window = ["--from", begin - margin, "--to", end + margin]
        tool += ["--output", Path(folder) / "again.json", "--picture", arguments.picture, *window]
        subprocess.run([str(word) for word in tool], check=True)


def quickest_call(trace):
    """From when to when the call lasted that was least disturbed by whatever else the machine does."""
    events = json.loads(trace.read_text())["traceEvents"]
    calls = [e for e in events if e.get("cat") == "call" and e["args"]["bytes"] == BYTES]
    spans = {}
    for event in calls:
        begin, end = spans.get(event["args"]["call"], (event["ts"], 0))
        last = event["ts"] + event["dur"]
        spans[event["args"]["call"]] = min(begin, event["ts"]), max(end, last)
    return min(spans.values(), key=lambda span: span[1] - span[0])


if __name__ == "__main__":
    main()
