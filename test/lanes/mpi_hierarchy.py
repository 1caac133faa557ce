"""Compositions along nodes and packages, on pretend ones of one machine."""

from functools import partial

from lanes import lane, mpi_bits, mpi_semantics, require

ALL = ["auto", "hierarchy", "leaders", "hierarchy:ring", "hierarchy:rabenseifner", "leaders:double_tree"]
# Pretend nodes, how many ranks, and what is forced: equal, uneven, one rank alone on its node.
NODES = [
    ("2", 4, ALL),
    ("1,3", 4, ALL),
    ("2", 8, ["auto", "hierarchy:ring", "leaders:double_tree"]),
    ("4,4,1", 9, ["auto", "hierarchy", "leaders", "hierarchy:rabenseifner"]),
]
# The same with packages: of two nodes, of one, and uneven.
DEEP = [
    ("4/2", 8, "deep_hierarchy:ring"),
    ("/2", 4, "deep_hierarchy"),
    ("/1,3", 4, "deep_leaders:recursive_doubling"),
    ("5,3/2,1", 8, "deep_hierarchy"),
    ("5,3/2,1", 8, "deep_leaders"),
]


def lanes():
    return {"mpi_hierarchy": mpi_hierarchy}


@lane(gpuar=True)
def mpi_hierarchy():
    "hierarchy and leaders on nodes of 2, of 1 and 3, of 4, 4 and 1: forms, in place, user ops, bits"
    along_nodes = [(nodes, ranks, name) for nodes, ranks, names in NODES for name in names]
    for nodes, ranks, algorithm in along_nodes + DEEP:
        yield (
            f"{algorithm}, {ranks} ranks on nodes of {nodes}",
            partial(exact, nodes, ranks, algorithm),
        )
    for nodes, ranks in (("1,3", 4), ("4,4,1", 9)):
        yield (
            f"requests, {ranks} ranks on nodes of {nodes}",
            lambda nodes=nodes, ranks=ranks: requests(nodes, ranks),
        )
    yield "reproducible where nodes are subtrees", lambda: reproducible("2", 4, "with")
    yield "reproducible where they are not", lambda: reproducible("1,3", 4, "was asked for")
    yield "reproducible on packages that are", lambda: reproducible("4/2", 8, "with", "deep_")


def on_nodes(nodes, algorithm):
    return {"coll_gpuar_test_node_size": nodes, "coll_gpuar_algorithm": algorithm}


def exact(nodes, ranks, algorithm):
    mca = on_nodes(nodes, algorithm)
    operands = ["counts=120", "power=17", "every_count", "around_powers_of_two", "zero_count"]
    operands += ["fewer_elements_than_ranks", "odd_alignment"]
    result = mpi_semantics.run_program(
        "buffers", ranks, operands, mca=mca | {"coll_gpuar_verbose": 1}
    )
    if algorithm != "auto":
        check_used(result, algorithm)
    operands = ["strings_in_rank_order", "left_and_right", "matrix_product", "matrix_sum"]
    mpi_semantics.run_program("user_ops", ranks, operands, mca=mca)
    mpi_semantics.run_program("bits", ranks, ["most=9973", "equal_on_every_rank"], mca=mca)


def check_used(result, algorithm):
    """Every call on MPI_COMM_WORLD went along the nodes."""
    composition, _, across = algorithm.partition(":")
    lines = [line for line in result.output.splitlines() if "in flight: " in line]
    require(lines, f"no choice is reported\n{result.tail()}")
    for line in lines:
        used = f": {composition} with {across}" in line and "asked for" in line
        require(used, f"{algorithm} was asked for: {line}")


def requests(nodes, ranks):
    operands = ["many_outstanding_shuffled", "persistent_fifty_starts"]
    operands += ["persistent_started_in_different_orders"]
    for algorithm in ("hierarchy", "leaders"):
        mpi_semantics.run_program("requests", ranks, operands, mca=on_nodes(nodes, algorithm))


def reproducible(nodes, ranks, words, prefix=""):
    """The bits of a flat algorithm, whatever is forced; the words say whether it is used."""
    expected = mpi_bits.digest(ranks, {"coll_gpuar_algorithm": "tree"})
    for name in ("hierarchy", "leaders", "hierarchy:two_shot", "leaders:rabenseifner"):
        algorithm = prefix + name
        found = mpi_bits.digest(ranks, on_nodes(nodes, algorithm))
        differing = [key for key in expected if found.get(key) != expected[key]]
        require(not differing, f"{algorithm} gives other bits in {differing[:3]}")
        result = mpi_semantics.run_program(
            "buffers",
            ranks,
            ["counts=10", "every_count"],
            mca=on_nodes(nodes, algorithm)
            | {"coll_gpuar_reproducible": 1, "coll_gpuar_verbose": 1},
        )
        composition = algorithm.partition(":")[0]
        require(f"{composition} with" in result.output or words != "with", result.tail())
        require(words in result.output, f"not \"{words}\"\n{result.tail()}")
