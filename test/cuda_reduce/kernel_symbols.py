#!/usr/bin/env python3
"""Each library of host kernels defines one symbol: its table.

Any other function that the linker can see, a template instantiation say, may replace its namesake
compiled for an older processor, and then stop that processor with an illegal instruction.
"""

import subprocess
import sys


def main() -> int:
    library = sys.argv[1]
    command = ["nm", "--demangle", "--defined-only", "--extern-only", "--format=posix", library]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    symbols = [line.rsplit(maxsplit=3)[0] for line in lines if not line.endswith(":")]
    unexpected = [name for name in symbols if not name.endswith("::kernels")]
    for name in unexpected:
        print(f"{library}: {name} is visible to the linker", file=sys.stderr)
    if len(symbols) - len(unexpected) != 1:
        print(f"{library}: expected one table of kernels, found {symbols}", file=sys.stderr)
        return 1
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
