"""Builds the extension module and the command with CMake, for the torch of the environment that
installs it, and takes the pages of docs for `longhaul help`.

LONGHAUL_BUILD_DIR=build takes the CMake tree that is already there (`make build`) instead of one of
its own, and copies them from it: seconds instead of minutes. It must be of the same torch.
"""

import os
import pathlib
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = pathlib.Path(__file__).resolve().parent


class TakePages(build_py):
    def run(self):
        super().run()
        for page in sorted((ROOT / "docs").rglob("*.md")):
            there = pathlib.Path(self.build_lib) / "longhaul" / "pages" / page.relative_to(ROOT / "docs")
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(page, there)


class BuildAdapter(build_ext):
    def run(self):
        package = "longhaul"
        if self.inplace:
            output = ROOT / "plugin" / "python" / package
        else:
            output = pathlib.Path(self.build_lib).resolve() / package
        given = os.environ.get("LONGHAUL_BUILD_DIR")
        if given:
            self.take(ROOT / given, output)
        else:
            self.build(pathlib.Path(self.build_temp).resolve(), output)

    def build(self, tree, output):
        # pip's isolated build hides the environment's torch behind PYTHONPATH; CMake asks the
        # interpreter itself, so without that variable it is found with isolation and without.
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        configure = [
            "cmake", "-S", str(ROOT), "-B", str(tree), "-G", "Ninja",
            "-DCMAKE_BUILD_TYPE=Release",
            f"-DTORCH_PYTHON={os.environ.get('TORCH_PYTHON', sys.executable)}",
            f"-DLONGHAUL_PYTHON_DIR={output}",
        ]
        subprocess.run(configure, check=True, env=environment)
        subprocess.run(
            ["cmake", "--build", str(tree), "--target", "longhaul_python", "longhaul_commands"],
            check=True, env=environment,
        )
        self.take_command(tree, output)

    def take(self, tree, output):
        modules = sorted((tree / "python" / "longhaul").glob("_backend_torch*.so"))
        if not modules:
            raise SystemExit(f"longhaul: LONGHAUL_BUILD_DIR={tree}: no python/longhaul/"
                             "_backend_torch*.so there; run `make build`, or unset it")
        output.mkdir(parents=True, exist_ok=True)
        for module in modules:
            print(f"longhaul: taken from {module}")
            shutil.copy2(module, output)
        self.take_command(tree, output)

    def take_command(self, tree, output):
        (output / "bin").mkdir(parents=True, exist_ok=True)
        for name in ("longhaul", "longhaul-engine", "longhaul-weights"):
            if not (tree / name).is_file():
                raise SystemExit(f"longhaul: no {name} in {tree}: run `make build` where "
                                 "LONGHAUL_BUILD_DIR names it")
            subprocess.run(["strip", "-o", output / "bin" / name, tree / name], check=True)

    def get_outputs(self):
        return []


# The module's real name carries torch's version and comes from CMake; this entry only makes
# setuptools run the command above and mark the wheel as platform dependent.
setup(
    ext_modules=[Extension("longhaul._backend", sources=[])],
    cmdclass={"build_ext": BuildAdapter, "build_py": TakePages},
)
