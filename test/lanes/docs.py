"""What the documentation says must be true."""

import re
from functools import partial

from lanes import ROOT, lane, mpi, require


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
    yield "README.md: the first screen has two commands", first_screen
    for script in ("bench/run", "test/run"):
        yield f"{script} --help", partial(says_help, script)
    yield "gpuar_bench --help", partial(says_help, "build/bench/gpuar_bench")


def links(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            require((page.parent / target).exists(), f"{target} does not exist")


def parameters(page):
    from lanes import parameters as registered

    known = set(registered.parameters())
    counters = {"blocking", "nonblocking", "persistent", "fallbacks", "declined"}
    known |= counters | {"bytes_sent", "messages_sent"}
    named = set(re.findall(r"coll_gpuar_([a-z_]+)", page.read_text()))
    require(named <= known, f"names parameters that do not exist: {sorted(named - known)}")


def names(page):
    text = page.read_text()
    options = set(re.findall(r"^option\('(\w+)'", (ROOT / "meson_options.txt").read_text(), re.M))
    for option in re.findall(r"-D(\w+)=", text):
        require(option in options | {"prefix"}, f"there is no build option {option}")
    for folder in re.findall(r"`((?:coll_gpuar|ucx_bridge|cuda_reduce|topo|test|bench)/[\w/.]*)`", text):
        require((ROOT / folder).exists(), f"{folder} does not exist")


def first_screen():
    screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:20])
    block = screen.split("```")[1].strip().splitlines()
    commands = [line.split("#")[0].strip() for line in block]
    require(commands == ["bench/run", "test/run"], f"shows {commands}")


def says_help(script):
    answer = mpi.succeed(mpi.run([ROOT / script, "--help"], timeout=60, cwd="/"), script)
    require("usage" in answer.output.lower(), "no usage text")
