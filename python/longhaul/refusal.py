"""What ends a command: one line that says what was tried, what was seen and what to do."""

import importlib
import sys


class Refused(Exception):
    """One line for the user."""


def need(module, what, package=None):
    """Imports a module that not every installation has.

    Args:
        module: The module's name.
        what: What needs it, as the subject of the message: "this table".
        package: The name that pip knows it by, where that is another one.

    Raises:
        Refused: The module cannot be imported; the line says how it is installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = package or module.split(".")[0]
        raise Refused(f"{what} needs the Python package {package}, which {sys.executable} cannot import "
                      f"({error}): {sys.executable} -m pip install {package}") from error
