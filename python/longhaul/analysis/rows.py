"""An analysis as rows of the record's table `estimates`: an estimate is a row."""

from longhaul.analysis.campaign import D0_REFERENCE, Arm, CampaignAnalysis
from longhaul.analysis.changes import changes_text
from longhaul.analysis.diloco import INTERACTION
from longhaul.analysis.findings import STEPS_OF_A_LOSS
from longhaul.record import Estimate
from longhaul.tables import LOW_END, UPPER, Measured, number


def without(arm: str, evaluation: str, quantity: str, unit: str, seeds: int, note: str) -> Estimate:
    """A quantity without a value: `note` says why."""
    return Estimate(arm, evaluation, quantity, unit, None, None, None, None, "none", seeds, note)


def estimate(arm: str, evaluation: str, quantity: str, unit: str, x: Measured, seeds: int, note: str = "") -> Estimate:
    """A value with its interval or, where it has none, a note that says why."""
    row, i = without(arm, evaluation, quantity, unit, seeds, note), x.interval
    row.value = x.value
    if x.bound == UPPER:
        row.method, row.level = "<=", i.level if i else None
    elif i:
        row.low, row.high, row.level = i.low, i.high, i.level
        row.method = i.method + (", low end <=" if x.bound == LOW_END else "")
    elif not note:
        row.note = "one seed gives no interval" if seeds < 2 else "the interval is unbounded"
    return row


def _either(arm, evaluation, quantity, unit, x, seeds, note, why):
    """With a value and its note, or without and why."""
    if x:
        return estimate(arm, evaluation, quantity, unit, x, seeds, note)
    return without(arm, evaluation, quantity, unit, seeds, why)


def _bound_note(x):
    return {UPPER: "upper bound: below the smallest reference budget",
            LOW_END: "the low end is cut at the smallest reference budget"}.get(x.bound, "")


def estimates(a: CampaignAnalysis) -> list[Estimate]:
    """Of every quantity; see docs/estimates.md."""
    rows = _curve(a) if a.curve else []
    for arm in a.arms:
        rows += _arm(arm)
    for i, family in enumerate(a.families, 1):
        for evaluation, joint, why in (("off", family.off, family.note), ("on", family.on, family.on_note)):
            cut = _bound_note(joint.q) if joint else ""
            rows.append(_either(f"joint {i}: {family.codecs}", evaluation, "q", "per crossing", joint and joint.q,
                                joint.seeds if joint else 0, f"M1; {cut}" if cut else "M1", why))
    # An instrument in doubt tells no models apart.
    return rows if a.failed_controls else rows + _findings(a)


def _curve(a):
    c = a.curve
    n = len(c.seeds)
    none = "" if c.lack_of_fit_p is None else f"; p {c.lack_of_fit_p:.4f} that there is none"
    plain = [("sigma", "nat", c.sigma_nat, "pooled"), ("sd_delta", "nat", a.sd_delta_nat, "pooled"),
             ("rho", "1", a.rho, "from sd_delta and sigma")]
    return [
        estimate("", "", "slope", "nat per e-fold of tokens", Measured(c.slope_nat), n, f"se {c.slope_se_nat:.4f}"),
        *(
            estimate(
                "", "", f"{one.budget:.4f} D0, ln budget found again", "1", one.error, n, "by the curve without it"
            )
            for one in c.pseudo_controls
        ),
        estimate("", "", "curve_error", "1", Measured(c.own_error), n, f"of ln eta between budgets{none}"),
        *(estimate("", "", name, unit, Measured(value), n, note) for name, unit, value, note in plain),
    ]


def _arm(arm: Arm):
    rows = []
    for evaluation, e in (("off", arm.off), ("on", arm.on)):
        if not e:
            continue
        notes = [_bound_note(e.ln_eta),
                 f"against '{arm.reference}'" if arm.role == "arm" and arm.reference != D0_REFERENCE else "",
                 f"no q: {changes_text(arm.changes)}" if arm.changes else "",
                 f"no q: another build, {arm.other_build}" if arm.other_build else ""]
        note = "; ".join(filter(None, notes))
        rows.append(estimate(arm.name, evaluation, "delta", "nat", e.delta_nat, e.seeds))
        if each := arm.a_boundary(e.delta_nat):
            rows.append(estimate(arm.name, evaluation, "delta per boundary", "nat", each, e.seeds))
        rows.append(estimate(arm.name, evaluation, "ln_eta", "1", e.ln_eta, e.seeds, note))
        rows.append(estimate(arm.name, evaluation, "eta", "1", e.eta, e.seeds, note))
        if e.q:
            rows.append(estimate(arm.name, evaluation, "q", "per crossing", e.q, e.seeds, note))
    if arm.price:
        rows.append(estimate(arm.name, "on", "P", "nat", arm.price, arm.seeds, "codec switched on at the end, untrained"))
    if arm.rho:
        rows.append(estimate(arm.name, "on", "rho", "1", arm.rho, arm.seeds, "Delta with the codec on over P"))
    if arm.delta_alone:
        rows.append(estimate(arm.name, "off", "delta", "nat", arm.delta_alone, arm.seeds, f"against '{arm.reference}'"))
    return rows + ([without(arm.name, "", "eta", "1", arm.seeds, arm.note)] if arm.note else [])


def _depths(name, depths):
    rows = []
    for fit in depths.fits:
        rows += [estimate(name, "off", f"{fit.model} {parameter}", "1", x, depths.seeds, fit.note)
                 for parameter, x in fit.parameters.items()]
        if not fit.theta:
            rows.append(without(name, "off", fit.model, "1", depths.seeds, fit.note))
        rows += [estimate(name, "off", f"{fit.model} z at S = {h.stages}, K_f = {h.forward}, K_b = {h.backward}",
                          "standard errors", Measured(h.z), depths.seeds,
                          f"-ln eta predicted {h.predicted:.4f}, measured {h.measured:.4f}") for h in fit.held_out]
    if depths.bend_p is not None:
        rows.append(
            estimate(name, "off", "p that gamma is 1", "1", Measured(depths.bend_p), depths.seeds, depths.words)
        )
    return rows


def _findings(a):
    f = a.findings
    rows = [estimate(arm.name, "", "on_off", "nat", arm.on_off, arm.seeds,
                     "over seeds; losses of blocks are not recorded" if arm.on_off.interval else "")
            for arm in a.arms if arm.on_off]
    for i, family in enumerate(a.families, 1):
        if family.depths:
            rows += _depths(f"joint {i}: {family.codecs}", family.depths)
    for i, d in enumerate(f.directions, 1):
        name = f"directions {i}: {d.forward_codec} / {d.backward_codec}"
        if d.note:
            rows.append(without(name, "off", "q_f", "per crossing", d.seeds, d.note))
        rows += [estimate(name, "off", quantity, "per crossing", q, d.seeds)
                 for quantity, q in (("q_f", d.q_forward), ("q_b", d.q_backward)) if q]
        rows += [
            _either(name, "off", f"direction interaction at S = {one.stages}", "1", one.ln, one.seeds, "", one.note)
            for one in d.interactions
        ]
    rows += [_either("contrasts", "off", c.name, "1", c.value, c.seeds, "exploratory", c.note) for c in f.contrasts]
    rows += [
        _either("diloco", "off", x.name, "1", x.value, x.seeds, "of ln eta" if x.kind == INTERACTION else "", x.note)
        for x in f.factors
    ]
    for t in f.times_to_loss:
        note = f"simulated; training loss {number(f.target_loss_nat)} nat, mean of {STEPS_OF_A_LOSS} steps"
        if t.simulated_s:
            rows.append(estimate(t.arm, "", "time to loss", "s", t.simulated_s, t.seeds, note))
            rows.append(estimate(t.arm, "", "tokens to loss", "tokens", t.tokens, t.seeds, note))
        else:
            rows.append(without(t.arm, "", "time to loss", "s", t.seeds,
                                f"{note}; {t.reached} of {t.seeds} seeds reached it"))
    return rows + [estimate(t.arm, "off", f"{t.name}, p by Holm", "1", Measured(t.adjusted), 0,
                            f"secondary; p {t.p:.6g}{'; ' if t.note else ''}{t.note}") for t in f.secondary]
