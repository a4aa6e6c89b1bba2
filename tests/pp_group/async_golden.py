"""The numbers that tests/pp_group/past_weights_test.cc is held to, from PyTorch alone.

Thirty steps of a small GPT in four stages whose pipeline is never flushed: each stage counts its own forwards and
backwards in 1F1B's order and takes the weights that it has by then, for both passes of a micro-batch (PipeDream's
weight stashing), with torch.optim's AdamW, or NAdam as 2505.01099 takes it. In float64. The model and its data are
those of outer/diloco_golden_gpt.py, with four blocks.

Usage: async_golden.py            compares with the files, exit status 1 if they differ
       async_golden.py --rewrite  rewrites them
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "outer"))

import diloco_golden_gpt as gpt  # noqa: E402
import torch  # noqa: E402

FOLDER = pathlib.Path(__file__).parents[1] / "golden"
gpt.BLOCKS = STAGES = 4
RUNS = {
    "async_adamw_m1.txt": ("adamw", 1),
    "async_adamw_m2.txt": ("adamw", 2),
    "async_nadam_m1.txt": ("nadam", 1),
    "async_nadam_m4.txt": ("nadam", 4),
}


def stages_of(model):
    """The parameters of each stage."""
    parts = [list(block.parameters()) for block in model.blocks]
    parts[0] = [model.token, model.position, *parts[0]]
    parts[-1] += [*model.norm.parameters(), model.head]
    return parts


def versions(stage, microbatches, steps):
    """Of every micro-batch how many updates its stage had made when 1F1B came to its forward."""
    found, backwards = [], 0
    while len(found) < steps * microbatches:
        while len(found) <= backwards + STAGES - 1 - stage:
            found.append(backwards // microbatches)
        backwards += 1
    return found


def optimizer_of(kind, model):
    parts = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": gpt.DECAY},
             {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0}]
    if kind == "adamw":
        return torch.optim.AdamW(parts, lr=gpt.LR, betas=(0.9, 0.95), eps=1e-8)
    return torch.optim.NAdam(parts, lr=gpt.LR, betas=(0.99, 0.95), eps=1e-8, decoupled_weight_decay=True)


def train(kind, microbatches):
    torch.set_num_threads(1)
    tokens = [(gpt.splitmix64(i // 3) + i % 3) % gpt.VOCAB for i in range(gpt.CORPUS_TOKENS)]
    model, past = gpt.Gpt().double(), gpt.Gpt().double()
    optimizer = optimizer_of(kind, model)
    taken = [versions(s, microbatches, gpt.STEPS) for s in range(STAGES)]
    history, lines = [], []
    for step in range(gpt.STEPS):
        history.append([[p.detach().clone() for p in part] for part in stages_of(model)])
        optimizer.zero_grad()
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        ids, targets = gpt.batch(tokens, step, 0, 1)
        losses = []
        for m in range(microbatches):
            with torch.no_grad():
                for s, part in enumerate(stages_of(past)):
                    for p, was in zip(part, history[taken[s][step * microbatches + m]][s]):
                        p.copy_(was)
            past.zero_grad()
            loss = past(ids.chunk(microbatches)[m], targets.chunk(microbatches)[m]) / microbatches
            loss.backward()
            losses.append(loss.item())
            for p, q in zip(model.parameters(), past.parameters()):
                p.grad += q.grad
        lines.append(f"{step + 1} {sum(losses):.9f}\n")
        for parameters in model.clip_groups():
            torch.nn.utils.clip_grad_norm_(parameters, gpt.CLIP)
        for part in optimizer.param_groups:
            part["lr"] = gpt.rate(step)
        optimizer.step()
    return "".join(lines)


def main():
    failed = False
    for name, run in RUNS.items():
        text, golden = train(*run), FOLDER / name
        if "--rewrite" in sys.argv[1:]:
            golden.write_text(text)
            continue
        worst = 0.0
        for ours, kept in zip(text.splitlines(), golden.read_text().splitlines(), strict=True):
            worst = max(worst, abs(float(ours.split()[1]) - float(kept.split()[1])))
        print(f"largest difference from {golden}: {worst:.2e} nat")
        failed |= worst > 1e-6
    return failed


if __name__ == "__main__":
    sys.exit(main())
