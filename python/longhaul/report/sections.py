"""The parts of a report that every experiment has: step times, bytes, links, faults, what arms were made of, runs, specs."""

import math
from collections import defaultdict

from longhaul.analysis.advice import data_advice
from longhaul.analysis.pseudo_gradients import turns
from longhaul.record import CodecSwitch, Crossing, Fault, Link, OuterDelta, Record, Round, Run, Step
from longhaul.record import rows
from longhaul.record.contents import contents_of, short
from longhaul.report.campaign import campaign_html, errors_html, wire_html
from longhaul.report.data import Reported, arms_on_the_wire, changes_in_words, step_times_table
from longhaul.report.listing import shape_of
from longhaul.report.page import figure_html
from longhaul.report.step_time import bits_per_element, judged, percent_over_prediction
from longhaul.report.timing import timing_table
from longhaul.tables import Table, badge, badge_html, cell, details_html, escaped, grid_html, html, none

MOST_NOTES = 10  # more are folded away
MOST_WHOLE_SPECS = 20  # of the arms after those, what differs from the first
MOST_SWITCHES = 200  # of a run; the record has all
MOST_RUNS_WITH_FAULTS = 12


def _note(words, opened=False):
    return f'<p class="note{" open" if opened else ""}">{words}</p>\n'


def _step_times(times):
    notes = []
    for t in times:
        verdict = judged(t)
        opened = verdict.kind == "not judged" and verdict.text
        if opened or t.note:
            notes.append(_note(f"Run {t.run}: {escaped(verdict.text if opened else t.note)}", True))
    told = "".join(notes)
    if len(notes) > MOST_NOTES:
        told = details_html(f"{len(notes)} runs without a verdict, and why", told)
    return grid_html(step_times_table(times)) + told


def _outer(times):
    table = Table(columns="run | arm | links | outer steps | measured, s | shortest to longest, s | predicted, s")
    for t in times:
        if t.outer_measured_s is not None and t.p2_s is not None:
            table.add(t.run, t.arm, t.profile, t.outer_steps, cell(t.outer_measured_s, "{:.4f}"),
                      f"{t.outer_least_s:.4f} to {t.outer_most_s:.4f}", cell(t.outer_predicted_s, "{:.4f}"))
    if not table.rows:
        return ""
    return ('<h3>Outer synchronisation</h3><p class="note">Mean over outer steps and workers; predicted: the largest message on '
            "an idle link, 8 &kappa; b / R + RTT/2.</p>" + grid_html(table))


def _megabytes(count):
    return none() if count is None else cell(count / 1e6, "{:.3f}")


def _bytes(record, e):
    """Predicted, sent, counted: the kernel's count against the prediction in per cent."""
    table = Table(columns="run | arm | ranks | direction | codec | tensors | bits/element | NMSE | payload | sent | predicted | "
                          "counted | counted\nto predicted")
    one_sided = ""
    for run in e.runs:
        if run.profile == "loopback":
            continue
        if paths := run.facts.get(rows.ONE_SIDED_PATHS):
            one_sided += f" Run {run.id}: paths judged for bytes that lack, not for more, {escaped(paths)}."
        for c in record.read(Crossing, run.id):
            table.add(run.id, run.arm, f"{c.src_rank} -> {c.dst_rank}", c.direction, c.codec, c.tensors,
                      cell(bits_per_element(c.elements, c.payload_bytes), "{:.3f}"), cell(c.nmse_mean, "{:.2e}"),
                      _megabytes(c.payload_bytes), _megabytes(c.message_bytes), _megabytes(c.predicted_wire_bytes),
                      _megabytes(c.kernel_tx_bytes), cell(percent_over_prediction(c), "{:+.2f} %"))
    if not table.rows:
        return ""
    return ('<h3>Bytes three ways</h3><p class="note">In MB. Predicted before the run: frame size x 1514/1448, acknowledgements '
            "included. Sent: handed to the transport. Counted: the path's own counter while training, Ethernet headers "
            f"included; crossings of one path share it.{one_sided}</p>" + grid_html(table))


def _links(record, e):
    table = Table(columns="run | when | nodes | rate | goodput wanted | goodput | RTT | min | median | p99 | replies | "
                          "queue drops | loss drops | ")

    def times(x, unit):
        return none() if x is None else cell(x * unit, "{:.2f}")
    for run in e.runs:
        for x in record.read(Link, run.id):
            table.add(run.id, x.phase, f"{x.src_node} -> {x.dst_node}", times(x.nominal_rate_bit_per_s, 1e-6),
                      times(x.nominal_goodput_bit_per_s, 1e-6), times(x.goodput_bit_per_s, 1e-6), times(x.nominal_rtt_s, 1e3),
                      times(x.rtt_min_s, 1e3), times(x.rtt_median_s, 1e3), times(x.rtt_p99_s, 1e3),
                      f"{x.probes_received}/{x.probes_sent}", x.queue_drops, x.loss_drops,
                      badge("ok", "good") if x.ok else badge(x.why, "bad"))
    if not table.rows:
        return ""
    return "<h3>Links</h3>" + details_html(f"{len(table.rows)} measurements, Mbit/s and ms", grid_html(table))


def _timing(record, e, figures):
    if e.campaign and all(run.profile == "loopback" for run in e.runs):
        return ""
    return ((html(timing_table(e.timing)) if e.timing else "")
            + "<h3>Step time, measured against predicted</h3>" + _step_times(e.step_times)
            + _note("P2 is the event recursion over full-duplex links with the compute, encode and decode times of the run "
                    "itself; it is confirmed within &plusmn;0.10. P1 is the planner's serial slots, P3 one wire a receiver, "
                    "both for comparison. Steps with an outer synchronisation and the first tenth are left out.")
            + figure_html(figures.get("step_times", ""),
                          "Measured against predicted (P2) step time per link profile, with the &plusmn;10 % band. One point per "
                          "run; every point is labelled with its arm.")
            + _outer(e.step_times) + _bytes(record, e) + _links(record, e))


# --- what runs went through

_WIDE, _HIGH, _LEFT, _BELOW = 720, 220, 48, 28


def _loss_svg(steps, rounds, faults):
    """The curve, mean over the groups that were there, a line where a fault struck, and a band over rounds that were not
    everybody's."""
    by_step = defaultdict(list)
    for s in steps:
        if s.loss_nat is not None and math.isfinite(s.loss_nat):
            by_step[s.step].append(s.loss_nat)
    if len(by_step) < 2:
        return ""
    loss = {step: sum(some) / len(some) for step, some in sorted(by_step.items())}
    least, most, last = min(loss.values()), max(loss.values()), max(loss)
    span = max(1e-9, most - least)

    def x(step):
        return _LEFT + (_WIDE - _LEFT - 8) * step / last
    parts = [f'<svg viewBox="0 0 {_WIDE} {_HIGH}" width="{_WIDE}" role="img" aria-label="loss and faults">']
    begin = 0
    for one in rounds:
        if one.lost or one.left_out:
            parts.append(f'<rect x="{x(begin):.1f}" y="8" width="{x(one.last_step) - x(begin):.1f}" '
                         f'height="{_HIGH - _BELOW - 8}" fill="#e8b4a0" opacity="0.4"/>')
        begin = one.last_step
    for fault in faults:
        parts.append(f'<line x1="{x(fault.step):.1f}" x2="{x(fault.step):.1f}" y1="8" y2="{_HIGH - _BELOW}" stroke="#b03a2e">'
                     f"<title>step {fault.step}: {escaped(fault.what)}, {escaped(fault.place)}</title></line>")
    points = "".join(f"{x(step):.1f},{8 + (_HIGH - _BELOW - 16) * (1 - (value - least) / span):.1f} "
                     for step, value in loss.items())
    parts.append(f'<polyline points="{points}" fill="none" stroke="#22577a"/>')
    parts.append(f'<text x="2" y="16" font-size="11">{most:.2f}</text><text x="2" y="{_HIGH - _BELOW}" font-size="11">'
                 f'{least:.2f}</text><text x="{_WIDE - 90}" y="{_HIGH - 8}" font-size="11">step {last}</text></svg>')
    return "".join(parts)


def _faults(record, e):
    parts, met = [], 0
    for run in e.runs:
        rounds, faults = record.read(Round, run.id), record.read(Fault, run.id)
        met += bool(rounds or faults)
        if not (rounds or faults) or met > MOST_RUNS_WITH_FAULTS:
            continue
        parts.append(f"<h4>Run {run.id}, arm {escaped(run.arm)}, seed {run.seed}: {len(faults)} faults</h4>"
                     + _loss_svg(record.read(Step, run.id), rounds, faults))
        if faults:
            table = Table(columns="step | fault | where | tokens lost | back at step | after s | said")
            for f in faults:
                table.add(f.step, f.what, f.place, f.lost_tokens, f.recovered_step, cell(f.recovery_s, "{:.1f}"), f.said)
            parts.append(grid_html(table))
        table = Table(columns="round | after step | members | left out | lost | joined | exchanges | waited s")
        for r in rounds:
            table.add(r.round, r.last_step, r.members, r.left_out, r.lost, r.joiners, r.attempts, cell(r.waited_s, "{:.2f}"))
        parts.append(details_html(f"{len(rounds)} rounds", grid_html(table)))
    if not parts:
        return ""
    if met > MOST_RUNS_WITH_FAULTS:
        parts.append(_note(f"{met - MOST_RUNS_WITH_FAULTS} more runs have faults or rounds of their own."))
    return ('<h3>Faults and rounds</h3><p class="note">Training loss, mean over the groups that were there; a line where a fault '
            "struck, a band where a group was lost or left out of the outer step.</p>" + "".join(parts))


def _mean_cell(values):
    known = [value for value in values if value is not None]
    return f"{sum(known) / len(known):.3f}" if known else "-"


def _pseudo_gradients(record, e):
    of_arm = defaultdict(list)
    for run in e.runs:
        if found := turns(record.read(OuterDelta, run.id)):
            of_arm[run.arm].append(found)
    if not of_arm:
        return ""
    table = Table(columns="arm | runs | outer steps | to the one before | first half | second half | group to the mean")
    for arm, runs in of_arm.items():
        halves = [([t.cosine_to_last for t in found[:len(found) // 2]], [t.cosine_to_last for t in found[len(found) // 2:]])
                  for found in runs]
        first, second = ([value for half in halves for value in half[n]] for n in (0, 1))
        table.add(arm, len(runs), len({t.step for t in runs[0]}), _mean_cell(first + second), _mean_cell(first),
                  _mean_cell(second), _mean_cell([t.member_cosine for found in runs for t in found]))
    return ('<h3>Pseudo-gradients</h3><p class="note">Cosine of the mean outer delta to that of the outer step before, on average '
            "over outer steps and runs, and of a group's own delta to the mean. An outer momentum adds up what these have in "
            f"common: near 0 it gains nothing, near 1 it acts as a larger outer rate.</p>{grid_html(table)}")


def _switches(record, e):
    parts = []
    for run in e.runs:
        switches = record.read(CodecSwitch, run.id)
        if not switches:
            continue
        table = Table(columns="from step | group | boundary | direction | from | to | cause")
        for s in switches[:MOST_SWITCHES]:
            table.add(s.step, s.group_index, s.boundary, s.direction, s.from_codec, s.to_codec, s.cause)
        some = f", the first {MOST_SWITCHES}" if len(switches) > MOST_SWITCHES else ""
        parts.append(details_html(f"Run {run.id}, arm {escaped(run.arm)}, seed {run.seed}: {len(switches)} changes{some}",
                                  grid_html(table)))
    if not parts:
        return ""
    return ('<h3>Codecs that changed</h3><p class="note">Each sender decides for itself before a step\'s first micro-batch '
            "crosses, by the boundaries' warm-up or policy. Before the first step every boundary has none.</p>" + "".join(parts))


# --- what they were made of


def _epochs(run):
    """Passes over the data that a run trained on; "": its workers did not say."""
    if told := run.facts.get(rows.EPOCHS):
        return told
    try:
        available = float(run.facts.get("train_tokens_available", ""))
    except ValueError:
        return ""
    return f"{run.train_tokens / available:.3g}" if available > 0 else ""


def _made_of(run: Run) -> tuple[list[str], ...]:
    """Data, held out, weights, links, epochs, revision, torch, instruction sets, host; each "" or none: not told."""
    facts = run.facts
    of_torch, device, coded = facts.get("cpu_path_torch"), facts.get("device", ""), facts.get("coded_on")
    paths = [f"{run.isa}, LibTorch {of_torch}" if of_torch else run.isa]
    if device != "cpu" and coded:
        paths.append(f"{device}, coded on {coded}")
    return ([short(facts.get("data_hash", ""))], [short(facts.get("eval_hash", ""))], [short(facts.get("init_hash", ""))],
            [short(c.sha256) for c in contents_of(run) if c.key == "net.profile"], [_epochs(run)], [run.git_revision],
            [run.torch_version], paths, [f"{run.host}, {run.cpu}" if run.cpu else run.host])


def _provenance(e):
    arms = {}
    for run in e.runs:
        cells = arms.setdefault(run.arm, [{} for _ in range(9)])
        for seen, values in zip(cells, _made_of(run)):
            seen.update(dict.fromkeys(filter(None, values)))
    if not arms:
        return ""
    table = Table(columns="arm | data | held out | weights | links | epochs | revision | torch | instruction sets | host")
    for arm, cells in arms.items():
        table.add(arm, *("; ".join(seen) or "-" for seen in cells))
    files = e.row.facts.get(rows.NAMED_FILES, "")
    named = details_html("files that the plan names: key, SHA-256, bytes, files, value",
                         f"<pre>{escaped(files)}</pre>") if files else ""
    mixed = _note(f"{badge_html('runs of other files make no figure together', 'bad')} {escaped(e.mixed_files)}"
                  ) if e.mixed_files else ""
    return (f'{mixed}<h3>What each arm was made of</h3><p class="note">SHA-256 of the tokens trained on and held out, of the '
            "weights begun with and of the topology file: the first 16 digits. Several values in a cell: its runs differ.</p>"
            f"{grid_html(table)}{named}")


def _specs(e):
    first = {}
    for run in e.runs:
        first.setdefault(run.arm, run)
    out, others = "", Table(columns="arm | run | differs in")
    for n, run in enumerate(first.values()):
        if n >= MOST_WHOLE_SPECS:
            others.add(run.arm, run.id, "; ".join(changes_in_words(e.runs[0].spec_toml, run.spec_toml)))
            continue
        facts = "".join(f"# {key} = {told}\n" for key, told in run.facts.items())
        out += details_html(f"{run.arm} (run {run.id}, seed {run.seed})",
                            f"<pre>{escaped(run.spec_toml)}{escaped(facts)}</pre>")
    if not others.rows:
        return out
    return (f'{out}<p class="note">{len(others.rows)} more arms, by what differs from {escaped(e.runs[0].arm)}; their whole specs '
            f"and facts are in tables/runs.csv and tables/run_facts.csv.</p>{grid_html(others)}")


_TONES = {"ok": "good", "running": "open", "interrupted": "open"}


def _runs(e):
    table = Table(columns="run | arm | seed | groups x stages | tokens | links | emulator | status | reason | begun (UTC) | host | "
                          "kernel | torch | codecs' ISA | threads | revision")
    for r in e.runs:
        table.add(r.id, r.arm, r.seed, shape_of(r), r.train_tokens, r.profile, r.emulator,
                  badge(r.status, _TONES.get(r.status, "bad")), r.reason, r.begun_utc[:19], r.host, r.kernel, r.torch_version,
                  r.isa, r.threads, r.git_revision)
    bad = sum(run.status != "ok" for run in e.runs)
    out = ("<h3>Runs</h3>" + details_html(f"{len(e.runs)} runs, {bad} of them not ok", grid_html(table))
           + "<h3>Resolved specs</h3>" + details_html("one per arm; seeds differ in the seed alone", _specs(e)))
    if forecast := e.row.facts.get(rows.FORECAST):
        out += f"<h3>The forecast, before the first run</h3><pre>{escaped(forecast)}</pre>"
    if e.row.plan_text:
        out += (f'<h3>The plan, hashed before the first run</h3><p class="note">SHA-256 {escaped(e.row.plan_sha256)}</p>'
                + details_html("plan", f"<pre>{escaped(e.row.plan_text)}</pre>"))
    return out


def section_html(record: Record, e: Reported, figures: dict[str, str], figures_note: str) -> str:
    """One experiment. `figures_note`: why there are no figures; "" when there are."""
    parts = [f'<section><h2>{escaped(e.row.name)}</h2>\n<p class="question">{escaped(e.row.question)}</p>\n']
    if e.row.facts.get(rows.ACCEPTED_UNRESOLVED) == "true":
        parts.append(_note("Begun with --accept-unresolved: the forecast said that this design cannot resolve a loss of 0.5 % per "
                           "crossing in its primary contrast.", True))
    parts += [_note(escaped(line), True) for line in data_advice(e.runs)]
    if figures_note:
        parts.append(_note(f"No figures: {escaped(figures_note)}", True))
    if e.campaign:
        parts += [campaign_html(e.campaign, wire_html(e.campaign, arms_on_the_wire(record, e.campaign)), figures),
                  errors_html(record, e.campaign)]
    else:
        parts.append(figure_html(figures.get("training", ""),
                                 "Training loss of each arm: its last run at each seed; the band spans the seeds."))
    if e.simulated_clock:
        parts.append(figure_html(
            figures.get("simulated", ""),
            "Training loss over simulated hours and over bytes of messages: when the steps would have ended on the links and the "
            "machine of the run's simulated clock. No hour here is a real one; loss, jitter and coding times are not in it."))
    parts.append(figure_html(
        figures.get("pareto", ""),
        "Final held-out loss, codec off, over what an arm costs: the simulated clock's hours where runs have one, bytes of all "
        "messages, planned memory of a rank. Bars: t over seeds, 95 %; open: references. On the line are those that no other arm "
        "beats in both; it knows no intervals."))
    parts += [_timing(record, e, figures), _pseudo_gradients(record, e), _switches(record, e), _faults(record, e),
              _provenance(e), _runs(e), "</section>\n"]
    return "".join(parts)
