"""What torch makes of the same work on the same GPU, for cuda_codecs_bench's table: its own operations,
composed and, where torch.compile works there, fused. 64 Mi elements as [16384, 4096], four tensors in
turn, each row the median of several replays of a CUDA graph; GB/s of the tensor's bytes.

Usage: python3 cuda_peers.py [--eager]    Exit 77 where there is no GPU for torch."""

import statistics
import sys

import torch

ROWS, COLS, SETS, REPEATS = 16384, 4096, 4, 21
BYTES = 2 * ROWS * COLS


def int4(x):
    """int4-b64's arithmetic with fp32 scales: two codes to a byte."""
    blocks = x.view(-1, 64).float()
    scale = blocks.abs().amax(1, keepdim=True) / 7
    q = torch.round(blocks / scale).clamp(-7, 7).add(8).to(torch.uint8).view(-1, 32, 2)
    return q[:, :, 0] | q[:, :, 1] << 4, scale.to(torch.bfloat16)


def int4_decode(codes, scale):
    q = torch.stack((codes & 15, codes >> 4), 2).view(-1, 64)
    return ((q.float() - 8) * scale.float()).to(torch.bfloat16)


def minmax4(x):
    blocks = x.view(-1, 64).float()
    low, high = blocks.amin(1, keepdim=True), blocks.amax(1, keepdim=True)
    scale = (high - low) / 15
    q = torch.round((blocks - low) / scale).to(torch.uint8).view(-1, 32, 2)
    return q[:, :, 0] | q[:, :, 1] << 4, scale.to(torch.bfloat16), low.to(torch.bfloat16)


def topk(x):
    indices = torch.topk(x.abs(), 64, dim=1, sorted=False).indices
    return torch.gather(x, 1, indices).half(), indices.to(torch.int16)


def seconds(work, inputs):
    """Per call, the host not in its way: one graph does all inputs in turn."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for one in inputs:
            work(*one)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        kept = [work(*one) for one in inputs]  # noqa: F841: the graph writes there
    times = []
    for _ in range(REPEATS + 2):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) * 1e-3)
    return statistics.median(times[2:]) / len(inputs)


def main():
    if not torch.cuda.is_available():
        print("skipped: no GPU for torch")
        sys.exit(77)
    xs = [torch.randn(ROWS, COLS, device="cuda", dtype=torch.bfloat16) for _ in range(SETS)]
    print(f"{torch.cuda.get_device_name()}; torch {torch.__version__}; 64 Mi bf16 elements")
    print(f"{'torch':<38} {'GB/s':>8}")
    encoded = [int4(x) for x in xs]
    rows = [("to(float16)", lambda x: x.to(torch.float16), xs),
            ("to(float8_e4m3fn)", lambda x: x.to(torch.float8_e4m3fn), xs),
            ("topk(64 of 4096) and gather", topk, xs),
            ("int4 blocks of 64", int4, xs),
            ("int4 blocks of 64, decode", int4_decode, encoded),
            ("min-max 4 bits, blocks of 64", minmax4, xs)]
    for compiled in [False] if "--eager" in sys.argv else [False, True]:
        for name, work, inputs in rows:
            if compiled and not name.startswith(("int4", "min-max")):
                continue
            label = f"{name}{', compiled' if compiled else ''}"
            inputs = [one if isinstance(one, tuple) else (one,) for one in inputs]
            try:
                work = torch.compile(work, dynamic=False) if compiled else work
                taken = seconds(work, inputs)
            except Exception as error:  # a peer that cannot run says why, and is no figure
                print(f"{label:<38} {type(error).__name__}: {str(error).splitlines()[0][:80]}")
                continue
            print(f"{label:<38} {1e-9 * BYTES / taken:8.1f}")


if __name__ == "__main__":
    main()
