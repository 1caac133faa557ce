"""What a race has found, for the terminal and for docs/performance.md."""

import re

from lanes import Failure
from racing import cliffs, pairing, plot, starting, table
from racing.entrants import GPUAR

LEGEND = """Ratios are gpuar's time over the peer's, medians of the pairs of samples of a round that
were taken while the cores were equally far apart: below 1 gpuar is faster. A peer's cell: as it is
by default, and at its best setting of those tried. The best peer is the one against which gpuar
does worst, with its setting; in brackets the least and the largest ratio. Noise: the same of gpuar
against itself. Of copies: of the rate that copying what must move would reach, on all cores."""


def all_samples(document):
    for result in document["matrices"]:
        for by_size in result["samples"].values():
            for samples in by_size.values():
                yield from samples
    for samples in document.get("cliffs", {}).values():
        yield from samples


def all_tables(document):
    return [made for result in document["matrices"] for made in table.tables(result)]


def cores(document):
    """How far apart the cores were."""
    samples = list(all_samples(document))
    if not samples:
        return ""
    shares = []
    for state in (pairing.NEAR, pairing.FAR, pairing.CHANGING):
        readings = [s["before"] for s in samples if pairing.state(s) == state]
        if readings:
            median = sorted(readings)[len(readings) // 2]
            share = 100 * len(readings) / len(samples)
            shares.append(f"{state} ({median:.0f} ns) {share:.0f} %")
    disturbed = 100 * sum(s["preempted"] > 0 for s in samples) / len(samples)
    return (
        f"the cores, from one to the other: {', '.join(shares)} of the samples; in {disturbed:.0f} % of "
        "them a rank lost its core to something else"
    )


def absent(document):
    """Who could not take part, or not to the end, and why."""
    lines = [f"SKIP {name}: {why}" for name, why in document["skipped"]]
    for result in document["matrices"]:
        settings = {}
        for entry in result["out"]:
            peer, _, setting = entry["entrant"].partition(": ")
            settings.setdefault((peer, entry["form"], entry["why"]), []).append(setting)
        for (peer, form, why), names in settings.items():
            matrix = result["matrix"]
            lines.append(f"{peer} ({'; '.join(names)}), {form}, {matrix['ranks']} ranks: {why}")
    return lines


def mpis(document):
    """What the MPIs call themselves, and who runs in them."""
    found = {}
    for result in document["matrices"]:
        for entrant, mpi in result["mpis"].items():
            name = " ".join(re.split(r"[,\n]", mpi)[0].split())
            found.setdefault(name, {})[entrant.partition(":")[0]] = True
    return "; ".join(f"{name}: {', '.join(peers)}" for name, peers in found.items())


def besides(document):
    """What was measured besides the tables: cliffs, and starting a job."""
    found = cliffs.sentences(document["cliffs"]) if "cliffs" in document else []
    return [*found, *([starting.sentence(document["start"])] if "start" in document else [])]


def text(document):
    parts = [
        f"{document['processor']}; load {document['load']:.1f}",
        cores(document),
        mpis(document),
    ]
    parts += [table.text(made) for made in all_tables(document)]
    parts += [*besides(document), "\n".join(absent(document))]
    if document["matrices"]:
        parts.append(LEGEND)
    return "\n\n".join(part for part in parts if part)


def failures(document):
    """What is wrong with gpuar itself; empty if nothing."""
    wrong = [
        f"{entry['form']}: {entry['why']}"
        for result in document["matrices"]
        for entry in result["out"]
        if entry["entrant"].startswith(f"{GPUAR}:")
    ]
    return "; ".join(wrong)


BEGIN = "<!-- written by bench/race --docs -->"
END = "<!-- end of what bench/race has written -->"


def renew(document, folder):
    """Tables and picture in docs/performance.md, and nothing else there."""
    page = folder / "performance.md"
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise Failure(f"{page} has no part for the race: a line {BEGIN} and a line {END}")
    plot.draw(document, folder / "race.svg")
    page.write_text("\n".join([f"{before}{BEGIN}", section(document), f"{END}{after}"]))


def section(document):
    """What the page shows."""
    parts = [f"{document['processor']}. {sentence(cores(document))}"]
    parts += [sentence(mpis(document)), "![latency and bus bandwidth](race.svg)", LEGEND]
    parts += [table.markdown(made) for made in all_tables(document)]
    notes = [sentence(line) for line in [*besides(document), *absent(document)]]
    parts.append("\n".join(f"- {note}" for note in notes))
    return "\n\n".join(part for part in parts if part) + "\n"


def sentence(text):
    return f"{text[0].upper()}{text[1:]}."
