"""The search for sizes at which the time of gpuar jumps: powers of two, an element more and less."""

from racing import pairing
from racing.table import human

ROUNDS = 3


def sizes_around(powers, element):
    around = {size + step for size in powers for step in (-element, 0, element)}
    return sorted(size for size in around if size >= element)


def search(field, entrant, forms, powers, element):
    """All samples, by form: round after round of all sizes."""
    sizes = sizes_around(powers, element)
    samples = {}
    for form in forms:
        field.log(f"{form}: {len(sizes)} sizes around powers of two, for cliffs")
        samples[form] = [
            sample
            for number in range(ROUNDS)
            for sample in field.round(number, form, [(entrant, size) for size in sizes])
        ]
    return samples


def sentences(samples):
    """A line for each cliff; a line that there is none."""
    found = []
    for form, of_form in samples.items():
        sizes = sorted({sample["bytes"] for sample in of_form})
        by_size = [sample | {"entrant": sample["bytes"]} for sample in of_form]
        for size, neighbour, times in pairing.cliffs(by_size, sizes):
            found.append(
                f"cliff: {form}, {human(size)}: {times:.1f} times what {human(neighbour)} let expect"
            )
    if found:
        return found
    count = sum(len({sample["bytes"] for sample in of_form}) for of_form in samples.values())
    return [
        f"no cliff at {count} sizes: a byte takes less than {pairing.CLIFF} times as long as nearby"
    ]
