"""The bits of results: equal on all ranks, repeatable, and one association in reproducible mode."""

from lanes import lane, mpi, mpi_semantics, require

# On one node the last two give way to another; mpi_hierarchy has more of them.
ALGORITHMS = ["ring", "recursive_doubling", "tree", "double_tree", "rabenseifner", "direct"]
ALGORITHMS += ["two_shot", "reduce_broadcast", "hierarchy", "leaders"]


def lanes():
    return {"mpi_bits": mpi_bits, "mpi_reproducible": mpi_reproducible}


@lane(gpuar=True)
def mpi_bits():
    "equal bits on every rank and at every call, for every algorithm, type and 2 to 8 ranks"
    for algorithm in ["auto", *ALGORITHMS]:
        for ranks in range(2, 9):
            cases = ["equal_on_every_rank"] + (["equal_at_every_call"] if ranks == 3 else [])
            yield (
                f"{algorithm}, {ranks} ranks",
                lambda algorithm=algorithm, ranks=ranks, cases=cases: mpi_semantics.run_program(
                    "bits", ranks, ["most=9973", *cases], mca={"coll_gpuar_algorithm": algorithm}
                ),
            )
        yield f"{algorithm}: buffers, 3 ranks", lambda algorithm=algorithm: every_buffer(algorithm)
        yield f"{algorithm}: rank order", lambda algorithm=algorithm: rank_order(algorithm)


def every_buffer(algorithm):
    operands = ["counts=200", "power=14", "every_count", "around_powers_of_two"]
    operands += ["fewer_elements_than_ranks", "hundred_chars"]
    mca = {"coll_gpuar_algorithm": algorithm}
    mpi_semantics.run_program("buffers", 3, operands, mca=mca)


def rank_order(algorithm):
    """An algorithm that needs a commutative operation must be replaced, not give wrong results."""
    mca = {"coll_gpuar_algorithm": algorithm}
    mpi_semantics.run_program("user_ops", 5, ["strings_in_rank_order", "left_and_right"], mca=mca)


@lane(gpuar=True)
def mpi_reproducible():
    "reproducible mode: the documented association, by every algorithm and on pretend nodes"
    for ranks in (2, 3, 5, 8):
        yield f"association, {ranks} ranks", lambda ranks=ranks: association(ranks)
    yield "digests of all algorithms, 5 ranks", lambda: digests(5, {})
    yield "digests on pretend nodes, 4 ranks", lambda: digests(4, {"coll_gpuar_test_node_size": 2})


def association(ranks):
    mpi_semantics.run_program(
        "bits", ranks, ["documented_association", "most=9973"], mca={"coll_gpuar_reproducible": 1}
    )


def digest(ranks, mca):
    result = mpi_semantics.run_program(
        "bits", ranks, ["digest", "most=9973"], mca={"coll_gpuar_reproducible": 1} | mca
    )
    found = {}
    for line in result.output.splitlines():
        if line.startswith("DIGEST "):
            _, op, type_name, form, count, value = line.split()
            found.setdefault((op, type_name, count), {})[form] = value
    require(len(found) == 60, f"{len(found)} digests instead of 60\n{result.tail()}")
    for key, forms in found.items():
        require(len(set(forms.values())) == 1, f"the forms differ in {key}: {forms}")
    return found


def digests(ranks, placement):
    expected = digest(ranks, {})
    for algorithm in ["auto", *ALGORITHMS]:
        found = digest(ranks, placement | {"coll_gpuar_algorithm": algorithm})
        differing = [key for key in expected if found.get(key) != expected[key]]
        require(not differing, f"{algorithm} gives other bits in {differing[:3]}")
