"""libFuzzer on what reads input from outside (test/fuzz/input)."""

import os
import re
import tempfile
from functools import partial

from lanes import ROOT, Skip, lane, mpi, require, sanitized

SOURCES = ROOT / "test" / "fuzz" / "input"
INPUTS = ("messages", "parameters", "records", "tuning")
SECONDS = 10
EXECUTED = re.compile(r"stat::number_of_executed_units:\s*(\d+)")


def lanes():
    return {"fuzz_input": fuzz_input}


@lane()
def fuzz_input():
    "parameters, tuning files, published records and messages from anybody: ten seconds of libFuzzer each"
    yield "build", lambda: sanitized.build(*map(target, INPUTS))
    for name in INPUTS:
        yield name, partial(quick, name)


def target(name):
    return f"test/fuzz/input/fuzz_{name}"


def quick(name):
    program = sanitized.FOLDER / target(name)
    if not program.exists():
        raise Skip("not built")
    with tempfile.TemporaryDirectory() as folder:
        argv = [program, f"-max_total_time={SECONDS}", "-timeout=20", "-max_len=2048"]
        argv += ["-print_final_stats=1", f"-artifact_prefix={folder}/", folder]
        argv += [SOURCES / "corpus" / name]
        if (SOURCES / f"{name}.dict").exists():
            argv.append(f"-dict={SOURCES / name}.dict")
        env = os.environ | sanitized.SETTINGS
        result = mpi.succeed(mpi.run(argv, timeout=SECONDS + 120, env=env), f"fuzz_{name}")
    executed = EXECUTED.search(result.output)
    require(executed and int(executed[1]) > 100, f"hardly anything was tried\n{result.tail()}")
