"""What the documentation says must be true."""

import re
import tempfile
from functools import partial
from pathlib import Path

from lanes import BUILD, ROOT, lane, mpi, on_device, require
from releases import spack

SCRIPTS = ("bench/", "test/")
TOOLS = ("gpuar_bench", "gpuar_info", "gpuar_sim", "gpuar_trace", "gpuar_tune")
TOOLS = {name: BUILD / "bench" / name for name in TOOLS}


def lanes():
    return {"docs": docs}


def pages():
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


@lane()
def docs():
    "links lead somewhere, files, options and parameters that are named exist"
    for page in pages():
        name = page.relative_to(ROOT)
        yield f"{name}: links", partial(links, page)
        yield f"{name}: parameters", partial(parameters, page)
        yield f"{name}: folders and build options", partial(names, page)
        yield f"{name}: commands", partial(commands, page)
    yield "README.md: the first screen has two commands", first_screen
    benches = ("run", "cluster", "demo", "race", "scaling", "trace", "gpu/check", "gpu/prepare")
    tests = (f"test/{name}" for name in ("run", "matrix", "fresh", "packaging"))
    for script in (*(f"bench/{name}" for name in benches), *tests):
        yield f"{script} --help", partial(says_help, script)
    for tool in TOOLS:
        yield f"{tool} --help", partial(says_help, f"build/bench/{tool}")
    yield "the Spack recipe asks for what Meson does", spack.agrees_with_meson
    yield "docs/gpu.md: the MPI commands run", gpu_commands
    yield "docs/selection.md: the MPI commands run", selection_commands
    yield "docs/selection.md: the file shown is one", file_shown


def links(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            require((page.parent / target).exists(), f"{target} does not exist")


def parameters(page):
    from lanes import parameters as registered

    known = set(registered.parameters())
    counters = {"blocking", "nonblocking", "persistent", "fallbacks", "declined"}
    counters |= {f"fallbacks_{why}" for why in ("missing", "refusing", "different")}
    known |= counters | {"bytes_sent", "messages_sent"}
    known |= {"time_ns", "wait_ns", "pool_bytes"}
    known |= {"device_calls", "through_host", "kernel_launches", "device_copies"}
    named = set(re.findall(r"coll_gpuar_([a-z_]+)", page.read_text()))
    require(named <= known, f"names parameters that do not exist: {sorted(named - known)}")


def names(page):
    text = page.read_text()
    options = set(re.findall(r"^option\('(\w+)'", (ROOT / "meson_options.txt").read_text(), re.M))
    for option in re.findall(r"-D(\w+)=", text):
        require(option in options | {"prefix"}, f"there is no build option {option}")
    for folder in re.findall(r"`((?:coll_gpuar|ucx_bridge|cuda_reduce|topo|test|bench)/[\w/.]*)`", text):
        require((ROOT / folder).exists(), f"{folder} does not exist")


def shown(page):
    """The lines of a page's fenced blocks, split into words."""
    for block in page.read_text().split("```")[1::2]:
        for line in block.splitlines()[1:]:
            if words := line.split("#")[0].split():
                yield words


def commands(page):
    """Scripts that are shown exist, and know the options that are shown with them."""
    for words in shown(page):
        name = next((word for word in words if word in TOOLS or word.startswith(SCRIPTS)), None)
        if name is None:
            continue
        answer = mpi.succeed(mpi.run([TOOLS.get(name, ROOT / name), "--help"], timeout=60), name)
        for option in words[words.index(name) :]:
            known = not option.startswith("--") or option.split("=")[0] in answer.output
            require(known, f"{name} has no option {option}")


def gpu_commands():
    """Each mpirun line of docs/gpu.md, on the simulated driver; ./app is any program."""
    machine = on_device.staged()
    app = [TOOLS["gpuar_bench"], "--memory", "device", "--sizes", "8,128K", "--iterations", "2"]
    ran = 0
    for words in shown(ROOT / "docs" / "gpu.md"):
        if words[0] != "mpirun":
            continue
        at = next(i for i, word in enumerate(words) if word in ("./app", "gpuar_bench"))
        argv = app
        if words[at] == "gpuar_bench":
            argv = [TOOLS["gpuar_bench"], *words[at + 1 :], "--min-time", "0.0001"]
        component = "gpuar" if words[words.index("coll") + 1] == "gpuar" else "stock"
        env = machine.environment(None, {})
        result = mpi.succeed(mpi.mpirun(2, argv, component, env=env), " ".join(words))
        if component == "gpuar":
            counts = mpi.check_served(2, result).values()
            require(all(count["device_calls"] for count in counts), f"{words}: {counts}")
        ran += 1
    require(ran >= 3, f"only {ran} commands were found")


def selection_commands():
    """Each mpirun line of docs/selection.md, in a folder of its own; ./app is any program."""
    app = [TOOLS["gpuar_bench"], "--sizes", "8,128K", "--iterations", "2"]
    brief = ["--sizes", "8,4K", "--rounds", "1", "--min-time", "0.001"]
    ran = 0
    with tempfile.TemporaryDirectory() as folder:
        for words in shown(ROOT / "docs" / "selection.md"):
            if words[0] != "mpirun":
                continue
            at = next(i for i, word in enumerate(words) if word in ("./app", "gpuar_tune"))
            mca = {words[i + 1]: words[i + 2] for i in range(at) if words[i] == "--mca"}
            ranks = int(words[words.index("-n") + 1])
            tune = words[at] == "gpuar_tune"
            argv = [TOOLS["gpuar_tune"], *words[at + 1 :], *brief] if tune else app
            result = mpi.succeed(mpi.mpirun(ranks, argv, mca=mca, cwd=folder), " ".join(words))
            mpi.check_served(ranks, result)
            require("not used" not in result.output, result.tail())
            ran += 1
    require(ran >= 5, f"only {ran} commands were found")


def file_shown():
    text = (ROOT / "docs" / "selection.md").read_text().split("```toml\n")[1].split("```")[0]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "shown.toml"
        file.write_text(text)
        mca = {"coll_gpuar_tuning_file": file, "coll_gpuar_test_node_size": 2}
        argv = [TOOLS["gpuar_bench"], "--sizes", "8,1M", "--iterations", "2"]
        result = mpi.served(4, argv, mca=mca | {"coll_gpuar_verbose": 1})
    for line in (8, 10):
        require(f"tuning file {file}:{line} " in result.output, result.tail())


def first_screen():
    screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:20])
    block = screen.split("```")[1].strip().splitlines()
    commands = [line.split("#")[0].strip() for line in block]
    require(commands == ["bench/run", "test/run"], f"shows {commands}")


def says_help(script):
    answer = mpi.succeed(mpi.run([ROOT / script, "--help"], timeout=60, cwd="/"), script)
    require("usage" in answer.output.lower(), "no usage text")
