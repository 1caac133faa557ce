from spack.package import *


class Gpuar(MesonPackage):
    """A collective component of Open MPI: allreduce over UCX, on host and on GPU memory."""

    license("BSD-3-Clause")
    # From a copy of the sources: spack develop --path FOLDER gpuar@=0.1.0
    version("0.1.0")

    variant("cuda", default=False, description="Kernels for CUDA devices")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("meson@1.0.1:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("openmpi@4.1:6")
    depends_on("pmix", when="^openmpi@5:")
    depends_on("ucx@1.12:")
    depends_on("ucx+cuda", when="+cuda")
    depends_on("hwloc@2.1:")
    depends_on("nlohmann-json")
    depends_on("fmt@9:")
    depends_on("tomlplusplus@3:")
    depends_on("cli11")
    depends_on("cuda", when="+cuda")

    def meson_args(self):
        spec = self.spec
        args = [
            f"-Dopenmpi={spec['openmpi'].prefix}",
            f"-Ducx={spec['ucx'].prefix}",
            f"-Dcomponent_dir={self.prefix.lib.openmpi}",
            f"-Dcuda={'enabled' if spec.satisfies('+cuda') else 'disabled'}",
            "-Dtests=false",
        ]
        if spec.satisfies("+cuda"):
            args.append(f"-Dtoolkit={spec['cuda'].prefix}")
        return args

    def setup_run_environment(self, env):
        own = self.prefix.lib.openmpi
        theirs = self.spec["openmpi"].prefix.lib.openmpi
        env.set("OMPI_MCA_mca_base_component_path", f"{own}:{theirs}")
        if self.spec.satisfies("^openmpi@5:"):  # or PMIx takes the folders for its own
            env.set("PMIX_MCA_mca_base_component_path", "")
