"""gpuar_sim and the page that it writes."""

import json
import subprocess
import tempfile
from functools import partial
from pathlib import Path

from lanes import BUILD, ROOT, Skip, lane, mpi, require

SIM = BUILD / "bench" / "gpuar_sim"
SCALING = ["/usr/bin/python3", ROOT / "bench" / "scaling", "--tool", SIM]


def lanes():
    return {"sim": sim}


@lane()
def sim():
    "gpuar_sim: docs/scaling.md is what it predicts, the chosen is near the bound, mistakes are named"
    yield "docs/scaling.md is up to date", page
    yield "the picture", picture
    machines = ROOT / "bench" / "machines"
    for machine in ("host", "device", machines / "cluster.json", machines / "gpus.json"):
        yield f"{Path(machine).name}: within 1.3 times the bound", partial(near_bound, machine)
    for text, why in (
        ("{", "parse error at line"),
        ('{"nics": 8}', 'unknown item "nics"'),
        ('{"network": {"latency_us": "two"}}', '"latency_us" has the wrong type'),
        ('{"network": {"latency_us": -1}}', '"latency_us" must be from 0'),
        ('{"memory": "disk"}', '"memory" must be "host" or "device"'),
    ):
        yield f"a machine of {text}", partial(mistake, text, why)


def page():
    with tempfile.TemporaryDirectory() as folder:
        mpi.succeed(mpi.run([*SCALING, "--folder", folder], timeout=60), "bench/scaling")
        now = (Path(folder) / "scaling.md").read_text()
    require((ROOT / "docs" / "scaling.md").read_text() == now, "run bench/scaling --plot")


def picture():
    known = subprocess.run(["/usr/bin/python3", "-c", "import matplotlib"], capture_output=True)
    if known.returncode != 0:
        raise Skip("there is no python3-matplotlib")
    with tempfile.TemporaryDirectory() as folder:
        mpi.succeed(mpi.run([*SCALING, "--plot", "--folder", folder], timeout=60), "bench/scaling")
        require("<svg" in (Path(folder) / "scaling.svg").read_text(), "no picture")


def near_bound(machine):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        argv = [SIM, "--machine", machine, "--sizes", "8,1G", "--json", file.name]
        mpi.succeed(mpi.run(argv, timeout=60), "gpuar_sim")
        cases = json.load(file)["results"]
    require(max(case["ranks"] for case in cases) == 65536, "up to 65,536 ranks")
    for case in cases:
        chosen = case["rows"][0]
        require(1 <= chosen["of_bound"] * 1.0001, f"faster than the bound: {case}")
        require(chosen["of_bound"] <= 1.3, f"far from the bound: {case}")
        require(chosen["plan_bytes"] < 4 << 20, f"a plan of over 4 MiB: {case}")


def mistake(text, why):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(text)
        file.flush()
        answer = mpi.run([SIM, "--machine", file.name], timeout=60)
        require(answer.status != 0, "was accepted")
        require(why in answer.output and file.name in answer.output, answer.output)
