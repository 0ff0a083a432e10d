"""Builds the native library along with the package, where that works; pyproject.toml says everything else."""

import importlib.util
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

NATIVE = Path("src/fedamd/oracles/native")

spec = importlib.util.spec_from_file_location("native_build", NATIVE / "build.py")
native_build = importlib.util.module_from_spec(spec)
spec.loader.exec_module(native_build)


class BuildNative(build_ext):
    """The library is no Python extension but plain C, loaded with ctypes, so it gets its own name and command."""

    def get_ext_filename(self, fullname):
        return str(Path(*fullname.split(".")).with_name(native_build.library_name()))

    def build_extension(self, ext):
        try:
            native_build.build(Path(self.get_ext_fullpath(ext.name)).parent)
        except native_build.BuildError as error:
            raise CompileError(f"fedamd works without its native library, only slower: {error}") from error


sources = sorted(map(str, (NATIVE / "kernels").glob("*.cpp")))
setup(
    ext_modules=[Extension("fedamd.oracles.native._native", sources, optional=True)],
    cmdclass={"build_ext": BuildNative},
)
