"""Compares per-token losses of exported weights with those that `transformers` computes.

Usage: transformers_logits.py FOLDER     with model.safetensors, config.json and ours.json in it
"""

import json
import sys

import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM


def main():
    folder = sys.argv[1]
    with open(f"{folder}/ours.json") as file:
        ours = json.load(file)
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = torch.tensor(ours["ids"]).view(ours["rows"], -1)
    with torch.no_grad():
        logits = model(ids).logits
    theirs = F.cross_entropy(
        logits.view(-1, logits.size(-1)), torch.tensor(ours["targets"]), reduction="none"
    )
    difference = (theirs.double() - torch.tensor(ours["losses"]).double()).abs().max().item()
    print(f"largest difference of a token's loss: {difference:.2e} nat of {theirs.max():.2f}")
    spread = theirs.std().item()
    sys.exit(0 if difference < 2e-5 and spread > 0.1 else 1)


main()
