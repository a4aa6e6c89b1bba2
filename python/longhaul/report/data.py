"""What one section of a report shows, read once; and what its figures are drawn from, as tables for programs."""

import math
import os
import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field

from longhaul.analysis.campaign import Arm, CampaignAnalysis, analyse
from longhaul.analysis.changes import changes_text
from longhaul.analysis.efficiency import NO_CONCLUSION, against_assumed
from longhaul.analysis.interval import mean_of
from longhaul.analysis.loss_file import HEAD, PRICED
from longhaul.record import Crossing, Experiment, Record, Run, Simulated
from longhaul.record import rows
from longhaul.record.contents import mixed_contents
from longhaul.refusal import Refused
from longhaul.report.step_time import StepTime, Verdict, bits_per_element, judged, step_times
from longhaul.report.timing import TimingFindings, timing_findings
from longhaul.tables import LOW_END, UPPER, Cell, Measured, Table, badge, cell, for_programs, none, shown


@dataclass
class Reported:
    row: Experiment
    runs: list[Run]
    mixed_files: str = ""  # where a file held different things in two of them; "": nowhere
    campaign: CampaignAnalysis | None = None
    step_times: list[StepTime] = field(default_factory=list)  # of the runs that have steps
    timing: TimingFindings | None = None  # of a timing grid

    @property
    def folder(self) -> str:
        """Name of its folder beside the page, "1-smoke": letters, digits, "-", "_" and "."."""
        return f"{self.row.id}-" + re.sub(rb"[^A-Za-z0-9._-]", b"_", os.fsencode(self.row.name)).decode()

    @property
    def simulated_clock(self) -> bool:
        return any(rows.SIMULATED_CLOCK in run.facts for run in self.runs)


def read_experiment(record: Record, row: Experiment) -> Reported:
    runs = record.runs(row.id)
    out = Reported(row, runs, mixed_contents(runs))
    if row.campaign:
        out.campaign = analyse(record, row)
    elif row.plan_text and not out.mixed_files:  # else its runs make no figure together
        out.timing = timing_findings(record, runs)
    out.step_times = [time for time in step_times(record, runs) if time.measured_steps]
    return out


def _means(arm, of):
    """Mean of a figure over the arm's runs with a loss; None where it is not known of one."""
    found = [of(o.run) for o in arm.outcomes if o.off is not None]
    return sum(found) / len(found) if found and None not in found else None


# --- of a campaign


def curve_table(a: CampaignAnalysis) -> Table:
    table = Table(columns=for_programs("name | value"))
    if c := a.curve:
        for name, value in (("slope_nat", c.slope_nat), ("slope_se_nat", c.slope_se_nat), ("own_error_ln_eta", c.own_error),
                            ("sigma_nat", c.sigma_nat), ("rho", a.rho), ("sd_delta_nat", a.sd_delta_nat),
                            ("smallest_budget", c.smallest_budget)):
            table.add(name, float(value))
    return table


FIT_POINTS, DEPTH_POINTS = 200, 40


def fit_table(a: CampaignAnalysis) -> Table:
    """The curve from its first budget to its last."""
    table = Table(columns=for_programs("budget | loss_nat"))
    if a.curve:
        first, last = math.log(a.curve.budgets[0]), math.log(a.curve.budgets[-1])
        for i in range(FIT_POINTS + 1):
            budget = math.exp(first + (last - first) * i / FIT_POINTS)
            table.add(budget, float(a.curve.loss_at(budget)))
    return table


def _d0(a):
    return next((arm for arm in a.arms if arm.role == "reference" and arm.budget_fraction == 1), None)


def losses_table(a: CampaignAnalysis) -> Table:
    """One row per run that has a final loss; with what boundaries cost untrained where the record has that."""
    priced = any(o.price is not None for arm in a.arms for o in arm.outcomes)
    table = Table(columns=for_programs(" | ".join((PRICED if priced else HEAD).split(","))))
    d0 = _d0(a)
    tokens = d0.first.train_tokens if d0 and d0.outcomes else None
    for arm in a.arms:
        for o in arm.outcomes:
            if o.off is not None:
                table.add(arm.name, arm.role, arm.codecs, arm.stages, arm.crossings, o.run.seed,
                          o.run.train_tokens / tokens if tokens else None, o.run.train_tokens, o.off, o.on,
                          *([o.price] if priced else []))
    return table


def _bound(x):
    return "<=" if x.bound == UPPER else ""


def _low_bound(x):
    return "<=" if x.bound == LOW_END else ""


def arms_table(a: CampaignAnalysis) -> Table:
    """One row per arm and evaluation."""
    table = Table(columns=for_programs(
        "arm | role | forward | backward | stages | crossings | seeds | evaluation | delta_nat,delta_low,delta_high | "
        "ln_eta,ln_eta_low,ln_eta_high | eta,eta_low,eta_high | q,q_low,q_high | bound | low_bound | verdict | reference | "
        "changes | note"))
    priced = any(arm.price for arm in a.arms)
    if priced:
        table.columns += for_programs("price_nat,price_low,price_high | rho,rho_low,rho_high")
    for arm in a.arms:
        if arm.role == "reference":
            continue
        head = (arm.name, arm.role, arm.forward_codec, arm.backward_codec, arm.stages, arm.crossings)
        for evaluation, e in (("off", arm.off), ("on", arm.on)):
            if not e:
                continue
            verdict = ("no q" if not e.q else NO_CONCLUSION if arm.controls_failed
                       else against_assumed(e.q, arm.directions))
            table.add(*head, e.seeds, evaluation, e.delta_nat, e.ln_eta, e.eta, e.q, _bound(e.eta), _low_bound(e.eta), verdict,
                      arm.reference, changes_text(arm.changes),
                      f"no q: another build, {arm.other_build}" if arm.other_build else arm.note,
                      *((arm.price, arm.rho) if priced and evaluation == "on" else [None, None] if priced else []))
        if arm.note:
            table.add(*head, arm.seeds, "off" if arm.delta_alone else "", arm.delta_alone, *[None] * 6, arm.reference,
                      changes_text(arm.changes), arm.note, *([None, None] if priced else []))
    return table


def joint_table(a: CampaignAnalysis) -> Table:
    """One row per family and evaluation."""
    table = Table(columns=for_programs("codecs | reference | arms | evaluation | depths | seeds | q,q_low,q_high | low_bound | "
                                       "bits_per_element | note"))
    for family in a.families:
        for evaluation, joint, note in (("off", family.off, family.note), ("on", family.on, family.on_note)):
            table.add(family.codecs, family.arms[0].reference, " ".join(arm.name for arm in family.arms), evaluation,
                      len(family.fitted), joint.seeds if joint else 0, joint.q if joint else None,
                      _low_bound(joint.q) if joint else "",
                      # 0: no bytes were recorded, as where losses alone were read from a file.
                      family.bits_per_element or None, note)
    return table


def depth_table(a: CampaignAnalysis) -> Table:
    """Points of each depth model's curve."""
    table = Table(columns=for_programs("codecs | reference | model | chosen | crossings | ln_eta"))
    for family in a.families:
        most = family.arms[-1].crossings
        for fit in family.depths.fits if family.depths else ():
            for i in range(DEPTH_POINTS + 1) if fit.theta else ():
                k = most * i / DEPTH_POINTS
                loss = fit.minus_ln_eta(k)
                if math.isfinite(loss):
                    table.add(family.codecs, family.arms[0].reference, fit.model, fit.model == family.depths.chosen, k, -loss)
    return table


def residuals_table(a: CampaignAnalysis) -> Table:
    """How far the uncompressed runs lie from the fitted reference curve; within_seed_nat: less the mean of the seed's
    reference runs, which is what the curve's shape misses. Controls are not fitted. Empty without a curve."""
    table = Table(columns=for_programs("arm | role | seed | budget | loss_nat | fitted_nat | residual_nat | within_seed_nat"))
    if not a.curve:
        return table
    of_seed, found = defaultdict(list), []
    for arm in a.arms:
        for o in arm.outcomes if arm.role in ("reference", "control") else ():
            if o.off is not None:
                fitted = float(a.curve.loss_at(arm.trained_fraction))
                found.append((arm, o, fitted, o.off - fitted))
                if arm.role == "reference":
                    of_seed[o.run.seed].append(o.off - fitted)
    for arm, o, fitted, residual in found:
        if mine := of_seed.get(o.run.seed):
            table.add(arm.name, arm.role, o.run.seed, float(arm.trained_fraction), o.off, fitted, residual,
                      residual - sum(mine) / len(mine))
    return table


REPLICA_FLOOR = 0.85  # the planner's


def diloco_table(a: CampaignAnalysis) -> Table:
    """One row per cell of M, H and outer codec, with what a planner assumes."""
    from longhaul.planning.simulator.terms import alpha, eta_h, eta_r_linear
    table = Table(columns=for_programs("arm | batch | groups | inner_steps | codec | boundary | seeds | eta,eta_low,eta_high | "
                                       "bound | low_bound | eta_H | eta_r"))
    for one in a.findings.cells:
        arm = a.arm(one.arm)
        if not arm.off:
            continue
        n, eta = float(a.parameters), arm.off.eta
        # The planner's alpha has a pole at 10,000 parameters.
        assumed = float(eta_h(alpha(n), float(one.inner_steps))) if n > 3e4 else None
        table.add(arm.name, "local-batch-matched" if one.local_batch else "global-batch-matched", one.groups, one.inner_steps,
                  one.codec, one.boundary, arm.off.seeds, eta, _bound(eta), _low_bound(eta), assumed,
                  float(eta_r_linear(n, one.groups, REPLICA_FLOOR)))
    return table


# --- what arms change and send


def _leaves(toml):
    """{"train.lr": "0.003"}, from the lines of a resolved spec."""
    leaves, table = {}, ""
    for line in toml.split("\n"):
        if line.startswith("[") and line.endswith("]"):
            table = f"{line[1:-1]}."
        elif " = " in line:
            key, _, said = line.partition(" = ")
            leaves[table + key] = said[1:-1] if len(said) >= 2 and said[0] == said[-1] == '"' else said
    return leaves


def changes_in_words(before: str, after: str) -> list[str]:
    """Keys whose values differ between two resolved specs, as "key: this -> that"; "-" for a missing key. Left out: seed,
    train.tokens, train.steps."""
    was, now = _leaves(before), _leaves(after)
    keys = sorted((was.keys() | now.keys()) - {"seed", "train.tokens", "train.steps"})
    return [f"{key}: {was.get(key, '-')} -> {now.get(key, '-')}" for key in keys if was.get(key, "-") != now.get(key, "-")]


class _Sum:
    """All crossings of one direction of an arm, together."""

    def __init__(self):
        self.payload = self.elements = self.samples = self.nmse = 0.0
        self.nmse_max = None

    def add(self, c):
        self.payload += c.payload_bytes
        self.elements += c.elements
        if c.nmse_samples and c.nmse_mean is not None:
            self.samples += c.nmse_samples
            self.nmse += c.nmse_samples * c.nmse_mean
            if c.nmse_max is not None:
                self.nmse_max = max(self.nmse_max or 0.0, c.nmse_max)

    @property
    def bits(self) -> float | None:
        """Per element, from payload bytes. None: nothing was recorded."""
        return bits_per_element(self.elements, self.payload) or None

    @property
    def nmse_mean(self) -> float | None:
        return self.nmse / self.samples if self.samples else None


@dataclass
class OnTheWire:
    """What an arm changes and what it sends, and how long that takes, beside its q."""

    arm: str
    changes: list[str]  # against the reference at D0; seed and length aside
    forward: _Sum
    backward: _Sum
    outer: _Sum
    outer_bytes: float  # between groups, of all ranks together, headers included; mean over the arm's runs
    simulated_s: float | None  # when the last step would have ended, mean over the arm's runs


def simulated_steps(record: Record, run: Run) -> dict[int, tuple[float, int]]:
    """By step, when it would have ended for all ranks, and what their messages had by then."""
    steps, had, total = {}, defaultdict(int), 0
    for t in record.read(Simulated, run.id):  # in the order of steps
        # By group and stage, so that bytes of a group that is lost stay in the sum.
        total += t.message_bytes - had[t.group_index, t.stage]
        had[t.group_index, t.stage] = t.message_bytes
        steps[t.step] = max(steps.get(t.step, (0, 0))[0], t.simulated_s), total
    return steps


def arms_on_the_wire(record: Record, a: CampaignAnalysis) -> list[OnTheWire]:
    reference, found = _d0(a), []
    for arm in a.arms:
        if arm.role != "arm":
            continue
        changes = changes_in_words(reference.first.spec_toml, arm.first.spec_toml) if reference else []
        out = OnTheWire(arm.name, changes, _Sum(), _Sum(), _Sum(), 0.0, None)
        ended_s = []
        for o in arm.outcomes:
            if simulated := simulated_steps(record, o.run):
                ended_s.append(simulated[max(simulated)][0])
            for c in record.read(Crossing, o.run.id):
                codecs = arm.forward_codec if c.direction == "forward" else arm.backward_codec
                if c.codec == "none" and " at " in codecs:  # of single boundaries the others' "none" says nothing
                    continue
                if c.direction in ("forward", "backward", "outer"):
                    getattr(out, c.direction).add(c)
                if c.direction == "outer":
                    out.outer_bytes += c.message_bytes / len(arm.outcomes)
        out.simulated_s = sum(ended_s) / len(ended_s) if ended_s else None
        found.append(out)
    return found


def wire_table(arms: list[OnTheWire]) -> Table:
    table = Table(columns=for_programs(
        "arm | changes | forward_bits_per_element | forward_nmse_mean | forward_nmse_max | backward_bits_per_element | "
        "backward_nmse_mean | backward_nmse_max | outer_bits_per_element | outer_bytes | simulated_s"))
    for arm in arms:
        table.add(arm.arm, "; ".join(arm.changes), *(x for d in (arm.forward, arm.backward)
                                                     for x in (d.bits, d.nmse_mean, d.nmse_max)),
                  arm.outer.bits, arm.outer_bytes if arm.outer.bits else None, arm.simulated_s)
    return table


# --- loss against cost


def pareto_front(points: list[tuple[float, float]]) -> list[bool]:
    """Which points (cost, loss) no other one beats: none has both figures at most as large and one of them smaller."""
    return [not any(c <= cost and n <= nat and (c < cost or n < nat) for c, n in points) for cost, nat in points]


def _end_of(record):
    def of(run):
        return max((t.simulated_s for t in record.read(Simulated, run.id)), default=None)
    return of


def _memory_of(run):
    told = run.facts.get("rank_bytes") or run.facts.get("predicted_worker_bytes")
    return float(told) if told else None


def pareto_table(record: Record, a: CampaignAnalysis) -> Table:
    """What each arm ends at and costs, means over its runs: time of the simulated clock, bytes of all messages, memory of the
    largest rank as planned; each with whether the arm is on the front of the loss over it."""
    table = Table(columns=for_programs("arm | role | seeds | loss_nat,loss_nat_low,loss_nat_high | time_s | time_front | "
                                       "message_bytes | message_bytes_front | memory_bytes | memory_bytes_front"))

    def bytes_of(run):
        return float(sum(c.message_bytes for c in record.read(Crossing, run.id)))
    points = [(arm, [o.off for o in arm.outcomes if o.off is not None]) for arm in a.arms if arm.role in ("arm", "reference")]
    points = [(arm, mean_of(losses), len(losses)) for arm, losses in points if losses]
    for arm, loss, seeds in points:
        table.add(arm.name, arm.role, seeds, loss)
    for of in (_end_of(record), bytes_of, _memory_of):
        costs = [_means(arm, of) for arm, _, _ in points]
        front = iter(pareto_front([(cost, loss.value) for cost, (_, loss, _) in zip(costs, points) if cost is not None]))
        for row, cost in zip(table.rows, costs):
            row += [cell(cost), none() if cost is None else cell(next(front))]
    return table


# --- of every experiment


def residual_badge(verdict: Verdict) -> Cell:
    """"within 0.10", "beyond 0.10" or "no verdict" in its colour."""
    if verdict.kind == "not judged":
        return badge("no verdict", "open")
    return badge(verdict.text, "good" if verdict.kind == "within" else "bad")


def step_times_table(times: list[StepTime]) -> Table:
    table = Table(columns=(
        "run:run | arm:arm | links:profile | -:schedule | groups x stages:stages | -:groups | -:microbatches | steps:steps | "
        "measured, s:measured_s,measured_low_s,measured_high_s | P2, s:p2_s | -:p1_s | -:p3_s | "
        "ln(measured\n/ P2):residual,residual_low,residual_high |  | P1, s | P3, s | "
        "compute\nshare:compute_utilisation,compute_utilisation_low,compute_utilisation_high | -:outer_measured_s | "
        "-:outer_predicted_s | -:note"))
    for t in times:
        predicted = t.p2_s is not None
        table.add(t.run, t.arm, t.profile, t.schedule, shown(f"{t.groups} x {t.stages}, {t.schedule}", t.stages), t.groups,
                  t.microbatches, t.measured_steps, cell(t.measured_s, 4), cell(t.p2_s, "{:.4f}"), t.p1_s, t.p3_s,
                  cell(t.residual, 3) if predicted else none(),
                  residual_badge(judged(t)) if predicted else badge("one process", "plain"), cell(t.p1_s, "{:.4f}"),
                  cell(t.p3_s, "{:.4f}"), cell(t.compute_utilisation, 2), t.outer_measured_s, t.outer_predicted_s, t.note)
    return table


MOST_POINTS = 200  # of a run's curve


def training_table(record: Record, e: Reported) -> Table:
    """Training loss along each run that counts (of a campaign the last of an arm and seed that ended): tokens of all groups
    together, at the end of a point's steps; loss_nat, mean over the point's steps and over groups; and with a simulated clock
    when the last of them would have ended, and what the run's messages had by then. Losses that are not finite are left out:
    the curve ends there."""
    curves = defaultdict(list)
    for run, loss, tokens, step in record.query(
            "SELECT run_id, AVG(loss_nat), SUM(tokens), step FROM steps WHERE typeof(loss_nat) = 'real' "
            "GROUP BY run_id, step ORDER BY run_id, step"):
        before = curves[run][-1][0] if curves[run] else 0.0
        curves[run].append((before + tokens, loss, step))
    counted = {o.run.id for arm in e.campaign.arms for o in arm.outcomes} if e.campaign else {run.id for run in e.runs}
    table = Table(columns=for_programs("run | arm | role | seed | tokens | loss_nat | steps"))
    if e.simulated_clock:
        table.add_columns(for_programs("simulated_s | message_bytes"))
    for run in e.runs:
        curve = curves.get(run.id)
        if not curve or run.id not in counted:
            continue
        simulated = simulated_steps(record, run) if e.simulated_clock else {}
        wide = -(-len(curve) // MOST_POINTS)
        for start in range(0, len(curve), wide):
            part = curve[start:start + wide]
            tokens, _, step = part[-1]
            clock = (f"{simulated[step][0]:.6f}", simulated[step][1]) if step in simulated else ()
            table.add(run.id, run.arm, run.role, run.seed, tokens, sum(loss for _, loss, _ in part) / len(part), len(part), *clock)
    return table


def frame_bytes(codec: str) -> int | None:
    """The most bytes of a codec's frame of a tensor as large as a planner's; None for what is no codec."""
    from longhaul.analysis.calibration import PLANNED_TENSOR
    command = [os.environ.get("LONGHAUL_COMMAND", "longhaul"), "_frame-bytes", *map(str, PLANNED_TENSOR), codec]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Refused(f"start {command[0]}, which knows codecs: {error.strerror}") from error
    return int(done.stdout) if done.returncode == 0 else None
