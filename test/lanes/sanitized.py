"""A build by clang with AddressSanitizer and UndefinedBehaviorSanitizer, for the lanes that need one:
the unit tests and libFuzzer's targets share it."""

import os
import shutil
import tempfile
from pathlib import Path

from lanes import ROOT, Skip, mpi

FOLDER = ROOT / "build-sanitized"
SETTINGS = {"UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}


def build(*targets):
    """Compiles targets, paths below FOLDER."""
    need_clang()
    if not (FOLDER / "build.ninja").exists():
        setup = ["meson", "setup", FOLDER, ROOT, "-Db_sanitize=address,undefined"]
        setup += ["-Doptimization=1", "-Db_ndebug=false", "-Db_lundef=false"]
        setup += ["-Dcuda=disabled"]  # nothing here runs a kernel; and a build without is tried
        # Lines of a trace, at half the time that all of -g takes to compile.
        setup += ["-Ddebug=false", "-Dcpp_args=-g1 -fsanitize=fuzzer-no-link"]
        setup += [f"-D{name}={mpi.build_option(name)}" for name in ("openmpi", "ucx", "toolkit")]
        compilers = {"CC": "clang", "CXX": "clang++"}
        if shutil.which("ccache"):
            compilers = {name: f"ccache {command}" for name, command in compilers.items()}
        mpi.succeed(mpi.run(setup, timeout=240, env=os.environ | compilers), "configuring")
    mpi.succeed(mpi.run(["ninja", "-C", FOLDER, *targets], timeout=1800), "compiling")


def need_clang():
    """Skips where clang or its libFuzzer is missing."""
    if not shutil.which("clang++"):
        raise Skip("clang is not installed")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "try.cpp"
        source.write_text(
            'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }\n'
        )
        command = ["clang++", "-fsanitize=fuzzer,address", source, "-o", Path(folder) / "try"]
        if mpi.run(command, timeout=60).status:
            raise Skip("clang cannot link libFuzzer; on Debian: libclang-rt-dev")
