"""The Spack recipe, run without Spack: what it declares must be what the Meson build asks for."""

import re
import sys
import types

from lanes import ROOT, require

RECIPE = ROOT / "docs" / "packaging" / "spack" / "packages" / "gpuar" / "package.py"
# What Meson calls a dependency or a program, and how Spack does.
NAMES = {
    "ucx": "ucx",
    "hwloc": "hwloc",
    "nlohmann_json": "nlohmann-json",
    "fmt": "fmt",
    "tomlplusplus": "tomlplusplus",
    "CLI11": "cli11",
}


class Prefix(str):
    def __getattr__(self, name):
        return Prefix(f"{self}/{name}")


class Spec:
    """A concrete one: every package has a prefix."""

    def __init__(self, variants):
        self.variants = variants

    def __getitem__(self, name):
        return types.SimpleNamespace(prefix=Prefix(f"/spack/{name}"))

    def satisfies(self, variant):
        return variant in self.variants


class MesonPackage:
    def __init__(self, *variants):
        self.spec = Spec(variants)
        self.prefix = Prefix("/spack/gpuar")


def declared():
    """The recipe's class, and what it declares: [(directive, first argument, keywords)]."""
    said = []

    def directive(name):
        return lambda first, **keywords: said.append((name, first, keywords))

    names = {name: directive(name) for name in ("license", "version", "variant", "depends_on")}
    module = types.ModuleType("spack.package")
    module.__dict__.update(names, MesonPackage=MesonPackage)
    kept = {name: sys.modules.get(name) for name in ("spack", "spack.package")}
    sys.modules.update({"spack": types.ModuleType("spack"), "spack.package": module})
    try:
        recipe = {}
        exec(compile(RECIPE.read_text(), str(RECIPE), "exec"), recipe)
    finally:
        for name, old in kept.items():
            sys.modules.pop(name) if old is None else sys.modules.update({name: old})
    return recipe["Gpuar"], said


def agrees_with_meson():
    recipe, said = declared()
    text = (ROOT / "meson.build").read_text()
    project = re.search(r"version: '([\d.]+)'", text)[1]
    versions = [first for name, first, _ in said if name == "version"]
    require(versions == [project], f"has versions {versions}, and this is {project}")
    wanted = {first for name, first, _ in said if name == "depends_on"}
    sources = text + (ROOT / "bench" / "meson.build").read_text()
    for found in re.finditer(r"dependency\('(\w+)'(?:, version: '>=([\d.]+)')?", sources):
        if found[1] == "threads":
            continue
        spec = NAMES[found[1]] + (f"@{found[2].removesuffix('.0')}:" if found[2] else "")
        require(spec in wanted, f"does not depend on {spec}")
    options = set(re.findall(r"^option\('(\w+)'", (ROOT / "meson_options.txt").read_text(), re.M))
    for variants in ((), ("+cuda",)):
        given = {argument.split("=")[0].removeprefix("-D") for argument in recipe(*variants).meson_args()}
        require(given <= options, f"gives unknown options {given - options}")
        require(("toolkit" in given) == bool(variants), f"with {variants} it gives {given}")
