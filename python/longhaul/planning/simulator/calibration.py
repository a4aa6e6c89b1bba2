"""Measured factors: calibration.json, as `longhaul report` writes it, read with its intervals checked; and how a planning
scenario takes them.

Each source of uncertainty is one number z, 0 at the point, -END and END at the ends of its interval.
"""

import copy
import dataclasses
import json
import math
from dataclasses import dataclass, field

import numpy as np

from longhaul import toml
from longhaul.planning.simulator import model, terms
from longhaul.refusal import Refused
from longhaul.tables import number

END = 1.959963984540054
SAME_RATIO = 1.1  # within this factor of its ratio a measured eta_c stands for a scenario's
SAME_INNER_STEPS = 1.1  # within this factor of its H, at the same M, a cell's total stands for eta_H eta_r
# A crossing that gains this much would be a miswritten file, not a codec; noise stays far below.
_MOST_Q = 1.2
# Beyond these a number is in another unit: per cent for a share, thousandths for nats.
_MOST_SHARE, _MOST_NAT, _MOST_BEYOND = 10, 20, 1000
_SHARE = "a share, not per cent"
TRANSFERS = ("tokens", "loss")
PARTS = ("q", "byte ratio", "all else")


@dataclass(frozen=True)
class Span:
    """A measured number with the ends of its interval."""

    value: float
    low: float
    high: float

    def log(self, z):
        """At deviate z: a straight line on the log scale from the point to either end."""
        z = np.asarray(z, float)
        end = np.where(z < 0, self.low, self.high)
        return self.value * np.exp(np.log(end / self.value) * np.abs(z) / END)

    def linear(self, z):
        """The same for numbers that are logarithms or differences already."""
        z = np.asarray(z, float)
        return self.value + (np.where(z < 0, self.low, self.high) - self.value) * np.abs(z) / END


@dataclass
class Activation:
    """One codec's activation entry: what a crossing keeps, by direction and evaluation."""

    codec: str
    direction: str
    evaluation: str
    q: Span
    level: float = 0.95
    bound: bool = False  # the interval was cut: at most this, no measurement
    forward_ratio: float | None = None  # of bytes, against 16 bits
    backward_ratio: float | None = None
    ratio_width: int | None = None  # of frames; None: of the campaign's own tensors, both directions together
    gamma: Span | None = None  # of ln eta = -a (S-1)^gamma, where depth was seen to matter
    ln_eta: list = field(default_factory=list)  # (S, Span); cut ones are left out
    beyond: list = field(default_factory=list)  # ln eta predicted deeper than measured
    delta_nat: list = field(default_factory=list)  # loss difference


@dataclass(frozen=True)
class Ratio:
    codec: str
    ratio: float
    eta: Span


@dataclass(frozen=True)
class Replicas:
    """A cell of DiLoCo; of `outer` with the algorithm and codec whose campaign gave it rates of its own."""

    replicas: int
    inner_steps: int  # 1: gradients cross in every step
    eta: Span
    algorithm: str = ""
    codec: str = ""


@dataclass
class Calibration:
    """The schema longhaul.calibration/1. Absent parts stay assumed."""

    plan_sha256: str
    commit: str
    parameters: float
    tokens: float | None = None
    activation: list = field(default_factory=list)
    eta_h: list = field(default_factory=list)
    eta_r: list = field(default_factory=list)
    totals: list = field(default_factory=list)  # eta_H eta_r in one: uncoded, no boundaries, global batch
    outer: list = field(default_factory=list)
    alpha: Span | None = None
    alpha_billions: float = 0.0  # the size alpha was measured at
    eta_c: list = field(default_factory=list)
    straggler: Span | None = None
    step_time: Span | None = None
    bounds: int = 0  # arms and depths that are bounds


# --- reading


class _Reader:
    def __init__(self, origin):
        self.origin = origin

    def refuse(self, where, what):
        return Refused(f"{self.origin}: {where} {what}")

    def number(self, of, key, where):
        x = of.get(key)
        if isinstance(x, bool) or not isinstance(x, (int, float)) or not math.isfinite(x):
            raise self.refuse(where, f"has no number '{key}'")
        return float(x)

    def count(self, of, key, where):
        x = self.number(of, key, where)
        if not (1 <= x <= 1e9 and x == math.floor(x)):
            raise self.refuse(where, f"'{key}' is not a whole number of at least 1")
        return int(x)

    def text(self, of, key, where):
        if not isinstance(of.get(key), str):
            raise self.refuse(where, f"has no text '{key}'")
        return of[key]

    def span(self, of, key, ci, where, most=math.inf, want="", positive=False):
        """of[key] with the interval of[ci]; the point within -most..most, or in a wrong unit: `want` says which."""
        value, ends = self.number(of, key, where), of.get(ci)
        if not (isinstance(ends, list) and len(ends) == 2 and
                all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in ends)):
            raise self.refuse(where, f"gives '{key}' without an interval '{ci}' = [low, high]")
        low, high = map(float, ends)
        interval = f"[{number(low)}, {number(high)}]"
        if low > high:
            raise self.refuse(where, f"'{ci}' = {interval} is upside down; want [low, high]")
        if not low <= value <= high:
            raise self.refuse(where, f"'{key}' = {number(value)} lies outside its interval {interval}")
        if positive and not low > 0:
            raise self.refuse(where, f"'{key}' or its interval is not above 0")
        if abs(value) > most:
            raise self.refuse(where, f"'{key}' = {number(value)} is beyond {number(most)} and looks like another unit; want "
                                     f"{want}")
        return Span(value, low, high)

    def objects(self, of, key):
        rows = of.get(key, [])
        if not isinstance(rows, list):
            raise self.refuse(key, "is not an array")
        if not all(isinstance(row, dict) for row in rows):
            raise self.refuse(key, "holds something that is no object")
        return rows

    def replicas(self, row, key, **names):
        return Replicas(self.count(row, "M", key), self.count(row, "H", key),
                        self.span(row, "eta", "ci", key, _MOST_SHARE, _SHARE, True), **names)


def _activation(r, entry, out):
    codec = r.text(entry, "codec", "activation")
    where = f"activation of '{codec}'"
    a = Activation(codec, r.text(entry, "direction", where), r.text(entry, "eval", where),
                   r.span(entry, "q", "q_ci", where, positive=True))
    if a.q.value > _MOST_Q:
        raise r.refuse(where, f"'q' = {number(a.q.value)} is above {_MOST_Q}: no crossing makes tokens worth that much more")
    if "level" in entry:
        a.level = r.number(entry, "level", where)
    a.bound = "q_ci_low_bound" in entry or "bound" in entry

    def ratio(key):
        x = r.number(entry, key, where)
        if not 1 <= x <= 1e6:
            raise r.refuse(where, f"'{key}' is not between 1 and 1e6")
        return x
    # By direction at a stated width; older files have one for both, of the campaign's own tensors.
    if "ratio_forward" in entry or "ratio_backward" in entry:
        a.forward_ratio, a.backward_ratio = ratio("ratio_forward"), ratio("ratio_backward")
        a.ratio_width = r.count(entry, "ratio_width", where)
    elif "ratio" in entry:
        a.forward_ratio = a.backward_ratio = ratio("ratio")
    # Where M1 (q per crossing) held, the file's gamma describes the data and is not the model.
    depth = entry.get("depth_model")
    if "gamma" in entry and not (isinstance(depth, dict) and depth.get("chosen") == "M1"):
        a.gamma = r.span(entry, "gamma", "gamma_ci", where)

    def at_stages(key, value, most, want):
        return [(r.count(row, "S", where), r.span(row, value, "ci", where, most, want)) for row in r.objects(entry, key)
                if key != "by_S" or "ci_low_bound" not in row and "bound" not in row]
    out.bounds += sum("ci_low_bound" in row or "bound" in row for row in r.objects(entry, "by_S"))
    a.ln_eta = at_stages("by_S", "ln_eta", _MOST_NAT, "the logarithm of a share")
    a.beyond = at_stages("beyond", "ln_eta", _MOST_BEYOND, "the logarithm of a share")
    a.delta_nat = at_stages("delta_nat", "value", _MOST_NAT, "nat, not thousandths")
    out.bounds += a.bound
    return a


def _read_outer(r, document, out):
    key = "eta_diloco"  # cells with a codec or a boundary are of more than M and H
    plain = [row for row in r.objects(document, key)
             if r.text(row, "codec", key) == "none" and r.text(row, "boundary", key) == "" and
             r.text(row, "batch", key) == "global-batch-matched"]
    out.totals = [r.replicas(row, key) for row in plain]
    out.eta_h = [r.replicas(row, "eta_H") for row in r.objects(document, "eta_H")]
    out.eta_r = [r.replicas(row, "eta_r") for row in r.objects(document, "eta_r")]
    out.eta_c = [Ratio(r.text(row, "codec", "eta_c"), r.number(row, "ratio", "eta_c"),
                       r.span(row, "eta", "ci", "eta_c", _MOST_SHARE, _SHARE, True)) for row in r.objects(document, "eta_c")]
    key = "eta_outer"
    out.outer = [r.replicas(row, key, algorithm=r.text(row, "algorithm", key), codec=r.text(row, "codec", key))
                 for row in r.objects(document, key)]
    alpha = document.get("alpha")
    if isinstance(alpha, dict):
        out.alpha = r.span(alpha, "value", "ci", "alpha", positive=True)
        out.alpha_billions = r.number(alpha, "P_B", "alpha")
        if not out.alpha_billions > 1e-5:
            raise r.refuse("alpha", "'P_B' is not above 1e-5")


def _read_machine(r, document, out):
    if isinstance(document.get("straggler"), dict):
        out.straggler = r.span(document["straggler"], "coef", "ci", "straggler", 1,
                               "a share for each doubling, not per cent", True)
    if isinstance(document.get("step_time"), dict):
        copied = dict(document["step_time"])
        if "p05" in copied and "p95" in copied:
            copied["ci"] = [copied["p05"], copied["p95"]]
        out.step_time = r.span(copied, "ratio", "ci", "step_time", 100, "times the formula's step, not seconds", True)


def parse(text, origin):
    """Refused, one line: no JSON, another schema, a number without an interval or outside it, controls that failed."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise Refused(f"{origin}: not a JSON object")
    schema = document.get("schema") if isinstance(document.get("schema"), str) else "none"
    if schema != "longhaul.calibration/1":
        raise Refused(f"{origin}: schema '{schema}'; expected 'longhaul.calibration/1': write the file anew with 'longhaul "
                      "report RESULTS'")
    if document.get("controls_failed"):
        raise Refused(f"{origin}: the campaign's controls failed: its figures calibrate nothing")
    r, where = _Reader(origin), "the document"
    out = Calibration(r.text(document, "plan_sha256", where), r.text(document, "commit", where),
                      r.number(document, "params", where))
    if not out.parameters >= 1:
        raise r.refuse(where, "'params' is not at least 1")
    if "tokens" in document:
        out.tokens = r.number(document, "tokens", where)
    out.activation = [_activation(r, entry, out) for entry in r.objects(document, "activation")]
    _read_outer(r, document, out)
    _read_machine(r, document, out)
    return out


def read(path):
    return parse(toml.read_text(path), path)


# --- taking


def _find(calibration, codec, direction):
    """The entry evaluated without the codec ("off": what was learned) comes before the other; of several, as with another
    learning rate beside the campaign's own, the first."""
    entries = [e for e in calibration.activation if not e.bound and e.codec == codec and e.direction == direction]
    return next((e for e in entries if e.evaluation == "off"), entries[0] if entries else None)


def _nat_at(rows, stages, z):
    at, span = min(rows, key=lambda row: abs(row[0] - stages))
    delta = span.linear(z)
    return delta if at == stages or at < 2 else delta * (stages - 1) / (at - 1)


class Plan:
    """The part of a calibration that scenarios take."""

    def __init__(self, calibration, codec="", extrapolate=False):
        """codec: of the activations; "": the only one there is. extrapolate: alpha(P) of other sizes is scaled as at the
        measured one."""
        codecs = sorted({e.codec for e in calibration.activation if not e.bound and e.direction == "both"})
        if codec and codec not in codecs:
            raise Refused(f"the calibration measures no codec '{codec}' in both directions; it has: "
                          f"{', '.join(codecs) or 'none'}")
        if not codec and len(codecs) > 1:
            raise Refused(f"the calibration measures {len(codecs)} codecs; name one with --codec: {', '.join(codecs)}")
        self.calibration, self.takes_quality = calibration, True
        self.activation = _find(calibration, codec or codecs[0], "both") if codecs else None
        self.extrapolates = extrapolate and calibration.alpha is not None

    @property
    def names(self):
        """Of the sources of uncertainty."""
        c, a = self.calibration, self.activation
        quality = a is not None and self.takes_quality
        return [name for name, there in (
            ("activation", quality), ("gamma", quality and a.gamma), ("alpha", self.extrapolates), ("eta_c", c.eta_c),
            ("eta_diloco", c.totals), ("straggler", c.straggler), ("step_time", c.step_time)) if there]

    @property
    def can_transfer_loss(self):
        return self.activation is not None and bool(self.activation.delta_nat)

    def only(self, part):
        """The plan with this part alone measured, all else assumed: "q" (with its depths, at the assumed ratio), "byte
        ratio" (at the assumed q) or "all else"; None where the calibration does not have it."""
        plan = copy.copy(self)
        if part == "all else":
            plan.activation = None
            return plan if plan.names else None
        if self.activation is None or part == "byte ratio" and not self.activation.forward_ratio:
            return None
        plan.extrapolates = False
        plan.calibration = dataclasses.replace(self.calibration, eta_c=[], totals=[], straggler=None, step_time=None)
        if part == "q":
            plan.activation = dataclasses.replace(self.activation, forward_ratio=None, backward_ratio=None)
        plan.takes_quality = part == "q"
        return plan

    def _activate(self, s, transfer, z):
        a = self.activation
        if transfer == "tokens":
            s.measured.q = a.q.log(z)
            s.measured.by_stages = [(at, span.linear(z)) for at, span in (*a.ln_eta, *a.beyond)]
            return
        shape = model.simulate(s)
        # The better end of q is the lower end of the difference.
        slope = -terms.loss_slope(25.6 * shape.parameters)
        ln = np.full(np.broadcast_shapes(np.shape(shape.stages), np.shape(z)), np.nan)
        for stages in np.unique(shape.stages):
            if stages > 1:
                ln = np.where(shape.stages == stages, -_nat_at(a.delta_nat, int(stages), -np.asarray(z)) / slope, ln)
        s.measured.ln_eta = ln

    def _near_total(self, s, z):
        """The cell at the scenario's own number of replicas and, nearly, its H: eta, nan where there is none."""
        shape = model.simulate(s)
        best = np.full(np.broadcast_shapes(np.shape(shape.effective_steps), np.shape(shape.replicas), np.shape(z)), np.nan)
        nearest = np.full(best.shape, np.inf)
        for cell in self.calibration.totals:
            apart = np.abs(np.log(cell.inner_steps / shape.effective_steps))
            takes = (shape.replicas == cell.replicas) & (apart <= math.log(SAME_INNER_STEPS)) & (apart < nearest)
            best, nearest = np.where(takes, cell.eta.log(z), best), np.where(takes, apart, nearest)
        return best

    def apply(self, scenario, transfer, z):
        """The scenario with its measured factors at `z`: a deviate, or an array of them, for each of names."""
        s, c, deviates = scenario.but(), self.calibration, iter(z)
        m = s.measured
        if self.activation:
            m.forward_ratio, m.backward_ratio = self.activation.forward_ratio, self.activation.backward_ratio
        if self.activation and self.takes_quality:
            self._activate(s, transfer, next(deviates))
            if self.activation.gamma:
                gamma = self.activation.gamma.linear(next(deviates))
                m.gamma = gamma if transfer == "tokens" else m.gamma
        if self.extrapolates:
            m.alpha_scale = c.alpha.log(next(deviates)) / terms.alpha(c.alpha_billions * 1e9)
        if c.eta_c:
            z_of_ratio = next(deviates)
            near = [(abs(math.log(e.ratio / s.gradient_ratio)), n) for n, e in enumerate(c.eta_c) if e.ratio > 0]
            near = min((one for one in near if one[0] <= math.log(SAME_RATIO)), default=None)
            if near:
                m.eta_c = c.eta_c[near[1]].eta.log(z_of_ratio)
        of_total = next(deviates) if c.totals else None
        if c.straggler:
            m.straggler_coefficient = c.straggler.log(next(deviates))
        if c.step_time:
            m.step_time_ratio = c.step_time.log(next(deviates))
        if c.totals:  # last: H follows from the other factors
            total = self._near_total(s, of_total)
            if not np.all(np.isnan(total)):
                m.eta_h, m.eta_r = total, np.where(np.isnan(total), np.nan, 1.0)
        return s
