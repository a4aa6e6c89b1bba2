"""Joins what codecs_bench and codec_peers.py measured into one table with verdicts, and codecs.json.
Usage: codecs_table.py FOLDER"""

import datetime
import json
import os
import sys

folder = sys.argv[1]


def load(name):
    path = os.path.join(folder, name)
    return json.load(open(path, encoding="utf-8")) if os.path.exists(path) else {"rows": []}


def cpu_name():
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


native, again, peers = load("codecs_native.json"), load("codecs_again.json"), load("codecs_peers.json")
rows = {(r["name"], r["place"], r["threads"]): r for r in native["rows"]}
repeated = {(r["name"], r["place"], r["threads"]): r for r in again["rows"]}
other = {(r["name"], r["place"]): r for r in peers["rows"]}

BLOCK_FAMILIES = ("none", "identity", "bf16", "fp16", "fp8-", "int8-", "int4-", "q8_0", "q4_0", "minmax",
                  "mxfp4", "nvfp4", "sign1")


# Two processes are compared by shares of a reading of their own rounds, where all wait for the same
# memory; in the cache by GB/s: nothing else reads there, and Python cannot time a microsecond.
MEASURE = {"DRAM": "_of_read", "L2": "_gb_s"}


def ours(name, way, place, runs):
    """The lowest of `runs`."""
    values = [r[(name, place, 1)][way + MEASURE[place]] for r in runs if (name, place, 1) in r]
    return min(values) if values else None


bars = []


def bar(what, value, least, unit=""):
    if value is None:
        bars.append({"bar": what, "verdict": "not measured"})
    else:
        bars.append({"bar": what, "value": round(value, 3), "least": least,
                     "verdict": "met" if value >= least else "MISSED"})


def best_peer(part, way, place):
    found = [r.get(way + MEASURE[place]) for (name, at), r in other.items() if part in name and at == place]
    found = [value for value in found if value]
    return max(found) if found else None


for (name, place, threads), row in rows.items():
    if place != "DRAM" or threads != 1 or "+" in name or not name.startswith(BLOCK_FAMILIES):
        continue
    passes = "" if row["passes"] == 1 else f" (limit of {row['passes']:.0f} readings)"
    bar(f"{name} encode, share of the limit{passes}", row["encode_of_limit"], 0.6)
    bar(f"{name} decode, share of the limit", row["decode_of_limit"], 0.6)
for name in ("int8-b64+sr", "int4-b64+sr"):
    row = rows.get((name, "DRAM", 1))
    bar(f"{name} encode (Philox), share of the limit", row and row["encode_of_limit"], 0.25)
for place in ("DRAM", "L2"):
    for what, mine, part, least in (
            ("int4-b64 encode / best FBGEMM 4-bit rows of 64", "int4-b64", "4-bit rows of 64", 1.5),
            ("topk-64of4096+none encode / torch.topk 64 of 4096", "topk-64of4096+none", "torch.topk 64 of 4096", 15)):
        # The peers in Python run between two runs of ours.
        value, theirs = ours(mine, "encode", place, (rows, repeated)), best_peer(part, "encode", place)
        bar(f"{what}, {place}", value / theirs if value and theirs else None, least)
    # ggml's C runs in turns with ours. Of several kinds of it the fastest counts.
    for what, mine, peer, way, least in (("int4-b64 encode / ggml q4_0", "int4-b64", "ggml q4_0", "encode", 4),
                                         ("q8_0 encode / ggml's best", "q8_0", "ggml q8_0", "encode", 1),
                                         ("q8_0 decode / ggml", "q8_0", "ggml q8_0", "decode", 1)):
        beside = [r[way] for r in native.get("ratios", [])
                  if (r["name"], r["place"]) == (mine, place) and r["peer"].startswith(peer)]
        bar(f"{what}, {place}", min(beside, default=None), least)
reference = rows.get(("read, memcpy", "DRAM", 1))
reference2 = rows.get(("read, memcpy", "DRAM", 2))
if reference:
    row = rows.get(("sparseloco", "DRAM", 1))
    value = row and row["encode_gb_s"]
    bound = reference["encode_gb_s"] / 5  # docs/codecs.md: twenty bytes move per element
    if value:
        bar(f"sparseloco encode: 2 GB/s, or 60 % of its bound {bound:.2f} GB/s", value,
            min(2.0, round(0.6 * bound, 2)))
if reference2:
    memory = reference2["encode_gb_s"] / reference["encode_gb_s"]
    for (name, place, threads), row in rows.items():
        if threads != 2 or not name.startswith(BLOCK_FAMILIES) or "+" in name:
            continue
        one = rows.get((name, place, 1))
        for way in ("encode", "decode"):
            gain = row[way + "_gb_s"] / one[way + "_gb_s"]
            if row[way + "_of_limit"] < 0.6:  # else the memory, not the threads, is the limit
                bar(f"{name} {way}, two threads / one (reading: {memory:.2f})", gain, 1.6)

conditions = {"cpu": cpu_name(), "cores": os.cpu_count(), "isa": native.get("isa"),
              "load_before_the_table": os.getloadavg()[0],
              "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
              "versions": peers.get("versions", {})}
print(f"{conditions['cpu']}, {conditions['cores']} cores, {conditions['isa']}, {conditions['date']}, "
      f"torch {conditions['versions'].get('torch', '-')}")
for key, row in rows.items():
    if key[0] == "read, memcpy":
        size = 4 * row["elements"]
        size = f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"
        print(f"{key[1]} {key[2]}T: read {row['encode_gb_s']:.1f} GB/s, memcpy {row['decode_gb_s']:.1f} GB/s, "
              f"{row['tensors']} tensors of {size} in turn")

print(f"\n{'GB/s of fp32 input (share of the limit)':42} {'bits':>6}  "
      f"{'L2 enc':>7} {'dec':>6}  {'DRAM enc':>8} {'':>6} {'dec':>6} {'':>6}  {'2T enc':>7} {'dec':>6}")
for name in dict.fromkeys(name for name, _, _ in rows):
    if name == "read, memcpy":
        continue
    cache, memory, two = (rows.get((name, *at)) for at in (("L2", 1), ("DRAM", 1), ("DRAM", 2)))
    if memory is None:
        continue
    line = f"{name:42} {memory['bits']:6.3f}  "
    line += f"{cache['encode_gb_s']:7.2f} {cache['decode_gb_s']:6.2f}  " if cache else " " * 16
    line += (f"{memory['encode_gb_s']:8.2f} {100 * memory['encode_of_limit']:5.0f}% "
             f"{memory['decode_gb_s']:6.2f} {100 * memory['decode_of_limit']:5.0f}%  ")
    line += f"{two['encode_gb_s']:7.2f} {two['decode_gb_s']:6.2f}" if two else ""
    print(line)
print("\nother implementations")
for name in dict.fromkeys(name for name, _ in other):
    cells = ""
    for place in ("L2", "DRAM"):
        row = other.get((name, place))
        for way in ("encode", "decode"):
            value = row.get(way + "_gb_s") if row else None
            cells += f" {value:7.2f}" if value else "       -"
    print(f"{name:42}        {cells}")
for line in peers.get("missing", []):
    print(f"missing: {line}")

print("\nbars")
for entry in bars:
    value = f"{entry['value']:.2f} of {entry['least']}" if "value" in entry else ""
    print(f"{entry['verdict']:>12}  {entry['bar']}  {value}")
print(f"{sum(b['verdict'] == 'met' for b in bars)} met, "
      f"{sum(b['verdict'] == 'MISSED' for b in bars)} missed, "
      f"{sum(b['verdict'] == 'not measured' for b in bars)} not measured")
with open(os.path.join(folder, "codecs.json"), "w", encoding="utf-8") as out:
    json.dump({"conditions": conditions, "codecs": list(rows.values()), "again": list(repeated.values()),
               "peers": peers["rows"], "missing": peers.get("missing", []), "bars": bars}, out, indent=1)
