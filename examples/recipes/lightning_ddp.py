"""Lightning over longhaul, on CPUs.

    torchrun --nproc-per-node=2 lightning_ddp.py [backend]
"""

import sys

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy

import longhaul  # noqa: F401


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 64)

    def training_step(self, x, index):
        return torch.nn.functional.mse_loss(self.linear(x), x.roll(1, dims=1))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


lightning.seed_everything(0)
model = Model()
loader = torch.utils.data.DataLoader(torch.randn(128, 64), batch_size=8)
backend = sys.argv[1] if len(sys.argv) > 1 else "longhaul"
trainer = lightning.Trainer(
    accelerator="cpu", devices=2, strategy=DDPStrategy(process_group_backend=backend), max_epochs=1,
    logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer.fit(model, loader)

weights = sum(p.double().sum() for p in model.parameters()).item()
print(f"{torch.distributed.get_backend()}: weights {weights!r}", flush=True)
torch.distributed.destroy_process_group()
