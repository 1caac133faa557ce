#!/usr/bin/env python3
"""Compiles the device kernels, and makes the assembler file that embeds them.

    build_kernels.py --nvcc NVCC --list
        prints what the kernels are compiled for
    build_kernels.py --nvcc NVCC --root DIR --depfile FILE SOURCE IMAGE.S FATBIN REPORT
        REPORT gets what ptxas says of each kernel: registers, spills
"""

import argparse
import subprocess
import sys
from pathlib import Path

# One binary per generation, from the oldest that a toolkit still knows; binaries of a generation
# run on its later members. The newest one's PTX serves what comes after.
GENERATIONS = (70, 75, 80, 90, 100)

EMBED = """\
/* The section's name is what cuobjdump looks for. */
    .section .nv_fatbin, "a", @progbits
    .balign 64
    .globl gpuar_kernel_image
    .hidden gpuar_kernel_image
gpuar_kernel_image:
    .incbin "{path}"
    .section .note.GNU-stack, "", @progbits
"""


def output(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def generations(nvcc):
    known = {int(word.split("_")[1]) for word in output(nvcc, "--list-gpu-code").split()
             if word.split("_")[1].isdigit()}
    return [generation for generation in GENERATIONS if generation in known]


def targets(chosen):
    for generation in chosen[:-1]:
        yield f"arch=compute_{generation},code=sm_{generation}"
    yield f"arch=compute_{chosen[-1]},code=[sm_{chosen[-1]},compute_{chosen[-1]}]"


def compile_kernels(arguments, chosen):
    command = [arguments.nvcc, "-fatbin", "-std=c++20", "-O3", "-I", arguments.root]
    # Bits equal the host's: no contraction into fused multiply-add, and denormals are kept.
    command += ["-fmad=false", "-ftz=false", "-prec-div=true", "-prec-sqrt=true"]
    # The host compiler only reads the headers here: any version will do.
    command += ["-allow-unsupported-compiler", "-Xptxas", "-v", "--threads", "2"]
    for target in targets(chosen):
        command += ["-gencode", target]
    if "--compress-mode" in output(arguments.nvcc, "--help"):
        command += ["--compress-mode=none"]  # tests look for the kernels' names
    command += ["-MD", "-MF", arguments.depfile, "-MT", arguments.image]
    command += ["-o", arguments.fatbin, arguments.source]
    answer = subprocess.run(command, capture_output=True, text=True)
    said = answer.stdout + answer.stderr
    Path(arguments.report).write_text(said)
    noise = ("ptxas info", "    ")  # its report, and the indented continuation lines of it
    for line in said.splitlines():
        if answer.returncode or not line.startswith(noise):
            print(line, file=sys.stderr)
    return answer.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nvcc", required=True)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--root")
    parser.add_argument("--depfile")
    for name in ("source", "image", "fatbin", "report"):
        parser.add_argument(name, nargs="?")
    arguments = parser.parse_args()
    chosen = generations(arguments.nvcc)
    if not chosen:
        sys.exit(f"{arguments.nvcc} compiles for none of the GPUs that gpuar knows: {GENERATIONS}")
    if arguments.list:
        print(*(f"sm_{generation}" for generation in chosen), "and PTX")
        return 0
    status = compile_kernels(arguments, chosen)
    if status == 0:
        path = str(Path(arguments.fatbin).resolve())
        Path(arguments.image).write_text(EMBED.format(path=path))
    return status


if __name__ == "__main__":
    sys.exit(main())
