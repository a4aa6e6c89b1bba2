"""What swarm_bench.py and joiner_bench.py share: how long something takes to reach one that joins over shaped links."""
import argparse
import os
import subprocess
import sys

LONGHAUL = os.path.abspath(os.environ.get("LONGHAUL", "build/longhaul"))
GOODPUT = 1448 / 1514
PROFILES = {"continental-us": (100, 65), "transpacific": (50, 105)}  # Mbit/s, ms


def run(*words, **options):
    return subprocess.run(words, check=True, capture_output=True, text=True, **options).stdout


def estimate(mb, sources, profile):
    """(fetch from all, copy from one), seconds: every source has a path of its own."""
    mbit, rtt_ms = PROFILES[profile]
    text = run(LONGHAUL, "weights", "estimate", "--mb", str(mb), "--sources", str(sources), "--up-mbit",
               str(mbit * GOODPUT), "--down-mbit", "1e6", "--rtt-ms", str(rtt_ms))
    return [float(line.split(":")[1].split()[0]) for line in text.splitlines()]


def access_file(folder, names):
    """A lab file: every node behind an access line of 100 Mbit/s both ways, 65 ms apart."""
    lines = "".join(f'[[node]]\nname = "{name}"\nup_mbit = 100\ndown_mbit = 100\naccess_queue_bdp = 1\n' for name in names)
    path = f"{folder}/access.toml"
    with open(path, "w") as f:
        f.write(lines + '[between]\nrate_mbit = "none"\nrtt_ms = 65\n')
    return path


def main(usage, join, beside, limits, options):
    """`limits`: the default of --limits; `options`: further ones, {"--mb": (float, 64)}."""
    parser = argparse.ArgumentParser(usage=usage)
    parser.add_argument("what", choices=["join", "beside"])
    parser.add_argument("--profile", action="append", choices=list(PROFILES))
    parser.add_argument("--groups", action="append", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limits", default=limits)
    for name, (kind, default) in options.items():
        parser.add_argument(name, type=kind, default=default)
    arguments = parser.parse_args()
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", file=sys.stderr)
    {"join": join, "beside": beside}[arguments.what](arguments)
    print(f"load after: {os.getloadavg()[0]:.1f}", file=sys.stderr)
