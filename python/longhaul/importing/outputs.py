"""Files that appear whole or not at all: written under another name, then renamed."""

import contextlib
import os

from .refusal import Refused


class Outputs:
    """The files of one import, by their final paths. Used as a context: leaving it by an error removes
    what was begun, and folders that were made for it; else all of them get their names, in the order
    in which they were opened."""

    def __init__(self, replace=False):
        self.replace = replace
        self.begun = []  # (temporary, final)
        self.made = []  # folders

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        try:
            if kind is None:
                self._name_all()
        except OSError as failed:
            kind = OSError
            raise Refused(f"write {failed.filename or 'the files'}: {failed.strerror}") from failed
        finally:
            if kind is not None:
                self._remove_all()
        if kind is not None and issubclass(kind, OSError) and self._is_ours(error):
            raise Refused(f"write {self.begun[-1][1]}: {error.strerror or error}") from error
        return False

    def _is_ours(self, error):
        """A write's error has no file name; one of reading names what was read."""
        return bool(self.begun) and error.filename in (None, self.begun[-1][0])

    def _name_all(self):
        for temporary, final in self.begun:
            descriptor = os.open(temporary, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        for temporary, final in self.begun:
            os.replace(temporary, final)

    def _remove_all(self):
        for temporary, _ in self.begun:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        for folder in reversed(self.made):
            with contextlib.suppress(OSError):
                os.rmdir(folder)

    def _make_folder(self, folder):
        if not folder or os.path.isdir(folder):
            return
        self._make_folder(os.path.dirname(folder))
        os.mkdir(folder)
        self.made.append(folder)

    def check(self, path):
        """Refuses a path where something is already, before anything costs time."""
        if os.path.lexists(path) and not (self.replace and os.path.isfile(path)):
            raise Refused(f"{path} is there already: name another --out, or say --replace")

    def open(self, path):
        """A binary file that will be `path`."""
        self.check(path)
        final = os.path.realpath(path) if os.path.islink(path) else path  # a link stays, its target is new
        folder, name = os.path.split(final)
        try:
            self._make_folder(folder)
            temporary = os.path.join(folder, f".{name}.part{os.getpid()}")
            file = open(temporary, "wb")
        except OSError as error:
            raise Refused(f"make {path}: {error.strerror}") from error
        self.begun.append((temporary, final))
        return file

    def text(self, path, text):
        with self.open(path) as file:
            file.write(text.encode())
