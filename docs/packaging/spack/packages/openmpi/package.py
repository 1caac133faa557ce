from spack.package import *
from spack.pkg.builtin.openmpi import Openmpi as BuiltinOpenmpi


class Openmpi(BuiltinOpenmpi):
    """Spack's own, with the internal headers that a component is compiled with."""

    def configure_args(self):
        return [*super().configure_args(), "--with-devel-headers"]
