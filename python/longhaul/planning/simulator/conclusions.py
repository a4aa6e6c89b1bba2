"""The sentences of the planning documents as numbers, each true from a margin of 1 on, assumed and measured; and a file's
scenarios with measured factors."""

import functools
import math
from dataclasses import dataclass, field

import numpy as np

from longhaul.planning.simulator import model
from longhaul.planning.simulator.calibration import BAND, BYTES, END, MEASURED, PARTS, RHO
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
    interval; several: 2.5 and 97.5 % of draws, the point their median. `way` BAND: over the band, all else at its point."""

    name: str
    assumed: float
    low: float
    point: float
    high: float
    size_ratio: float  # of the conclusion's model that is furthest from the measured one
    break_even_q: float | None
    way: str  # how boundaries are counted

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


def _judged(plan, way, margin, draws=DRAWS):
    """(low, point, high) of a margin over the plan's uncertainty. Deviates are columns: a margin may have rows of its own
    kind."""
    names = plan.names(way)
    sources = len(names)

    def at(z):
        return margin(lambda s: plan.apply(s, way, z))
    point = float(np.ravel(at([0.0] * sources))[0])
    if sources == 0:
        return point, point, point
    if sources == 1 or "price" in names:
        z = END * (2.0 * np.arange(_GRID + 1) / _GRID - 1)
        over = at([z[:, None] if name == "price" or sources == 1 else 0.0 for name in names])
        return min(point, float(np.min(over))), point, max(point, float(np.max(over)))
    over = np.sort(np.broadcast_to(np.ravel(at([_deviates(draws, n)[:, None] for n in range(sources)])), draws))
    return float(over[draws // 40]), float(over[draws // 2]), float(over[draws - draws // 40 - 1])


def _size_ratio(plan, scenarios):
    """Of the model that is furthest from the measured one."""
    ratios = [float(model.simulate(s).parameters) / plan.calibration.parameters for s in scenarios]
    return max(1.0, *ratios, *(1 / r for r in ratios))


def judge(plan, conclusion):
    size_ratio = _size_ratio(plan, conclusion.scenarios)
    way = plan.way(size_ratio, MOST_SIZE_RATIO)
    low, point, high = _judged(plan, way, conclusion.margin)
    return Judgement(conclusion.name, float(conclusion.margin(_as_it_is)), low, point, high, size_ratio,
                     break_even_q(conclusion), way)


@dataclass
class Attribution:
    """A conclusion with everything measured; with each part of the calibration alone, all else assumed, where the conclusion
    changes or would by one of them; and with gradients that go back in as few bytes as activations go forward."""

    whole: Judgement
    parts: dict = field(default_factory=dict)
    back_as_forward: Judgement | None = None


def _attributed(plan, conclusion):
    out = Attribution(judge(plan, conclusion))
    if not out.whole.touched:
        return out
    fewer = plan.back_as_forward()
    out.back_as_forward = fewer and judge(fewer, conclusion)
    # Parts may cancel: a conclusion that stays can still hang on both.
    for part in PARTS:
        alone = plan.only(part)
        if alone and not (part == "losses" and out.whole.way == BYTES):  # which has none
            out.parts[part] = judge(alone, conclusion)
    if all(j.change == "unchanged" for j in (out.whole, *out.parts.values())):
        out.parts = {}
    return out


def attribute(plan):
    return [_attributed(plan, c) for c in conclusions()]


# --- text


def _span(m):
    return f"{m.value:.5g} [{m.low:.5g}, {m.high:.5g}]"


def _factor_table(plan):
    c, a, stays = plan.calibration, plan.activation, "stays assumed"
    table = Table("", "factor | assumed | measured | how it is used")
    if a:
        for d in a.depths:
            table.add(f"ln eta_act at S = {d.stages}", f"{2 * (d.stages - 1) * math.log(0.995):.4f}", _span(d.ln_eta),
                      f"measured: {a.codec}, within {MOST_SIZE_RATIO:g} times the size")
        for name, ratio in (("byte ratio forward", a.forward_ratio), ("byte ratio backward", a.backward_ratio)):
            table.add(name, "4", f"{ratio:.4g}" if ratio else "-", f"of frames at width {a.ratio_width}" if ratio else stays)
    else:
        table.add("eta_act", "0.995^(2(S-1))", "-", stays)
    if p := plan.price_of_a_boundary:
        table.add("P, nat a boundary", "-", _span(p), f"beyond that size: times {RHO[0]:g} to {RHO[1]:g}, by the loss law"
                  + (f"; {c.price_from}" if c.price_from else ""))
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


def _judgement_table(answer):
    verdicts = any(a.whole.has_verdict for a in answer)
    table = Table("", "conclusion (true from a margin of 1) | assumed | measured | from, to | by")
    table.add_columns("back as forward | from, to" if any(a.back_as_forward for a in answer) else [])
    table.add_columns("verdict" if verdicts else [])
    for a in answer:
        j, b = a.whole, a.back_as_forward
        both = [cell(b.point, "{:.4f}"), f"[{b.low:.4f}, {b.high:.4f}]"] if b else ["", ""]
        table.add(j.name, f"{j.assumed:.4f} {'true' if j.assumed >= 1 else 'false'}", cell(j.point, "{:.4f}"),
                  f"[{j.low:.4f}, {j.high:.4f}]", j.way if j.touched else "nothing",
                  *(both if any(one.back_as_forward for one in answer) else []), *([_verdict_of(j)] if verdicts else []))
    return grid_text(table)


def _part_table(answer):
    """Each part of the calibration alone, for the conclusions whose margin crosses 1."""
    verdicts = any(a.whole.has_verdict for a in answer)
    table = Table("", "conclusion | measured alone | margin | from, to")
    table.add_columns("verdict" if verdicts else [])
    for a in answer:
        for part, j in a.parts.items():
            table.add(j.name, part, cell(j.point, "{:.4f}"), f"[{j.low:.4f}, {j.high:.4f}]",
                      *([_verdict_of(j)] if verdicts else []))
    if not table.rows:
        return ""
    return f"\nOne part measured, all else assumed, where the margin crosses 1:\n{grid_text(table)}"


_WAYS = {
    MEASURED: "measured: the share of tokens kept as measured, depth by depth; from, to: 95 %, depths drawn as they correlate.",
    BAND: f"band of P: no interval. What boundaries cost untrained times {RHO[0]:g} to {RHO[1]:g} (and P's interval), worth tokens "
          "by the scenario's own loss law, inverted.",
    BYTES: "bytes alone: the calibration has no P, so boundaries lose what is assumed; only bytes and other factors are measured.",
}


def conclusions_text(plan, answer):
    """The distance from the measured size, the break-even values of q, what was measured and what stays assumed, each
    conclusion assumed and measured, and what each part does alone. Beyond MOST_SIZE_RATIO without verdicts."""
    c = plan.calibration
    ratios = [a.whole.size_ratio for a in answer]
    out = f"Calibration of plan {c.plan_sha256[:12]}, commit {c.commit}\n" if c.plan_sha256 else ""
    out += f"Measured at {c.parameters:.3g} parameters; the conclusions' models differ from that by a factor of " \
           f"{min(ratios):.2g} to {max(1, *ratios):.2g}.\n"
    if max(ratios) > MOST_SIZE_RATIO:
        out += f"Beyond {MOST_SIZE_RATIO:g} times the measured size there is no verdict: shares of tokens and losses of small " \
               "models were not found to\nhold in larger ones (docs/results/law).\n"
    if c.bounds:
        out += f"{c.bounds} of its numbers are bounds, not measurements, and are not used.\n"
    ways = {a.whole.way for a in answer if a.whole.touched}
    out += "\nBreak-even: the q per crossing and direction at which a conclusion changes, all else assumed.\n" \
           f"{grid_text(break_even_table())}\n{_factor_table(plan)}\n{_judgement_table(answer)}"
    out += "".join(f"{text}\n" for way, text in _WAYS.items() if way in ways)
    if any(a.back_as_forward for a in answer):
        out += "back as forward: gradients in as few bytes as activations, at no further loss; at 4 bits they cost 0.0013 nat where " \
               "that was measured\n(docs/results/orderings).\n"
    return out + _part_table(answer)


# --- a file's scenarios


@dataclass
class MeasuredNumber:
    """C_local or C_quality of a scenario, FLOP, or the fewest nodes of a search (infinite: not within its most)."""

    scenario: str
    number: str
    way: str
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
    """Of the first rows of a file: C_local and, where counted, C_quality, or its nodes."""
    out, search = [], rows.file.search
    for i in range(min(rows.n, MOST_MEASURED)):
        s = rows.file.scenario_at(rows.scenario_index(i))
        way = plan.way(_size_ratio(plan, (s,)), MOST_SIZE_RATIO)

        def add(number_of, margin, draws=DRAWS, nodes=False, i=i, way=way):
            assumed = float(np.ravel(margin(_as_it_is))[0])
            out.append(MeasuredNumber(names[i], number_of, way, assumed, *_judged(plan, way, margin, draws), nodes))
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
    table = Table("", "scenario | by | quantity | assumed | measured | low | high | change")
    for n in numbers:
        finite = math.isfinite(n.point) and math.isfinite(n.assumed)
        table.add(n.scenario, n.way, n.number, n.shown(n.assumed), n.shown(n.point), n.shown(n.low), n.shown(n.high),
                  f"{100 * (n.point / n.assumed - 1):+.2f} %" if finite else "-")
    return grid_text(table)


# --- programs


def conclusions_csv(answer):
    """A line for each conclusion and part, "all" first; margins at full precision."""
    out = "conclusion,measured,by,assumed,point,low,high,verdict,touched,size_ratio,break_even_q\n"
    for a in answer:
        more = {"back as forward": a.back_as_forward} if a.back_as_forward else {}
        for part, j in {"all": a.whole, **more, **a.parts}.items():
            fields = (*map(number, (j.assumed, j.point, j.low, j.high)), j.verdict, str(int(j.touched)),
                      number(j.size_ratio), "" if j.break_even_q is None else number(j.break_even_q))
            out += f'"{j.name}",{part},{j.way},{",".join(fields)}\n'
    return out


def _object(j):
    return {"assumed": j.assumed, "point": j.point, "low": j.low, "high": j.high, "touched": j.touched, "by": j.way,
            "verdict": j.verdict}


def calibration_json(plan, answer, numbers):
    c, a = plan.calibration, plan.activation
    ways = sorted({one.whole.way for one in answer})
    out = {"plan_sha256": c.plan_sha256, "commit": c.commit, "parameters": c.parameters, "bounds": c.bounds,
           "sources": list(dict.fromkeys(name for way in ways for name in plan.names(way)))}
    if a:
        out["codec"] = a.codec
        out |= {key: ratio for key, ratio in (("ratio_forward", a.forward_ratio), ("ratio_backward", a.backward_ratio))
                if ratio}
    if p := plan.price_of_a_boundary:
        out["price_nat_a_boundary"] = {"value": p.value, "ci": [p.low, p.high]}
    out["conclusions"] = [
        _object(one.whole) | {"conclusion": one.whole.name, "size_ratio": one.whole.size_ratio,
                              "break_even_q": one.whole.break_even_q} |
        ({"back_as_forward": _object(one.back_as_forward)} if one.back_as_forward else {}) |
        ({"alone": {part: _object(j) for part, j in one.parts.items()}} if one.parts else {}) for one in answer]
    out["scenarios"] = [{"scenario": n.scenario, "number": n.number, "by": n.way, "assumed": n.assumed,
                         "point": n.point, "low": n.low, "high": n.high} for n in numbers]
    return out
