"""What a campaign's record says, from the record alone: arms, families of arms, what repeats its reference."""

import math
from dataclasses import dataclass, field

from longhaul.analysis import NotEstimated, efficiency, findings
from longhaul.analysis.changes import (SpecChange, changes_beside_codecs, changes_text, compressed_crossings,
                                       number_of, spec_changes, spec_of)
from longhaul.analysis.curve import ReferenceCurve, fit_reference
from longhaul.analysis.depth import HELD_OUT_STAGES, DepthComparison
from longhaul.analysis.efficiency import Efficiency, JointEstimate
from longhaul.analysis.interval import detectable_effect, mapped, mean_of, ratio_of_means
from longhaul.record import Crossing, Evaluation, Experiment, Record, Run, Step
from longhaul.record.contents import mixed_contents
from longhaul.record.rows import PROGRAM, RESTORED_STEP, UNTRAINED_PRICE, same_hashes
from longhaul.record.specs import tree
from longhaul.tables import Measured, with_interval

D0_REFERENCE = "reference@1"
_ENDED = {"ok", "diverged", "failed", "invalid"}
_ROUNDING = 1e-9  # of a curve read backwards


@dataclass
class Outcome:
    """The run that counts for one arm and seed: the last one that ended, else the last one."""

    run: Run
    off: float | None  # final held-out loss by codec; finite
    on: float | None
    evaluated: bool  # a loss with the codec off stands in the record, finite or not

    @property
    def price(self) -> float | None:
        """What its forward boundaries cost the weights of its seed's reference, nat; None: not priced."""
        text = self.run.facts.get(UNTRAINED_PRICE)
        return float(text.split()[0]) if text else None

    @property
    def ended(self) -> bool:
        return self.run.status in _ENDED

    @property
    def lost(self) -> bool:
        return self.ended and self.off is None


@dataclass
class Arm:
    name: str
    role: str  # "reference", "control" or "arm"
    budget_fraction: float  # as planned
    stages: int
    forward_codec: str
    backward_codec: str
    crossings: int  # K: S - 1 per compressed direction
    outcomes: list[Outcome] = field(default_factory=list)
    trained_fraction: float = 1.0  # D / D0 as trained: tokens are rounded to whole steps
    # Of an arm: whose losses are subtracted, and in what else than stages and boundary codecs the two differ. With
    # anything in `changes` there is an eta and no q: a loss would be booked on crossings that the change made.
    reference: str = ""
    changes: list[SpecChange] = field(default_factory=list)
    # Where a run was made by another build, or on another path through the CPU, than its reference: which seed and
    # what. Their bits were to agree but for what crossings lose, so there is no q.
    other_build: str = ""
    held_out: bool = False  # by the plan: it joins no fit over depths
    off: Efficiency | None = None  # by evaluation; None: see note
    on: Efficiency | None = None
    # Codec off: loss less its reference's where that has no place on the curve, so that there is no eta.
    delta_alone: Measured | None = None
    price: Measured | None = None  # P: what its boundaries cost weights trained without them, nat, over seeds
    rho: Measured | None = None  # Delta with the codec on over P, of the seeds that have both
    on_off: Measured | None = None  # loss with the codec off less that with it on, same weights: nat, over seeds
    note: str = ""  # why there is no estimate
    controls_failed: bool = False  # of the campaign

    @property
    def seeds(self) -> int:
        return len(self.outcomes)

    @property
    def lost(self) -> int:
        """Diverged, failed or invalid runs: no mean over the survivors."""
        return sum(o.lost for o in self.outcomes)

    @property
    def not_evaluated(self) -> int:
        """Of the lost: trained to the end, no held-out loss in the record."""
        return sum(o.run.status == "ok" and not o.evaluated for o in self.outcomes)

    @property
    def diverged(self) -> int:
        """Of the lost. A run that ended with a loss that is no number diverged too."""
        return sum(
            o.lost and (o.run.status == "diverged" or (o.run.status == "ok" and o.evaluated)) for o in self.outcomes
        )

    @property
    def lost_text(self) -> str:
        """"diverged 1 of 3"; "failed 1 of 3"; "" for none."""
        if not self.lost:
            return ""
        what = (["diverged"] if self.diverged else []) + (
            ["failed"] if self.lost > self.diverged + self.not_evaluated else []) + (
            ["without a held-out loss:"] if self.not_evaluated else [])
        return f"{' or '.join(what)} {self.lost} of {self.seeds}"

    @property
    def has_q(self) -> bool:
        return self.role == "arm" and self.crossings > 0 and not self.changes and not self.other_build

    @property
    def directions(self) -> int:
        """Compressed: 0, 1 or 2."""
        return (self.forward_codec != "none") + (self.backward_codec != "none")

    @property
    def boundaries(self) -> int:
        """Compressed: S - 1 where every one is; 0 without a codec."""
        return self.crossings // self.directions if self.directions else 0

    @property
    def codecs(self) -> str:
        return f"{self.forward_codec} / {self.backward_codec}"

    def a_boundary(self, x: Measured | None) -> Measured | None:
        """A loss in nat, shared equally by the boundaries; None where there are none, or where the arm changes more."""
        return mapped(x, lambda nat: nat / self.boundaries) if x and self.boundaries and not self.changes else None

    @property
    def verdict(self) -> str:
        """Against what is assumed, codec off at evaluation."""
        if self.lost:
            return efficiency.DIVERGED if self.diverged else efficiency.INCOMPLETE
        if not self.has_q:
            return efficiency.NO_Q
        if self.controls_failed:
            return efficiency.NO_CONCLUSION
        if not self.off or not self.off.q:
            return efficiency.NO_INTERVAL
        return efficiency.against_assumed(self.off.q, self.directions)

    @property
    def control_verdict(self) -> str:
        """Of a control; "no verdict: ..." where its interval could hardly have missed the truth."""
        if not self.off or not self.off.eta.interval:
            return "no verdict: no interval"
        if not self._holds(self.trained_fraction):
            return "MISSES the truth at 95 %; a control fails beyond 99 %"
        if self.trained_fraction != 1 and self._holds(1):
            return "no verdict: the interval holds the truth and 1, which is no loss"
        return "holds the truth"

    def _holds(self, eta):
        return self.off.eta.interval.low - _ROUNDING <= eta <= self.off.eta.interval.high + _ROUNDING

    @property
    def first(self) -> Run:
        return self.outcomes[0].run

    def losses(self, codec: str = "off") -> dict[int, float]:
        """Final losses by seed, of the runs that have one."""
        found = ((o.run.seed, o.off if codec == "off" else o.on) for o in self.outcomes)
        return {seed: loss for seed, loss in sorted(found) if loss is not None}

    def family_key(self, codecs: bool = True) -> tuple:
        """The reference and the resolved spec without what may differ in a family; without `codecs` also without what
        may differ between its directions."""
        left_out = ("stages =", "seed =") + (() if codecs else ("forward =", "backward ="))
        return self.reference, *(line for line in self.first.spec_toml.split("\n") if not line.startswith(left_out))


@dataclass
class Family:
    """Arms with a q that differ in the number of stages alone, fitted together."""

    arms: list[Arm]  # by S
    off: JointEstimate | None = None
    on: JointEstimate | None = None
    note: str = ""  # why there is no joint q, by evaluation
    on_note: str = ""
    depths: DepthComparison | None = None  # codec off
    depths_note: str = ""  # why there is none
    smallest_budget: float = 0.0  # of the reference curve: nothing is said of an eta below
    bits_per_element: float = 0.0  # from payload bytes, both directions; 0: not recorded

    @property
    def codecs(self) -> str:
        return self.arms[0].codecs

    @property
    def directions(self) -> int:
        return self.arms[0].directions

    @property
    def fitted(self) -> list[Arm]:
        """S = 16 tests the fit while there are shallower arms."""
        if self.arms[0].stages >= HELD_OUT_STAGES:
            return self.arms
        return [arm for arm in self.arms if arm.stages < HELD_OUT_STAGES]

    @property
    def verdict(self) -> str:
        """Of the joint q, codec off."""
        if self.arms[0].controls_failed:
            return efficiency.NO_CONCLUSION
        return efficiency.against_assumed(self.off.q, self.directions) if self.off else efficiency.NO_INTERVAL

    def at_stages(self, stages: int) -> Arm | None:
        return next((arm for arm in self.arms if arm.stages == stages), None)


@dataclass
class IdentityCheck:
    """An arm that must, or at least may, have the very bits of its reference: nothing it does loses any. Runs of the
    same seed, step by step."""

    arm: str
    reference: str
    same_spec: bool  # A/A: any difference is a fault of the instrument
    seeds: int = 0
    identical_seeds: int = 0
    other_builds: int = 0  # seeds that are not compared for it
    losses: int = 0  # compared, all seeds together
    parameter_hashes: int = 0
    held_out: int = 0
    first_difference: str = ""

    @property
    def text(self) -> str:
        text = f"{'A/A' if self.same_spec else 'lossless'} {self.arm} against {self.reference}: "
        many = "" if self.other_builds == 1 else "s"
        others = (
            f"; {self.other_builds} seed{many} not compared: of another build or CPU path" if self.other_builds else ""
        )
        if not self.seeds:
            return f"{text}no pair of runs yet{others}"
        if self.identical_seeds == self.seeds:
            return (f"{text}bit-identical in {self.seeds} of {self.seeds} seeds ({self.losses} training losses, "
                    f"{self.parameter_hashes} parameter hashes, {self.held_out} held-out losses){others}")
        repeat = ": runs of this record do not repeat" if self.same_spec else ""
        return (f"{text}NOT bit-identical in {self.seeds - self.identical_seeds} of {self.seeds} seeds, first at "
                f"{self.first_difference}{repeat}{others}")


@dataclass
class CampaignAnalysis:
    experiment: Experiment
    arms: list[Arm] = field(default_factory=list)  # reference, control and arms, in the plan's order
    families: list[Family] = field(default_factory=list)
    curve: ReferenceCurve | None = None
    curve_note: str = ""  # why there is no curve
    # Where a file held different things in two runs: which, with both hashes. Then there is no figure at all.
    mixed_files: str = ""
    identities: list[IdentityCheck] = field(default_factory=list)
    failed_controls: list[str] = field(default_factory=list)  # why, one each; with any there is no conclusion
    parameters: int = 0  # N
    # Of a paired difference, pooled over controls and arms with a q. Arms with the bits of their reference do not
    # count: they have no noise to show.
    sd_delta_nat: float = 0.0
    rho: float = 0.0  # 1 - sd_delta^2 / (2 sigma^2)
    git_revision: str = ""  # of all runs: "1a2b, 3c4d" where they are of several
    builds: list[str] = field(default_factory=list)  # in what the runs' builds and machines differ
    findings: "findings.Findings" = None

    def __post_init__(self):
        self.findings = findings.Findings()

    def arm(self, name: str) -> Arm | None:
        return next((arm for arm in self.arms if arm.name == name), None)

    def reference_of(self, arm: Arm) -> Arm | None:
        return self.arm(arm.reference)

    @property
    def resolvable(self) -> str:
        """What could be told apart at all; the first line of every report."""
        if self.failed_controls:
            return f"CONTROLS FAILED, no conclusion is drawn: {'; '.join(self.failed_controls)}."
        if not self.curve:
            return f"Nothing can be said yet: {self.curve_note}."
        seeds: dict[tuple, int] = {}
        for arm in self.arms:
            if arm.has_q and arm.off:
                depth = (arm.stages, arm.crossings)
                seeds[depth] = min(seeds.get(depth, arm.off.seeds), arm.off.seeds)
        if not seeds:
            return "No arm of this record has a q: nothing per crossing is said."
        parts = []
        for (stages, crossings), n in sorted(seeds.items()):
            if n >= 2 and self.sd_delta_nat:
                effect = detectable_effect(n) * self.sd_delta_nat / self.curve.slope_nat / crossings
                parts.append(f"{100 * effect:.2f} % at S = {depth_text(stages, crossings)}")
        if not parts:
            return (
                "Every arm has the bits of its reference: there is no noise to resolve against."
                if max(seeds.values()) > 1
                else "One seed gives no interval: this record resolves nothing and has no headline."
            )
        return f"Losses per crossing below {', '.join(parts)} are invisible in this design (80 % power, two-sided 5 %)."

    @property
    def conditions(self) -> str:
        """"N = 0.44 M, D0 = 0.40 M tokens, n = 3, sigma ..., plan 1a2b3c4d": for captions."""
        text = f"N = {self.parameters / 1e6:.3g} M parameters" if self.parameters > 0 else "a program's model"
        if (tokens := self.experiment.d0_tokens) is not None:
            text += f", D0 = {tokens / 1e6:.3g} M tokens"
            if self.parameters > 0:
                text += f" ({tokens / self.parameters:.3g} tokens per parameter)"
        if self.curve:
            text += (f", n = {len(self.curve.seeds)}, sigma {self.curve.sigma_nat:.4f} nat, pairs correlate by {self.rho:.2f}, "
                     f"s {self.curve.slope_nat:.3f} nat")
        return f"{text}, plan {self.experiment.plan_sha256[:12]}"


def depth_text(stages: int, crossings: int) -> str:
    """"4", or "4 one way" where one direction alone is compressed."""
    return f"{stages}{' one way' if crossings < 2 * (stages - 1) else ''}"


def analyse(record: Record, experiment: Experiment) -> CampaignAnalysis:
    """Everything that the record of one campaign says."""
    a = CampaignAnalysis(experiment)
    runs = record.runs(experiment.id)
    a.arms = _collect_arms(record, runs)
    if not a.arms:
        a.curve_note = "no run yet"
        return a
    a.mixed_files = mixed_contents(runs)
    if a.mixed_files:
        a.curve_note = f"runs of other files are not mixed: {a.mixed_files}"
        for arm in a.arms:
            arm.note = a.curve_note
        return a
    a.parameters = _parameters(a.arms[0].first)
    plan = tree(experiment.plan_text)
    if plan is None:  # nobody knows what an arm is to be compared with
        a.curve_note = "the recorded plan cannot be read"
        return a
    _pair_arms(a, plan)
    _compare_builds(a)
    _fit_curve(a)
    for arm in a.arms:
        if arm.role != "reference":
            _estimate(a, arm)
    _collect_families(record, a)
    _estimate_noise(a)
    findings.collect(record, a, plan)
    _check_identities(record, a)
    _check_controls(a)
    return a


def _outcome(record, run):
    outcome = Outcome(run, None, None, False)
    if run.status != "ok":
        return outcome
    for e in record.read(Evaluation, run.id):  # in the order of steps: the last one stays
        loss = e.loss_nat if math.isfinite(e.loss_nat) else None
        if e.codec == "off":
            outcome.evaluated, outcome.off = True, loss
        else:
            outcome.on = loss
    if outcome.on is None and not _crossings(run):  # without any codec both are the same
        outcome.on = outcome.off
    return outcome


def _crossings(run):
    return compressed_crossings(run.stages, run.forward_codec, run.backward_codec)


def _collect_arms(record, runs):
    arms: dict[str, Arm] = {}
    for run in runs:
        arm = arms.setdefault(run.arm, Arm(run.arm, run.role, run.budget_fraction, run.stages, run.forward_codec,
                                           run.backward_codec, _crossings(run)))
        outcome = _outcome(record, run)
        at = next((i for i, o in enumerate(arm.outcomes) if o.run.seed == run.seed), None)
        if at is None:
            arm.outcomes.append(outcome)
        elif outcome.ended or not arm.outcomes[at].ended:
            arm.outcomes[at] = outcome
    return list(arms.values())


def _parameters(run):
    """Weights of the GPT: token and position embeddings, 12 D^2 a block, an untied head. Biases and norms, under 2 % at
    the smallest sizes, are left out; the run's own count wins."""
    if run.facts.get("parameters"):
        return int(run.facts["parameters"])
    spec = spec_of(run)
    width, blocks, vocab, context = (
        number_of(spec, f"model.{key}") or 0 for key in ("width", "blocks", "vocab", "context")
    )
    return 12 * blocks * width * width + (2 * vocab + context) * width


def _pair_arms(a, plan):
    """Who is compared with whom, as the plan has it, and what lies between them."""
    planned = {one["name"]: one for one in plan.get("arm", []) if isinstance(one.get("name"), str)}
    for arm in a.arms:
        if arm.role == "reference":
            continue
        own = planned.get(arm.name, {})
        arm.held_out = "held_out" in own
        arm.reference = own.get("reference", D0_REFERENCE)
        reference = a.reference_of(arm)
        if reference and arm.role == "arm":
            arm.changes = changes_beside_codecs(reference.first.spec_toml, arm.first.spec_toml)


def build_of(run: Run) -> list[tuple[str, str]]:
    """What the bits of a run hang on beside its spec and its files. "" where the record does not say."""
    return [("revision", run.git_revision), ("LibTorch", run.torch_version), ("instruction set of codecs", run.isa),
            ("instruction set of LibTorch", run.facts.get("cpu_path_torch", ""))]


def _other_build(run, reference):
    """"revision 1a2b against 3c4d"; "": of one build and CPU path. What one does not say is no difference."""
    return ", ".join(f"{name} {ours} against {theirs}"
                     for (name, ours), (_, theirs) in zip(build_of(run), build_of(reference))
                     if ours and theirs and ours != theirs)


def _compare_builds(a):
    values: dict[str, dict[str, list[str]]] = {}  # by name and value, the arms
    for arm in a.arms:
        for o in arm.outcomes:
            for name, value in [*build_of(o.run), ("CPU", o.run.cpu), ("host", o.run.host)]:
                names = values.setdefault(name, {})
                if value:
                    of = names.setdefault(value, [])
                    if of[-1:] != [arm.name]:
                        of.append(arm.name)
    a.git_revision = ", ".join(values["revision"])
    a.builds = [f"{len(of)} of {name}: " + "; ".join(f"{value} ({', '.join(arms)})" for value, arms in of.items())
                for name, of in values.items() if len(of) > 1]
    for arm in a.arms:
        reference = a.reference_of(arm)
        theirs = {o.run.seed: o.run for o in reversed(reference.outcomes)} if reference else {}
        for o in arm.outcomes:
            other = _other_build(o.run, theirs[o.run.seed]) if o.run.seed in theirs else ""
            if other:
                arm.other_build = f"seed {o.run.seed}: {other}"
                break


def _fit_curve(a):
    # A curve through the survivors would be one of the runs that happened to train well.
    lost = [f"{arm.name} {arm.lost_text}" for arm in a.arms if arm.role == "reference" and arm.lost]
    if lost:
        a.curve_note = f"no reference curve over survivors: {', '.join(lost)}"
        return
    # Budgets as they were trained: tokens are rounded to whole steps.
    d0 = next(
        (arm.first.train_tokens for arm in reversed(a.arms) if arm.role == "reference" and arm.budget_fraction == 1), 0
    )
    runs = []
    for arm in a.arms if d0 else []:
        arm.trained_fraction = arm.first.train_tokens / d0
        if arm.role == "reference":
            runs += [(o.run.seed, arm.trained_fraction, o.off) for o in arm.outcomes if o.off is not None]
    try:
        a.curve = fit_reference(runs)
    except NotEstimated as why:
        a.curve_note = str(why)


def _held_out_hash(arm):
    """The tokens that were held out, as a worker of the arm's runs hashed them; "": nobody told."""
    return next((o.run.facts["eval_hash"] for o in arm.outcomes if o.run.facts.get("eval_hash")), "")


def other_text(reference: tuple[str, str], arm: tuple[str, str]) -> str:
    """Why the held-out losses of two arms, each a spec and the hash of its held-out tokens ("": nobody told), were
    taken of different texts: the settings in which they differ; "": they were not. Other training data are no reason
    where the held-out text is the same. Of a vocabulary the loss is a logarithm over its size."""
    (spec, was), (own, now) = reference, arm
    known = was != "" and now != ""
    own_text = "\neval = " in spec and "\neval = " in own
    same = {"data.source": was == now if known else own_text, "data.eval": known and was == now,
            "eval.rows": False, "model.context": False, "model.vocab": False}
    return changes_text([c for c in changes_beside_codecs(spec, own) if not same.get(c.key, True)])


def _estimate(a, arm):
    if arm.lost:
        arm.note = arm.lost_text
        return
    if not a.curve:
        arm.note = a.curve_note
        return
    reference = a.reference_of(arm)
    if not reference or reference.lost:
        arm.note = (f"its reference '{arm.reference}' {reference.lost_text}" if reference
                    else f"its reference '{arm.reference}' has no run")
        return
    for other in (reference, a.arm(D0_REFERENCE)):  # the curve is of D0's text, which is to be the arm's own
        if other and (text := other_text((other.first.spec_toml, _held_out_hash(other)),
                                         (arm.first.spec_toml, _held_out_hash(arm)))):
            arm.note = f"losses on different texts have no difference: {text}"
    if arm.note:
        return
    for codec in ("off", "on"):
        try:
            setattr(arm, codec, efficiency.estimate_arm(a.curve, reference.losses(), arm.losses(codec),
                                                        arm.crossings if arm.has_q else 0))
        except NotEstimated as why:
            if codec == "off":
                arm.note = str(why)
                arm.delta_alone = efficiency.delta_without_eta(reference.losses(), arm.losses())
    _compare_with_price(arm, reference)


def _compare_with_price(arm, reference):
    """P and rho, where the arm's boundaries were priced. Both are of the same seeds: rho is a ratio of two means over
    them."""
    prices = {o.run.seed: o.price for o in arm.outcomes if o.price is not None}
    if not prices or arm.changes:
        return
    arm.price = mean_of([price for _, price in sorted(prices.items())])
    on, without = arm.losses("on"), reference.losses()
    seeds = [seed for seed in sorted(prices) if seed in on and seed in without]
    if seeds and arm.price.value:
        arm.rho = ratio_of_means([on[seed] - without[seed] for seed in seeds], [prices[seed] for seed in seeds])


def _joint(a, family, codec):
    points = []
    for arm in family.fitted:
        estimate = arm.off if codec == "off" else arm.on
        # What a bound's loss says about q lies where the curve was not measured.
        why = arm.note or ("no such evaluation" if not estimate else
                           "below the smallest reference budget" if estimate.is_bound else "")
        if why:
            raise NotEstimated(f"no joint q: arm '{arm.name}': {why}")
        points.append((arm.crossings, arm.losses(codec)))
    return efficiency.estimate_joint(a.curve, a.reference_of(family.arms[0]).losses(), points)


def _collect_families(record, a):
    by_key: dict[tuple, list[Arm]] = {}
    for arm in a.arms:
        if arm.has_q and not arm.held_out:
            by_key.setdefault(arm.family_key(), []).append(arm)
    for arms in by_key.values():
        family = Family(sorted(arms, key=lambda arm: arm.stages))
        family.smallest_budget = a.curve.smallest_budget if a.curve else 0.0
        for codec, note in (("off", "note"), ("on", "on_note")):
            try:
                setattr(family, codec, _joint(a, family, codec))
            except NotEstimated as why:
                setattr(family, note, str(why))
        crossings = [c for arm in family.arms for o in arm.outcomes for c in record.read(Crossing, o.run.id)
                     if c.direction in ("forward", "backward") and c.codec != "none"]
        elements = sum(c.elements for c in crossings)
        family.bits_per_element = 8.0 * sum(c.payload_bytes for c in crossings) / elements if elements else 0.0
        a.families.append(family)


def _estimate_noise(a):
    squares = freedom = 0.0
    for arm in a.arms:
        if not arm.off or arm.off.seeds < 2 or (arm.role == "arm" and not arm.has_q):
            continue
        # An arm that lost most of its tokens scatters by what it lost, not by the luck of a seed.
        if arm.off.is_bound or not any(arm.off.delta_by_seed.values()):
            continue
        squares += (arm.off.seeds - 1) * arm.off.sd_delta_nat ** 2
        freedom += arm.off.seeds - 1
    if not freedom:
        return
    a.sd_delta_nat = math.sqrt(squares / freedom)
    if a.curve and a.curve.sigma_nat > 0:
        a.rho = min(1.0, max(-1.0, 1 - a.sd_delta_nat ** 2 / (2 * a.curve.sigma_nat ** 2)))


# --- A/A: do runs that lose nothing have the bits of their reference?


def _lossless(codec):
    """By its text in the record: also "identity at 1", of one boundary."""
    return codec in ("none", "identity") or (codec.startswith("identity at ") and ";" not in codec)


def _shortest(x):
    return repr(x).removesuffix(".0")


def _first_difference(record, ours, theirs, check):
    """What two runs have in common, counted into `check`; the answer is the first difference or "". Losses stand in the
    rows of the last stage, whose number may differ; parameters can only be compared where the stages are the same."""
    run, reference = ours.run, theirs.run
    steps = record.read(Step, reference.id)
    losses = {(row.step, row.group_index): row.loss_nat for row in steps if row.loss_nat is not None}
    hashes = {(row.step, row.group_index, row.stage): row.parameter_hash for row in steps}
    # A reference that branched off a longer run has rows from there on.
    first = steps[0].step if RESTORED_STEP in reference.facts and steps else 1
    compared = 0
    for row in record.read(Step, run.id):
        if row.step < first:
            continue
        if row.loss_nat is not None:
            loss = losses.get((row.step, row.group_index))
            if loss is None:
                return f"step {row.step}: only one has it"
            compared += 1
            check.losses += 1
            if row.loss_nat != loss and not (row.loss_nat != row.loss_nat and loss != loss):
                return f"step {row.step}: loss {_shortest(row.loss_nat)} against {_shortest(loss)}"
        if PROGRAM in run.facts or run.stages != reference.stages or not same_hashes(run, reference):
            continue  # a program tells no hashes
        other = hashes.get((row.step, row.group_index, row.stage))
        if row.parameter_hash == "" or other == "":  # of runs that are not equally long one may have hashed alone
            continue
        check.parameter_hashes += 1
        if other != row.parameter_hash:
            return f"step {row.step}: parameters"
    if compared != len(losses):
        return "the number of steps"
    # The reference has no codec to switch, so both of ours are held against its one.
    for loss in (ours.off, ours.on):
        if loss is not None and theirs.off is not None:
            check.held_out += 1
            if loss != theirs.off:
                return f"held-out loss {_shortest(loss)} against {_shortest(theirs.off)}"
    return ""


def _check_identities(record, a):
    for arm in a.arms:
        repeats = arm.role == "control" and arm.budget_fraction == 1
        lossless = (
            arm.role == "arm" and not arm.changes and _lossless(arm.forward_codec) and _lossless(arm.backward_codec)
        )
        reference = a.reference_of(arm)
        if not (repeats or lossless) or not reference:
            continue
        check = IdentityCheck(arm.name, reference.name,
                              not spec_changes(reference.first.spec_toml, arm.first.spec_toml))
        for ours in arm.outcomes:
            theirs = next((o for o in reference.outcomes if o.run.seed == ours.run.seed and o.off is not None), None)
            if ours.off is None or not theirs:
                continue
            if _other_build(ours.run, theirs.run):
                check.other_builds += 1
                continue
            check.seeds += 1
            difference = _first_difference(record, ours, theirs, check)
            check.identical_seeds += not difference
            if difference and not check.first_difference:
                check.first_difference = f"seed {ours.run.seed}, {difference}"
        a.identities.append(check)


# --- controls


def _missed(curve, arm):
    """An uncompressed run of another budget: the curve must give back its budget. "": it does, or nothing can be said
    yet. One true control in a hundred fails, not one in twenty."""
    try:
        eta = efficiency.estimate_arm(curve, curve.d0_loss_by_seed, arm.losses(), 0, 0.99).eta
    except NotEstimated:
        return ""
    if not eta.interval or eta.interval.low - _ROUNDING <= arm.trained_fraction <= eta.interval.high + _ROUNDING:
        return ""
    return (
        f"{arm.name} has a true eta of {arm.trained_fraction:.4f} and was recovered as {with_interval(eta, 3)} (99 %)"
    )


def _deaf(a):
    """A program that does not take what it was given has runs that are one and the same."""
    d0 = a.arm(D0_REFERENCE)
    if not d0 or PROGRAM not in d0.first.facts:
        return ""
    losses = d0.losses()
    if len(losses) > 1 and len(set(losses.values())) == 1:
        return (f"all {len(losses)} seeds of {d0.name} told the same loss, {_shortest(next(iter(losses.values())))}: "
                "the program does not go by $LONGHAUL_SEED")
    for arm in a.arms:
        if arm.role == "reference" and arm.budget_fraction != 1 and losses and arm.losses() == losses:
            return f"{arm.name} and {d0.name} told the same losses: the program does not go by $LONGHAUL_TOKENS"
    return ""


def _check_controls(a):
    """A control with another budget fails when its known eta lies outside of the 99 % interval, an A/A arm when a bit
    differs."""
    controls = [arm for arm in a.arms if a.curve and arm.role == "control" and not arm.lost]
    a.failed_controls = [why for arm in controls if (why := _missed(a.curve, arm))]
    if why := _deaf(a):
        a.failed_controls.append(why)
    a.failed_controls += [
        check.text for check in a.identities if check.same_spec and check.identical_seeds < check.seeds
    ]
    for arm in a.arms if a.failed_controls else []:
        arm.controls_failed = True
