"""The package as a user gets it: a bare environment, `pip install` as docs/install.md writes it, and
then every program that the documents show, from an empty folder. The programs come out of the
documents, so that they are tested as they are read."""

import ast
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import launch

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ["README.md", "docs/install.md", "docs/torch-backend.md"]

# What the pages' fragments speak of and their readers have.
GIVEN = """
import os
import torch
from torch.distributed.pipelining import PipelineStage
ranks, index, device = [0, 1], int(os.environ["RANK"]), torch.device("cpu")
module = torch.nn.Linear(64, 64)
delta, theirs, peer = torch.randn(64, 64), torch.empty(64, 64), 1 - index
"""
# Every order in which a program can meet torch and longhaul, alone.
FIRST_LINES = {
    "longhaul first": "import longhaul, torch.distributed as dist",
    "torch first": "import torch, longhaul, torch.distributed as dist",
    "a name of longhaul first": "from longhaul import Options; import torch.distributed as dist",
    "torch alone": "import torch.distributed as dist",
    "torch in a module of longhaul": "import longhaul.options, torch.distributed as dist",
}
USE = """
dist.init_process_group("longhaul")
x = torch.ones(3)
dist.all_reduce(x)
assert x.tolist() == [1.0] * 3, x
dist.destroy_process_group()
"""


def environment(**more):
    """Without what leads to the build tree's package."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return {**kept, **more}


def checked(command, folder, **more):
    done = subprocess.run(command, cwd=folder, env=environment(**more), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}"
    return done.stdout


def make_bare_environment(folder):
    """Has pip, and sees the torch of the build: nothing else is left out of what a user does."""
    import torch

    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    packages = checked([python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
                       folder).strip()
    torchs = pathlib.Path(torch.__file__).parents[1]
    pathlib.Path(packages, "torch_of_the_build.pth").write_text(f"{torchs}\n")
    return python


def install(python):
    line = re.search(r"`pip (install [^`]*\.)`", (ROOT / "docs/install.md").read_text()).group(1)
    # The extension module is taken from the build tree that is being tested.
    build = os.environ["LONGHAUL_BUILD_DIR"]
    done = checked([python, "-m", "pip", *line.split(), "-v"], ROOT, LONGHAUL_BUILD_DIR=build)
    assert f"taken from {build}" in done, done
    where = checked([python, "-c", "import longhaul; print(longhaul.__file__)"], "/").strip()
    assert not where.startswith(str(ROOT)) or where.startswith(str(python.parents[1])), where


def try_first_lines(python, folder):
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    for autoload in ("1", "0"):
        for name, line in FIRST_LINES.items():
            if autoload == "0" and "longhaul" not in line:
                continue
            checked([python, "-W", "error::RuntimeWarning", "-c", f"{line}\nimport torch\n{USE}"],
                    folder, **alone, MASTER_PORT=str(launch.free_port()),
                    TORCH_DEVICE_BACKEND_AUTOLOAD=autoload)
            print(f"ok: {name}, autoload {autoload}", flush=True)


def programs_of(page):
    """The blocks of Python of one page, in its order: later ones build on the first."""
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)


def program_of_docstring():
    text = ast.get_docstring(ast.parse((ROOT / "plugin/python/longhaul/__init__.py").read_text()))
    blocks = re.findall(r"::\n\n((?:    .*\n|\n)+)", text)
    return ["\n".join(line[4:] for line in block.splitlines()) for block in blocks]


def try_documents(python, folder):
    seen = 0
    for page, blocks in [(p, programs_of(p)) for p in PAGES] + [("help(longhaul)", program_of_docstring())]:
        if not blocks:
            continue
        first = blocks[0].lstrip().splitlines()[0]
        assert first.startswith("import longhaul"), f"{page} begins with: {first}"
        program = folder / "program.py"
        # The page's first block stands first: whatever a reader types first must work as it is.
        program.write_text("\n".join([blocks[0], GIVEN, *blocks[1:], "dist.destroy_process_group()"]))
        checked([python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", program],
                folder, OMP_NUM_THREADS="1")
        print(f"ok: {page}, {len(blocks)} blocks", flush=True)
        seen += len(blocks)
    assert seen >= 4, f"only {seen} blocks of Python found in the documents"


def main():
    launch.check()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        python = make_bare_environment(folder / "env")
        install(python)
        (folder / "empty").mkdir()
        try_first_lines(python, folder / "empty")
        try_documents(python, folder / "empty")


main()
