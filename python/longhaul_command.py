"""The script `longhaul` that pip puts on PATH: becomes the command that lies in the package. Imports no torch, which
would take seconds."""

import os
import sys


def main():
    os.environ["LONGHAUL_READS"] = "1"  # the package without torch; it takes this away
    from longhaul.starting import become

    become(sys.argv)


if __name__ == "__main__":
    main()
