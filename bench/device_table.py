"""Tokens per second of one model on one device: eager torch, torch.distributed.pipelining over gloo and over
the group "longhaul", and longhaul itself, in one process and as workers without links between them; then what of the
workers' step is encoding and copies, and what they took of a GPU. One table with ratios. On a GPU by `make bench-gpu`.
MFU is of the dtype's dense peak where the device's name is known. --compile adds torch.compile, which a GPU has always.

Usage: device_table.py LONGHAUL [--device cuda|cuda:*|cpu] [--stages 4] [--dtype float32] [--steps 20] [...]
Exit status 77: skipped, and why. LONGHAUL is build/longhaul; its Python package is found beside it."""

import argparse
import contextlib
import json
import os
import pathlib
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
CODECS = (("none", "none"), ("int4-b64-h64", "int8-b64"))
WARM_UP = 3  # steps
PEAK_FLOPS = {"H100": 989e12, "H200": 989e12, "A100": 312e12, "L40S": 362e12, "4090": 165e12}  # bfloat16, dense, by the maker
KEYS = ("blocks", "width", "heads", "context", "vocab", "rows")
GPU_SHAPE, CPU_SHAPE = (8, 1024, 16, 512, 256, 16), (8, 64, 4, 128, 256, 16)  # the second is the demo's


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def run(argv, **options):
    done = subprocess.run([str(a) for a in argv], text=True, capture_output=True, **options)
    if done.returncode != 0:
        sys.exit(f"FAILED: {' '.join(str(a) for a in argv)} ended with {done.returncode}:\n"
                 f"{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def environment(arguments, **more):
    return {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
            "PYTHONPATH": str(pathlib.Path(arguments.longhaul).parent / "python"), **more}


def eager(arguments, more=()):
    device = "cuda:0" if arguments.device == "cuda:*" else arguments.device
    return float(run([sys.executable, HERE / "eager_gpt.py", arguments.seconds, "--wall", "--device", device,
                      "--dtype", arguments.dtype, "--shape", json.dumps(arguments.shape), *more],
                     env=environment(arguments)))


def pipelined(arguments, backend, codecs=("none", "none")):
    return float(run([sys.executable, "-m", "torch.distributed.run", "--standalone",
                      f"--nproc-per-node={arguments.stages}", HERE / "pipelined_gpt.py",
                      "--backend", backend, "--forward", codecs[0], "--backward", codecs[1],
                      "--device", arguments.device, "--dtype", arguments.dtype,
                      "--microbatches", arguments.microbatches, "--steps", arguments.steps,
                      "--warm-up", WARM_UP, "--shape", json.dumps(arguments.shape)],
                     env=environment(arguments)))


def spec(arguments, codecs, stages, transport):
    shape = arguments.shape
    return f"""seed = 1
[model]
kind = "gpt"
engine = "aten"
blocks = {shape["blocks"]}
width = {shape["width"]}
heads = {shape["heads"]}
context = {shape["context"]}
vocab = {shape["vocab"]}
[data]
source = "headers"
[train]
steps = {arguments.steps + WARM_UP}
batch_rows = {shape["rows"]}
microbatches = {arguments.microbatches}
lr = 3e-3
device = "{'cuda' if transport == 'loopback' and arguments.device != 'cpu' else arguments.device}"
dtype = "{arguments.dtype}"
[schedule]
kind = "1f1b"
stages = {stages}
[boundary]
forward = "{codecs[0]}"
backward = "{codecs[1]}"
nmse_every = 0
[net]
transport = "{transport}"
{'profile = "regional"' if transport == "ucx" else ""}
[eval]
rows = 1
"""


def workers(arguments, codecs, folder):
    """The record of a run whose workers meet on the interface lo: nothing is shaped."""
    file = folder / "spec.toml"
    file.write_text(spec(arguments, codecs, arguments.stages, "ucx"))
    port = free_port()
    started = []
    for rank in range(arguments.stages):
        place = environment(arguments, RANK=str(rank), WORLD_SIZE=str(arguments.stages),
                            LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(arguments.stages),
                            MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        started.append(subprocess.Popen(
            [arguments.longhaul, "worker", file, "--interface", "lo", "--events", folder / "events"],
            env=place, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    said = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        sys.exit(f"FAILED: longhaul worker: {' '.join(said)[-3000:]}")
    run([arguments.longhaul, "ingest", folder / "events", "--results", folder / "record"])
    return sqlite3.connect(folder / "record" / "longhaul.sqlite")


def one_process(arguments, codecs, stages, folder):
    """The record of a run whose stages are in one process."""
    file = folder / "spec.toml"
    file.write_text(spec(arguments, codecs, stages, "loopback"))
    run([arguments.longhaul, "run", file, "--quiet", "--results", folder / "record"], env=environment(arguments))
    return sqlite3.connect(folder / "record" / "longhaul.sqlite")


class Steps:
    """Of a record, behind the warm-up: sums by stage, in seconds."""

    def __init__(self, record, arguments, stages):
        rows = record.execute("SELECT step, stage, tokens, wall_s, encode_s, decode_s FROM steps WHERE step > ?",
                              (WARM_UP,)).fetchall()
        count = len({row[0] for row in rows})
        if count != arguments.steps:
            sys.exit(f"FAILED: {count} steps in the record, want {arguments.steps}")
        stages = range(stages)
        self.wall = [sum(r[3] for r in rows if r[1] == s) for s in stages]
        self.coding = [sum(r[4] + r[5] for r in rows if r[1] == s) for s in stages]
        tokens = sum(r[2] for r in rows if r[1] == 0)
        self.tokens_per_s = tokens / max(self.wall)
        # On threads beside the one that computes.
        self.share = max(c / w for c, w in zip(self.coding, self.wall))


def coding_speed(record, dtype):
    """GB/s of the tensors' bytes, of all that was encoded and of all that was decoded."""
    (elements,) = record.execute("SELECT SUM(elements) FROM crossings "
                                 "WHERE direction IN ('forward', 'backward')").fetchone()
    times = record.execute("SELECT SUM(encode_s), SUM(decode_s) FROM steps").fetchone()
    gigabytes = elements * (2 if dtype == "bfloat16" else 4) / 1e9
    return [gigabytes / time for time in times]


def facts(record):
    return dict(record.execute("SELECT key, value FROM run_facts"))


def print_gpu(of_run, arguments):
    """What the docs want of a GPU: who was where, what each was limited to, and what it took."""
    if arguments.device == "cpu":
        print("GPU memory, limits and who shares a GPU: skipped, the device is cpu")
        return
    print(f"GPUs: each shared by {of_run['gpu_shared_by']}")
    for rank in range(arguments.stages):
        print(f"  rank {rank} on {of_run[f'gpu_of_rank_{rank}']}: limit {of_run[f'gpu_memory_of_rank_{rank}']}, "
              f"the most that it held {int(of_run[f'peak_gpu_bytes_of_rank_{rank}']) // 1_000_000} MB")


def check(arguments):
    try:
        import torch
    except ImportError as error:
        skip(f"no torch in {sys.executable}: {error}")
    if arguments.device != "cpu" and not torch.cuda.is_available():
        skip(f"the torch {torch.__version__} of {sys.executable} sees no GPU; --device cpu rehearses it")
    name = "CPU" if arguments.device == "cpu" else torch.cuda.get_device_name(0)
    shape = ", ".join(f"{key} {value}" for key, value in arguments.shape.items())
    print(f"{name}, torch {torch.__version__}, {arguments.dtype}; {shape}; {arguments.microbatches} "
          f"micro-batches, {arguments.stages} stages; tokens per second, median of {arguments.rounds}")


def measure(arguments):
    """Each row once: tokens per second; then the workers' coding, and what the record says of them."""
    rates = {"eager torch, one process": eager(arguments),
             "torch pipelining, gloo through the host": pipelined(arguments, "gloo")}
    if arguments.compile or arguments.device != "cpu":
        rates["torch.compile, one process"] = eager(arguments, ["--compile"])
    coding, of_run = {}, {}
    for stages, codecs in [(1, CODECS[0]), *((arguments.stages, codecs) for codecs in CODECS)]:
        with tempfile.TemporaryDirectory() as folder:
            with contextlib.closing(one_process(arguments, codecs, stages, pathlib.Path(folder))) as record:
                # Stages of one process take turns: a step is as long as all of them together.
                rates[f"longhaul, one process, S = {stages}, {'/'.join(codecs)}"] = Steps(record, arguments, stages).tokens_per_s
    for codecs in CODECS:
        rates[f"torch pipelining, longhaul, {'/'.join(codecs)}"] = pipelined(arguments, "longhaul", codecs)
    for codecs in CODECS:
        name = f"longhaul workers, {'/'.join(codecs)}"
        with tempfile.TemporaryDirectory() as folder:
            with contextlib.closing(workers(arguments, codecs, pathlib.Path(folder))) as record:
                steps = Steps(record, arguments, arguments.stages)
                rates[name] = steps.tokens_per_s
                if codecs[0] != "none":
                    coding[name] = [steps.share, *coding_speed(record, arguments.dtype)]
                of_run = facts(record)
    return rates, coding, of_run


def flops_of_a_token(shape):
    """Forward and backward of a GPT; attention looks back on half of the context."""
    matrices = 12 * shape["blocks"] * shape["width"] ** 2 + shape["vocab"] * shape["width"]
    return 6 * (matrices + shape["blocks"] * shape["context"] * shape["width"])


def mfu_words(rate, arguments):
    import torch
    name = "" if arguments.device == "cpu" else torch.cuda.get_device_name(0)
    peak = next((peak for known, peak in PEAK_FLOPS.items() if known in name), None)
    if peak is None or arguments.dtype != "bfloat16":
        return "-"
    return f"{100 * rate * flops_of_a_token(arguments.shape) / peak:.1f} %"


def print_table(rounds, arguments):
    """Medians; the first two rows are what the others are compared with."""
    names = list(rounds[0][0])
    rates = {name: statistics.median(r[0][name] for r in rounds) for name in names}
    alone, gloo = rates[names[0]], rates[names[1]]
    print("| run | tokens/s | MFU | of eager | of pipelining over gloo | coding, of a step | encode, GB/s | decode, GB/s |")
    print("|---|---|---|---|---|---|---|---|")
    for name in names:
        shown = ["-"] * 3
        if name in rounds[0][1]:
            share, encode, decode = (statistics.median(r[1][name][i] for r in rounds) for i in range(3))
            shown = [f"{100 * share:.1f} %", f"{encode:.2f}", f"{decode:.2f}"]
        print(f"| {name} | {rates[name]:.0f} | {mfu_words(rates[name], arguments)} | {rates[name] / alone:.2f} | {rates[name] / gloo:.2f} | "
              f"{' | '.join(shown)} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("longhaul")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--microbatches", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=5, help="of eager torch")
    parser.add_argument("--rounds", type=int, default=3, help="of all rows, one after the other")
    parser.add_argument("--compile", action="store_true", help="torch.compile on a CPU too; that takes a minute")
    for key in KEYS:
        parser.add_argument(f"--{key}", type=int)
    arguments = parser.parse_args()
    arguments.longhaul = os.path.abspath(arguments.longhaul)
    usual = CPU_SHAPE if arguments.device == "cpu" else GPU_SHAPE
    arguments.shape = {key: getattr(arguments, key) or value for key, value in zip(KEYS, usual)}
    check(arguments)
    rounds = [measure(arguments) for _ in range(arguments.rounds)]
    print_table(rounds, arguments)
    print_gpu(rounds[-1][2], arguments)


if __name__ == "__main__":
    main()
