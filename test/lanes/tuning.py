"""The tuning file: gpuar_tune writes it, the component obeys it, and says where it cannot."""

import re
import socket
import tempfile
from functools import partial
from pathlib import Path

from lanes import BUILD, lane, mpi, mpi_agreement, mpi_semantics, on_device, require

TUNE = BUILD / "bench" / "gpuar_tune"
BENCH = BUILD / "bench" / "gpuar_bench"
BRIEF = ["--min-time", "0.001", "--rounds", "1"]
CHOICE = re.compile(r"gpuar: (.*): (\d+) bytes, \d+ elements: (.*); path: ")


def lanes():
    return {"tuning": tuning}


@lane()
def tuning():
    "gpuar_tune writes a file, every rank obeys it; broken, missing and differing files are named"
    yield "gpuar_tune writes a file that is obeyed, 2 ranks", partial(tuned, 2, "")
    yield "gpuar_tune with segments on 2 nodes of 2 ranks", partial(tuned, 4, "2")
    yield "gpuar_tune adds to a file", added
    yield "gpuar_tune --memory device", on_devices
    yield "the file says what goes through the host", limit_of_file
    yield "gpuar_tune without gpuar, with a file, of an unknown algorithm", refusals
    yield "an entry that cannot serve falls to the cost model", cannot_serve
    yield "what the user forces goes before the file", forced
    yield "a broken file: its line is named, the cost model serves", partial(
        broken, ['up_to = 8, algorithm = "ring"', 'algorithm = "rign"']
    )
    yield "a missing file is named, the cost model serves", partial(broken, [])
    yield "another file on rank 1: all decline", differing
    yield "a file on rank 0 alone: all decline", on_one_rank
    yield "a broken file on rank 2: all decline", broken_on_one_rank
    yield "hints in a communicator's info", hints
    yield "a communicator that asks for reproducible results", reproducible


def text(entries, ranks=2):
    lines = "".join(f"  {{ {entry} }},\n" for entry in entries)
    return f"format = 1\n[[table]]\nranks = {ranks}\nnodes = 1\nentries = [\n{lines}]\n"


def choices(result):
    """What was chosen and why, by bytes, from the lines of coll_gpuar_verbose."""
    return {int(size): what for _, size, what in CHOICE.findall(result.output)}


def bench(ranks, sizes, mca):
    argv = [BENCH, "--sizes", sizes, "--iterations", 3, "--form", "blocking"]
    return mpi.served(ranks, argv, mca={"coll_gpuar_verbose": 1} | mca)


def tuned(ranks, nodes):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "t.toml"
        pretend = {"coll_gpuar_test_node_size": nodes} if nodes else {}
        argv = [TUNE, "--sizes", "8,1K,64K", "--output", file, *BRIEF]
        argv += ["--segments", "16K"] if nodes else []
        result = mpi.succeed(mpi.mpirun(ranks, [*argv, "--progress"], mca=pretend), "gpuar_tune")
        require(result.output.count(" candidates\n") == 3, f"no progress\n{result.tail()}")
        rows = [line.split() for line in result.output.splitlines() if re.match(r" +\d+  ", line)]
        require([row[0] for row in rows] == ["8", "1024", "65536"], result.tail())
        for whose in ("cost model", "file"):
            require(f"regret of the {whose}: median " in result.output, result.tail())
        lines = file.read_text().splitlines()
        result = bench(ranks, "8,1K,64K,128K", {"coll_gpuar_tuning_file": file} | pretend)
    chosen = choices(result)
    for size in (8, 1024, 65536):
        match = re.search(rf"asked for by tuning file {file}:(\d+) ", chosen[size])
        require(match, f"{size} bytes: {chosen[size]}\n{result.tail()}")
        entry = lines[int(match.group(1)) - 1]
        name = re.search(r'algorithm = "([a-z_]+)', entry).group(1)
        require(chosen[size].startswith(name), f"{entry} became {chosen[size]}")
    require("least predicted time" in chosen[131072], f"beyond the file: {chosen[131072]}")


def added():
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "t.toml"
        for ranks in (2, 3):
            argv = [TUNE, "--sizes", "8", "--algorithms", "ring,tree", "--append"]
            mpi.succeed(mpi.mpirun(ranks, [*argv, "--output", file, *BRIEF]), "gpuar_tune")
        for ranks in (2, 3):
            result = bench(ranks, "8", {"coll_gpuar_tuning_file": file})
            require(f"by tuning file {file}:" in choices(result)[8], result.tail())


def on_devices():
    """What was measured there is used there, and not for calls on host memory."""
    env = on_device.staged().environment(None, {})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "t.toml"
        argv = [TUNE, "--memory", "device", "--sizes", "8,128K", "--algorithms", "ring,two_shot"]
        argv += ["--output", file, *BRIEF]
        result = mpi.mpirun(2, argv, mca={"coll_gpuar_expect": "host"}, env=env)
        words = "no call of these sizes is planned for device memory here"
        require(result.status != 0 and words in result.output, result.tail())
        ask = {"coll_gpuar_expect": "ask"}
        mpi.succeed(mpi.mpirun(2, argv, mca=ask, env=env), "gpuar_tune")
        require("device_limit = " in file.read_text(), f"no limit was measured: {file.read_text()}")
        for memory, why in (("device", "by tuning file"), ("host", "least predicted time")):
            argv = [BENCH, "--memory", memory, "--sizes", "128K", "--iterations", 2]
            mca = {"coll_gpuar_tuning_file": file, "coll_gpuar_verbose": 1}
            result = mpi.served(2, argv, mca=mca | ask, env=env)
            require(why in choices(result)[131072], f"{memory}: {result.tail()}")


def limit_of_file():
    """The tuning file's counts, unless the parameter says something else than it does by itself."""
    env = on_device.staged().environment(None, {})
    argv = [BENCH, "--memory", "device", "--sizes", "16K", "--form", "blocking", "--iterations", 2]
    table = "format = 1\n[[table]]\nranks = 2\nnodes = 1\nmemory = \"device\"\n{}entries = []\n"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "t.toml"
        for line, mca, through_host in (
            ("", {}, True),
            ("device_limit = 0\n", {}, False),
            ('device_limit = "16K"\n', {}, True),
            ("device_limit = 16383\n", {}, False),
            ("device_limit = 0\n", {"coll_gpuar_device_limit": 20000}, True),
        ):
            file.write_text(table.format(line))
            mca = {"coll_gpuar_tuning_file": file, "coll_gpuar_expect": "device"} | mca
            result = mpi.served(2, argv, mca=mca, env=env)
            counted = mpi.counters(result.output)[0]
            require(
                (counted["through_host"] > 0) == through_host,
                f"{line or 'no limit'}, {mca}: {counted}\n{result.tail()}",
            )


def refusals():
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "t.toml"
        file.write_text(text([]))
        argv = [TUNE, "--sizes", "8", "--output", Path(folder) / "new.toml"]
        for extra, component, mca, words in (
            ([], "stock", {}, "select it by mpirun --mca coll gpuar"),
            ([], "gpuar", {"coll_gpuar_tuning_file": file}, "tune without it"),
            (["--algorithms", "rign"], "gpuar", {}, "unknown algorithm rign; there are ring, "),
            ([], "gpuar", {"coll_gpuar_test_fault": "decline"}, "does not serve this communicator"),
        ):
            result = mpi.mpirun(2, [*argv, *extra], component, mca=mca)
            require(result.status != 0 and words in result.output, f"{words}\n{result.tail()}")
        require(not Path(folder, "new.toml").exists(), "a file was written all the same")


def cannot_serve():
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "t.toml"
        file.write_text(text(['algorithm = "ring"']))
        mca = {"coll_gpuar_tuning_file": file, "coll_gpuar_verbose": 1}
        result = mpi_semantics.run_program("user_ops", 2, ["matrix_product", "matrix_sum"], mca=mca)
        words = f"ring was asked for by tuning file {file}:6, but does not keep the order of ranks"
        require(words in result.output, f"not \"{words}\"\n{result.tail()}")
        result = bench(2, "64K", mca | {"coll_gpuar_reproducible": 1})
        words = f"ring was asked for by tuning file {file}:6, but does not follow"
        require(words in result.output, f"not \"{words}\"\n{result.tail()}")


def forced():
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "t.toml"
        file.write_text(text(['algorithm = "ring"']))
        mca = {"coll_gpuar_tuning_file": file, "coll_gpuar_algorithm": "tree"}
        result = bench(2, "64K", mca)
        require(choices(result)[65536].startswith("tree"), result.tail())


def problem_lines(result):
    return [line for line in result.output.splitlines() if "tuning file is not used" in line]


def broken(entries):
    """On all ranks alike: one line in all, and calls are served as if there were no file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "t.toml"
        if entries:
            file.write_text(text(entries))
        result = bench(3, "8,64K", {"coll_gpuar_tuning_file": file})
    lines = problem_lines(result)
    where = f"{file}:7: unknown algorithm \"rign\"" if entries else f"{file}: cannot be read: "
    require(len(lines) == 1, f"{len(lines)} lines\n{result.tail()}")
    require(where in lines[0] and socket.gethostname() in lines[0], f"not {where}: {lines[0]}")
    for what in choices(result).values():
        require("least predicted time" in what, what)


def declined(odd, everywhere, there, words):
    """Three ranks; the odd one has another file. A text of None stands for no file."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for name, content in (("everywhere", everywhere), ("there", there)):
            paths[name] = Path(folder) / f"{name}.toml" if content else ""
            if content:
                paths[name].write_text(content)
        mca = {"coll_gpuar_tuning_file": paths["everywhere"]} if everywhere else {}
        settings = {"OMPI_MCA_coll_gpuar_tuning_file": paths["there"]}
        result = mpi_agreement.run_with_one_different(odd, settings, mca)
        words = [f"rank {max(odd, 1)}", socket.gethostname(), "coll_gpuar_tuning_file", *words]
        mpi_agreement.check_declined(result, words, [0, 1, 2])
        return result, paths


def differing():
    same = text(['algorithm = "ring"'], ranks=3)
    declined(1, same, same + "# by another hand\n", ["one of hash", "a file of the same content"])


def on_one_rank():
    declined(0, None, text(['algorithm = "ring"'], ranks=3), ["one of hash", "and none on rank"])


def broken_on_one_rank():
    good = text(['algorithm = "ring"'], ranks=3)
    result, paths = declined(2, good, text(["algorithm = 3"]), ["none, for it cannot be used,"])
    lines = problem_lines(result)
    require(len(lines) == 1, f"{len(lines)} lines\n{result.tail()}")
    for word in ("rank 2", socket.gethostname(), f"{paths['there']}:6: "):
        require(word in lines[0], f"the line does not say {word}: {lines[0]}")


def hints():
    mca = {"coll_gpuar_verbose": 1, "coll_gpuar_algorithm": "tree"}
    result = mpi_semantics.run_program("communicators", 3, ["hints"], mca=mca)
    found = {}  # by communicator, in the order in which they are used; the sum comes first
    for name, size, what in CHOICE.findall(result.output):
        if size == "200000":
            found.setdefault(name, what)
    ring, chosen, nonsense = list(found.values())[-3:]
    require(ring.startswith("ring, 49 segments of 4096 bytes"), f"{ring}\n{result.tail()}")
    require("least predicted time" in chosen, f"{chosen}\n{result.tail()}")
    require(nonsense.startswith("tree") and "asked for" in nonsense, f"{nonsense}\n{result.tail()}")
    refused = [line for line in result.output.splitlines() if "a hint in its info" in line]
    require(len(refused) == 1 and "unknown algorithm \"rign\"" in refused[0], f"{refused}")


def reproducible():
    """The parameter says no, the hint yes: a ring, which follows no fixed association, is not taken."""
    mca = {"coll_gpuar_verbose": 1}
    result = mpi_semantics.run_program("communicators", 3, ["reproducible_ring"], mca=mca)
    words = "ring was asked for, but does not follow"
    chosen = {name: what for name, _, what in CHOICE.findall(result.output) if words in what}
    require(chosen, f"not \"{words}\"\n{result.tail()}")
