"""The package as a user gets it: a bare environment, `pip install` as docs/install.md writes it, and
then every program that the documents show, from an empty folder. The programs come out of the
documents, so that they are tested as they are read. LONGHAUL_BUILD_DIR: what is compiled comes from that
tree; without it pip compiles all of it, and one program is tried (scripts/install_check.sh)."""

import ast
import concurrent.futures
import importlib.util
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


def checked(command, folder, limit_s=600, **more):
    done = subprocess.run(command, cwd=folder, env=environment(**more), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit_s)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}"
    return done.stdout


def make_bare_environment(folder):
    """Sees the torch of the build; pip is that one's too: nothing else is left out of what a user
    does."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    packages = checked([python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
                       folder).strip()
    torchs = pathlib.Path(importlib.util.find_spec("torch").origin).parents[1]
    pathlib.Path(packages, "torch_of_the_build.pth").write_text(f"{torchs}\n")
    return python


def install(python):
    line = re.search(r"`pip (install [^`]*\.)`", (ROOT / "docs/install.md").read_text()).group(1)
    done = checked([sys.executable, "-m", "pip", "--python", python, *line.split(), "-v"], ROOT, limit_s=7200)
    build = os.environ.get("LONGHAUL_BUILD_DIR")
    assert (f"taken from {build}" in done) if build else ("taken from" not in done), done
    where = checked([python, "-c", "import importlib.util as u; print(u.find_spec('longhaul').origin)"],
                    "/").strip()
    assert not where.startswith(str(ROOT)) or where.startswith(str(python.parents[1])), where
    try_command(python, pathlib.Path(where).parent)


def try_command(python, package):
    """It is on PATH, and needs nothing of the build tree: its programs find torch beside the package
    or where the package's Python has it."""
    assert (package / "py.typed").exists()
    path = f"{python.parent}:/usr/bin:/bin"
    assert "labs of shaped links" in checked(["sh", "-c", "longhaul net --help"], "/", PATH=path)
    assert "model.kind" in checked(["sh", "-c", "longhaul spec"], "/", PATH=path)
    assert "Glossary" in checked(["sh", "-c", "longhaul help glossary"], "/", PATH=path)
    for program in ("longhaul", "longhaul-engine", "longhaul-weights"):
        assert os.access(package / "bin" / program, os.X_OK), program


def try_first_lines(python, folder, names=tuple(FIRST_LINES)):
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}

    def one(case):
        autoload, name = case
        checked([python, "-W", "error::RuntimeWarning", "-c", f"{FIRST_LINES[name]}\nimport torch\n{USE}"],
                folder, **alone, MASTER_PORT=str(launch.free_port()),
                TORCH_DEVICE_BACKEND_AUTOLOAD=autoload)
        return f"ok: {name}, autoload {autoload}"

    cases = [(autoload, name) for autoload in "10" for name in names
             if autoload == "1" or "longhaul" in FIRST_LINES[name]]
    with concurrent.futures.ThreadPoolExecutor(3) as together:
        for said in together.map(one, cases):
            print(said, flush=True)


def programs_of(page):
    """The blocks of Python of one page, in its order: later ones build on the first."""
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)


def program_of_docstring():
    text = ast.get_docstring(ast.parse((ROOT / "python/longhaul/__init__.py").read_text()))
    blocks = re.findall(r"::\n\n((?:    .*\n|\n)+)", text)
    return ["\n".join(line[4:] for line in block.splitlines()) for block in blocks]


def try_documents(python, folder):
    """Each page is a program, in a name space of its own; all of them one after another in the same
    two processes, because to start torch takes longer than they do."""
    pages, seen = {}, 0
    for page, blocks in [(p, programs_of(p)) for p in PAGES] + [("help(longhaul)", program_of_docstring())]:
        if not blocks:
            continue
        first = blocks[0].lstrip().splitlines()[0]
        assert first.startswith("import longhaul"), f"{page} begins with: {first}"
        # The page's first block stands first: whatever a reader types first must work as it is.
        pages[page] = "\n".join([blocks[0], GIVEN, *blocks[1:], "dist.destroy_process_group()"])
        seen += len(blocks)
    program = folder / "program.py"
    program.write_text(f"for page, text in {pages!r}.items():\n"
                       "    exec(compile(text, page, 'exec'), {'__name__': page})\n")
    checked([python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", program],
            folder, OMP_NUM_THREADS="1")
    print(f"ok: {', '.join(pages)}: {seen} blocks", flush=True)
    assert seen >= 4, f"only {seen} blocks of Python found in the documents"


def main():
    launch.check()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        python = make_bare_environment(folder / "env")
        install(python)
        (folder / "empty").mkdir()
        if "LONGHAUL_BUILD_DIR" not in os.environ:
            return try_first_lines(python, folder / "empty", ["torch alone"])
        try_first_lines(python, folder / "empty")
        try_documents(python, folder / "empty")


main()
