"""Builds the native libraries along with the package, where that works; pyproject.toml says everything else."""

import importlib.util
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

NATIVE = Path("src/fedamd/oracles/native")

spec = importlib.util.spec_from_file_location("native_build", NATIVE / "build.py")
native_build = sys.modules["native_build"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(native_build)


class BuildNative(build_ext):
    """The libraries are no Python extensions but plain C, loaded with ctypes, so they get their own names and command.

    A wheel gets every level, since it may travel; an editable install stays here and gets the one that is used.
    """

    def libraries_of(self, ext):
        folder = Path(self.get_ext_fullpath(ext.name)).parent
        levels = native_build.runnable()[:1] if self.editable_mode else native_build.levels()
        return [folder / native_build.library_name(level) for level in levels]

    def get_outputs(self):
        return [str(library) for ext in self.extensions for library in self.libraries_of(ext) if library.exists()]

    def get_output_mapping(self):
        return {}

    def build_extension(self, ext):
        folder = Path(self.get_ext_fullpath(ext.name)).parent
        try:
            native_build.build_best(NATIVE) if self.editable_mode else native_build.build_all(folder)
        except native_build.BuildError as error:
            raise CompileError(f"fedamd works without its native library, only slower: {error}") from error

    def copy_extensions_to_source(self):
        """An editable install builds where the library is used."""


class AnyPython(bdist_wheel):
    """The libraries know nothing of Python: one wheel serves every version of it on a system."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


sources = sorted(map(str, (NATIVE / "kernels").glob("*.cpp")))
setup(
    ext_modules=[Extension("fedamd.oracles.native._native", sources, optional=True)],
    cmdclass={"build_ext": BuildNative, "bdist_wheel": AnyPython},
)
