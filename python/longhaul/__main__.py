"""`python -m longhaul` is the command `longhaul`, with this interpreter for its verbs of Python."""

import sys

from longhaul.starting import become

if __name__ == "__main__":
    become(["longhaul", *sys.argv[1:]])
