"""What a training's tokens are worth, from what campaigns measured. All logarithms are natural, all intervals those of the
files (95 %)."""

import math
from dataclasses import dataclass, field

import numpy as np

from longhaul.analysis import NotEstimated
from longhaul.analysis.curve import curve_error, fit_reference
from longhaul.analysis.interval import around, widened
from longhaul.planning.simulator.calibration import END, Span
from longhaul.refusal import Refused

NONE = "none / none"
BEYOND = ("S", "bits", "H", "G", "size")  # what goes beyond a calibration, in the order that a table shows
ACTIVATIONS, ROUNDS, OUTER_CODEC = "activations", "rounds", "outer codec"
_SAME_SIZE = 1.01


@dataclass(frozen=True)
class Ln:
    """A logarithm with the ends of its interval."""

    value: float = 0.0
    low: float = 0.0
    high: float = 0.0

    @staticmethod
    def of(m: Span):
        return Ln(math.log(m.value), math.log(m.low), math.log(m.high))

    def plus(self, shift):
        return Ln(self.value + shift, self.low + shift, self.high + shift)


@dataclass
class Factor:
    """eta, a factor of the tokens: those that the reference needs over those that the training needs."""

    name: str
    ln: Ln = Ln()
    of: str = ACTIVATIONS
    beyond: list = field(default_factory=list)  # (one of BEYOND, how)
    parameters: float = 0.0  # of the model that it was measured with; 0: it is none


def _depth(entry, stages):
    measured = [depth.stages for depth in entry.depths]
    if stages in measured:
        return []
    below = max([1, *(at for at in measured if at < stages)])
    above = min((at for at in measured if at > stages), default=None)
    return [("S", f"S = {stages} lies between {below} and {above}" if above else
             f"S = {stages}; the deepest measured is {below}")]


def _on_line(a, b, inner_steps):
    """Straight over ln H through two points with independent errors."""
    of_a, of_b = math.log(a.inner_steps), math.log(b.inner_steps)
    share = (math.log(inner_steps) - of_a) / (of_b - of_a)
    ends_a, ends_b = Ln.of(a.eta), Ln.of(b.eta)
    value = (1 - share) * ends_a.value + share * ends_b.value

    def half(end_a, end_b):
        return math.hypot((1 - share) * (end_a - ends_a.value), share * (end_b - ends_b.value))
    return Ln(value, value - half(ends_a.low, ends_b.low), value + half(ends_a.high, ends_b.high))


def _apart(a, b):
    return abs(math.log(a / b))


class Quality:
    """The calibrations of a plan, the first that measured something counting."""

    def __init__(self, calibrations):
        self.calibrations = calibrations

    def _measured(self, pair, stages):
        for calibration in self.calibrations:
            entry = next((one for evaluation in ("off", "on") for one in calibration.activation
                          if one.depths and (one.codec, one.evaluation) == (pair, evaluation)), None)
            if not entry:
                continue

            def at(z, entry=entry):
                found = entry.ln_eta_at(stages, z)
                return min(0.0, found)
            ends = sorted((at(-END), at(END)))
            return Factor(f"eta({pair}, S = {stages})", Ln(at(0.0), *ends), ACTIVATIONS, _depth(entry, stages),
                          calibration.parameters)
        return None

    def activations(self, pair, stages, sends):
        """Of a pair of codecs over S - 1 boundaries. At an S that was measured the number measured there, else as the
        planning model has it. A pair that nobody measured lies between the best that sends no more bytes in either direction
        and the worst that sends no fewer, which may be "none / none". sends: what a micro-batch sends there and back with a
        pair. None: nothing measured sends as few."""
        lossless = Factor(f"eta({NONE})")
        if pair == NONE or stages == 1:
            return lossless
        measured, own = self._measured(pair, stages), sends.get(pair)
        if measured or not own:
            return measured
        worse, better, fewer, more = None, lossless, "", NONE
        for calibration in self.calibrations:
            for entry in calibration.activation:
                of = sends.get(entry.codec)
                eta = self._measured(entry.codec, stages) if of else None
                if not eta:
                    continue
                if of[0] <= own[0] and of[1] <= own[1] and (not worse or eta.ln.value > worse.ln.value):
                    worse, fewer = eta, entry.codec
                if own[0] <= of[0] and own[1] <= of[1] and eta.ln.value < better.ln.value:
                    better, more = eta, entry.codec
        if not worse:
            return None
        return Factor(f"eta({pair}, S = {stages})",
                      Ln((worse.ln.value + better.ln.value) / 2, min(worse.ln.low, better.ln.low),
                         max(worse.ln.high, better.ln.high)), ACTIVATIONS,
                      [("bits", f"'{pair}' was not measured; by bytes it lies between '{fewer}' and '{more}'")],
                      worse.parameters)

    def rounds(self, groups, inner_steps):
        """Of G groups that meet after every H steps by "diloco" with codec "none", against synchronous data parallel with the
        same global batch: the cells of the nearest G, ln eta on a line over ln H. None: no cells."""
        for calibration in self.calibrations:
            # One group has nobody to differ from: its cells say nothing of several.
            cells = [cell for cell in calibration.totals if (cell.replicas == 1) == (groups == 1)]
            if not cells:
                continue
            nearest = min(cells, key=lambda cell: _apart(cell.replicas, groups)).replicas
            by_h = {}
            for cell in calibration.totals:
                if cell.replicas == nearest:
                    by_h.setdefault(cell.inner_steps, cell)
            out = Factor(f"eta(diloco, G = {groups}, H = {inner_steps})", of=ROUNDS, parameters=calibration.parameters)
            if nearest != groups:
                out.beyond.append(("G", f"G = {groups}; the nearest measured is {nearest}"))
            hs = sorted(by_h)
            if inner_steps in by_h:
                out.ln = Ln.of(by_h[inner_steps].eta)
            elif len(hs) == 1:
                out.ln = Ln.of(by_h[hs[0]].eta)
                out.beyond.append(("H", f"H = {inner_steps}; only {hs[0]} was measured"))
            else:
                above = next((n for n, h in enumerate(hs) if h >= inner_steps), len(hs))
                outside = above in (0, len(hs))
                above = min(max(above, 1), len(hs) - 1)
                below, above = by_h[hs[above - 1]], by_h[hs[above]]
                out.ln = _on_line(below, above, inner_steps)
                out.beyond.append(("H", f"H = {inner_steps} lies {'outside of the line through' if outside else 'between'} "
                                        f"{below.inner_steps} and {above.inner_steps}"))
            return out
        return None

    def outer_codec(self, codec):
        """Of the outer delta's codec. None: not measured."""
        out = Factor(f"eta(outer {codec})", of=OUTER_CODEC)
        if codec == "none":
            return out
        for calibration in self.calibrations:
            for entry in calibration.eta_c:
                if entry.codec == codec:
                    out.ln, out.parameters = Ln.of(entry.eta), calibration.parameters
                    return out
        return None

    def outer(self, algorithm, codec, groups, inner_steps):
        """Of groups that meet by an outer algorithm and codec whose campaign gave it rates of its own: the arm of the nearest
        G, and of those of the nearest H. None: not measured."""
        for calibration in self.calibrations:
            arms = [entry for entry in calibration.outer if (entry.algorithm, entry.codec) == (algorithm, codec)]
            if not arms:
                continue
            nearest = min(arms, key=lambda e: (_apart(e.replicas, groups), _apart(e.inner_steps, inner_steps)))
            out = Factor(f"eta({algorithm} with {codec}, G = {groups}, H = {inner_steps})", Ln.of(nearest.eta), ROUNDS,
                         parameters=calibration.parameters)
            if nearest.replicas != groups:
                out.beyond.append(("G", f"G = {groups}; the nearest measured is {nearest.replicas}"))
            if nearest.inner_steps != inner_steps:
                out.beyond.append(("H", f"H = {inner_steps}; the nearest measured is {nearest.inner_steps}"))
            return out
        return None

    def size(self, parameters, factors):
        """How far a model of so many parameters is from the first calibration's, or from that of one of its factors,
        whichever is farther, as (what, how); None: within 1 %."""
        apart, measured = 1.0, parameters
        for size in [c.parameters for c in self.calibrations[:1]] + [f.parameters for f in factors]:
            times = parameters / size if size > 0 else 1.0
            if abs(math.log(times)) > abs(math.log(apart)):
                apart, measured = times, size
        if max(apart, 1 / apart) < _SAME_SIZE:
            return None
        return "size", f"{parameters:.3g} parameters; measured at {measured:.3g}: x {apart:.3g}"


def ln_tokens_to_loss(losses, target_nat):
    """ln of the tokens that the reference of a campaign trains on to end at a held-out loss, each budget being a training of
    its own with the learning rate down at its end. The interval: the jackknife over seeds, and in quadrature the curve's own
    error."""
    reference = [row for row in losses.rows if row.role == "reference"]
    d0_tokens = next((row.train_tokens for row in reversed(reference) if row.budget == 1), 0)
    try:
        curve = fit_reference((row.seed, row.budget, row.off) for row in reference)
    except NotEstimated as error:
        raise Refused(f"{losses.path}: {error}") from None
    floor, top = curve.loss_at(curve.budgets[-1]), curve.loss_at(curve.budgets[0])
    if not floor <= target_nat <= top:
        place = "below the curve's floor" if target_nat < floor else "above the curve"
        raise Refused(f"target_loss_nat = {target_nat:g} lies {place} of {losses.path}: its reference ends at {top:.4f} nat "
                      f"with {curve.budgets[0] * d0_tokens:.3g} tokens and at {floor:.4f} with "
                      f"{curve.budgets[-1] * d0_tokens:.3g}; want a loss between")
    found, n = curve.mean.inverse(target_nat), len(curve.without)
    moves = [(n - 1) * (found - without.inverse(target_nat)) for without in curve.without]
    ln = widened(around(found, np.array(moves)), curve_error(curve, [(1.0, 0.0, found)]))
    shift = math.log(d0_tokens)
    low, high = (ln.interval.low, ln.interval.high) if ln.interval else (found, found)
    return Ln(found + shift, low + shift, high + shift)
