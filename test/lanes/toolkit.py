"""The CUDA toolkit of the build: the machine's, or Python wheels that test/run fetched."""

import os
import shutil

from lanes import BUILD, Skip, mpi, wheels

# Written by test/setup.sh where there is none and none could be fetched.
NONE = BUILD / "no-cuda-toolkit"


def lacking(what):
    """The reason of a SKIP for want of the toolkit."""
    return f"{what}; {NONE.read_text().strip()}" if NONE.exists() else what


def path():
    """PATH, and then where the toolkit's programs are."""
    prefix = mpi.build_option("toolkit") or "/usr/local/cuda"
    return f"{os.environ['PATH']}:{prefix}/bin"


def disassembler():
    """PATH with cuobjdump and nvdisasm. Small toolkits lack them; then they are fetched."""
    if all(shutil.which(tool, path=path()) for tool in ("cuobjdump", "nvdisasm")):
        return path()
    folder, why = wheels.fetch(
        "cuda-disassembler", "nvidia-cuda-cuobjdump", "nvidia-cuda-nvdisasm"
    )
    if not folder:
        raise Skip(f"cuobjdump and nvdisasm are not installed, and {why}")
    return ":".join([path(), *(str(found) for found in sorted(folder.glob("nvidia/*/bin")))])
