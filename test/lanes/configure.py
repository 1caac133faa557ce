"""Configuring where something is missing: meson says what, and what to do."""

import ctypes.util
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from lanes import ROOT, lane, mpi, require

MISSING = Path("ompi/mca/coll/coll.h")  # of the internal headers, one that gpuar needs


def lanes():
    return {"configure": configure}


@lane()
def configure():
    "meson setup where something is missing: the error names it, and the remedy"
    yield "no Open MPI", lambda: refuses(["-Dopenmpi=/nowhere"], "no Open MPI found", "-Dopenmpi=PREFIX")
    yield "another MPI", lambda: of_version("MPICH Version: 4.2", "is not Open MPI's")
    yield "an Open MPI that is too old", lambda: of_version("mpicc: Open MPI 4.0.3 (Language: C)", "4.0.3 is too old")
    yield "a header is missing, and comes from the sources", header_missing
    yield "no CUDA toolkit where one is asked for", lambda: refuses(
        ["-Dcuda=enabled", "-Dtoolkit=/nowhere"], "there is no nvcc", "-Dcuda=auto"
    )
    yield "no UCX where one is asked for", lambda: refuses(
        ["-Ducx=/nowhere"], "-Ducx=/nowhere: there is no include/ucp", "Name the prefix"
    )
    yield "a UCX that is too old", old_ucx
    yield "the version of a UCX in a prefix", ucx_version
    yield "no sources of Open MPI where they are said to be", lambda: refuses(
        ["-Dopenmpi_source=/nowhere"], "-Dopenmpi_source=/nowhere: there is no ompi/", "unpacked"
    )


def setup(options):
    """Configures in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        argv = ["meson", "setup", Path(folder) / "build", ROOT, "-Dtests=false", *options]
        return mpi.run(argv, timeout=120)


def old_ucx():
    with tempfile.TemporaryDirectory() as folder:
        header = Path(folder) / "include" / "ucp" / "api" / "ucp_version.h"
        header.parent.mkdir(parents=True)
        header.write_text("#define UCP_API_MAJOR 1\n#define UCP_API_MINOR 11\n")
        (Path(folder) / "lib").mkdir()
        for name in ("libucp.so", "libucs.so"):
            library = ctypes.util.find_library(name.removeprefix("lib").removesuffix(".so"))
            require(library, f"no {name}")
            found = next(Path("/usr/lib").glob(f"*/{library}"))
            (Path(folder) / "lib" / name).symlink_to(found)
        refuses([f"-Ducx={folder}"], "UCX 1.11", "is too old: 1.12 or newer is needed")


def ucx_version():
    result = mpi.succeed(setup(["-Ducx=/usr", "-Dcuda=disabled"]), "meson setup")
    require(re.search(r"UCX +: 1\.\d+", result.output), f"no version of UCX\n{result.tail()}")


def refuses(options, *sentences):
    result = setup(options)
    errors = re.findall(r"ERROR: (.*)", result.output)
    require(result.status != 0 and len(errors) == 1, f"no error\n{result.tail()}")
    for sentence in sentences:
        require(sentence in errors[0], f'the error does not say "{sentence}": {errors[0]}')


def prefix_of(folder, answers):
    """A prefix whose mpicc gives these answers, by option, and else those of the real one."""
    cases = "".join(f"  {option}) echo '{answer}'; exit ;;\n" for option, answer in answers.items())
    scripts = {"mpicc": f'case "$1" in\n{cases}esac\n', "ompi_info": ""}
    (folder / "bin").mkdir()
    for name, first in scripts.items():
        script = folder / "bin" / name
        script.write_text(f'#!/bin/sh\n{first}exec {mpi.tool(name)} "$@"\n')
        script.chmod(0o755)
    return folder


def of_version(version, sentence):
    with tempfile.TemporaryDirectory() as folder:
        prefix = prefix_of(Path(folder), {"--showme:version": version})
        refuses([f"-Dopenmpi={prefix}", "-Dcuda=disabled"], sentence)


def header_missing():
    """The headers of the installed Open MPI but for one; then that one in a tree of sources."""
    shown = subprocess.run(
        [mpi.tool("mpicc"), "--showme:incdirs"], capture_output=True, text=True, check=True
    )
    installed = shown.stdout.split()
    with tempfile.TemporaryDirectory() as folder:
        headers, sources = Path(folder) / "headers", Path(folder) / "sources"
        shutil.copytree(installed[0], headers, copy_function=os.symlink)
        (sources / MISSING).parent.mkdir(parents=True)
        (headers / "openmpi" / MISSING).rename(sources / MISSING)
        answer = " ".join(installed).replace(installed[0], str(headers))
        prefix = prefix_of(Path(folder), {"--showme:incdirs": answer})
        options = [f"-Dopenmpi={prefix}", "-Dcuda=disabled"]
        refuses(options, f"lacks the header {MISSING}", "-Dopenmpi_source=DIR")
        result = setup([*options, f"-Dopenmpi_source={sources}"])
        require(result.status == 0, f"not with the sources\n{result.tail()}")
