"""Builds the extension module with CMake, for the torch of the environment that installs it."""

import os
import pathlib
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).resolve().parent


class BuildAdapter(build_ext):
    def run(self):
        # pip's isolated build hides the environment's torch behind PYTHONPATH; CMake asks the
        # interpreter itself, so without that variable it is found with isolation and without.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        build = pathlib.Path(self.build_temp).resolve()
        package = "longhaul"
        if self.inplace:
            output = ROOT / "plugin" / "python" / package
        else:
            output = pathlib.Path(self.build_lib).resolve() / package
        configure = [
            "cmake", "-S", str(ROOT), "-B", str(build), "-G", "Ninja",
            "-DCMAKE_BUILD_TYPE=Release",
            f"-DTORCH_PYTHON={os.environ.get('TORCH_PYTHON', sys.executable)}",
            f"-DLONGHAUL_PYTHON_DIR={output}",
        ]
        subprocess.run(configure, check=True, env=environment)
        subprocess.run(
            ["cmake", "--build", str(build), "--target", "longhaul_python"],
            check=True, env=environment,
        )

    def get_outputs(self):
        return []


# The module's real name carries torch's version and comes from CMake; this entry only makes
# setuptools run the command above and mark the wheel as platform dependent.
setup(
    ext_modules=[Extension("longhaul._backend", sources=[])],
    cmdclass={"build_ext": BuildAdapter},
)
