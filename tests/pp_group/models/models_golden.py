"""Writes tests/golden/models.txt: every kind of model in plain PyTorch, in double precision.

Nothing of longhaul is called: layers, routing, initial scales, clipping, AdamW and its rate are
written out here from docs/models.md and pp_group/optimizer/adamw.h. models_golden_test.cc compares both
engines with the file. Constants are away from their defaults, so that a default in the wrong place
shows. Without --rewrite the file is only compared.
"""

import argparse
import math
import pathlib

import torch
import torch.nn.functional as F

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "golden" / "models.txt"
ROWS = 2  # of a micro-batch
ADAMW = {"lr": 0.02, "floor": 0.25, "warmup": 2, "steps": 5, "betas": (0.8, 0.9), "eps": 1e-3,
         "decay": 0.3}
LLAMA = {"blocks": 3, "width": 16, "heads": 4, "kv": 2, "hidden": 24, "context": 7, "vocab": 29,
         "theta": 500000.0, "tied": False}
CASES = {
    "gpt": {"kind": "gpt", "blocks": 3, "width": 16, "heads": 4, "context": 7, "vocab": 29, "m": 2},
    "llama": LLAMA | {"kind": "llama", "m": 2},
    "llama_tied": LLAMA | {"kind": "llama", "theta": 37.0, "kv": 4, "tied": True, "m": 1},
    "llama_tied_2": LLAMA | {"kind": "llama", "theta": 37.0, "kv": 4, "tied": True, "m": 2},
    # hidden 0: 8/3 of 24 is 64.
    "llama_hidden": LLAMA | {"kind": "llama", "width": 24, "kv": 1, "hidden": 0, "m": 1},
}
for count in (1, 2, 4):
    CASES[f"moe_{count}"] = LLAMA | {"kind": "moe", "experts": 5, "capacity": 0.8, "balance": 0.37,
                                     "theta": 500.0, "m": count}
CASES["moe_dropless"] = CASES["moe_2"] | {"capacity": 0.0, "experts": 3}


def hidden_of(c):
    return c["hidden"] or math.ceil(8 * c["width"] / 3 / 64) * 64


def parameters_of(c):
    """(name, rows, cols, initial deviation or 0, initial value, clip group) in the model's order."""
    d, v, t = c["width"], c["vocab"], c["context"]
    residual = 0.02 / math.sqrt(2 * c["blocks"])
    out = [("embedding.token", v, d, 0.02, 0, 0)]
    if c["kind"] == "gpt":
        out.append(("embedding.position", t, d, 0.02, 0, 0))
    for b in range(c["blocks"]):
        def add(name, rows, cols, scale, value=0, b=b):
            out.append((f"block{b}.{name}", rows, cols, scale, value, b + 1))
        add("norm1.weight", 1, d, 0, 1)
        if c["kind"] == "gpt":
            add("norm1.bias", 1, d, 0, 0)
            add("attention.qkv", 3 * d, d, 0.02)
            add("attention.out", d, d, residual)
            add("norm2.weight", 1, d, 0, 1)
            add("norm2.bias", 1, d, 0, 0)
            add("mlp.up", 4 * d, d, 0.02)
            add("mlp.down", d, 4 * d, residual)
            continue
        kv = d // c["heads"] * c["kv"]
        add("attention.q", d, d, 0.02)
        add("attention.k", kv, d, 0.02)
        add("attention.v", kv, d, 0.02)
        add("attention.out", d, d, residual)
        add("norm2.weight", 1, d, 0, 1)
        h = hidden_of(c)
        if c["kind"] == "moe":
            e = c["experts"]
            add("router", e, d, 0.02)
            add("experts.gate", e * h, d, 0.02)
            add("experts.up", e * h, d, 0.02)
            add("experts.down", e * d, h, residual)
        else:
            add("mlp.gate", h, d, 0.02)
            add("mlp.up", h, d, 0.02)
            add("mlp.down", d, h, residual)
    last = c["blocks"] + 1
    out.append(("norm.weight", 1, d, 0, 1, last))
    if c["kind"] == "gpt":
        out.append(("norm.bias", 1, d, 0, 0, last))
    if not c.get("tied"):
        out.append(("head", v, d, 0.02, 0, last))
    return out


def fill(k, rows, cols, vector_value):
    """Values for the comparison: large enough that no layer is in its linear range."""
    i = torch.arange(rows * cols, dtype=torch.float64)
    values = 0.35 * torch.sin(1 + 1.7 * k + 2.3 * i + 0.01 * i * i)
    return (values + (vector_value if rows == 1 else 0)).float().double().view(rows, cols)


def ids_of(c, update, micro, shift):
    n = ROWS * c["context"]
    return torch.tensor([((i * i + 3 * i + 7 * update + 11 * micro + shift * (i + 5)) * 5 + i // 3)
                         % c["vocab"] for i in range(n)])


def attention(q, k, v, c, rotary):
    """q [n, heads d], k and v [n, kv d]: one row and head after another."""
    t, d = c["context"], c["width"] // c["heads"]
    kv = k.shape[1] // d
    out = torch.zeros_like(q)
    mask = torch.full((t, t), -math.inf, dtype=torch.float64).triu(1)
    for row in range(ROWS):
        r = slice(row * t, (row + 1) * t)
        for head in range(c["heads"]):
            shared = head // (c["heads"] // kv)
            own, other = slice(head * d, (head + 1) * d), slice(shared * d, (shared + 1) * d)
            a, b = rotary(q[r, own]), rotary(k[r, other])
            weights = torch.softmax(a @ b.T / math.sqrt(d) + mask, -1)
            out[r, own] += weights @ v[r, other]
    return out


def turned(x, theta):
    """Pairs (i, i + d/2) of one head, turned by position * theta^(-2 i / d)."""
    t, d = x.shape
    columns = [None] * d
    for i in range(d // 2):
        angle = torch.arange(t, dtype=torch.float64) * theta ** (-2 * i / d)
        a, b = x[:, i], x[:, i + d // 2]
        columns[i] = a * torch.cos(angle) - b * torch.sin(angle)
        columns[i + d // 2] = b * torch.cos(angle) + a * torch.sin(angle)
    return torch.stack(columns, 1)


def rms(x, w):
    return x / torch.sqrt((x * x).mean(1, keepdim=True) + 1e-5) * w


def swiglu(x, gate, up, down):
    return (F.silu(x @ gate.T) * (x @ up.T)) @ down.T


def experts(x, p, prefix, c, gaps):
    """Output and balance loss; token after token, so that capacity is what a reader expects."""
    e, h, d = c["experts"], hidden_of(c), c["width"]
    logits = x @ p[prefix + "router"].T
    n = x.shape[0]
    limit = math.ceil(c["capacity"] * 2 * n / e) if c["capacity"] else 2 * n
    taken, asked = [0] * e, [0] * e
    rows = []
    for token in range(n):
        order = torch.argsort(logits[token], descending=True)
        gaps.append((logits[token][order[1]] - logits[token][order[2]]).item())
        weights = torch.softmax(logits[token][order[:2]], 0)
        y = torch.zeros(d, dtype=torch.float64)
        for weight, expert in zip(weights, order[:2].tolist()):
            asked[expert] += 1
            if taken[expert] >= limit:
                continue
            taken[expert] += 1
            part = [p[prefix + "experts." + m][expert * s:(expert + 1) * s]
                    for m, s in (("gate", h), ("up", h), ("down", d))]
            y = y + weight * swiglu(x[token:token + 1], *part)[0]
        rows.append(y)
    probability = torch.softmax(logits, 1).mean(0)
    balance = e * sum(asked[i] / (2 * n) * probability[i] for i in range(e))
    return torch.stack(rows), balance, sum(asked) - sum(taken)


def losses_of(c, p, tokens, targets, gaps):
    """Per-token losses [n], the sum of the blocks' balance losses, choices that found no room."""
    x = p["embedding.token"][tokens]
    balance, dropped = torch.zeros((), dtype=torch.float64), 0
    if c["kind"] == "gpt":
        x = x + p["embedding.position"].repeat(ROWS, 1)
    for b in range(c["blocks"]):
        q = {name.split(".", 1)[1]: value for name, value in p.items()
             if name.startswith(f"block{b}.")}
        if c["kind"] == "gpt":
            d = c["width"]
            h = F.layer_norm(x, (d,), q["norm1.weight"][0], q["norm1.bias"][0], 1e-5)
            qkv = h @ q["attention.qkv"].T
            mixed = attention(qkv[:, :d], qkv[:, d:2 * d], qkv[:, 2 * d:], c, lambda a: a)
            x = x + mixed @ q["attention.out"].T
            h = F.layer_norm(x, (d,), q["norm2.weight"][0], q["norm2.bias"][0], 1e-5)
            x = x + F.gelu(h @ q["mlp.up"].T, approximate="tanh") @ q["mlp.down"].T
            continue
        h = rms(x, q["norm1.weight"])
        mixed = attention(h @ q["attention.q"].T, h @ q["attention.k"].T, h @ q["attention.v"].T, c,
                          lambda a: turned(a, c["theta"]))
        x = x + mixed @ q["attention.out"].T
        h = rms(x, q["norm2.weight"])
        if c["kind"] == "moe":
            y, loss, left = experts(h, q, "", c, gaps)
            x, balance, dropped = x + y, balance + loss, dropped + left
        else:
            x = x + swiglu(h, q["mlp.gate"], q["mlp.up"], q["mlp.down"])
    if c["kind"] == "gpt":
        x = F.layer_norm(x, (c["width"],), p["norm.weight"][0], p["norm.bias"][0], 1e-5)
    else:
        x = rms(x, p["norm.weight"])
    logits = x @ p["embedding.token" if c.get("tied") else "head"].T
    return F.cross_entropy(logits, targets, reduction="none"), balance, dropped


def rate(step):
    a = ADAMW
    if step < a["warmup"]:
        return a["lr"] * (step + 1) / a["warmup"]
    part = (step - a["warmup"]) / (a["steps"] - a["warmup"])
    lowest = a["lr"] * a["floor"]
    return lowest + (a["lr"] - lowest) * (1 + math.cos(math.pi * part)) / 2


def probes(x):
    """A value that no sign, swap or scale leaves alone, and the norm."""
    i = torch.arange(x.numel(), dtype=torch.float64)
    return f"{(x.flatten() * torch.cos(0.7 * i + 0.1)).sum().item():.9e} {x.norm().item():.9e}"


def case_lines(name, c):
    lines = [f"case {name}"]
    table = parameters_of(c)
    p, groups = {}, {}
    for k, (parameter, rows, cols, scale, value, group) in enumerate(table):
        p[parameter] = fill(k, rows, cols, value).requires_grad_()
        groups.setdefault(group, []).append(p[parameter])
        lines.append(f"parameter {parameter} {rows} {cols} {scale:.9e} {value} {group}")
    a = ADAMW
    optimizer = torch.optim.AdamW(
        [{"params": [x for x in p.values() if x.shape[0] > 1], "weight_decay": a["decay"]},
         {"params": [x for x in p.values() if x.shape[0] == 1], "weight_decay": 0.0}],
        lr=1, betas=a["betas"], eps=a["eps"])
    gaps, dropped_in_all, clipped_in_all, clip = [], 0, [], None
    for update in range(4):
        optimizer.zero_grad()
        for micro in range(c["m"]):
            losses, balance, dropped = losses_of(c, p, ids_of(c, update, micro, 0),
                                                 ids_of(c, update, micro, 3), gaps)
            dropped_in_all += dropped
            ((losses.mean() + c.get("balance", 0) * balance) / c["m"]).backward()
            lines.append(f"loss {update} {micro} " + probes(losses.detach()))
        for parameter, x in p.items():
            lines.append(f"gradient {update} {parameter} " + probes(x.grad))
        norms = [math.sqrt(sum((x.grad ** 2).sum().item() for x in g)) for g in groups.values()]
        if clip is None:  # between two groups of the first update
            middle = sorted(norms)[len(norms) // 2 - 1:len(norms) // 2 + 1]
            clip = float(f"{math.sqrt(middle[0] * middle[1]):.3g}")
            lines.append(f"clip {clip}")
        clipped = sum(norm > clip for norm in norms)
        clipped_in_all.append((clipped, len(norms)))
        assert all(abs(norm / clip - 1) > 1e-3 for norm in norms), norms
        for g in groups.values():
            torch.nn.utils.clip_grad_norm_(g, clip)
        for group in optimizer.param_groups:
            group["lr"] = rate(update)
        optimizer.step()
        lines.append(f"update {update} {rate(update):.12e} {clipped}")
        for parameter, x in p.items():
            lines.append(f"value {update} {parameter} " + probes(x.detach()))
    assert any(0 < some < all_ for some, all_ in clipped_in_all), clipped_in_all
    assert not gaps or min(gaps) > 2e-4, min(gaps)
    assert bool(c.get("capacity")) == bool(dropped_in_all)
    return lines


def alike(a, b):
    """Equal words; numbers up to what another processor's sums may change."""
    try:
        return math.isclose(float(a), float(b), rel_tol=1e-6, abs_tol=1e-7)
    except ValueError:
        return a == b


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rewrite", action="store_true")
    rewrite = parser.parse_args().rewrite
    torch.set_num_threads(1)
    text = "".join(line + "\n" for name, c in CASES.items() for line in case_lines(name, c))
    if rewrite:
        GOLDEN.write_text(text)
        return
    old, new = GOLDEN.read_text().split(), text.split()
    if len(old) != len(new) or not all(map(alike, old, new)):
        raise SystemExit(f"{GOLDEN} is not what this program makes; --rewrite writes it")


if __name__ == "__main__":
    main()
