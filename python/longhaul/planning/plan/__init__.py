"""Which choice of schedule, codec, outer step and placement reaches a loss first, and when (docs/plan.md), or for the least
money (docs/plan-money.md): tokens from what campaigns measured, seconds and bytes from the engine's simulated clock. No
training, no randomness: the same files give the same rows.

    found = plan("examples/plan/plan.toml", ["plan.links=matrix.json"])
    print(found.text(rows=12))

Importing this imports no NumPy; planning does.
"""

import math
import os
from dataclasses import dataclass, field

from longhaul.commands import ask_clock
from longhaul.files import make_folder, write_whole
from longhaul.refusal import Refused, need

CLOCK = "the clock"


@dataclass
class Row:
    """A choice with its best placement. Seconds of a training to the loss are those of a step times steps, of which there are
    as many as the reference's tokens over eta want; eta is the product of the factors, and that they multiply is an
    assumption."""

    choice: dict  # as the engine gives it
    factors: list = field(default_factory=list)
    beyond: list = field(default_factory=list)  # of all factors, and of the model's size
    unknown: str = ""  # why its quality is not known: then there is no time
    ln_time: object = None  # quality.Ln of seconds
    reference_s: float = 0.0  # to the loss, were eta 1
    by_cost: bool = False  # what rows are ranked by

    def __getitem__(self, key):
        return self.choice[key]

    @property
    def ln_eta(self):
        return sum(f.ln.value for f in self.factors)

    @property
    def costs(self):
        """Of a second of training: what nodes and traffic cost."""
        return self["compute_cost"] / self["step_s"], self["traffic_cost"] / self["step_s"]

    @property
    def ln_rank(self):
        """What rows are ranked by: seconds, or what they cost."""
        return self.ln_time.plus(math.log(sum(self.costs))) if self.by_cost else self.ln_time

    @property
    def reference_rank(self):
        return self.reference_s * (sum(self.costs) if self.by_cost else 1)

    @property
    def node_groups(self):
        nodes, ranks = self["nodes"], self["ranks"]
        return [nodes[n:n + ranks] for n in range(0, len(nodes), ranks)]


@dataclass
class Verdict:
    """Of the first two rows with a time within the bound: T2 / T1, or of their costs, where factors that both have cancel."""

    ln_ratio: object  # quality.Ln
    shares: list  # (name, whose row, share of the half-width by its square), the largest first

    @property
    def first_wins(self):
        return self.ln_ratio.low > 0


@dataclass
class Plan:
    facts: dict  # what [plan] says, and the links
    typed: str  # the words behind `longhaul plan`
    tokens: object  # quality.Ln, of the reference
    rows: list  # within the bound first; then those with a time, by time
    verdict: Verdict | None  # None: fewer than two rows have a time

    def text(self, rows=12):
        from longhaul.planning.plan import tables  # pylint: disable=import-outside-toplevel
        return tables.text(self, rows)

    def csv(self):
        from longhaul.planning.plan import tables  # pylint: disable=import-outside-toplevel
        return tables.csv(self)

    def document(self):
        from longhaul.planning.plan import tables  # pylint: disable=import-outside-toplevel
        return tables.document(self)

    def write_choices(self, folder):
        """choice-1 and choice-2 as runs over shaped links that are the matrix as placed; compute is slept."""
        make_folder(folder)
        for n, row in enumerate(self.rows[:2], 1):
            name = os.path.join(folder, f"choice-{n}")
            links = f"{name}-links.toml"
            quoted = links.replace("\\", "\\\\").replace('"', '\\"')
            write_whole(links, row["links_toml"])
            write_whole(f"{name}.toml", row["timed_toml"].replace('profile = "LINKS"', f'profile = "{quoted}"'))


def clock_error():
    """What the clock may be off by, of ln seconds of two choices: with so much its steps are accepted against measured
    ones."""
    from longhaul.report.step_time import ACCEPTED_RESIDUAL  # pylint: disable=import-outside-toplevel
    return ACCEPTED_RESIDUAL


def _outer_factors(quality, row):
    """eta of the groups' meetings, and why it is not known."""
    codec, algorithm, groups = row["outer_codec"], row["algorithm"], row["groups"]
    # Synchronous data parallel over the same global batch is what the campaigns compare with.
    if not codec or algorithm == "dp" and codec == "none":
        return [], ""
    diloco = algorithm == "diloco"
    rounds = quality.rounds(groups, row["inner_steps"]) if diloco else None
    of_codec = quality.outer_codec(codec) if diloco else None
    if rounds and of_codec:
        return [rounds, of_codec], ""
    whole = quality.outer(algorithm, codec, groups, 1 if row["exchanges_gradients"] else row["inner_steps"])
    if whole:
        return [whole], ""
    if not diloco:
        return [], f"no calibration measures '{algorithm}' with {codec}"
    return [], f"no calibration measures outer codec '{codec}'" if rounds else \
        f"no calibration has a cell of {groups} group(s)"


def _judge(quality, tokens, row):
    from longhaul.planning.plan.quality import Ln  # pylint: disable=import-outside-toplevel
    ln_s_a_token = math.log(row["step_s"] / row["tokens_per_step"])
    row.reference_s = math.exp(tokens.value + ln_s_a_token)
    act = quality.activations(row["codecs"], row["stages"], row["pair_bytes"])
    if not act:
        row.unknown = f"no calibration measures '{row['codecs']}', or one of fewer bytes"
        return
    outer, row.unknown = _outer_factors(quality, row)
    row.factors = [f for f in (act, *outer) if (f.ln.value, f.ln.low, f.ln.high) != (0, 0, 0)]
    row.beyond = [one for f in row.factors for one in f.beyond]
    size = quality.size(row["parameters"], row.factors)
    row.beyond += [size] if size else []
    if row.unknown:
        return
    earlier = (tokens.value - tokens.low) ** 2 + sum((f.ln.high - f.ln.value) ** 2 for f in row.factors)
    later = (tokens.high - tokens.value) ** 2 + sum((f.ln.value - f.ln.low) ** 2 for f in row.factors)
    value = tokens.value + ln_s_a_token - row.ln_eta
    row.ln_time = Ln(value, value - math.sqrt(earlier), value + math.sqrt(later))


def _compare(first, second):
    from longhaul.planning.plan.quality import Ln  # pylint: disable=import-outside-toplevel
    terms = []  # name, row, and what it adds to the half-widths of ln(T2 / T1)
    for n, (row, other) in enumerate(((first, second), (second, first))):
        shared = {f.name for f in other.factors}
        for f in row.factors:
            if f.name not in shared:
                halves = (f.ln.value - f.ln.low, f.ln.high - f.ln.value)
                terms.append((f.name, n, *(halves if n == 0 else reversed(halves))))
    # Seconds that are longer cost more of the nodes, not of the traffic.
    clock = clock_error() * (max(row.costs[0] / sum(row.costs) for row in (first, second)) if first.by_cost else 1)
    terms.append((CLOCK, 0, clock, clock))
    down, up = sum(t[2] ** 2 for t in terms), sum(t[3] ** 2 for t in terms)
    value = second.ln_rank.value - first.ln_rank.value
    shares = sorted(((name, n, low * low / down) for name, n, low, _ in terms), key=lambda s: -s[2])
    return Verdict(Ln(value, value - math.sqrt(down), value + math.sqrt(up)), shares)


def _read_quality(files):
    from longhaul import toml  # pylint: disable=import-outside-toplevel
    from longhaul.planning.plan.quality import Quality  # pylint: disable=import-outside-toplevel
    from longhaul.planning.simulator import calibration  # pylint: disable=import-outside-toplevel
    calibrations, by_text = [], {}
    for file in files:
        text = toml.read_text(file)
        if text in by_text:
            raise Refused(f"plan.calibration: {by_text[text]} and {file} hold the same data; name each once")
        by_text[text] = file
        calibrations.append(calibration.parse(text, file))
    return Quality(calibrations)


def _key(row):
    """Equal times differ in their last bits."""
    of = row.reference_rank if row.unknown else math.exp(row.ln_rank.value)
    return not row["within"], bool(row.unknown), float(f"{of:.9g}") if row.by_cost else math.floor(of * 1e3 + 0.5), \
        row["worker_bytes"]


def plan(spec, sets=(), typed=None):
    """Ranks the choices of a run spec with [compute] and [plan].

    Args:
        spec: The file.
        sets: Overrides, "plan.target_loss_nat=2.9".
        typed: The words behind `longhaul plan` that say the same, for messages.
    """
    for module in ("numpy", "scipy"):
        need(module, "longhaul plan")
    from longhaul.analysis.loss_file import read_losses  # pylint: disable=import-outside-toplevel
    from longhaul.planning.plan import links  # pylint: disable=import-outside-toplevel
    from longhaul.planning.plan.quality import ln_tokens_to_loss  # pylint: disable=import-outside-toplevel
    request = {"spec": spec, "sets": list(sets)}
    facts = ask_clock("plan", request)[0]
    quality = _read_quality(facts["calibrations"])
    tokens = ln_tokens_to_loss(read_losses(facts["curve"]), facts["target_loss_nat"])
    pairs = sorted({entry.codec for c in quality.calibrations for entry in c.activation})
    notes = []
    if facts["links"].endswith(".json"):
        request["matrix"], notes = links.read(facts["links"], facts["ranks"] * facts["groups"])
    facts = ask_clock("plan", request | {"pairs": pairs})[0] | {"link_notes": notes}
    rows = [Row(choice, by_cost=facts["rank_by"] == "cost") for choice in facts.pop("rows")]
    for row in rows:
        _judge(quality, tokens, row)
    rows.sort(key=_key)
    ranked = [row["within"] and not row.unknown for row in rows[:2]]
    verdict = _compare(*rows[:2]) if ranked == [True, True] else None
    return Plan(facts, typed or spec, tokens, rows, verdict)
