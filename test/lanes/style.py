"""Rules of the source text: who may include what, format, lint, length."""

import json
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lanes as package
from lanes import BUILD, ROOT, Failure, Skip, lane, mpi, require

SOURCES = (".c", ".h", ".cpp", ".cu")
FOLDERS = ("coll_gpuar", "ucx_bridge", "cuda_reduce", "topo", "test", "bench")
LONGEST = 450  # lines; most files are well below


def lanes():
    return {"rooms": rooms, "format": formatted, "lint": lint}


def sources():
    listed = mpi.run(["git", "-C", ROOT, "ls-files", *FOLDERS], timeout=60)
    if listed.status == 0:
        paths = [ROOT / line for line in listed.output.splitlines()]
    else:  # a release archive
        paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*"))]
    return [path for path in paths if path.suffix in SOURCES and path.exists()]


@lane()
def rooms():
    "include rules between the rooms, and the rules' own mutants"
    yield "includes", lambda: rules("check", *sources())
    yield "each rule catches a breach", lambda: rules("--self-test")
    yield f"no file longer than {LONGEST} lines", lengths


def rules(*arguments):
    script = ROOT / "test" / "lint" / "rooms.py"
    answer = mpi.run(["python3", "-B", script, *arguments], timeout=60)
    if answer.status:
        raise Failure(answer.output.strip())


def lengths():
    counts = {path: len(path.read_text().splitlines()) for path in sources()}
    long = [f"{path.relative_to(ROOT)}: {n}" for path, n in counts.items() if n > LONGEST]
    require(not long, "too long: " + ", ".join(long))


@lane(on_request=True)
def formatted():
    "clang-format agrees with every C and C++ file"
    if not shutil.which("clang-format"):
        raise Skip("clang-format is not installed")
    yield "clang-format", lambda: mpi.succeed(
        mpi.run(["clang-format", "--dry-run", "-Werror", *sources()], timeout=120), "clang-format"
    )


@lane(on_request=True)
def lint():
    "clang-tidy finds nothing in the product and the tools; with --long in the tests, by its analyzer neither"
    if not shutil.which("clang-tidy"):
        raise Skip("clang-tidy is not installed")
    yield "clang-tidy", tidy


def of_tests(file):
    return Path(file).is_relative_to(ROOT / "test")


def less(file):
    """The static analyzer takes longer than all other checks together: the long form has it, and for
    the product and the tools alone, since a faulty test shows when it runs."""
    return [] if package.long_form and not of_tests(file) else ["--checks=-clang-analyzer-*"]


def tidy():
    text = (BUILD / "compile_commands.json").read_text()
    # clang does not read another compiler's precompiled header, and the sources do not need it.
    text = text.replace("-fpch-preprocess -include unit.h", "")
    compiled = {entry["file"] for entry in json.loads(text) if not entry["file"].endswith(".S")}
    compiled = sorted({str((BUILD / file).resolve()) for file in compiled})
    compiled = [file for file in compiled if package.long_form or not of_tests(file)]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "compile_commands.json").write_text(text)
        check = ["clang-tidy", "--quiet", "-p", folder, "--extra-arg=-Wno-unknown-warning-option"]
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            answers = list(pool.map(lambda file: mpi.run([*check, *less(file), file], timeout=600), compiled))
    bad = [
        line
        for answer in answers
        if answer.status
        for line in answer.output.splitlines()
        if "error:" in line
    ]
    require(not any(answer.status for answer in answers), f"{len(bad)} findings\n" + "\n".join(bad))
