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
from longhaul.analysis.calibration import SCHEMA
from longhaul.planning.simulator import model, terms
from longhaul.refusal import Refused
from longhaul.tables import number

END = 1.959963984540054
SAME_RATIO = 1.1  # within this factor of its ratio a measured eta_c stands for a scenario's
SAME_INNER_STEPS = 1.1  # within this factor of its H, at the same M, a cell's total stands for eta_H eta_r
RHO = (0.8, 1.5)  # of models past their early learning: what training through a codec costs, in untrained prices
# Beyond these a number is in another unit: per cent for a share, thousandths for nats.
_MOST_SHARE, _MOST_NAT = 10, 20
_SHARE = "a share, not per cent"
# What stands for the loss of compressed boundaries: as measured by depth; between bounds, from the untrained price; or nothing,
# and the bytes alone are measured.
MEASURED, BAND, BYTES = "measured", "band of P", "bytes alone"
PARTS = ("losses", "byte ratio", "all else")


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


@dataclass(frozen=True)
class Depth:
    """What one arm measured at S stages; codec on or off as its entry says."""

    stages: int
    ln_eta: Span
    delta_nat: Span
    price_nat: Span | None = None  # P: the same boundaries on weights trained without them
    rho: Span | None = None


@dataclass
class Activation:
    """One codec pair: what its boundaries cost, by direction and evaluation."""

    codec: str
    direction: str
    evaluation: str
    depths: list = field(default_factory=list)  # by S
    correlation: np.ndarray | None = None  # of ln eta between depths; None: independent
    forward_ratio: float | None = None  # of bytes, against 16 bits
    backward_ratio: float | None = None
    ratio_width: int | None = None  # of frames

    @property
    def price_of_a_boundary(self) -> Span | None:
        """Of the deepest that has one."""
        priced = [d for d in self.depths if d.price_nat]
        if not priced:
            return None
        p, n = priced[-1].price_nat, priced[-1].stages - 1
        return Span(p.value / n, p.low / n, p.high / n)

    def ln_eta_at(self, stages, z) -> float:
        """At one deviate for all depths: as measured, on a line between two depths, and deeper than all as much a boundary as
        in the deepest."""
        by_depth = [(d.stages, float(d.ln_eta.linear(z))) for d in self.depths]
        found = terms.between_depths(by_depth, stages)
        return found if found is not None else by_depth[-1][1] * (stages - 1) / (by_depth[-1][0] - 1)

    def ln_eta_by_depth(self, z) -> list:
        """(S, ln eta) with a deviate for each depth, drawn as depths correlate."""
        z = [np.asarray(one, float) for one in z]
        if self.correlation is not None:
            z = [sum(weight * one for weight, one in zip(row, z)) for row in _root(self.correlation)]
        return [(d.stages, d.ln_eta.linear(one)) for d, one in zip(self.depths, z)]


def _root(correlation):
    """L with L L' = correlation, which rounding may have left a little indefinite."""
    values, vectors = np.linalg.eigh(correlation)
    return np.linalg.cholesky(vectors @ np.diag(np.maximum(values, 1e-9)) @ vectors.T)


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
    """The schema longhaul.calibration/2. Absent parts stay assumed."""

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
    price_of_a_boundary: Span | None = None  # of a model that exists (`longhaul price`), in place of the campaign's own
    price_from: str = ""  # where that is from
    bounds: int = 0  # depths that are bounds


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

    def list(self, of, key):
        rows = of.get(key, [])
        if not isinstance(rows, list):
            raise self.refuse(key, "is not an array")
        return rows

    def objects(self, of, key):
        rows = self.list(of, key)
        if not all(isinstance(row, dict) for row in rows):
            raise self.refuse(key, "holds something that is no object")
        return rows

    def replicas(self, row, key, **names):
        return Replicas(self.count(row, "M", key), self.count(row, "H", key),
                        self.span(row, "eta", "ci", key, _MOST_SHARE, _SHARE, True), **names)


def _activation(r, entry, out):
    codec = r.text(entry, "codec", "activation")
    where = f"activation of '{codec}'"
    a = Activation(codec, r.text(entry, "direction", where), r.text(entry, "eval", where))

    def ratio(key):
        x = r.number(entry, key, where)
        if not 1 <= x <= 1e6:
            raise r.refuse(where, f"'{key}' is not between 1 and 1e6")
        return x
    if "ratio_forward" in entry or "ratio_backward" in entry:
        a.forward_ratio, a.backward_ratio = ratio("ratio_forward"), ratio("ratio_backward")
        a.ratio_width = r.count(entry, "ratio_width", where)

    def of(row, key, most, want, positive=False):
        if not isinstance(row.get(key), dict):
            raise r.refuse(where, f"has no '{key}' with an interval at a depth")
        return r.span(row[key], "value", "ci", f"{where}, '{key}'", most, want, positive)
    for row in r.objects(entry, "by_S"):
        a.depths.append(Depth(
            r.count(row, "S", where), of(row, "ln_eta", _MOST_NAT, "the logarithm of a share"),
            of(row, "delta_nat", _MOST_NAT, "nat, not thousandths"),
            of(row, "price_nat", _MOST_NAT, "nat, not thousandths") if "price_nat" in row else None,
            of(row, "rho", 1000, "a ratio") if "rho" in row else None))
    a.depths.sort(key=lambda depth: depth.stages)
    a.correlation = _correlation(r, entry, where, len(a.depths))
    out.bounds += len(r.list(entry, "bounds"))
    return a


def _correlation(r, entry, where, n):
    rows = r.list(entry, "ln_eta_covariance")
    if not rows:
        return None
    if len(rows) != n or not all(isinstance(row, list) and len(row) == n and all(
            isinstance(x, (int, float)) and not isinstance(x, bool) and math.isfinite(x) for x in row) for row in rows):
        raise r.refuse(where, f"'ln_eta_covariance' is not {n} rows of {n} numbers, as by_S has depths")
    covariance = np.array(rows, float)
    sd = np.sqrt(np.diag(covariance))
    if not np.allclose(covariance, covariance.T) or np.any(np.diag(covariance) < 0):
        raise r.refuse(where, "'ln_eta_covariance' is no covariance: it is not symmetric, or has a variance below 0")
    return np.divide(covariance, np.outer(sd, sd), out=np.eye(n), where=np.outer(sd, sd) > 0)


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
    if schema != SCHEMA:
        raise Refused(f"{origin}: schema '{schema}'; expected '{SCHEMA}': write the file anew with 'longhaul report RESULTS'")
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


def read_price(path, codec):
    """What a document of `longhaul price --json` says of a codec at a boundary, at the most stages that it has: a calibration
    of a model without a campaign.

    Raises:
        Refused: No such document; a codec that it does not price, or several and none is named.
    """
    try:
        document = json.loads(toml.read_text(path))
    except (ValueError, RecursionError):
        document = None
    schema = "longhaul.price/1"
    if not isinstance(document, dict) or document.get("schema") != schema:
        raise Refused(f"{path}: no document of schema '{schema}', which `longhaul price --json {path}` writes")
    r = _Reader(path)
    depths = r.objects(document, "depths")
    codecs = sorted({r.text(row, "codec", "depths") for row in depths})
    forward = codec.split(" / ")[0]
    if not forward and len(codecs) == 1:
        forward = codecs[0]
    if forward not in codecs:
        raise Refused(f"{path} prices {', '.join(codecs) or 'nothing'}; name one of them with --codec")
    row = max((row for row in depths if row["codec"] == forward), key=lambda row: r.count(row, "stages", "depths"))
    key = "per_crossing_nat_per_token"
    of = row.get(key)
    if not isinstance(of, dict) or not all(isinstance(of.get(end), (int, float)) for end in ("value", "low", "high")):
        raise r.refuse("depths", f"has no '{key}' with an interval for '{forward}'")
    conditions = document.get("conditions", {})
    return (Span(of["value"], of["low"], of["high"]), float(conditions.get("parameters", 0)),
            f"{forward} at S = {row['stages']} of {conditions.get('weights', 'its weights')}")


# --- taking


def _find(calibration, codec, direction):
    """The entry evaluated without the codec ("off": what was learned) comes before the other; of several, as with another
    learning rate beside the campaign's own, the first."""
    entries = [e for e in calibration.activation if e.depths and e.codec == codec and e.direction == direction]
    return next((e for e in entries if e.evaluation == "off"), entries[0] if entries else None)


class Plan:
    """The part of a calibration that scenarios take."""

    def __init__(self, calibration, codec="", extrapolate=False):
        """codec: of the activations; "": the only one there is. extrapolate: alpha(P) of other sizes is scaled as at the
        measured one."""
        codecs = sorted({e.codec for e in calibration.activation if e.depths and e.direction == "both"})
        if codec and codec not in codecs and not calibration.price_of_a_boundary:
            raise Refused(f"the calibration measures no codec '{codec}' in both directions; it has: "
                          f"{', '.join(codecs) or 'none'}")
        if not codec and len(codecs) > 1:
            raise Refused(f"the calibration measures {len(codecs)} codecs; name one with --codec: {', '.join(codecs)}")
        self.calibration, self.takes_losses = calibration, True
        name = codec if codec in codecs else codecs[0] if codecs and not codec else ""
        self.activation = _find(calibration, name, "both") if name else None
        self.extrapolates = extrapolate and calibration.alpha is not None

    @property
    def price_of_a_boundary(self) -> Span | None:
        return self.calibration.price_of_a_boundary or (self.activation and self.activation.price_of_a_boundary)

    def way(self, size_ratio, most):
        """How boundaries are counted for a model so many times as large (or small) as the measured one."""
        if self.activation and size_ratio <= most:
            return MEASURED
        return BAND if self.price_of_a_boundary else BYTES

    def names(self, way):
        """Of the sources of uncertainty."""
        c = self.calibration
        depths = self.activation.depths if self.activation and way == MEASURED and self.takes_losses else []
        return [f"activation at S = {d.stages}" for d in depths] + [name for name, there in (
            ("price", way == BAND and self.takes_losses), ("alpha", self.extrapolates), ("eta_c", c.eta_c),
            ("eta_diloco", c.totals), ("straggler", c.straggler), ("step_time", c.step_time)) if there]

    def only(self, part):
        """The plan with this part alone measured, all else assumed: "losses" (of boundaries, at the assumed ratio), "byte
        ratio" (at the assumed losses) or "all else"; None where the calibration does not have it."""
        plan = copy.copy(self)
        if part == "all else":
            plan.activation, plan.takes_losses = None, False
            return plan if plan.names(BYTES) else None
        if part == "byte ratio" and not (self.activation and self.activation.forward_ratio):
            return None
        if part == "losses" and not (self.activation or self.price_of_a_boundary):
            return None
        plan.extrapolates = False
        plan.calibration = dataclasses.replace(self.calibration, eta_c=[], totals=[], straggler=None, step_time=None)
        if part == "losses" and self.activation:
            plan.activation = dataclasses.replace(self.activation, forward_ratio=None, backward_ratio=None)
        plan.takes_losses = part == "losses"
        return plan

    def back_as_forward(self):
        """The plan whose gradients go back in the forward codec's bytes, at no further loss; None where they do already or
        their bytes are not measured."""
        a = self.activation
        if not a or not a.forward_ratio or a.forward_ratio <= a.backward_ratio:
            return None
        plan = copy.copy(self)
        plan.activation = dataclasses.replace(a, backward_ratio=a.forward_ratio)
        return plan

    def _activate(self, s, z):
        by_depth = self.activation.ln_eta_by_depth(z)
        s.measured.by_stages = by_depth
        deepest, ln = by_depth[-1]  # what lies deeper costs as much a boundary
        s.measured.q = np.exp(np.minimum(0.0, ln) / (2 * (deepest - 1)))

    def _band(self, s, z):
        """At z = 0 as much as P; at the ends rho of RHO and of P's interval what costs least (END) and most (-END)."""
        p = self.price_of_a_boundary
        nat = np.maximum(0.0, Span(p.value, RHO[0] * max(0.0, p.low), RHO[1] * p.high).linear(-np.asarray(z, float)))
        shape = model.simulate(s)
        tokens = terms.given(s.tokens_per_parameter, 20.0) * shape.parameters
        s.measured.ln_eta = np.log(terms.tokens_kept(nat * np.maximum(shape.stages - 1, 0), tokens))

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

    def apply(self, scenario, way, z):
        """The scenario with its measured factors at `z`: a deviate, or an array of them, for each of names."""
        s, c, deviates = scenario.but(), self.calibration, iter(z)
        m = s.measured
        if self.activation:
            m.forward_ratio, m.backward_ratio = self.activation.forward_ratio, self.activation.backward_ratio
        if way == MEASURED and self.activation and self.takes_losses:
            self._activate(s, [next(deviates) for _ in self.activation.depths])
        if way == BAND and self.takes_losses:
            self._band(s, next(deviates))
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
