"""Runs a program on a cluster of this machine's own: gpuar against Open MPI as installed, say.

    PYTHONPATH=test python3 -m cluster 2,2 build/bench/gpuar_bench
    PYTHONPATH=test python3 -m cluster --stock --rate 10gbit 2,2 build/bench/gpuar_bench
    PYTHONPATH=test python3 -m cluster --rate 100mbit --delay 0.001 2,2 build/bench/gpuar_bench
"""

import argparse
import sys

from cluster import Cluster, Relayed, Unavailable, Veth
from lanes import mpi


def main():
    parser = argparse.ArgumentParser(
        prog="cluster", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ranks", help="ranks on each host: 2,2")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    parser.add_argument("--rate", default="1gbit", help="of each link, as tc has it (1gbit); 0: any")
    parser.add_argument("--loss", type=float, default=0, help="probability, on each link (0)")
    parser.add_argument("--delay", type=float, help="seconds, of each link; makes relayed links")
    parser.add_argument("--stock", action="store_true", help="without gpuar")
    parser.add_argument("--mca", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"))
    parser.add_argument("-x", action="append", default=[], metavar="NAME=VALUE", help="environment")
    parser.add_argument("--timeout", type=float, default=600, help="in seconds (600)")
    arguments = parser.parse_args()
    ranks = [int(number) for number in arguments.ranks.split(",")]
    rate = None if arguments.rate == "0" else arguments.rate
    component = "stock" if arguments.stock else "gpuar"
    relayed = arguments.delay is not None
    link = Relayed(arguments.delay, rate, arguments.loss) if relayed else Veth(rate, arguments.loss)
    print(f"cluster: {link}", file=sys.stderr)
    try:
        with Cluster(ranks, link) as cluster:
            settings = cluster.mpirun(dict(pair.split("=", 1) for pair in arguments.x))
            settings["mca"] |= dict(arguments.mca)
            result = mpi.mpirun(
                sum(ranks), arguments.program, component, timeout=arguments.timeout, **settings
            )
    except Unavailable as why:
        sys.exit(f"no cluster can be made here: {why}")
    print(result.output, end="")
    return result.status


if __name__ == "__main__":
    sys.exit(main())
