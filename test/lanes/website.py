"""The site of the documentation."""

import re
import shutil
import tempfile
from pathlib import Path

from lanes import BUILD, ROOT, lane, mpi, require

COMMAND = ROOT / "docs" / "website" / "build"


def lanes():
    return {"website": website}


@lane()
def website():
    "docs/website/build makes a site: every page has its place in the menu, and every link leads somewhere"
    yield "every page has its place", places
    yield "the site", site
    yield "a link that leads nowhere", broken_link


def places():
    menu = (ROOT / "docs" / "website" / "mkdocs.yml").read_text()
    named = set(re.findall(r": (\S+\.md)$", menu, re.M))
    pages = {str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")}
    pages |= {"index.md", "CHANGELOG.md"}
    require(named == pages, f"the menu lacks {pages - named} and has {named - pages}")


def site():
    answer = mpi.succeed(mpi.run([COMMAND], timeout=300), "docs/website/build")
    index = Path(answer.output.splitlines()[-1])
    for page in (index, index.parent / "docs" / "slow.html"):
        require("<title>" in page.read_text(), f"{page} is no page")
    require((index.parent / "docs" / "trace.svg").exists(), "pictures are missing")


def broken_link():
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "website"
        shutil.copytree(BUILD / "website", copy)
        page = copy / "pages" / "index.md"
        page.write_text(page.read_text() + "\n[nowhere](docs/nowhere.md)\n")
        argv = ["/usr/bin/mkdocs", "build", "--strict", "-f", copy / "mkdocs.yml"]
        answer = mpi.run(argv, timeout=100)
    require(answer.status != 0 and "nowhere.md" in answer.output, f"built all the same\n{answer.tail()}")
