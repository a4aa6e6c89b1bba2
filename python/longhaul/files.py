"""Files that a user names: they appear complete or not at all."""

import os
import stat

from longhaul.refusal import Refused


def write_whole(path, parts):
    """Writes text, or an iterable of its parts. A regular file, or one that is not there yet, is written under another name
    beside it and renamed, with the mode of the file that it replaces; a symbolic link is followed. Into a device or a FIFO
    the text is written as it comes.

    Raises:
        Refused: It cannot be opened, written or made; an existing file stays as it was.
    """
    parts = [parts] if isinstance(parts, str) else parts
    target = os.path.realpath(path)
    part = f"{target}.{os.getpid()}.part"
    try:
        mode = os.stat(target).st_mode if os.path.exists(target) else None
        if mode is not None and not stat.S_ISREG(mode):
            with open(target, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.writelines(parts)
            return
        try:
            with open(part, "x", encoding="utf-8", errors="surrogateescape") as file:
                if mode is not None:
                    os.chmod(part, stat.S_IMODE(mode))
                file.writelines(parts)
            os.replace(part, target)
        except BaseException:
            if os.path.exists(part):
                os.unlink(part)
            raise
    except IsADirectoryError:
        raise Refused(f"cannot write {path}: it is a folder") from None
    except OSError as error:
        raise Refused(f"cannot write {path}: {error.strerror}") from None


def make_folder(path):
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise Refused(f"cannot make the folder {path}: {error.strerror}") from None
