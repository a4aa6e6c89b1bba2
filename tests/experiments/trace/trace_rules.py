"""Holds a file of `run --trace` to the Trace Event Format and to what Perfetto makes of it.

Usage: trace_rules.py FILE    prints what was seen; ends with one line and status 1 at the first fault

Required fields and types of complete (X) and metadata (M) events, each thread with events named once,
times from zero on. Perfetto drops a complete event that begins inside of one before it and ends behind
that, so none may overlap on a thread: with the file's decimals, and as Perfetto's importers read a
number of microseconds, in nanoseconds, cut off: of the text, or of a double times 1000.
"""

import decimal
import json
import sys

METADATA = {"process_name": ("name", str), "process_sort_index": ("sort_index", int),
            "thread_name": ("name", str), "thread_sort_index": ("sort_index", int)}
READINGS = {
    "as written": lambda us: us * 1000,
    "cut off in its text": lambda us: int(us * 1000),
    "cut off as a double": lambda us: int(float(us) * 1000.0),
}


def fault(what):
    sys.exit(f"trace_rules: {what}")


def check(holds, what, event):
    if not holds:
        fault(f"{what}: {json.dumps(event, default=str)}")


def whole(value):
    return type(value) is int


def check_metadata(events):
    named = {}
    for e in events:
        check(e["name"] in METADATA, "unknown metadata", e)
        key, kind = METADATA[e["name"]]
        check(list(e["args"]) == [key] and type(e["args"][key]) is kind, f"args are not one {key}", e)
        where = (e["name"], e["pid"], e["tid"] if e["name"].startswith("thread") else None)
        check(where not in named, "told twice", e)
        named[where] = e["args"][key]
    return named


def overlap(events, reading):
    """The first two of one thread that overlap when their times are read so."""
    reach = {}
    for e in sorted(events, key=lambda e: reading(e["ts"])):
        begin, thread = reading(e["ts"]), (e["pid"], e["tid"])
        end, before = reach.get(thread, (0, None))
        if begin < end:
            return before, e
        reach[thread] = (begin + reading(e["dur"]), e)
    return None


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        trace = json.load(file, parse_float=decimal.Decimal)
    if trace.get("displayTimeUnit") not in ("ms", "ns") or not isinstance(trace.get("otherData"), dict):
        fault("displayTimeUnit or otherData is missing")
    complete, metadata = [], []
    for e in trace["traceEvents"]:
        check(isinstance(e.get("name"), str) and e["name"] != "", "no name", e)
        check(whole(e.get("pid")) and whole(e.get("tid")), "pid and tid must be whole numbers", e)
        check(isinstance(e.get("args"), dict), "no args", e)
        check(e.get("ph") in ("X", "M"), "neither complete nor metadata", e)
        (complete if e["ph"] == "X" else metadata).append(e)
    named = check_metadata(metadata)
    for e in complete:
        check(isinstance(e.get("cat"), str) and e["cat"] != "", "no category", e)
        for key in ("ts", "dur"):
            check(isinstance(e.get(key), (int, decimal.Decimal)) and e[key] >= 0, f"bad {key}", e)
        check(("process_name", e["pid"], None) in named, "its process has no name", e)
        check(("thread_name", e["pid"], e["tid"]) in named, "its thread has no name", e)
    if not complete:
        fault("nothing is drawn")
    for how, reading in READINGS.items():
        if two := overlap(complete, reading):
            fault(f"times {how}: {json.dumps(two, default=str)} overlap, and Perfetto drops the second")
    threads = {(e["pid"], e["tid"]) for e in complete}
    print(f"{len(complete)} events on {len(threads)} threads of {len({p for p, _ in threads})} processes")


if __name__ == "__main__":
    main()
