"""The Trainer of Hugging Face transformers over longhaul, on CPUs.

    torchrun --nproc-per-node=2 hf_trainer.py [backend]
"""

import sys
import tempfile

import torch
from transformers import Trainer, TrainingArguments

import longhaul  # noqa: F401


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 64)

    def forward(self, x, labels):
        return {"loss": torch.nn.functional.mse_loss(self.linear(x), labels)}


# First: the Trainer takes the group that is there. On CPUs it would make one of gloo by itself.
torch.distributed.init_process_group(sys.argv[1] if len(sys.argv) > 1 else "longhaul")
torch.manual_seed(0)
model = Model()
inputs = torch.randn(128, 64)
examples = [{"x": x, "labels": x.roll(1)} for x in inputs]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder, use_cpu=True, per_device_train_batch_size=8, num_train_epochs=1,
        learning_rate=0.01, report_to="none", save_strategy="no", disable_tqdm=True)
    Trainer(model=model, args=arguments, train_dataset=examples).train()

weights = sum(p.double().sum() for p in model.parameters()).item()
print(f"{torch.distributed.get_backend()}: weights {weights!r}", flush=True)
torch.distributed.destroy_process_group()
