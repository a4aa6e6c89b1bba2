"""Runs one program of examples/recipes: recipes.py NAME. Its ranks must end alike and, where nothing is
lossy, exactly as over gloo. recipes.py page: what docs/recipes.md shows is in the programs. recipes.py tutorial:
docs/tutorial-torch.md as written, its program, its changes and its commands in their order, with the output that it shows."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import launch

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "examples" / "recipes"
BESIDE = ROOT / ".venv-export" / "bin" / "python"  # scripts/setup.sh test; sees the torch of the build


def interpreter_with(package):
    """A Python that has `package` and torch, or ends the program as skipped."""
    for python in (BESIDE, pathlib.Path(sys.executable)):
        if python.exists() and subprocess.run([python, "-c", f"import torch, {package}"],
                                              stderr=subprocess.DEVNULL).returncode == 0:
            return python
    launch.skip(f"no {package} in {BESIDE} or {sys.executable}: scripts/setup.sh test installs it")


def lines_of(name, ranks=2, python=sys.executable, *arguments):
    run = subprocess.run([python, "-m", "torch.distributed.run", "--standalone",
                          f"--nproc-per-node={ranks}", PROGRAMS / f"{name}.py", *arguments],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240)
    # On a busy machine torch's own gloo ends in std::terminate behind destroy_process_group now and
    # then (1 of 14 runs seen), its result printed. Only what it printed is wanted of it.
    assert run.returncode == 0 or "gloo" in arguments, run.stdout
    print(run.stdout, flush=True)
    return run.stdout


def weights(text, ranks):
    """What every rank's line says; a line of one rank may follow that of another without a break."""
    found = re.findall(r"weights (-?[\d.]+(?:e-?\d+)?)", text)
    assert len(found) == ranks and len(set(found)) == 1, found
    return found[0]


def as_over_gloo(name, package=None):
    python = interpreter_with(package) if package else sys.executable
    ours, other = (weights(lines_of(name, 2, python, backend), 2)
                   for backend in ("longhaul", "gloo"))
    assert ours == other, (ours, other)


def pipeline():
    text = lines_of("pipeline")
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", text)]
    assert len(losses) == 10 and losses[-1] < 0.8 * losses[0], losses
    sent = re.findall(r"rank (\d) sent 40 (\w+) tensors to rank (\d) with (\S+), ([\d.]+) bits", text)
    assert sorted(row[:4] for row in sent) == [("0", "activation", "1", "int4-b64-h64"),
                                               ("1", "gradient", "0", "int8-b64")], sent
    assert all(float(row[4]) < (4.4 if row[1] == "activation" else 8.4) for row in sent), sent


def same_but_for_figures(shown, printed, share=0.01):
    """Lines with equal words, in any order, whose numbers are within `share` of one another."""
    number = r"\d+(?:\.\d+)?"
    # A line of one rank may follow that of another without a break.
    shown, printed = (sorted(re.sub(r"(?<=.)(?=rank \d|step \d)", "\n", text).split("\n")) for text in (shown, printed))
    shown, printed = ([line for line in lines if line] for lines in (shown, printed))
    assert [re.sub(number, "#", line) for line in shown] == [re.sub(number, "#", line) for line in printed], (shown, printed)
    for want, got in zip(re.findall(number, "\n".join(shown)), re.findall(number, "\n".join(printed))):
        assert abs(float(got) - float(want)) <= share * float(want) + 1e-9, (want, got, shown, printed)


def tutorial():
    page = (ROOT / "docs/tutorial-torch.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    kinds = [kind for kind, _ in blocks]
    assert kinds == ["python", "sh", "", "diff", "diff", "sh", "", "diff", "diff", "sh", ""], kinds
    program, said = "", ""
    with tempfile.TemporaryDirectory() as folder:
        for kind, text in blocks:
            if kind == "python":
                program = text
            elif kind == "diff":
                old, new = ("".join(line[1:] for line in text.splitlines(True) if line[0] in kept) for kept in (" -", " +"))
                assert program.count(old) == 1, (old, program)
                program = program.replace(old, new)
            elif kind == "sh":
                (pathlib.Path(folder) / "mine.py").write_text(program, encoding="utf-8")
                words = text.split()
                assert words[0] == "torchrun", words
                run = subprocess.run([sys.executable, "-m", "torch.distributed.run", *words[1:]], cwd=folder, capture_output=True,
                                     text=True, timeout=240, check=False)
                assert run.returncode == 0, run.stdout + run.stderr
                said = run.stdout
                print(said, flush=True)
            else:
                same_but_for_figures(text, said)


def fsdp():
    """A step gathers each rank's half twice and scatters half of the gradients: 3 x 0.5 M elements.
    In one process (fsdp.py alone), and exact, the last loss is 0.159079."""
    text = lines_of("fsdp")
    ends = re.findall(r"loss ([\d.]+), [\d.]+ s a step, ([\d.]+) MB", text)
    assert len(ends) == 2 and len({loss for loss, _ in ends}) == 1 and abs(float(ends[0][0]) - 0.15908) < 2e-4, ends
    halves = 3 * 4 * (512 * 512 + 512) // 2
    assert all(abs(float(sent) / (8.25 / 8 * halves / 1e6) - 1) < 0.01 for _, sent in ends), ends


def outer_loop():
    text = lines_of("outer_loop", 3)
    weights(text, 3)
    first, last = ([float(loss) for loss in re.findall(rf"outer step {step} loss ([\d.]+)", text)]
                   for step in (0, 4))
    assert len(first) == len(last) == 3 and max(last) < 0.5 * min(first), (first, last)


def llama_pipeline():
    """As an arm of a campaign runs it: its codecs and where it tells are in the environment alone."""
    python = interpreter_with("transformers")
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "told.jsonl")
        os.environ.update(LONGHAUL_LOG=log, LONGHAUL_FORWARD="int4-b64-h64",
                          LONGHAUL_BACKWARD="int8-b64", LONGHAUL_SEED="3", LONGHAUL_TOKENS="4096")
        text = lines_of("llama_pipeline", 2, python)
        with open(log) as lines:
            told = [json.loads(line) for line in lines]
    assert "longhaul: codecs from the environment: LONGHAUL_BACKWARD=int8-b64" in text, text
    losses = [line["loss"] for line in told if "step" in line]
    assert len(losses) == 8 and losses[-1] < 0.8 * losses[0], losses
    final, = [line["final"] for line in told if "final" in line]
    assert abs(final - losses[-1]) < 0.5, (final, losses)
    sent = {(c["peer"], c["codec"]): c for c in (line.get("crossing") for line in told)
            if c and c["kind"]}
    # 8 steps of 2 micro-batches of 8 rows x 32 tokens x 128; evaluation, 8 times 2, goes exact.
    for peer, codec, bits, floats in ((1, "int4-b64-h64", 4.25, 8), (0, "int8-b64", 8.25, 8),
                                      (1, "none", 32, 8)):
        c = sent.pop((peer, codec))
        assert c["elements"] == floats * 2 * 8 * 32 * 128, c
        assert bits <= 8 * c["payload_bytes"] / c["elements"] < bits + 0.05, c
    assert not sent, sent


def checkpoint():
    with tempfile.TemporaryDirectory() as folder:
        text = lines_of("checkpoint", 2, sys.executable, folder)
        assert sorted(os.listdir(folder)) == ["stage0", "stage1"], os.listdir(folder)
    assert text.count("has its stage back") == 2, text


def page():
    """Each block of Python stands, line by line and in this order, in the program that is named above
    it; and each program is on the page."""
    text = (ROOT / "docs" / "recipes.md").read_text()
    shown = re.findall(r"\(\.\./examples/recipes/(\w+)\.py\)(?:(?!\.\./examples).)*?```python\n(.*?)```",
                       text, re.DOTALL)
    for name, block in shown:
        program = iter((PROGRAMS / f"{name}.py").read_text().splitlines())
        for line in block.splitlines():
            wanted = line.strip()
            assert not wanted or any(wanted == other.strip() for other in program), (name, line)
    programs = {program.stem for program in PROGRAMS.glob("*.py")}
    assert programs == {name for name, _ in shown}, programs ^ {name for name, _ in shown}


launch.check()
{"ddp": lambda: as_over_gloo("ddp"),
 "accelerate_ddp": lambda: as_over_gloo("accelerate_ddp", "accelerate"),
 "hf_trainer": lambda: as_over_gloo("hf_trainer", "transformers, accelerate"),
 "lightning_ddp": lambda: as_over_gloo("lightning_ddp", "lightning"),
 "fsdp": fsdp, "pipeline": pipeline, "llama_pipeline": llama_pipeline, "outer_loop": outer_loop, "checkpoint": checkpoint, "page": page,
 "tutorial": tutorial,
 }[sys.argv[1]]()
