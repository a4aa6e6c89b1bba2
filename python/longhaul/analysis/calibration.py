"""What a campaign changes for the planner: schema longhaul.calibration/2. "activation" has one entry for each codec pair and
evaluation: Delta, ln eta, P and rho by number of stages, with the covariances of the first two; "arms" has every arm with what
it changes and its efficiency. Numbers without an interval are left out, bounds say so."""

import math

import numpy as np

from longhaul.analysis import NotEstimated, diloco
from longhaul.analysis.campaign import CampaignAnalysis, Family
from longhaul.analysis.changes import number_of, spec_of
from longhaul.analysis.curve import curve_error
from longhaul.analysis.efficiency import ln_eta_by_seed, terms_of
from longhaul.tables import LOW_END, UPPER, json_text

SCHEMA = "longhaul.calibration/2"

# Tensors as large as a planner's. In a small model's, blocks end with a short row and headers weigh: the same codec
# takes more bits of an element there.
PLANNED_TENSOR = (4096, 8192)  # rows, columns


def calibration(a: CampaignAnalysis, frame_bytes) -> dict:
    """Args:
        frame_bytes: From the names of codecs to the most bytes of a frame of a PLANNED_TENSOR, None for what is no
        codec.
    """
    out = {"schema": SCHEMA, "plan_sha256": a.experiment.plan_sha256, "commit": a.git_revision,
           "params": a.parameters, "activation": [], "arms": [], "conditions": _conditions(a)}
    if a.experiment.d0_tokens is not None:
        out["tokens"] = a.experiment.d0_tokens
    if a.builds:
        out["builds"] = a.builds  # "commit" has all revisions
    if a.failed_controls:  # figures of an instrument in doubt calibrate nothing
        out["controls_failed"] = a.failed_controls
    else:
        for family in a.families:
            out["activation"] += [entry for evaluation in ("off", "on") if (entry := _entry(a, family, evaluation, frame_bytes))]
        out |= _diloco(a)
    out["arms"] = [_arm_entry(arm) for arm in a.arms if arm.role == "arm"]
    return out


def calibration_json(a: CampaignAnalysis, frame_bytes) -> str:
    return json_text(_sorted(calibration(a, frame_bytes)))


def _sorted(value):
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(one) for one in value] if isinstance(value, list) else value


def _ends(x):
    return [x.interval.low, x.interval.high]


def _number(x):
    """None where there is neither an interval nor a bound with one behind it."""
    if not x or not x.interval:
        return None
    if x.bound == UPPER:
        return {"value": x.value, "bound": "<="}
    return {"value": x.value, "ci": _ends(x)} | ({"ci_low_bound": "<="} if x.bound == LOW_END else {})


def _conditions(a):
    """What it was measured under, as far as a planner's model is under something else."""
    out = {}
    for arm in a.arms:
        if arm.role != "reference" or arm.budget_fraction != 1:
            continue
        spec = spec_of(arm.first)
        rows, context, tokens, warmup = (number_of(spec, key) or 0 for key in (
            "train.batch_rows", "model.context", "train.tokens", "train.warmup_steps"))
        if rows * context > 0:
            steps = math.ceil(tokens / (rows * context))
            out["steps"] = steps
            if steps > 0:
                out["warmup_share"] = warmup / steps
    if a.experiment.d0_tokens is not None and a.parameters > 0:
        out["tokens_per_parameter"] = a.experiment.d0_tokens / a.parameters
    if a.curve:
        out["slope_nat_per_e_fold"] = {"value": a.curve.slope_nat, "se": a.curve.slope_se_nat}
        out["smallest_budget"] = a.curve.smallest_budget
    return out


def _ratio(frame_bytes, codec):
    """16 bits over those of the codec's largest frame of a planner's tensor, header included. 1 for "none": what is
    planned with sends values of 16 bits. None: no codec of the catalogue."""
    if codec == "none":
        return 1.0
    found = frame_bytes(codec)
    return max(1.0, 2.0 * PLANNED_TENSOR[0] * PLANNED_TENSOR[1] / found) if found else None


def _entry(a, family: Family, evaluation, frame_bytes):
    """None: no depth of it has an interval."""
    first, level = family.arms[0], 0.95
    measured, bounds = [], []
    for arm in family.arms:
        e = arm.off if evaluation == "off" else arm.on
        if e and e.ln_eta.interval and e.delta_nat.interval:
            (bounds if e.ln_eta.bound else measured).append((arm, e))
    if not measured:
        return None
    entry = {
        "codec": family.codecs,
        "direction": (
            "backward" if first.forward_codec == "none" else "forward" if first.backward_codec == "none" else "both"
        ),
        "reference": first.reference,
        "eval": evaluation,
        "level": level,
        "seeds": min(e.seeds for _, e in measured),
        "by_S": [_depth_entry(arm, e) for arm, e in measured],
    }
    if bounds:  # below the smallest budget of the reference, or cut there
        entry["bounds"] = [arm.name for arm, _ in bounds]
    entry |= _covariances(a, [arm for arm, _ in measured], evaluation)
    if family.bits_per_element > 0:
        entry["bits_per_element"] = family.bits_per_element
    forward, backward = _ratio(frame_bytes, first.forward_codec), _ratio(frame_bytes, first.backward_codec)
    if forward and backward:
        entry |= {"ratio_forward": forward, "ratio_backward": backward, "ratio_width": PLANNED_TENSOR[1]}
    if evaluation == "off" and family.directions == 2:
        _add_directions(a, family, entry)
    return entry


def _depth_entry(arm, e):
    entry = {"S": arm.stages, "boundaries": arm.boundaries, "arm": arm.name, "delta_nat": _number(e.delta_nat),
             "ln_eta": _number(e.ln_eta)}
    return entry | {key: _number(x) for key, x in (("price_nat", arm.price), ("rho", arm.rho)) if x and x.interval}


def _covariances(a, arms, evaluation):
    """Of the means over seeds, in the order of by_S: depths of one campaign share seeds, reference and curve, and yet hardly
    correlate where an arm's own luck is most of its error."""
    reference = a.reference_of(arms[0]).losses()
    try:
        rows = ln_eta_by_seed(a.curve, [(reference, arm.losses(evaluation)) for arm in arms])
    except NotEstimated:
        return {}
    n = len(rows.seeds)
    if n < 2:
        return {}
    deltas = np.array([[arm.losses(evaluation)[seed] - reference[seed] for seed in rows.seeds] for arm in arms])

    def of_curve(*which):
        return curve_error(a.curve, [terms_of([1.0] * len(arms), rows)[i] for i in which]) ** 2
    shared = [[(of_curve(i, j) - of_curve(i) - of_curve(j)) / 2 for j in range(len(arms))] for i in range(len(arms))]
    return {"ln_eta_covariance": (np.atleast_2d(np.cov(rows.pseudo)) / n + shared).tolist(),
            "delta_covariance": (np.atleast_2d(np.cov(deltas)) / n).tolist()}


def _add_directions(a, family, entry):
    """Whether the directions add up."""
    for d in a.findings.directions:
        if family.arms[0].name not in d.arms:
            continue
        found = [{"S": i.stages, "ln": i.ln.value, "ci": _ends(i.ln)} for i in d.interactions if i.ln and i.ln.interval]
        if found:
            entry["direction_interaction"] = found
        entry["only_both_feeds_the_simulator"] = d.only_both_feeds_the_planner


def _arm_entry(arm):
    entry = {"arm": arm.name, "S": arm.stages, "crossings": arm.crossings, "forward": arm.forward_codec,
             "backward": arm.backward_codec, "reference": arm.reference,
             "changes": [{"key": c.key, "reference": c.before, "arm": c.after} for c in arm.changes],
             "other_build": arm.other_build, "seeds": arm.seeds, "note": arm.note}
    for evaluation, e in (("off", arm.off), ("on", arm.on)):
        if e:
            entry[evaluation] = {"delta_nat": _number(e.delta_nat), "ln_eta": _number(e.ln_eta), "eta": _number(e.eta)}
    return entry


def _eta_entry(groups, inner_steps, eta, seeds):
    return {"M": groups, "H": inner_steps, "eta": eta.value, "ci": _ends(eta), "seeds": seeds}


def _diloco(a):
    """eta_diloco (every cell), eta_outer (every algorithm), eta_H, eta_r, eta_c, interaction and power_of_H; what has
    no interval is left out. The planner's factors are of one convention of the batch; of the other it gets totals."""
    out: dict[str, list] = {}

    def add(key, entry):
        out.setdefault(key, []).append(entry)

    def whole(groups, inner_steps, name):
        e = a.arm(name).off
        return _eta_entry(groups, inner_steps, e.eta, e.seeds) if e and not e.is_bound and e.eta.interval else None
    for cell in a.findings.cells:
        if entry := whole(cell.groups, cell.inner_steps, cell.arm):
            batch = "local-batch-matched" if cell.local_batch else "global-batch-matched"
            add("eta_diloco", entry | {"codec": cell.codec, "boundary": cell.boundary, "batch": batch})
    for outer in a.findings.outer:
        if entry := whole(outer.groups, outer.inner_steps, outer.arm):
            add("eta_outer", entry | {"arm": outer.arm, "algorithm": outer.algorithm, "codec": outer.codec})
    # eta_H of the planner: the smallest M above 1 at each H, as a total.
    plain = [c for c in a.findings.cells if c.plain and not c.local_batch and c.groups > 1]
    for cell in plain:
        if cell.groups == min(c.groups for c in plain) and (entry := whole(cell.groups, cell.inner_steps, cell.arm)):
            add("eta_H", entry)
    for f in a.findings.factors:
        if f.local_batch or not f.value or not f.value.interval:
            continue
        if f.kind == diloco.SPLIT_REPLICAS:
            add("eta_r", _eta_entry(f.groups, f.inner_steps, f.eta, f.seeds))
        elif f.kind == diloco.CODEC and f.ratio > 0:  # the planner asks for a ratio
            add("eta_c", _eta_entry(f.groups, f.inner_steps, f.eta, f.seeds) | {"codec": f.codec, "ratio": f.ratio})
        elif f.kind == diloco.INTERACTION:
            add("interaction", {"terms": f.terms, "name": f.name, "ln": f.ln.value, "ci": _ends(f.ln)})
        elif f.kind == diloco.EXPONENT:
            add("power_of_H", {"M": f.groups, "alpha": {"value": f.ln.value, "ci": _ends(f.ln)}})
    return out
