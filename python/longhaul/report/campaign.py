"""The campaign's part of a report: what was resolvable, q, the arms, the planner's conclusions."""

from longhaul.analysis.advice import learnt_nothing
from longhaul.analysis.campaign import D0_REFERENCE, CampaignAnalysis
from longhaul.analysis.changes import changes_text
from longhaul.analysis.curve import curve_error_text
from longhaul.analysis.efficiency import (ABOVE, ABOVE_ONE_WAY, BELOW, BELOW_ONE_WAY, DIVERGED, EQUIVALENCE_MARGIN,
                                          INCOMPLETE, assumed_q)
from longhaul.analysis.text import EIGHT_STAGE_FLOOR, campaign_summary, findings_tables, planned_depths
from longhaul.record import CrossingError, Record
from longhaul.report.data import OnTheWire
from longhaul.report.page import figure_html
from longhaul.tables import (LOW_END, Table, badge_html, cell, cell_html, details_html, escaped, grid_html, html, none,
                             number, rows_html, with_interval)

_TONES = {BELOW: "bad", BELOW_ONE_WAY: "bad", DIVERGED: "bad", INCOMPLETE: "bad", ABOVE: "good", ABOVE_ONE_WAY: "good"}


def _verdict_badge(verdict):
    return badge_html(verdict, _TONES.get(verdict, "open"))


def _eight_stages(family):
    """What this model keeps over eight stages, in words that stand by themselves."""
    for stages, _, measured, _ in planned_depths(family):
        if stages == 8 and measured.interval:
            return (f"Eight stages keep {100 * measured.value:.0f} % [{100 * max(0.0, measured.interval.low):.0f}, "
                    f"{100 * measured.interval.high:.0f}] of the tokens' worth in this model")
    return "Eight stages were not measured"


def _cards(a):
    cards = []
    for family in a.families:
        codecs = escaped(family.codecs)
        if not family.off:
            cards.append(f'<div class="card"><b>no q</b><span>{codecs}: {escaped(family.note)}</span></div>')
            continue
        q, i = family.off.q, family.off.q.interval
        ends = (f"95 % interval {i.low:.4f} to {i.high:.4f} ({i.method}), {family.off.seeds} seeds" if i else "no interval")
        if q.bound == LOW_END:
            ends += "; its low end is cut at the smallest budget"
        k = ", ".join(str(arm.crossings) for arm in family.arms)
        cards.append(f'<div class="card"><span>q per crossing, {codecs}, K = {k}, codec off at evaluation</span>'
                     f'<b>{"" if i else "("}{q.value:.4f}</b><span>{ends}</span><br>{_verdict_badge(family.verdict)}</div>')
        eight = 7.0 * family.directions
        cards.append(f'<div class="card"><span>eight stages, {codecs}</span><p class="finding plain">'
                     f'{escaped(_eight_stages(family))}.</p><span>the assumed 0.995 gives '
                     f"{100 * assumed_q(family.directions) ** eight:.0f} %; {100 * EIGHT_STAGE_FLOOR:.0f} % need a q of at least "
                     f"{EIGHT_STAGE_FLOOR ** (1 / eight):.5f}</span></div>")
    return f'<div class="cards">{"".join(cards)}</div>\n' if cards else ""


def _shown(x, digits):
    return cell_html(cell(x, digits))


def _q(e):
    return _shown(e.q, 4) if e and e.q else "-"


def _against(arm):
    """What stands against 0.995, or what the arm changes and so has no q."""
    lines = [_verdict_badge(arm.verdict)]
    if arm.changes:
        lines.append(escaped(changes_text(arm.changes)))
    if arm.other_build:
        lines.append(f"another build, {escaped(arm.other_build)}")
    if arm.reference != D0_REFERENCE:
        lines.append(f"against {escaped(arm.reference)}")
    return "<br>".join(lines)


def _equivalence(e):
    if not e.q:
        return "-"
    if e.equivalent is None:
        return "no interval"
    margin = EQUIVALENCE_MARGIN * e.crossings
    if e.ln_eta.interval and e.ln_eta.interval.high < -margin:
        return "no"
    return f"yes, within &plusmn;{margin:.3f}" if e.equivalent else "not resolved"


_PRICED = ("P: what the same forward boundaries cost the weights of the uncompressed run, switched on at the end; &rho;: "
           "&Delta; with the codec on over P, a ratio of means over paired seeds. ")


def _optional(x, digits):
    return _shown(x, digits) if x else "-"


def _arms(a):
    found, priced = [], any(arm.price for arm in a.arms)
    for arm in a.arms:
        if arm.role != "arm":
            continue
        row = [escaped(arm.name), f'<span class="nb">{escaped(arm.forward_codec)}</span><br><span class="nb">/ '
               f"{escaped(arm.backward_codec)}</span>", str(arm.stages), str(arm.off.seeds if arm.off else arm.seeds)]
        on = arm.on if arm.crossings else None
        prices = [_optional(arm.a_boundary(arm.price), 4), _optional(arm.rho, 2)] if priced else []
        if arm.off:
            row += [_shown(arm.off.delta_nat, 4), _optional(arm.a_boundary(arm.off.delta_nat), 4),
                    _optional(arm.a_boundary(on and on.delta_nat), 4), *prices, _shown(arm.off.eta, 3),
                    _optional(on and on.eta, 3), str(arm.crossings), _q(arm.off), _q(arm.on), _against(arm),
                    _equivalence(arm.off)]
        else:
            row += [_optional(arm.delta_alone, 4), "-", "-", *prices, "-", "-", str(arm.crossings), "-", "-",
                    badge_html(arm.note, "bad"), "-"]
        found.append(row)
    return rows_html(["arm", "codecs forward<br>/ backward", "S", "seeds", "&Delta; loss, nat,<br>codec off",
                      "a boundary, nat,<br>codec off", "a boundary, nat,<br>codec on",
                      *(["P a boundary, nat", "&rho;"] if priced else []), "&eta;,<br>codec off", "&eta;,<br>codec on", "K",
                      "q,<br>codec off", "q,<br>codec on", "against 0.995", "no loss?"], found)


def _controls(a):
    found = []
    for arm in a.arms:
        if arm.role != "control":
            continue
        row = [escaped(arm.name), f"{arm.trained_fraction:.4f}"]
        if arm.off:
            verdict = arm.control_verdict
            tone = "good" if verdict.startswith("holds") else "bad" if verdict.startswith("MISSES") else "open"
            row += [str(arm.off.seeds), _shown(arm.off.delta_nat, 4), escaped(with_interval(arm.off.eta, 3)),
                    badge_html(verdict, tone)]
        else:
            row += ["-", "-", "-", badge_html(arm.note, "bad")]
        found.append(row)
    if not found:
        return ""
    return ('<h3>Control: is a known loss recovered?</h3><p class="note">Uncompressed runs with fewer tokens, kept out of the '
            "fit. Their true efficiency is their share of the tokens, in whole steps.</p>"
            + rows_html(["control", "true &eta;", "seeds", "&Delta; loss, nat", "recovered &eta;", ""], found))


def _null_test(a):
    """What repeats its reference, bit for bit or not; and reference runs that were lost."""
    lines = [f'<p class="note">{escaped(arm.name)}: {badge_html(arm.lost_text, "bad")}</p>\n'
             for arm in a.arms if arm.role == "reference" and arm.lost]
    lines += [f'<p class="note">{escaped(check.text)}</p>\n' for check in a.identities]
    lines += [f'<p class="note open">Not of one build and machine: {escaped(line)}</p>\n' for line in a.builds]
    return "".join(lines + [f'<p class="note open">{escaped(line)}</p>\n' for line in learnt_nothing(a)])


def _planner(a):
    found = [[escaped(family.codecs), str(stages), f"{assumed:.4f}", escaped(with_interval(measured, 4)),
              "arm at this S" if direct else "q<sup>K</sup>"]
             for family in a.families for stages, assumed, measured, direct in planned_depths(family)]
    if not found:
        return ""
    from longhaul.planning.simulator.conclusions import MOST_SIZE_RATIO, break_even_table
    return ("<h3>What it does to a planner's conclusions</h3><p class=\"note\">A sensitivity analysis, no verdict: a planner's "
            f"models are more than {MOST_SIZE_RATIO:g} times as large as this one ({a.parameters} parameters), and q did not "
            "transfer between model sizes where it was tested. The planning model's conclusions that depend on q change at "
            "these values of q per crossing and direction, all else assumed:</p>" + html(break_even_table())
            + '<p class="note">With q = 0.995 per crossing and direction &eta;<sub>act</sub> is 0.995<sup>2(S-1)</sup>; and in '
            "this model:</p>" + rows_html(["codec forward / backward", "S", "&eta;<sub>act</sub> assumed",
                                           "&eta;<sub>act</sub> in this model", "from"], found))


# Figures in the order of the page, and what stands below them before the conditions.
_CAPTIONS = {
    "forest": "q per crossing by arm, codec off (filled) and on (open) at evaluation; joint fit over depths below. Lines at 1 "
              "and at the assumed 0.995. ",
    "depth": "ln &eta; against crossings K, codec off at evaluation: seeds (small), mean with 95 % interval, the joint fit "
             "(M1), the bent one (M4, dotted) and the assumed 0.995 per crossing (0.990 where one direction is compressed). ",
    "reference": "Reference curve: final held-out loss of every uncompressed run against its token budget, the fit, and where "
                 "each arm's mean loss reads off, codec off. ",
    "residuals": "Residuals of the reference curve. Left: loss of each uncompressed run less the fit, one line per seed; what is "
                 "common to a line is that seed's luck and cancels in paired differences. Right: the same less each seed's "
                 "mean. The curve goes through the means of its budgets; what lies between them the controls show (crosses, not "
                 "fitted). ",
    "training": "Training loss along the runs at D0 (above), and its difference to the reference of the same seed at the same "
                "tokens (below): mean over seeds, band from the lowest to the highest seed. ",
    "diloco": "&eta; of DiLoCo against inner steps H, groups M and codec of the outer delta, 95 % intervals. Filled: the groups "
              "share the reference's batch; open: each has it. Dashed red: what a planner assumes for H alone and for M alone at "
              "this N, far below the sizes it was made for. ",
    "traffic": "Loss beside the reference's at D0 against the bytes that an arm's groups send each other, 95 % intervals. "
               "Filled: as many tokens as D0; open: fewer. "}


def _nmse(d):
    if d.nmse_mean is None:
        return none()
    return f"{d.nmse_mean:.2e}" + (f" (at most {d.nmse_max:.1e})" if d.nmse_max is not None else "")


def wire_html(a: CampaignAnalysis, arms: list[OnTheWire]) -> str:
    """What each arm changes and sends."""
    if not arms:
        return ""
    table = Table(columns="arm | changes | bits/element,\nforward | bits/element,\nbackward | NMSE,\nforward | NMSE,\nbackward | "
                          "q,\ncodec off")
    for wire in arms:
        arm = a.arm(wire.arm)
        table.add(wire.arm, "; ".join(wire.changes) or "nothing", cell(wire.forward.bits, "{:.3f}"),
                  cell(wire.backward.bits, "{:.3f}"), _nmse(wire.forward), _nmse(wire.backward),
                  cell(arm.off.q if arm.off else None, 4))
    return ('<h3>What each arm changes, and what it sends</h3><p class="note">Against the uncompressed run at D0, seed and length '
            "aside. Bits per element are counted from payload bytes, scales and headers included; NMSE is |x - decoded|&sup2; / "
            "|x|&sup2; on the run's own tensors, mean over samples, seeds and boundaries, and the largest.</p>"
            + grid_html(table))


PERCENTS = (0, 10, 50, 100)  # of the training


def errors_html(record: Record, a: CampaignAnalysis) -> str:
    """The error of every boundary over the training, over an arm's seeds and groups; "" where none was measured."""
    table = Table(columns="arm | boundary | direction | first steps | 10 % | 50 % | last steps")
    for arm in a.arms:
        if arm.role != "arm":
            continue
        found = {}
        for o in arm.outcomes:
            for row in record.read(CrossingError, o.run.id):
                boundary = min(row.src_rank, row.dst_rank) % arm.stages, row.dst_rank < row.src_rank
                found.setdefault(boundary, {}).setdefault(row.percent, []).append(row)
        for (boundary, backward), by_percent in sorted(found.items()):
            table.add(arm.name, boundary, "backward" if backward else "forward",
                      *(_pooled(by_percent.get(percent, [])) for percent in PERCENTS))
    if not table.rows:
        return ""
    return ('<h3>What boundaries lose over the training</h3><p class="note">NMSE of sampled frames of a twentieth of the steps '
            "each: the first, those around 10 and 50 %, the last. Mean over samples; p95 of each run, mean over runs; n samples "
            "in all. Boundary b sits between stages b and b + 1.</p>"
            + details_html(f"{len(table.rows)} crossings", grid_html(table)))


def _pooled(rows):
    samples = sum(row.samples for row in rows)
    if not samples:
        return "-"
    return (f"{sum(row.nmse_mean * row.samples for row in rows) / samples:.2e} (p95 "
            f"{sum(row.nmse_p95 for row in rows) / len(rows):.1e}, n = {samples})")


def campaign_html(a: CampaignAnalysis, wire: str, figures: dict[str, str]) -> str:
    conditions = escaped(a.conditions)
    parts = [f'<p class="conditions">{conditions}</p>\n']
    if summary := campaign_summary(a):
        parts.append(f"<p>{escaped(summary)}</p>\n")
    parts += [_cards(a), "<h3>Arms</h3>", _arms(a),
              '<p class="note">&Delta; is the paired difference to the uncompressed run at D0; &eta; the share of tokens the '
              "uncompressed model would have needed for the same loss; q = &eta;<sup>1/K</sup> per crossing, for arms that "
              "differ from their reference in stages and codecs alone. &le;: nothing is said below the smallest reference "
              f"budget. {_PRICED if any(arm.price for arm in a.arms) else ''}Intervals are 95 %, t over paired seeds. "
              "\"Codec on\": boundaries compressed during evaluation too. \"No "
              f"loss\" needs the 90 % interval of ln &eta; inside &plusmn;{number(EQUIVALENCE_MARGIN)} K.</p>\n"]
    for name, caption in _CAPTIONS.items():
        parts.append(figure_html(figures.get(name, ""), f"{caption}{conditions}."))
        if name == "forest":
            parts.append(wire)
    parts += [html(table) for table in findings_tables(a)]
    parts += [_planner(a), _controls(a), _null_test(a)]
    if c := a.curve:
        parts.append(f'<p class="note">Slope at D0 {c.slope_nat:.4f} nat per e-fold of tokens (standard error '
                     f"{c.slope_se_nat:.4f} over seeds). {escaped(curve_error_text(c))}</p>\n")
    return "".join(parts)
