"""Where the `longhaul` command lies, and what it is started with: the interpreter that runs this."""

import importlib.util
import os
import pathlib
import shutil
import sys


def command() -> str:
    """Path of the `longhaul` command: of this package, else the one on PATH. FileNotFoundError: there is none."""
    own = pathlib.Path(__file__).parent / "bin" / "longhaul"
    found = str(own) if own.exists() else shutil.which("longhaul")
    if found is None:
        raise FileNotFoundError("longhaul: the command 'longhaul' is neither in this package nor on PATH; 'pip install "
                                ".' and 'make build' build it")
    return found


def environment() -> dict[str, str]:
    """Ours, with this interpreter for the verbs of Python, and torch's libraries where they are not beside the
    package."""
    found = {**os.environ, "LONGHAUL_PYTHON": sys.executable}
    if not (pathlib.Path(__file__).parent / "../torch/lib").exists():
        torch = importlib.util.find_spec("torch")
        if torch is not None and torch.origin:
            lib = str(pathlib.Path(torch.origin).parent / "lib")
            found["LD_LIBRARY_PATH"] = ":".join(filter(None, [lib, os.environ.get("LD_LIBRARY_PATH")]))
    return found


def become(words: list[str]) -> None:
    """Becomes the command with `words`, the first of which is how it was called."""
    try:
        os.execve(command(), words, environment())
    except OSError as error:
        sys.exit(str(error))
