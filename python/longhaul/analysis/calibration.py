"""What a campaign changes for the planner: schema longhaul.calibration/1. "activation" has one entry per joint q, with
the names of its arms; "arms" has every arm with what it changes, its efficiency and, where it may have one, its q.
Numbers without an interval are left out, bounds say so."""

import math

from longhaul.analysis import diloco
from longhaul.analysis.campaign import CampaignAnalysis, Family
from longhaul.analysis.changes import number_of, spec_of
from longhaul.analysis.efficiency import JointEstimate
from longhaul.tables import LOW_END, UPPER, json_text

# Tensors as large as a planner's. In a small model's, blocks end with a short row and headers weigh: the same codec
# takes more bits of an element there.
PLANNED_TENSOR = (4096, 8192)  # rows, columns


def calibration(a: CampaignAnalysis, frame_bytes) -> dict:
    """Args:
        frame_bytes: From the names of codecs to the most bytes of a frame of a PLANNED_TENSOR, None for what is no
        codec.
    """
    out = {"schema": "longhaul.calibration/1", "plan_sha256": a.experiment.plan_sha256, "commit": a.git_revision,
           "params": a.parameters, "activation": [], "arms": [], "conditions": _conditions(a)}
    if a.experiment.d0_tokens is not None:
        out["tokens"] = a.experiment.d0_tokens
    if a.builds:
        out["builds"] = a.builds  # "commit" has all revisions
    if a.failed_controls:  # figures of an instrument in doubt calibrate nothing
        out["controls_failed"] = a.failed_controls
    else:
        for family in a.families:
            for evaluation, joint in (("off", family.off), ("on", family.on)):
                if joint and joint.q.interval:
                    out["activation"].append(_entry(a, family, evaluation, joint, frame_bytes))
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


def _entry(a, family: Family, evaluation, joint: JointEstimate, frame_bytes):
    first, q = family.arms[0], joint.q
    entry = {
        "codec": family.codecs,
        "direction": (
            "backward" if first.forward_codec == "none" else "forward" if first.backward_codec == "none" else "both"
        ),
        "arms": [arm.name for arm in family.arms],
        "reference": first.reference,
        "eval": evaluation,
        "q": q.value,
        "q_ci": _ends(q),
        "level": q.interval.level,
        "method": q.interval.method,
        "seeds": joint.seeds,
        "by_S": [],
        "delta_nat": [],
    }
    if q.bound == LOW_END:
        entry["q_ci_low_bound"] = "<="
    if family.bits_per_element > 0:
        entry["bits_per_element"] = family.bits_per_element
        entry["ratio"] = 16 / family.bits_per_element
    forward, backward = _ratio(frame_bytes, first.forward_codec), _ratio(frame_bytes, first.backward_codec)
    if forward and backward:
        entry |= {"ratio_forward": forward, "ratio_backward": backward, "ratio_width": PLANNED_TENSOR[1]}
    for arm in family.arms:
        e = arm.off if evaluation == "off" else arm.on
        if not e or e.is_bound or not e.ln_eta.interval or not e.delta_nat.interval:
            continue
        entry["by_S"].append({"S": arm.stages, "crossings": arm.crossings, "arm": arm.name, "ln_eta": e.ln_eta.value,
                              "ci": _ends(e.ln_eta)} | ({"ci_low_bound": "<="} if e.ln_eta.bound == LOW_END else {}))
        entry["delta_nat"].append(
            {"S": arm.stages, "arm": arm.name, "value": e.delta_nat.value, "ci": _ends(e.delta_nat)}
        )
    if evaluation == "off":
        if family.depths:
            _add_depth(family, entry)
        if family.directions == 2:
            _add_directions(a, family, entry)
    return entry


def _add_depth(family, entry):
    """The power of the depth, and the model that held: -ln eta = a (S-1)^gamma beside the planner's q^K, which stays
    right where `chosen` is M1. The planner takes q at S = 2 and bends what lies deeper by gamma: both of M4, and only
    where the depths speak against M1."""
    depths, k = family.depths, family.directions
    gamma, a_of_m4 = depths.gamma, depths.per_boundary(k)
    if depths.chosen != "M1" and gamma and gamma.interval.low > 0 and a_of_m4:
        entry["q_m1"] = {"value": entry["q"], "ci": entry["q_ci"]}
        entry["gamma"], entry["gamma_ci"] = gamma.value, _ends(gamma)
        entry["q"] = math.exp(-a_of_m4.value / k)
        entry["q_ci"] = [math.exp(-a_of_m4.interval.high / k), math.exp(-a_of_m4.interval.low / k)]
    model = {"chosen": depths.chosen, "words": depths.words}
    if a_of_m4:
        model["a"], model["a_ci"] = a_of_m4.value, _ends(a_of_m4)
    models = {fit.model: numbers for fit in depths.fits
              if (numbers := {name: _number(x) for name, x in fit.parameters.items() if _number(x)})}
    entry["depth_model"] = model | ({"models": models} if models else {})


def _add_directions(a, family, entry):
    """q of each direction, and whether they add up."""
    for d in a.findings.directions:
        if family.arms[0].name not in d.arms:
            continue
        for key, q in (("q_forward", d.q_forward), ("q_backward", d.q_backward)):
            if q and q.interval:
                entry[key] = _number(q)
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
            if e.q:
                entry[evaluation]["q"] = _number(e.q)
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
