"""Other implementations of what the codecs do, timed in this process on one thread: torch, torchao,
bitsandbytes and FBGEMM. Every row is GB/s of fp32 input, the median over rounds; each round also
times one reading of the same tensor (codec_reading.cc), as codecs_bench does, so that rows of both
can be compared while the memory's speed changes. Tensors take turns, as there: in the cache, because
a processor learns the branches of one that it sees again and again (what decodes does not branch on
data, and gets the same input every time); in memory, because part of one stays in the last cache."""

import argparse
import ctypes
import itertools
import json
import statistics
import sys
import time

import torch

ELEMENTS = {"L2": 32 << 10, "DRAM": 16 << 20}
CACHED_TENSORS = 64
SHORTEST_SAMPLE_S = 2e-3


def once(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


COST_OF_TIMING_S = min(once(lambda: None) for _ in range(1000))


def seconds(work, times, before=None):
    if before is None:
        start = time.perf_counter()
        for _ in range(times):
            work()
        return (time.perf_counter() - start) / times
    total = 0
    for _ in range(times):
        before()
        total += once(work) - COST_OF_TIMING_S
    return total / times


def times_of(work, before):
    work()
    times = 1
    while seconds(work, times, before) * times < SHORTEST_SAMPLE_S:
        times *= 2
    return times


def rate(work, read, before, elements, rounds):
    """GB/s of fp32 input, and the time of one reading / the time of `work`, in the same round.
    before: comes before each time and is not timed, or None."""
    times, read_times = times_of(work, before), times_of(read, before)
    pairs = [(seconds(read, read_times, before), seconds(work, times, before)) for _ in range(rounds)]
    return (4e-9 * elements / statistics.median(taken for _, taken in pairs),
            statistics.median(reading / taken for reading, taken in pairs))


def in_turn(works):
    """One of `works` per call."""
    turns = itertools.cycle(works)
    return lambda: next(turns)()


def torch_rows(x):
    """Composed tensor operations: what one writes without kernels."""
    blocks = x.view(-1, 64)

    def int4():
        scale = blocks.abs().amax(1, keepdim=True) / 7
        q = torch.round(blocks / scale).clamp_(-7, 7).add_(8).to(torch.uint8)
        return q[:, ::2] | q[:, 1::2] << 4, scale.to(torch.bfloat16)

    def minmax4():
        low, high = torch.aminmax(blocks, dim=1, keepdim=True)
        scale = (high - low) / 15
        q = torch.round((blocks - low) / scale).to(torch.uint8)
        return q[:, ::2] | q[:, 1::2] << 4, scale, low

    codes, scale = int4()

    def int4_decode():
        q = torch.stack((codes & 15, codes >> 4), 2).view(-1, 64)
        return (q.float() - 8) * scale.float()

    # Into memory that is there already: page faults of a fresh |x| are not torch.topk's.
    chunks, magnitudes = x.view(-1, 4096), torch.empty_like(x)
    chosen = (torch.empty(chunks.shape[0], 64), torch.empty(chunks.shape[0], 64, dtype=torch.int64))
    most = (torch.empty(x.numel() // 64), torch.empty(x.numel() // 64, dtype=torch.int64))

    def topk_of_chunks():
        torch.abs(chunks, out=magnitudes.view(-1, 4096))
        torch.topk(magnitudes.view(-1, 4096), 64, dim=1, sorted=False, out=chosen)

    def topk_of_all():
        torch.abs(x, out=magnitudes)
        torch.topk(magnitudes, x.numel() // 64, sorted=False, out=most)

    yield "torch copy", 32, lambda: x.clone(), None
    yield "torch composed int4 b64", 4.25, int4, int4_decode
    yield "torch composed minmax4 b64", 4.5, minmax4, None
    yield "torch to bf16", 16, lambda: x.to(torch.bfloat16), None
    yield "torch.topk 64 of 4096", None, topk_of_chunks, None
    yield "torch.topk whole tensor n/64", None, topk_of_all, None


def fbgemm_rows(x):
    """FBGEMM's rows: scale and zero per row, in the torch wheel."""
    ops = torch.ops.quantized
    for bits, pack, unpack in ((4, ops.embedding_bag_4bit_prepack, ops.embedding_bag_4bit_unpack),
                               (8, ops.embedding_bag_byte_prepack, ops.embedding_bag_byte_unpack)):
        for width in (64, 256, 4096):
            rows = x.view(-1, width)
            packed = pack(rows)
            yield (f"FBGEMM {bits}-bit rows of {width} (torch)", bits + (32 if bits == 4 else 64) / width,
                   lambda rows=rows, pack=pack: pack(rows),
                   lambda packed=packed, unpack=unpack: unpack(packed))


def fbgemm_cpu_rows(x):
    import fbgemm_gpu  # noqa: F401
    ops = torch.ops.fbgemm
    for bits in (4, 8):
        rows = x.view(-1, 64)
        if bits == 4:
            packed = ops.FloatToFusedNBitRowwiseQuantizedSBHalf(rows, 4)
            yield ("fbgemm-gpu-cpu 4-bit rows of 64", 4.5,
                   lambda: ops.FloatToFusedNBitRowwiseQuantizedSBHalf(rows, 4),
                   lambda: ops.FusedNBitRowwiseQuantizedSBHalfToFloat(packed, 4))
        else:
            packed8 = ops.FloatToFused8BitRowwiseQuantized(rows)
            yield ("fbgemm-gpu-cpu 8-bit rows of 64", 9,
                   lambda: ops.FloatToFused8BitRowwiseQuantized(rows),
                   lambda: ops.Fused8BitRowwiseQuantizedToFloat(packed8))


def torchao_rows(x):
    from torchao.quantization.quant_primitives import (MappingType, choose_qparams_affine,
                                                       dequantize_affine, quantize_affine)
    rows = x.view(-1, 64)
    for bits in (4, 8):
        top = 2 ** (bits - 1) - 1

        def encode(top=top):
            scale, zero = choose_qparams_affine(rows, MappingType.SYMMETRIC, (1, 64), torch.int8,
                                                -top, top)
            return quantize_affine(rows, (1, 64), scale, zero, torch.int8, -top, top), scale, zero

        q, scale, zero = encode()
        yield (f"torchao int{bits} groups of 64", bits, encode,
               lambda q=q, scale=scale, zero=zero, top=top: dequantize_affine(
                   q, (1, 64), scale, zero, torch.int8, -top, top))


def bitsandbytes_rows(x):
    import bitsandbytes.functional as F
    q, state = F.quantize_blockwise(x, blocksize=4096)
    yield ("bitsandbytes 8-bit blocks of 4096", 8.008, lambda: F.quantize_blockwise(x, blocksize=4096),
           lambda: F.dequantize_blockwise(q, state))
    q4, state4 = F.quantize_4bit(x, blocksize=64, quant_type="nf4")
    yield ("bitsandbytes nf4 blocks of 64", 4.5,
           lambda: F.quantize_4bit(x, blocksize=64, quant_type="nf4"),
           lambda: F.dequantize_4bit(q4, state4))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--reading", required=True, help="libcodec_reading.so")
    parser.add_argument("--native", required=True, help="what codecs_bench measured: the tensors of its places")
    parser.add_argument("--missing", required=True)
    parser.add_argument("--json", required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    missing = [line.strip() for line in open(arguments.missing, encoding="utf-8")]
    read_all = ctypes.CDLL(arguments.reading).LonghaulReadAll
    read_all.argtypes, read_all.restype = (ctypes.c_void_p, ctypes.c_size_t), None
    native = json.load(open(arguments.native, encoding="utf-8"))["rows"]
    in_memory = next(row["tensors"] for row in native if row["place"] == "DRAM")
    rows = []
    for place, elements in ELEMENTS.items():
        tensors = torch.randn(CACHED_TENSORS if place == "L2" else 1, elements,
                              generator=torch.Generator().manual_seed(1))
        if place == "L2":
            x, turns = tensors[0].clone(), itertools.cycle(tensors)
            slots, before = [x], lambda: x.copy_(next(turns))
        else:
            slots, before = [tensors[0].clone() for _ in range(in_memory)], None
        read = in_turn([lambda x=x: read_all(x.data_ptr(), elements) for x in slots])

        for family in (torch_rows, fbgemm_rows, fbgemm_cpu_rows, torchao_rows, bitsandbytes_rows):
            try:
                for peers in zip(*(family(x) for x in slots)):
                    name, bits, _, decode = peers[0]
                    encode = in_turn([peer[2] for peer in peers])
                    seconds(encode, len(slots))  # what it writes is touched once
                    # Slow peers are timed fewer times: a second per figure is enough.
                    rounds = arguments.rounds
                    if seconds(encode, 1) > 0.3:
                        rounds = min(rounds, 3)
                    row = {"name": name, "place": place, "threads": 1, "bits": bits}
                    row["encode_gb_s"], row["encode_of_read"] = rate(encode, read, before, elements,
                                                                     rounds)
                    if decode is not None:
                        decode = in_turn([peer[3] for peer in peers])
                        row["decode_gb_s"], row["decode_of_read"] = rate(decode, read, before,
                                                                         elements, rounds)
                    rows.append(row)
                    print(f"{name:40} {place:5} {row['encode_gb_s']:7.2f} "
                          f"{row.get('decode_gb_s', float('nan')):7.2f} GB/s", flush=True)
            except Exception as error:  # a peer that fails is named, the others go on
                missing.append(f"{family.__name__.removesuffix('_rows')} ({place}): "
                               f"{type(error).__name__}: {str(error).splitlines()[0][:160]}")
                print(missing[-1], file=sys.stderr)
    versions = {"torch": torch.__version__}
    with open(arguments.json, "w", encoding="utf-8") as out:
        json.dump({"versions": versions, "missing": missing, "rows": rows}, out, indent=1)


if __name__ == "__main__":
    main()
