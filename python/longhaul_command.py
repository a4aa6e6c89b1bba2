"""The script `longhaul` that pip puts on PATH: becomes the command that lies in the package. Imports
neither longhaul nor torch, which would take seconds."""

import importlib.util
import os
import pathlib
import sys


def main():
    here = pathlib.Path(__file__).parent / "longhaul" / "bin"
    command = here / "longhaul"
    if not command.exists():
        sys.exit(f"longhaul: {command} is not there: this package was built without the command")
    os.environ["LONGHAUL_PYTHON"] = sys.executable  # what the verbs of Python run with
    # The programs look for torch beside this package; elsewhere it has to be said.
    if not (here / "../../torch/lib").exists():
        torch = importlib.util.find_spec("torch")
        if torch is not None and torch.origin:
            folders = [str(pathlib.Path(torch.origin).parent / "lib"),
                       *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
            os.environ["LD_LIBRARY_PATH"] = ":".join(folders)
    os.execv(command, [sys.argv[0], *sys.argv[1:]])


if __name__ == "__main__":
    main()
