"""The parameters as ompi_info shows them, and as docs/parameters.md does."""

import re

from lanes import ROOT, mpi, require

PAGE = ROOT / "docs" / "parameters.md"
HEAD = ("| parameter | type | default | set | what it does |", "|---|---|---|---|---|")
RENEW = "PYTHONPATH=test python3 -m lanes.parameters"


def parameters():
    """{name: (type, default, help)} as ompi_info shows them."""
    answer = mpi.run(
        [mpi.tool("ompi_info"), "--param", "coll", "gpuar", "--level", "9", "--parsable"],
        timeout=60,
        env=mpi.environment("gpuar"),
    )
    mpi.succeed(answer, "ompi_info")
    found = {}
    for line in answer.output.splitlines():
        match = re.match(r'mca:coll:gpuar:param:coll_gpuar_(\w+):(type|value|status|help):(.*)', line)
        if match:
            name, field, text = match.groups()
            found.setdefault(name, {})[field] = text.strip('"')
    return found


def have_help():
    found = parameters()
    for name in (
        "priority algorithm segment_size verbose reproducible progress_thread test_node_size"
    ).split():
        require(name in found, f"ompi_info does not show coll_gpuar_{name}")
    units = re.compile(r"bytes|number|level|whether|name|ranks", re.IGNORECASE)
    for name, fields in found.items():
        require("default:" in fields["help"], f"coll_gpuar_{name}: no default in its help")
        require(units.search(fields["help"]), f"coll_gpuar_{name}: no unit in its help")


def table():
    """The table of docs/parameters.md, generated."""
    rows = list(HEAD)
    for name, fields in parameters().items():
        default = f"`{fields['value']}`" if fields["value"] else "empty"
        when = "any time" if fields["status"] == "writeable" else "at start"
        rows.append(
            f"| `coll_gpuar_{name}` | {fields['type']} | {default} | {when} | {fields['help']} |"
        )
    return "\n".join(rows)


def are_documented():
    require(
        table() in PAGE.read_text(),
        f"the table differs from ompi_info; to renew it: {RENEW}\n{table()}",
    )


def renew():
    """Puts the generated table in the place of the one on the page."""
    lines = PAGE.read_text().splitlines()
    first = lines.index(HEAD[0])
    last = first
    while last < len(lines) and lines[last].startswith("|"):
        last += 1
    PAGE.write_text("\n".join([*lines[:first], table(), *lines[last:]]) + "\n")


if __name__ == "__main__":
    renew()
