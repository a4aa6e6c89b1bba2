"""lh.price of plain modules and of Hugging Face's, against `longhaul price` on the same weights; and every bad input."""

import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "importing"))
from common import SHAPE, Command, turned, write_hf  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402

import longhaul as lh  # noqa: E402

LONGHAUL, PYTHON = os.environ["LONGHAUL_BINARY"], os.environ["LONGHAUL_EXPORT_PYTHON"]
BLOCKS, CONTEXT, ROWS = 6, 24, 12
CODECS, STAGES = ("int4-b64-h64", "minmax2-b64+sr"), (2, 4)


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.weight


class Block(nn.Module):
    def __init__(self, s=SHAPE):
        super().__init__()
        kv = s["width"] // s["heads"] * s["kv_heads"]
        self.input_layernorm, self.post_attention_layernorm = Norm(s["width"]), Norm(s["width"])
        self.self_attn = nn.ModuleDict({name: nn.Linear(*shape, bias=False) for name, shape in {
            "q_proj": (s["width"], s["width"]), "k_proj": (s["width"], kv), "v_proj": (s["width"], kv),
            "o_proj": (s["width"], s["width"])}.items()})
        self.mlp = nn.ModuleDict({name: nn.Linear(*shape, bias=False) for name, shape in {
            "gate_proj": (s["width"], s["hidden"]), "up_proj": (s["width"], s["hidden"]),
            "down_proj": (s["hidden"], s["width"])}.items()})
        self.s = s

    def forward(self, x):
        h, s = self.input_layernorm(x), self.s
        q, k, v = (self.self_attn[name](h).unflatten(-1, (-1, s["width"] // s["heads"])).transpose(1, 2)
                   for name in ("q_proj", "k_proj", "v_proj"))
        q, k = (turned(y.double(), s["theta"], False).float() for y in (q, k))
        k, v = (y.repeat_interleave(s["heads"] // s["kv_heads"], 1) for y in (k, v))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x += self.self_attn["o_proj"](y.transpose(1, 2).flatten(2))  # in place, as some models do
        h = self.post_attention_layernorm(x)
        return x.add_(self.mlp["down_proj"](nn.functional.silu(self.mlp["gate_proj"](h)) * self.mlp["up_proj"](h)))


class Llama(nn.Module):
    """Plain torch; parameters are named as Hugging Face names them."""

    def __init__(self, s=SHAPE, blocks=BLOCKS):
        super().__init__()
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(s["vocab"], s["width"])
        self.model.layers = nn.ModuleList(Block(s) for _ in range(blocks))
        self.model.norm = Norm(s["width"])
        self.lm_head = nn.Linear(s["width"], s["vocab"], bias=False)

    def forward(self, ids):
        x = self.model.embed_tokens(ids)
        for block in self.model.layers:
            x = block(x)
        return self.lm_head(self.model.norm(x))


def made():
    """A model of weights at which codecs matter, and its text."""
    generator = torch.Generator().manual_seed(3)
    model = Llama().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            drawn = torch.randn(weight.shape, generator=generator)
            weight.copy_(1 + 0.1 * drawn if weight.dim() == 1 else 0.2 * drawn)
    chooser = random.Random(5)
    return model, [chooser.randrange(SHAPE["vocab"]) for _ in range(30 * CONTEXT + 1)]


TRANSFORMERS = """
import json, sys, torch, transformers, longhaul as lh
model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32)
print(lh.price(model, sys.argv[2], {codecs!r}, {stages!r}, rows={rows}).to_json())
"""


class Prices(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cls.command = Command(LONGHAUL, sys.executable)
        cls.addClassCleanup(cls.command.remove)
        cls.model, cls.ids = made()
        cls.hf = write_hf(cls.command.path("hf"), dict(cls.model.named_parameters()), False, num_hidden_layers=BLOCKS)
        cls.command.done("model", cls.hf, "--out", cls.command.path("model"))
        cls.text = cls.command.path("text.bin")
        with open(cls.text, "wb") as file:
            file.write(struct.pack("<3i", 20240520, 1, len(cls.ids)).ljust(1024, b"\0"))
            file.write(struct.pack(f"<{len(cls.ids)}H", *cls.ids))
        words = [word for codec in CODECS for word in ("--codec", codec)]
        done = subprocess.run([LONGHAUL, "price", "--weights", cls.command.path("model"), "--tokens", cls.text, *words,
                               "--stages", ",".join(map(str, STAGES)), "--rows", str(ROWS), "--gradient-rows", "0",
                               "--threads", "1", "--quiet", "--json"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        cls.wanted = json.loads(done.stdout)

    def same(self, got):
        """Every figure of the tables, but where it was computed."""
        def compare(want, found, at):
            if isinstance(want, dict):
                self.assertEqual(list(want), list(found), at)
                for key in want:
                    compare(want[key], found[key], f"{at}.{key}")
            elif isinstance(want, float):
                self.assertAlmostEqual(want, found, delta=1e-4, msg=at)
            else:
                self.assertEqual(want, found, at)

        for part in ("depths", "boundaries"):
            self.assertEqual(len(self.wanted[part]), len(got[part]))
            for i, (want, found) in enumerate(zip(self.wanted[part], got[part])):
                for one in (want, found):
                    one.pop("worst", None)  # the next worst may be as bad to 1e-4
                    one.pop("neighbour_correlation", None)  # of differences that cancel
                compare(want, found, f"{part}[{i}]")
        compare(self.wanted["uncompressed_nat_per_token"], got["uncompressed_nat_per_token"], "uncompressed")

    def test_a_plain_module_costs_what_the_command_says(self):
        before = {name: weight.clone() for name, weight in self.model.state_dict().items()}
        self.model.train()
        prices = lh.price(self.model, self.ids, CODECS, STAGES, rows=ROWS, context=CONTEXT)
        self.assertTrue(all(module.training for module in self.model.modules()))
        self.assertFalse(any("forward" in vars(module) for module in self.model.modules()))
        for name, weight in self.model.state_dict().items():
            self.assertTrue(torch.equal(weight, before[name]), name)
        self.same(json.loads(prices.to_json()))
        deep = prices.depths[prices.depths.stages == 4]
        self.assertGreater(deep.delta_nat_per_token.max(), 1e-3, "codecs that cost nothing show nothing")
        self.assertEqual(list(deep.codec), list(CODECS))
        priced = prices.rows
        mean = (priced.loss_nat_per_token - priced.uncompressed_nat_per_token)[priced.crossings == "3 int4-b64-h64"].mean()
        alone = prices.boundaries.query("before_block == 3 and codec == 'int4-b64-h64'")
        self.assertAlmostEqual(mean, float(alone.delta_nat_per_token.iloc[0]), 12)
        self.assertIn("All boundaries of S stages", str(prices))
        self.assertIn("<table>", prices._repr_html_())

    def test_a_model_of_hugging_face_costs_what_the_command_says(self):
        if subprocess.run([PYTHON, "-c", "import transformers"], capture_output=True).returncode != 0:
            self.skipTest("no transformers")
        code = TRANSFORMERS.format(codecs=CODECS, stages=STAGES, rows=ROWS)
        done = subprocess.run([PYTHON, "-c", code, self.hf, self.text], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.same(json.loads(done.stdout))

    def test_shared_prefixes_change_no_bit(self):
        """An arm whose first blocks are not computed again has the loss of a whole pass."""
        prices = lh.price(self.model, self.ids, "minmax2-b64", cuts=[(2, 4)], rows=5, context=CONTEXT)
        found = prices.rows.query("crossings == '2 minmax2-b64, 4 minmax2-b64'").iloc[0]
        at = int(found.window) * CONTEXT
        row = torch.tensor(self.ids[at:at + CONTEXT + 1])
        hooks = [self.model.model.layers[block].register_forward_pre_hook(
            lambda module, words: (lh.decode(lh.encode(words[0], "minmax2-b64")).reshape(words[0].shape),))
            for block in (2, 4)]
        try:
            with torch.no_grad():
                each = nn.functional.cross_entropy(self.model(row[None, :-1])[0], row[1:], reduction="none")
        finally:
            for hook in hooks:
                hook.remove()
        self.assertEqual(float(each.double().mean()), found.loss_nat_per_token)

    def test_a_lossless_codec_costs_exactly_nothing(self):
        depths = lh.price(self.model, torch.tensor(self.ids), "identity", 2, rows=5, context=CONTEXT).depths
        self.assertEqual(list(depths.delta_nat_per_token), [0.0])

    def test_experts_are_no_blocks(self):
        class Expert(nn.Module):
            def __init__(self):
                super().__init__()
                self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(5))

            def forward(self, x):
                return x + sum(expert(x) for expert in self.experts)

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed, self.h, self.head = nn.Embedding(16, 8), nn.ModuleList(Expert() for _ in range(3)), nn.Linear(8, 16)

            def forward(self, ids):
                x = self.embed(ids)
                for block in self.h:
                    x = block(x)
                return self.head(x)

        depths = lh.price(Model(), [i % 16 for i in range(100)], stages=[3], context=8).depths
        self.assertEqual(list(depths.stages), [3])

    def test_what_is_wrong_is_one_line(self):
        def refused(because, model=self.model, tokens=self.ids, *words, error=ValueError, **named):
            with self.assertRaises(error) as caught:
                lh.price(model, tokens, *words, **{"context": CONTEXT, **named})
            self.assertIn(because, str(caught.exception))
            self.assertNotIn("\n", str(caught.exception))
            self.assertFalse(any("forward" in vars(module) for module in self.model.modules()))

        refused("has no nn.ModuleList of two or more blocks", nn.Sequential(nn.Embedding(96, 8), nn.Linear(8, 96)))
        refused("must be a torch.nn.Module, not str", "model", error=TypeError)
        refused("no such attribute", blocks="model.blocks")
        refused("no boundary lies within it", blocks=list(self.model.model.layers)[:1])
        refused("not each once from first to last", blocks=list(self.model.model.layers)[::-1])
        refused("token 7 is 96, and the model has logits for 96 ids", tokens=[*self.ids[:7], 96, *self.ids[8:]])
        refused("token 0 is -1", tokens=[-1, *self.ids[1:]])
        refused("want ids of a text", tokens=[self.ids])
        refused("want ids of a text", tokens=[0.5] * 400)
        refused("is no token file", tokens=__file__)
        refused("nothing.bin", tokens=self.command.path("nothing.bin"))
        refused("int5-b64", self.model, self.ids, "int5-b64")
        refused("keeps a state", self.model, self.ids, "int4-b64+ef")
        refused("is given twice", self.model, self.ids, ["int4-b64", "int4-b64"])
        refused("no codec", self.model, self.ids, [])
        refused("stages 7: want 2 to 6", stages=[2, 7])
        refused("stages 1: want 2 to 6", stages=1)
        refused("no stages", stages=[])
        refused("from 1 to 5", cuts=[(2, 6)])
        refused("ascending", cuts=[(3, 2)])
        refused("an interval wants 5 or more", rows=4)
        refused("721 tokens are 30 rows of 24: want 31", rows=31)
        refused("are 0 rows", tokens=self.ids[:10])
        refused("context 0", context=0)
        refused("above 0", allow=[0.0])
        broken = Llama()
        with torch.no_grad():
            for weight in broken.parameters():
                weight.fill_(float("nan"))
        refused("the loss of a row is nan", broken)


if __name__ == "__main__":
    unittest.main()
