"""The sentences of the planning documents as numbers, each true from a margin of 1 on, assumed and measured; and a file's
scenarios with measured factors."""

import functools
import math
from dataclasses import dataclass, field

import numpy as np

from longhaul.planning.simulator import model
from longhaul.planning.simulator.calibration import END, PARTS, TRANSFERS
from longhaul.planning.simulator.spreads import mix
from longhaul.tables import Table, cell, grid_text, number

MOST_SIZE_RATIO = 10.0  # verdicts are on models up to so many times larger or smaller than the measured one
DRAWS = 10_000
MOST_MEASURED = 50  # scenarios of a file that are computed anew
_SEARCHES = 200  # draws that a search is counted for
_MULTIPLES = (1.5, 2, 2.5, 3, 4, 5, 6, 8)  # of the largest that fits a node
_GRID = 64  # steps over one interval: a best size may hold only inside it


@dataclass(frozen=True, eq=False)
class Conclusion:
    name: str
    margin: object  # of a function that changes a scenario
    scenarios: tuple  # all that it compares


def _as_it_is(s):
    return s


def _reaches(name, s, target):
    return Conclusion(name, lambda adjust: model.simulate(adjust(s)).local / target, (s,))


def _at_rate(s, rate):
    return s.but(wan_up=rate, wan_down=rate)


def _of_size(s, multiple):
    return s.but(parameters=multiple * s.memory_bytes / model.state_bytes_per_parameter(s.precision))


def _best(name, base, multiples, rivals):
    """C_quality of the best of some sizes over the best of the others; the flat run is 1."""
    def margin(adjust):
        quality = [[model.simulate(adjust(_of_size(base, m))).quality for m in some] for some in (multiples, rivals)]
        ours, theirs = (functools.reduce(np.maximum, some) for some in quality)
        return ours / theirs
    return Conclusion(name, margin, tuple(_of_size(base, m) for m in (*multiples, *rivals)))


def _best_is(name, base, multiple):
    return _best(name, base, (multiple,), tuple(m for m in (1, *_MULTIPLES) if m != multiple))


@functools.cache
def conclusions():
    """Those of the governance tables: reaching 1e24 to 1e27, the best mode and size at 72, 500, 4000 and 2000 nodes, what
    slow links cost, and eight stages keeping 0.90."""
    a100, pp, conf = model.a100_nodes, "governance-pp", model.configuration
    slow_f, fast, slow = _at_rate(conf("F"), 10e6), _at_rate(a100(72), 1e9), _at_rate(a100(72), 10e6)
    eight = _of_size(a100(4000, pp), 8)
    return (
        _reaches("4 nodes reach 1e24", a100(4), 1e24),
        _reaches("72 nodes reach 1e25", a100(72), 1e25),
        _reaches("500 nodes reach 1e26", a100(500), 1e26),
        _reaches("500 nodes reach 1e26 at 10 Mbit/s", _at_rate(a100(500), 10e6), 1e26),
        *(_reaches(f"{name} reaches 1e27", conf(name), 1e27) for name in "ABCDEF"),
        _reaches("F reaches 1e27 at 10 Mbit/s", slow_f, 1e27),
        _reaches("F reaches 1e27 at 10 Mbit/s, conservative", slow_f.but(case="conservative"), 1e27),
        _best_is("best at 500 nodes: pipelines of 480B", a100(500, pp), 2),
        _best("best at 4000 nodes: pipelines", a100(4000, pp), _MULTIPLES, (1,)),
        _best_is("best at 4000 nodes: pipelines of 960B", a100(4000, pp), 4),
        _best_is("best at 2000 H100 FP8 nodes: pipelines of 549B", model.h100_fp8_nodes(2000, pp), 6),
        _best_is("best at 72 nodes: flat 240B", a100(72, pp), 1),
        Conclusion("1 Gbit/s to 10 Mbit/s costs at most 14 %",
                   lambda adjust: model.simulate(adjust(slow)).local / model.simulate(adjust(fast)).local / (1 - 0.14),
                   (slow, fast)),
        Conclusion("8 stages keep eta_act >= 0.90", lambda adjust: model.simulate(adjust(eight)).eta_act / 0.90, (eight,)),
    )


def _with_q(q):
    def adjust(s):
        other = s.but()
        other.measured.q = q
        return other
    return adjust


@functools.cache
def break_even_q(conclusion):
    """The q per crossing and direction, all else assumed, where its truth changes: the largest of 0.5 to 0.995; None:
    nowhere. By steps of 0.005, then bisection: two changes within one step are not seen."""
    at = np.arange(995, 499, -5) / 1000
    holds = np.broadcast_to(conclusion.margin(_with_q(at)) >= 1, at.shape)
    changed = np.flatnonzero(holds != holds[0])
    if not changed.size:
        return None
    other, same = float(at[changed[0]]), float(at[changed[0] - 1])
    for _ in range(40):
        middle = (other + same) / 2
        if bool(conclusion.margin(_with_q(middle)) >= 1) == bool(holds[0]):
            same = middle
        else:
            other = middle
    return same


def break_even_table():
    """For each conclusion that depends on q: the q where its truth changes, all else assumed."""
    table = Table("", "conclusion | with q = 0.995 | changes below q")
    for c in conclusions():
        q = break_even_q(c)
        if q is not None:
            table.add(c.name, "true" if c.margin(_as_it_is) >= 1 else "false", cell(q, "{:.4f}"))
    return table


@dataclass
class Judgement:
    """A conclusion with the measured factors. One source of uncertainty: low and high are the least and the most over its
    interval; several: 2.5 and 97.5 % of independent draws, the point their median."""

    name: str
    assumed: float
    low: float
    point: float
    high: float
    size_ratio: float  # of the conclusion's model that is furthest from the measured one
    break_even_q: float | None

    @property
    def change(self):
        was = self.assumed >= 1
        if self.low >= 1 or self.high < 1:
            return "unchanged" if (self.low >= 1) == was else "flips"
        return "undetermined"

    @property
    def touched(self):
        """Whether any measured factor moved it at all."""
        return self.low != self.assumed or self.high != self.assumed

    @property
    def has_verdict(self):
        return self.size_ratio <= MOST_SIZE_RATIO

    @property
    def verdict(self):
        return self.change if self.has_verdict else "none"


@functools.cache
def _deviates(draws, source):
    """Standard normals that depend on draw and source alone: Box and Muller's."""
    step = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        base = np.arange(draws, dtype=np.uint64) * np.uint64(64) + np.uint64(source * 2)
        first, second = mix((base + np.uint64(1)) * step), mix((base + np.uint64(2)) * step)
    u = ((first >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53
    v = (second >> np.uint64(11)).astype(float) * 2.0**-53
    return np.sqrt(-2 * np.log(u)) * np.cos(2 * math.pi * v)


def _judged(plan, transfer, margin, draws=DRAWS):
    """(low, point, high) of a margin over the plan's uncertainty. Deviates are columns: a margin may have rows of its own
    kind."""
    sources = len(plan.names)

    def at(z):
        return margin(lambda s: plan.apply(s, transfer, z))
    point = float(np.ravel(at([0.0] * sources))[0])
    if sources == 0:
        return point, point, point
    if sources == 1:
        z = END * (2.0 * np.arange(_GRID + 1) / _GRID - 1)
        over = at([z[:, None]])
        return min(point, float(np.min(over))), point, max(point, float(np.max(over)))
    over = np.sort(np.broadcast_to(np.ravel(at([_deviates(draws, n)[:, None] for n in range(sources)])), draws))
    return float(over[draws // 40]), float(over[draws // 2]), float(over[draws - draws // 40 - 1])


def judge(plan, transfer, conclusion):
    ratios = [float(model.simulate(s).parameters) / plan.calibration.parameters for s in conclusion.scenarios]
    low, point, high = _judged(plan, transfer, conclusion.margin)
    return Judgement(conclusion.name, float(conclusion.margin(_as_it_is)), low, point, high,
                     max(1.0, *ratios, *(1 / r for r in ratios)), break_even_q(conclusion))


@dataclass
class Attribution:
    """A conclusion with everything measured, and with each part of the calibration alone, all else assumed. The parts are
    there where the conclusion changes, or would by one of them."""

    transfer: str
    whole: Judgement
    parts: dict = field(default_factory=dict)


def _attributed(plan, transfer, conclusion):
    out = Attribution(transfer, judge(plan, transfer, conclusion))
    if not out.whole.touched:
        return out
    # Parts may cancel: a conclusion that stays can still hang on both.
    for part in PARTS:
        alone = plan.only(part)
        if alone:
            out.parts[part] = judge(alone, transfer, conclusion)
    if all(j.change == "unchanged" for j in (out.whole, *out.parts.values())):
        out.parts = {}
    return out


def transfers(plan):
    return TRANSFERS if plan.can_transfer_loss else TRANSFERS[:1]


def attribute(plan):
    """Every conclusion by token transfer and then, where possible, by loss transfer."""
    return [_attributed(plan, transfer, c) for transfer in transfers(plan) for c in conclusions()]


# --- text


def _span(m):
    return f"{m.value:.5g} [{m.low:.5g}, {m.high:.5g}]"


def _factor_table(plan):
    c, a, stays = plan.calibration, plan.activation, "stays assumed"
    table = Table("", "factor | assumed | measured | how it is used")
    if a:
        table.add("q per crossing", "0.995", _span(a.q), f"measured: {a.codec}")
        for name, ratio in (("byte ratio forward", a.forward_ratio), ("byte ratio backward", a.backward_ratio)):
            table.add(name, "4", f"{ratio:.4g}" if ratio else "-", stays if not ratio else
                      f"of frames at width {a.ratio_width}" if a.ratio_width else
                      "measured from bytes, both directions together")
        beyond = f"several models to S = {a.beyond[-1][0]}" if a.beyond else "q beyond"
        table.add("depth", "q^(2(S-1))", f"gamma {_span(a.gamma)}" if a.gamma else "-",
                  f"{len(a.ln_eta)} measured S, a line between; {beyond}")
    else:
        table.add("q per crossing", "0.995", "-", stays)
    table.add("alpha of eta_H", "formula", _span(c.alpha) if c.alpha else "-", stays if not c.alpha else
              "measured, scaled to every size" if plan.extrapolates else f"measured at its own size only: {stays}")
    if not c.eta_c:
        table.add("eta_c", "table", "-", stays)
    for e in c.eta_c:
        table.add("eta_c", "table", _span(e.eta), f"{e.codec} at {e.ratio:.4g}x; for ratios within 10 %")
    table.add("eta_H eta_r at M and H", "formula", f"{len(c.totals)} totals",
              "at their own M and within 10 % of H, else assumed" if c.totals else stays)
    table.add("eta_H, eta_r apart", "formula", f"{len(c.eta_h)} and {len(c.eta_r)} cells",
              f"of their own M, H and size: {stays}")
    table.add("straggler coefficient", "0.05", _span(c.straggler) if c.straggler else "-",
              "measured" if c.straggler else stays)
    table.add("step time ratio", "1", _span(c.step_time) if c.step_time else "-", "measured" if c.step_time else stays)
    return grid_text(table)


def _verdict_of(j):
    return j.verdict if j.touched or not j.has_verdict else "unchanged (all assumed)"


def _judgement_table(answer, transfer):
    verdicts = any(a.whole.has_verdict for a in answer)
    table = Table("", "conclusion (true from a margin of 1) | assumed | measured | interval | change")
    table.add_columns("verdict" if verdicts else [])
    for a in answer:
        j = a.whole
        if a.transfer == transfer:
            table.add(j.name, f"{j.assumed:.4f} {'true' if j.assumed >= 1 else 'false'}", cell(j.point, "{:.4f}"),
                      f"[{j.low:.4f}, {j.high:.4f}]", f"{100 * (j.point / j.assumed - 1):+.2f} %",
                      *([_verdict_of(j)] if verdicts else []))
    return grid_text(table)


def _part_table(answer, transfer):
    """Each part of the calibration alone, for the conclusions whose margin crosses 1."""
    verdicts = any(a.whole.has_verdict for a in answer)
    table = Table("", "conclusion | measured alone | margin | interval")
    table.add_columns("verdict" if verdicts else [])
    for a in answer:
        for part, j in a.parts.items() if a.transfer == transfer else ():
            table.add(j.name, part, cell(j.point, "{:.4f}"), f"[{j.low:.4f}, {j.high:.4f}]",
                      *([_verdict_of(j)] if verdicts else []))
    if not table.rows:
        return ""
    return f"\nOne part measured, all else assumed, where the margin crosses 1:\n{grid_text(table)}"


def conclusions_text(plan, answer):
    """The distance from the measured size, the break-even values of q, what was measured and what stays assumed, each
    conclusion assumed and measured, and what each part does alone. Beyond MOST_SIZE_RATIO without verdicts."""
    c = plan.calibration
    ratios = [a.whole.size_ratio for a in answer]
    out = f"Calibration of plan {c.plan_sha256[:12]}, commit {c.commit}\n" \
          f"Measured at {c.parameters:.3g} parameters; the conclusions' models differ from that by a factor of " \
          f"{min(ratios):.2g} to {max(1, *ratios):.2g}.\n"
    if max(ratios) > MOST_SIZE_RATIO:
        out += f"Sensitivity analysis: beyond {MOST_SIZE_RATIO:g} times the measured size there is no verdict. A q did not " \
               "transfer between\nmodel sizes where it was tested (docs/results/law).\n"
    if c.bounds:
        out += f"{c.bounds} of its numbers are bounds, not measurements, and are not used.\n"
    out += "\nBreak-even: the q per crossing and direction at which a conclusion changes, all else assumed.\n" \
           f"{grid_text(break_even_table())}\n{_factor_table(plan)}" \
           "\nToken transfer: the share of tokens kept stays as measured.\n" \
           f"{_judgement_table(answer, 'tokens')}{_part_table(answer, 'tokens')}"
    if not plan.can_transfer_loss:
        return f"{out}\nLoss transfer: not possible, the calibration has no differences in nats.\n"
    return f"{out}\nLoss transfer: the difference in nats stays as measured and is worth tokens by the law's slope at the " \
           f"scenario's size.\n{_judgement_table(answer, 'loss')}{_part_table(answer, 'loss')}"


# --- a file's scenarios


@dataclass
class MeasuredNumber:
    """C_local or C_quality of a scenario, FLOP, or the fewest nodes of a search (infinite: not within its most)."""

    scenario: str
    number: str
    transfer: str
    assumed: float
    low: float
    point: float
    high: float
    nodes: bool = False

    def shown(self, value):
        if not self.nodes:
            return f"{value:.3e}"
        return "not within most_nodes" if math.isinf(value) else f"{value:.0f}"


def measure_scenarios(plan, rows, names):
    """Of the first rows of a file: C_local and, where counted, C_quality, or its nodes, by each transfer that is
    possible."""
    out, search = [], rows.file.search
    for i in range(min(rows.n, MOST_MEASURED)):
        s = rows.file.scenario_at(rows.scenario_index(i))
        for transfer in transfers(plan):
            def add(number_of, margin, draws=DRAWS, nodes=False, i=i, transfer=transfer):
                assumed = float(np.ravel(margin(_as_it_is))[0])
                out.append(MeasuredNumber(names[i], number_of, transfer, assumed,
                                          *_judged(plan, transfer, margin, draws), nodes))
            if search:
                at_least = float(rows.at_least[i])

                def nodes(adjust, s=s, at_least=at_least):
                    found = model.fewest_nodes(s, search.target, at_least, search.most_nodes, adjust)
                    return np.where(np.isnan(found), np.inf, found)
                add(f"nodes for {at_least:g} FLOP", nodes, _SEARCHES, True)
                continue
            add("C_local", lambda adjust, s=s: model.simulate(adjust(s)).local)
            if s.chi:
                add("C_quality", lambda adjust, s=s: model.simulate(adjust(s)).quality)
    return out


def measured_table(numbers):
    table = Table("", "scenario | transfer | quantity | assumed | measured | low | high | change")
    for n in numbers:
        finite = math.isfinite(n.point) and math.isfinite(n.assumed)
        table.add(n.scenario, n.transfer, n.number, n.shown(n.assumed), n.shown(n.point), n.shown(n.low), n.shown(n.high),
                  f"{100 * (n.point / n.assumed - 1):+.2f} %" if finite else "-")
    return grid_text(table)


# --- programs


def conclusions_csv(answer):
    """A line for each conclusion and part, "all" first; margins at full precision."""
    out = "transfer,conclusion,measured,assumed,point,low,high,verdict,touched,size_ratio,break_even_q\n"
    for a in answer:
        for part, j in {"all": a.whole, **a.parts}.items():
            fields = (*map(number, (j.assumed, j.point, j.low, j.high)), j.verdict, str(int(j.touched)),
                      number(j.size_ratio), "" if j.break_even_q is None else number(j.break_even_q))
            out += f'{a.transfer},"{j.name}",{part},{",".join(fields)}\n'
    return out


def _object(j):
    return {"assumed": j.assumed, "point": j.point, "low": j.low, "high": j.high, "touched": j.touched,
            "verdict": j.verdict}


def calibration_json(plan, answer, numbers):
    c, a = plan.calibration, plan.activation
    out = {"plan_sha256": c.plan_sha256, "commit": c.commit, "parameters": c.parameters, "bounds": c.bounds,
           "sources": plan.names}
    if a:
        out["codec"] = a.codec
        out |= {key: ratio for key, ratio in (("ratio_forward", a.forward_ratio), ("ratio_backward", a.backward_ratio))
                if ratio}
    out["conclusions"] = [
        _object(one.whole) | {"conclusion": one.whole.name, "transfer": one.transfer, "size_ratio": one.whole.size_ratio,
                              "break_even_q": one.whole.break_even_q} |
        ({"alone": {part: _object(j) for part, j in one.parts.items()}} if one.parts else {}) for one in answer]
    out["scenarios"] = [{"scenario": n.scenario, "number": n.number, "transfer": n.transfer, "assumed": n.assumed,
                         "point": n.point, "low": n.low, "high": n.high} for n in numbers]
    return out
