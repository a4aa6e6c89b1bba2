"""Measured and predicted step time of runs, from the record and the engine's clock of schedules (`longhaul _clock`)."""

import json
import math
import os
import subprocess
from collections import defaultdict
from dataclasses import dataclass

from longhaul.record import DIRECTIONS, Crossing, Link, Record, Run, Simulated, Step
from longhaul.record import rows
from longhaul.record.specs import tree, value
from longhaul.refusal import Refused, need
from longhaul.tables import Measured, Table, cell, columns, grid_text

ACCEPTED_RESIDUAL = 0.10  # |ln(measured / P2)| below which P2 counts as confirmed
# Largest shares of a training in which a worker did not run, its threads waited for a core, or the machine's host took
# of its cores, with which times are no disturbed ones. The second is half of what P2 may be off by.
MOST_STILL, MOST_CORE_WAIT, MOST_STOLEN = 0.01, 0.05, 0.01


@dataclass
class StepTime:
    run: int
    arm: str
    profile: str
    schedule: str
    stages: int
    groups: int
    microbatches: int
    # Median over the steady inner steps (no outer sync, the first tenth left out) of the mean wall time of all workers;
    # where groups meet in every step (data parallel, H = 1), of those.
    measured_s: Measured = Measured(0.0)
    measured_steps: int = 0  # 0: too few steps, and nothing else here says anything
    meets_every_step: bool = False  # predictions are then the pipeline's and outer_predicted_s
    # Mean over the groups. None: one process or no links, nothing to predict.
    p2_s: float | None = None
    p1_s: float | None = None
    p3_s: float | None = None
    # P2 with parts of it for nothing, so that differences say where a step goes: compute_s, the mean worker's own;
    # alone_s adds what the schedule makes stages wait for each other; coded_s adds encoding and decoding; P2 the links.
    compute_s: float = 0.0
    alone_s: float = 0.0
    coded_s: float = 0.0
    residual: Measured = Measured(0.0)  # ln(measured / P2)
    compute_utilisation: Measured = Measured(0.0)  # forward + backward + optimizer over wall, mean of workers
    # Per outer step, mean over workers: measured, and its largest message on an idle link.
    outer_measured_s: float | None = None
    outer_predicted_s: float | None = None
    outer_steps: int = 0
    outer_least_s: float = 0.0
    outer_most_s: float = 0.0
    note: str = ""  # why times are no prediction's to be judged by, or why there is no prediction


@dataclass(frozen=True)
class Verdict:
    kind: str = "not judged"  # "within", "beyond"
    text: str = ""  # "within 0.10", "beyond 0.10", "no verdict: ..."; "": there is no prediction


def judge(residual: Measured, note: str) -> Verdict:
    """An interval must lie whole within or beyond ACCEPTED_RESIDUAL: a verdict is given only where it could have been
    the other one. `note`: why none can be given; ""."""
    bound, i = ACCEPTED_RESIDUAL, residual.interval
    if note or not i:
        return Verdict(text=f"no verdict: {note or 'too few values for an interval'}")
    if -bound < i.low and i.high < bound:
        return Verdict("within", f"within {bound:.2f}")
    if i.high < -bound or i.low > bound:
        return Verdict("beyond", f"beyond {bound:.2f}")
    return Verdict(text=f"no verdict: the interval reaches to both sides of {bound:.2f}")


def judged(t: StepTime) -> Verdict:
    return Verdict() if t.p2_s is None else judge(t.residual, t.note)


# --- one run


def _median(x):
    ordered, half = sorted(x), len(x) // 2
    if not x:
        return 0.0
    return ordered[half] if len(x) % 2 else 0.5 * (ordered[half] + ordered[half - 1])


def _mean(x):
    return sum(x) / len(x)


def _over(x, y):
    """x / y; no number where steps took no time."""
    return x / y if y else math.nan


def _median_of_steps(x):
    need("numpy", "the interval of a step time")
    from longhaul.analysis.interval import median_of_steps
    return median_of_steps(x)


def _steady(steps, synced):
    """Steps in order, each with the rows of all workers, the first tenth left out; those in which groups met, or the
    others."""
    by_step = defaultdict(list)
    for row in steps:
        by_step[row.step].append(row)
    every = [by_step[step] for step in sorted(by_step)]
    return [workers for workers in every[(len(every) + 9) // 10:] if any(row.outer_synced for row in workers) == synced]


def _ask_clock(questions):
    """What the engine says of specs (and, with "pipelines", of their predicted steps), in their order."""
    command = [os.environ.get("LONGHAUL_COMMAND", "longhaul"), "_clock"]
    try:
        done = subprocess.run(command, input=json.dumps({"steps": questions}), capture_output=True, text=True, check=False)
    except OSError as error:
        raise Refused(f"start {command[0]}, which predicts step times: {error.strerror}") from error
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise Refused(f"{' '.join(command)} ended with {done.returncode}: {said[-1] if said else 'it said nothing'}")
    return json.loads(done.stdout)


def _costs(steady, program):
    """Costs of the stages from the median step of each; groups are averaged."""
    ranks, messages, m = program["rank_of_stage"], program["messages"], program["microbatches"]
    encode, decode, other = ([[] for _ in messages] for _ in range(3))
    of_stage = [([], [], []) for _ in ranks]  # forward, backward, optimizer
    for workers in steady:
        rests = {}  # what a rank does beside its stages' passes; its stages' wall times are one
        for row in workers:
            rest = rests.setdefault((row.group_index, ranks[row.stage]), [0.0, 0.0, row.wall_s])
            rest[0] += row.encode_s
            rest[1] += row.decode_s
            rest[2] -= row.forward_s + row.backward_s + row.optimizer_s + row.wait_s + row.outer_s
            for into, one in zip(of_stage[row.stage], (row.forward_s, row.backward_s, row.optimizer_s)):
                into.append(one)
        for (_, rank), (encode_s, decode_s, other_s) in sorted(rests.items()):
            encode[rank].append(encode_s)
            decode[rank].append(decode_s)
            other[rank].append(max(0.0, other_s))
    costs = []
    for s, rank in enumerate(ranks):
        forward, backward, optimizer = map(_median, of_stage[s])
        costs.append({"forward_s": forward / m, "backward_s": backward / m, "optimizer_s": optimizer,
                      "encode_s": _median(encode[rank]) / messages[rank], "decode_s": _median(decode[rank]) / messages[rank],
                      "other_s": _median(other[rank]) if ranks.index(rank) == s else 0.0})
    return costs


def injected(spec: dict) -> bool:
    """Workers slept, nothing was trained."""
    return "compute" in spec and value(spec, "net.clock") != "simulated"


def _inject(spec, costs):
    """What was injected is known; what a worker says it took holds waiting for a core."""
    if not injected(spec):
        return
    for s, cost in enumerate(costs):
        cost["forward_s"] = value(spec, "compute.forward_s")[s]
        cost["backward_s"] = value(spec, "compute.backward_s")[s]
        cost["optimizer_s"] = value(spec, "compute.optimizer_s", 0)


NO_LINK = {"message_bytes": 0, "rate_bit_per_s": None, "one_way_delay_s": 0}


def _link(links, crossings, direction, src, dst, messages=0):
    """A link with its message; None: there is none, or nothing crossed it. A rate of None is not limited."""
    out, linked, crossed = dict(NO_LINK), False, False
    for link in links:
        if (link.src_node, link.dst_node) == (src, dst):
            linked = True
            if link.nominal_rate_bit_per_s is not None:
                out["rate_bit_per_s"] = link.nominal_rate_bit_per_s
            out["one_way_delay_s"] = link.nominal_rtt_s / 2
    for c in crossings:
        if (c.direction, c.src_rank, c.dst_rank) == (direction, src, dst) and c.tensors:
            crossed = True
            out["message_bytes"] = c.message_bytes / (messages or c.tensors)
    return out if linked and crossed else None


def _pipeline(spec, program, group, costs, links, crossings):
    """The pipeline of one group on its own links; costs are the mean of all groups. None: links are lacking."""
    ranks = program["rank_of_stage"]
    nodes = [group * program["ranks"] + rank for rank in ranks]
    out = {"stages": costs, "forward": [], "backward": []}
    for here, there in zip(nodes, nodes[1:]):
        if here == there:  # handed over where it is
            out["forward"].append(NO_LINK)
            out["backward"].append(NO_LINK)
            continue
        out["forward"].append(_link(links, crossings, "forward", here, there))
        out["backward"].append(_link(links, crossings, "backward", there, here))
    if value(spec, "model.tied_head", False) and nodes[0] != nodes[-1]:
        out["tied"] = [_link(links, crossings, "tied", nodes[0], nodes[-1]),
                       _link(links, crossings, "tied", nodes[-1], nodes[0])]
    return None if None in out["forward"] + out["backward"] + out.get("tied", []) else out


def _without_links(pipeline, coding):
    costs = pipeline["stages"] if coding else [{**cost, "encode_s": 0, "decode_s": 0} for cost in pipeline["stages"]]
    out = {"stages": costs, "forward": [NO_LINK] * len(pipeline["forward"]), "backward": [NO_LINK] * len(pipeline["backward"])}
    return out | ({"tied": [NO_LINK, NO_LINK]} if "tied" in pipeline else {})


def _share(run, fact):
    """A share of the training, by its fact; None: the record does not say."""
    told = run.facts.get(fact, "")
    return float(told) if told else None


def _disturbance(run, spec, workers):
    """What in the record says that the run's times are others than those of its machine left alone."""
    cores = run.facts.get("cores", "")
    if cores and not injected(spec) and workers * run.threads > int(cores):  # injected: workers sleep
        return f"{workers} workers share {int(cores)} cores"
    for fact, most, what in ((rows.STILL_SHARE, MOST_STILL, "a worker did not run"),
                             (rows.CORE_WAIT_SHARE, MOST_CORE_WAIT, "a worker's threads waited for a core"),
                             (rows.STOLEN_SHARE, MOST_STOLEN, "the host took this machine's cores")):
        share = _share(run, fact) or 0
        if share > most:
            return f"{what} for {100 * share:.3g} % of the training, bound {100 * most:g} %"
    if run.facts.get(rows.EMULATOR_PUNCTUAL, "yes") in ("", "yes"):
        return ""
    return "more than 1 % of the frames left the emulator over 1 ms late"


def _note(run, spec, workers):
    if value(spec, "net.transport") == "loopback":
        return ""
    if disturbance := _disturbance(run, spec, workers):
        return f"timing disturbed: {disturbance}"
    if run.status != "ok":
        return f"the run is {run.status}"
    if _share(run, rows.STILL_SHARE) is None:
        return "the record does not say whether its workers stood still"
    return ""


class _Run:
    """A run on its way to a StepTime: what is asked of the engine about it, and what its answers make of it."""

    def __init__(self, record, run, spec):
        self.spec, self.steps = spec, record.read(Step, run.id)
        chunks = value(spec, "schedule.chunks", 1)
        self.chunks, stages, groups = chunks, value(spec, "schedule.stages"), value(spec, "outer.groups", 1)
        self.out = StepTime(run.id, run.arm, run.profile, value(spec, "schedule.kind"), stages, groups,
                            value(spec, "train.microbatches", 1), note=_note(run, spec, stages // chunks * groups))
        self.over_links = value(spec, "net.transport") != "loopback"
        self.links = record.read(Link, run.id) if self.over_links else []
        self.crossings = record.read(Crossing, run.id) if self.over_links else []
        self.outer = self._outer() if self.over_links else []
        self.steady = _steady(self.steps, False)
        # Whether groups meet in every step is the engine's to say.
        self.asks = self.over_links or (not self.steady and groups > 1)
        self.costs = self.pipelines = None

    def _outer(self):
        """Messages of outer steps, each with its link; what they took."""
        syncs, out = defaultdict(list), self.out
        for row in self.steps:
            if row.outer_synced:
                syncs[row.step].append(row.outer_s)
        if not syncs:
            return []
        out.outer_measured_s = self.chunks * _mean([one for step in sorted(syncs) for one in syncs[step]])
        means = [self.chunks * _mean(of_workers) for of_workers in syncs.values()]
        out.outer_steps, out.outer_least_s, out.outer_most_s = len(syncs), min(means), max(means)
        found = (_link(self.links, [c], "outer", c.src_rank, c.dst_rank, len(syncs))
                 for c in self.crossings if c.direction == "outer")
        return [link for link in found if link]

    def measure(self, program):
        """`program`: what the engine says of the spec; None: it was not asked."""
        out = self.out
        if not self.steady and program and program.get("meets_every_step"):
            self.steady, out.meets_every_step = _steady(self.steps, True), True
        if not self.steady:
            return
        self.walls = [_mean([row.wall_s for row in workers]) for workers in self.steady]
        busy = [_over(self.chunks * _mean([row.forward_s + row.backward_s + row.optimizer_s for row in workers]), wall)
                for workers, wall in zip(self.steady, self.walls)]
        out.measured_s, out.measured_steps = _median_of_steps(self.walls), len(self.steady)
        out.compute_utilisation = _median_of_steps(busy)
        if not self.over_links:
            return
        if "error" in program:
            # The record of another version keeps its measured times; the reason is shown beside them.
            out.note = f"no prediction: {program['error']}"
            return
        if value(self.spec, "model.expert_parallel", 1) > 1:
            out.note = "no prediction: rows of spread experts cross in the midst of every pass, as routers choose"
            return
        self.costs, self.ranks = _costs(self.steady, program), program["ranks"]
        _inject(self.spec, self.costs)
        found = [_pipeline(self.spec, program, group, self.costs, self.links, self.crossings) for group in range(out.groups)]
        if None not in found:
            self.pipelines = [one for pipeline in found
                              for one in (pipeline, _without_links(pipeline, False), _without_links(pipeline, True))]

    def predict(self, answer):
        """`answer`: the engine's, to pipelines and outer messages."""
        out = self.out
        if self.outer:
            out.outer_predicted_s = max(answer["messages_s"])
        if not self.pipelines:
            return
        if refused := next((p["error"] for p in answer["pipelines"] if "error" in p), None):
            out.note = f"no prediction: {refused}"
            return
        whole, alone, coded = (answer["pipelines"][part::3] for part in range(3))
        meeting_s = (out.outer_predicted_s or 0) if out.meets_every_step else 0
        out.p1_s, out.p2_s, out.p3_s = (_mean([p[key] for p in whole]) + meeting_s for key in ("p1_s", "p2_s", "p3_s"))
        out.alone_s, out.coded_s = _mean([p["p2_s"] for p in alone]), _mean([p["p2_s"] for p in coded])
        # Of a worker's step, its other work included: that is no waiting.
        out.compute_s = sum(out.microbatches * (c["forward_s"] + c["backward_s"]) + c["optimizer_s"] + c["other_s"]
                            for c in self.costs) / self.ranks
        out.residual = _median_of_steps([math.log(wall / out.p2_s) if wall > 0 else math.nan for wall in self.walls])


def step_times(record: Record, runs: list[Run]) -> list[StepTime]:
    """Of those runs whose spec can be read."""
    found = []
    for run in runs:
        spec = tree(run.spec_toml)
        if spec is not None and value(spec, "schedule.stages") and value(spec, "net.transport"):
            found.append((_Run(record, run, spec), run))
    asked = [one for one, _ in found if one.asks]
    programs = _ask_clock([{"spec": run.spec_toml} for one, run in found if one.asks]) if asked else []
    answers = dict(zip(map(id, asked), programs))
    for one, _ in found:
        one.measure(answers.get(id(one)))
    predicted = [(one, run) for one, run in found if one.pipelines or one.outer]
    if predicted:
        for (one, _), answer in zip(predicted, _ask_clock(
                [{"spec": run.spec_toml, "pipelines": one.pipelines or [], "messages": one.outer} for one, run in predicted])):
            one.predict(answer)
    return [one.out for one, _ in found]


# --- in words: the end of `run`


def _measured_text(t):
    """"0.1234 s [0.1229, 0.1240] (median of 48 steady steps)"."""
    if not t.measured_steps:
        return "too few steps (the first tenth and those with an outer synchronisation do not count)"
    i, share = t.measured_s.interval, t.compute_utilisation
    text = f"measured {t.measured_s.value:.4f} s"
    if i:
        text += f" [{i.low:.4f}, {i.high:.4f}]"
    text += (f" (median of {t.measured_steps} steady step{'' if t.measured_steps == 1 else 's'}"
             + (", in each of which the groups meet" if t.meets_every_step else "")
             + (", 95 %" if i else ": too few steps for an interval") + f"), CU {100 * share.value:.0f} %")
    if share.interval:
        text += f" [{100 * share.interval.low:.0f}, {100 * share.interval.high:.0f}]"
    return text


def _prediction_text(t):
    if not t.measured_steps:
        return ""
    if t.p2_s is None:
        return "" if t.note else "\n  no prediction: one process, no links"
    i = t.residual.interval
    return (f"\n  predicted by events (P2) {t.p2_s:.4f} s: ln(measured/P2) = {t.residual.value:+.3f}"
            + (f" [{i.low:+.3f}, {i.high:+.3f}]" if i else "")
            + f", {judged(t).text}\n  predicted by serial slots (P1) {t.p1_s:.4f} s and by one wire a receiver (P3) "
            f"{t.p3_s:.4f} s, for comparison")


def bits_per_element(elements: int, payload_bytes: int) -> float | None:
    """Of payload bytes, scales and headers included. None: nothing crossed."""
    return 8 * payload_bytes / elements if elements else None


def percent_over_prediction(c: Crossing) -> float | None:
    """What the path counted over what was predicted."""
    if c.predicted_wire_bytes is None or c.kernel_tx_bytes is None or c.predicted_wire_bytes <= 0:
        return None
    return 100 * (c.kernel_tx_bytes / c.predicted_wire_bytes - 1)


def _bytes_table(crossings, emulator):
    """Who counted on a path stands over the column; in one process nothing did."""
    links = emulator != "none"
    table = Table(columns="ranks | direction | codec | tensors | bits/element | payload B | sent B")
    if links:
        counter = "kernel's netem" if emulator == "netem" else f"{emulator} emulator"
        table.add_columns(columns(f"predicted on wire B | counted by {counter} B | counted by receiver's net0 B | "
                                  "counted/predicted"))
    for c in crossings:
        counts = [c.predicted_wire_bytes, c.kernel_tx_bytes, c.kernel_rx_bytes,
                  cell(percent_over_prediction(c), "{:+.2f} %")] if links else []
        table.add(f"{c.src_rank} > {c.dst_rank}", c.direction, c.codec, c.tensors,
                  cell(bits_per_element(c.elements, c.payload_bytes), "{:.3f}"), c.payload_bytes, c.message_bytes, *counts)
    return grid_text(table)


MOST_ROWS = 8


def _bytes_summary(crossings, emulator):
    """A row for each direction and codec; bytes are sums, and of the counts the worst pair is shown."""
    sums = {}
    for c in crossings:
        sums.setdefault((DIRECTIONS.index(c.direction), c.codec), []).append(c)
    links = emulator != "none"
    table = Table(columns="direction | codec | tensors | bits/element | sent MB" + (" | counted/predicted, worst" if links else ""))
    for (direction, codec), some in sorted(sums.items())[:MOST_ROWS]:
        counted = [over for c in some if (over := percent_over_prediction(c)) is not None]
        worst = [cell(max(counted, key=abs, default=None), "{:+.2f} %")] if links else []
        bits = bits_per_element(sum(c.elements for c in some), sum(c.payload_bytes for c in some))
        table.add(DIRECTIONS[direction], codec, sum(c.tensors for c in some), cell(bits, "{:.3f}"),
                  cell(sum(c.message_bytes for c in some) / 1e6, "{:.3f}"), *worst)
    more = f"and {len(sums) - MOST_ROWS} codecs more (--verbose)\n" if len(sums) > MOST_ROWS else ""
    return grid_text(table) + more


def step_time_text(record: Record, run: Run, verbose: bool = False) -> str:
    """Step time measured and predicted, bytes by direction and codec; `verbose`: bytes three ways for each pair of
    ranks."""
    times = step_times(record, [run])
    if not times:
        raise Refused(f"run {run.id} of {record.folder}: its spec is one that this version cannot read")
    t = times[0]
    text = f"\nstep time: {_measured_text(t)}{_prediction_text(t)}"
    if injected(tree(run.spec_toml)):
        text += "\n  compute was injected: step times alone, nothing was trained"
    if simulated := record.read(Simulated, run.id):  # in the order of steps
        ended_s, steps = max(row.simulated_s for row in simulated), simulated[-1].step
        text += (f"\nsimulated clock: {steps} steps would have taken {ended_s:.6f} s, {ended_s / steps:.6f} s a step "
                 "(simulated, no evidence of real time)")
    if t.outer_measured_s is not None:
        text += (f"\nouter step: measured {t.outer_measured_s:.4f} s (mean of {t.outer_steps}: {t.outer_least_s:.4f} to "
                 f"{t.outer_most_s:.4f})")
        if t.outer_predicted_s is not None:
            text += f", predicted {t.outer_predicted_s:.4f} s (its largest message on an idle link)"
    if t.note and t.p2_s is None:  # else it is in the verdict
        text += f"\n  {t.note}"
    crossings = record.read(Crossing, run.id)
    if not crossings:
        return f"{text}\n"
    return f"{text}\n\n{(_bytes_table if verbose else _bytes_summary)(crossings, run.emulator)}"
