"""A Llama of Hugging Face transformers (random weights, no download), cut into stages by
torch.distributed.pipelining. Nothing here names a codec: a campaign's arm does, by the environment.

    torchrun --nproc-per-node=2 llama_pipeline.py [backend]
    longhaul measure llama_pipeline.toml
"""

import math
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from transformers import LlamaConfig, LlamaForCausalLM

import longhaul

ROWS, CONTEXT, MICROBATCHES = 16, 32, 2
SEED = int(os.environ.get("LONGHAUL_SEED", 1))
TOKENS = int(os.environ.get("LONGHAUL_TOKENS", 10 * ROWS * CONTEXT))

dist.init_process_group(sys.argv[1] if len(sys.argv) > 1 else "longhaul")
rank, stages = dist.get_rank(), dist.get_world_size()

torch.manual_seed(SEED)  # every rank makes the whole model and keeps its stage: equal for any cut
whole = LlamaForCausalLM(LlamaConfig(
    vocab_size=256, hidden_size=128, intermediate_size=256, num_hidden_layers=4,
    num_attention_heads=4, max_position_embeddings=CONTEXT)).train()


class Stage(torch.nn.Module):
    """Layers of the Llama; the first stage takes token ids, the last one gives logits."""

    def __init__(self, first, last):
        super().__init__()
        self.embed = whole.model.embed_tokens if rank == 0 else torch.nn.Identity()
        self.layers = whole.model.layers[first:last]
        self.rotary = whole.model.rotary_emb
        self.head = (torch.nn.Sequential(whole.model.norm, whole.lm_head) if rank == stages - 1
                     else torch.nn.Identity())

    def forward(self, x):
        x = self.embed(x)
        places = torch.arange(x.shape[1])[None]
        for layer in self.layers:
            x = layer(x, position_embeddings=self.rotary(x, places), position_ids=places)
        return self.head(x)


def loss_of(logits, targets):
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def batch_of(text, generator):
    at = torch.randint(len(text) - CONTEXT - 1, (ROWS,), generator=generator)
    rows = torch.stack([text[i:i + CONTEXT + 1] for i in at])
    return rows[:, :-1], rows[:, 1:]


def run(step, x, y):
    """One step of the schedule, whose loss the last rank has."""
    losses = []
    if rank == 0:
        step(x)
    elif rank == stages - 1:
        step(target=y, losses=losses)
    else:
        step()
    return torch.stack(losses).mean().item() if losses else None


texts = sorted(pathlib.Path(os.__file__).parent.glob("*.py"))[:60]  # Python's own sources
text = torch.frombuffer(bytearray(b"".join(t.read_bytes() for t in texts)), dtype=torch.uint8).long()
train, held_out = text[:-50_000], text[-50_000:]
per_stage = len(whole.model.layers) // stages
module = Stage(rank * per_stage, (rank + 1) * per_stage)
steps = max(1, round(TOKENS / (ROWS * CONTEXT)))
optimizer = torch.optim.AdamW(module.parameters(), lr=3e-3)
decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
stage = PipelineStage(module, rank, stages, torch.device("cpu"))
schedule = ScheduleGPipe(stage, MICROBATCHES, loss_fn=loss_of)
order = torch.Generator().manual_seed(SEED)  # the same on every rank
for step in range(1, steps + 1):
    loss = run(schedule.step, *batch_of(train, order))
    optimizer.step()
    optimizer.zero_grad()
    decay.step()
    if loss is not None:
        print(f"step {step} loss {loss:.4f}", flush=True)
        longhaul.log(step, loss=loss, tokens=ROWS * CONTEXT)

module.eval()
same = torch.Generator().manual_seed(0)  # held-out rows are those of every run
losses = [run(schedule.eval, *batch_of(held_out, same)) for _ in range(8)]
if rank == stages - 1:
    error = torch.tensor(losses).std().item() / math.sqrt(len(losses))
    print(f"held-out loss {sum(losses) / len(losses):.4f}", flush=True)
    longhaul.log(final=sum(losses) / len(losses), standard_error=error)
dist.destroy_process_group()
