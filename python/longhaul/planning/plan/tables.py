"""A plan as text, CSV and JSON, and what to measure next."""

import math
import re

from longhaul.planning.plan import CLOCK, clock_error
from longhaul.planning.plan.quality import ACTIVATIONS, BEYOND, NONE, OUTER_CODEC
from longhaul.refusal import Refused
from longhaul.tables import Table, cell, csv_rows, csv_text, for_programs, none, number
from longhaul.tables import text as table_text

_EXACT_NODES = 8  # more are placed by exchanging pairs
_SHOWN_NOTES = 4


def _unit(plan):
    """What the first row's time is a handy number of."""
    first = plan.rows[0]
    seconds = first.reference_s if first.unknown else math.exp(first.ln_time.value)
    return next(unit for most, unit in ((120, ("s", 1)), (7200, ("min", 60)), (48 * 3600, ("h", 3600)),
                                        (math.inf, ("d", 86400))) if seconds < most)


def _outer(row):
    if not row["outer_codec"]:
        return "-"
    codec = "" if row["outer_codec"] == "none" else f", {row['outer_codec']}"
    steps = f" H = {row['inner_steps']}" if row["inner_steps"] else ""
    return f"{row['algorithm']}{steps}{codec}"


def _beyond(row):
    """What is beyond the calibration, each once."""
    what = {one for one, _ in row.beyond}
    return " ".join(one for one in BEYOND if one in what)


def _nodes(row):
    return " | ".join(map(" ".join, row.node_groups))


def _first_from(plan, row):
    """The eta from which a choice of unknown quality would be level with the first."""
    first = plan.rows[0]
    if first.unknown:
        return "unknown"
    eta = row.reference_rank / math.exp(first.ln_rank.value)
    return f"unknown: first only with eta above {eta:.2f}" if eta > 1 else f"unknown: first from eta {eta:.2f} on"


def _costs(row):
    """(whole, low, high, of nodes, of traffic) until the loss; no time, no cost."""
    ends = [math.exp(x) for x in (row.ln_time.value, row.ln_time.low, row.ln_time.high)]
    return *(sum(row.costs) * seconds for seconds in ends), *(each * ends[0] for each in row.costs)


def _cost_cells(plan, row):
    if not plan.facts["priced"]:
        return ()
    if row.unknown:
        return "", "", "", ""
    value, low, high, nodes, traffic = (f"{x:.4g}" for x in _costs(row))
    return value, f"{low} to {high}", nodes, traffic


def _cells(plan, n, unit_s):
    row = plan.rows[n]
    known = not row.unknown

    def time(ln):
        return f"{math.exp(ln) / unit_s:.4g}"
    schedule = f"{row['schedule']} x{row['chunks']}" if row["chunks"] > 1 else row["schedule"]
    return (f"{n + 1}" if known and row["within"] else "", schedule, row["codecs"], _outer(row), f"{row['step_s']:.4g}",
            f"{math.exp(row.ln_eta):.3f}" if known else "", time(row.ln_time.value) if known else _first_from(plan, row),
            f"{time(row.ln_time.low)} to {time(row.ln_time.high)}" if known else "", *_cost_cells(plan, row),
            f"{1e-6 * row['worker_bytes']:.1f}{'' if row['within'] else ' OVER'}", _beyond(row), _nodes(row))


def _verdict_text(plan):
    v = plan.verdict
    if not v:
        return "No two choices have a time within the bound: nothing is compared."
    low, value, high = (math.exp(x) for x in (v.ln_ratio.low, v.ln_ratio.value, v.ln_ratio.high))
    does, much = ("costs", "much") if plan.rows[0].by_cost else ("takes", "long")
    return f"{'1 is first' if v.first_wins else 'No winner between 1 and 2'}: 2 {does} {value:.3f} [{low:.3f}, {high:.3f}] " \
           f"times as {much} as 1; what both share cancels, and the clock may be off by {100 * clock_error():.0f} %."


def _notes(plan, rows):
    facts, tokens = plan.facts, plan.tokens
    if len(rows) < len(plan.rows):
        yield f"{len(plan.rows) - len(rows)} more rows: --rows 0"
    yield f"Tokens: the reference of {facts['curve']} needs {math.exp(tokens.value):.4g} [{math.exp(tokens.low):.4g}, " \
          f"{math.exp(tokens.high):.4g}], a choice that over eta."
    yield "Seconds: the simulated clock's, exchanges included; no evidence of real time. Intervals: of curve and " \
          "calibrations, 95 %."
    if facts["priced"]:
        yield "Cost: of all nodes for that time (compute), and of what crosses the links, headers included (traffic); by the " \
              "prices of [plan], in their currency."
    if all(row["exact"] for row in plan.rows):
        yield "Placements: each the best of all there are."
    else:
        worst = max(1.0, *(row["step_s"] / row["least_step_s"] for row in plan.rows))
        yield f"Placements: of more than {_EXACT_NODES} nodes, found by exchanging pairs; the best of all takes at least " \
              f"1/{worst:.3g} of the step shown."
    every = {one for row in rows for one in row.beyond}
    yield from (f"beyond, {what}: {how}" for what, how in sorted(every, key=lambda one: (BEYOND.index(one[0]), one[1])))
    yield from (f"unknown: {why}" for why in sorted({row.unknown for row in rows if row.unknown}))
    yield from (f"left out: {left['what']}: {left['why']}" for left in facts["left_out"])
    yield from (f"links: {note}" for note in facts["link_notes"][:_SHOWN_NOTES])
    if len(facts["link_notes"]) > _SHOWN_NOTES:
        yield f"links: {len(facts['link_notes']) - _SHOWN_NOTES} more such paths: --json has them"
    if facts["lossy"]:
        yield "Some paths lose packets, which seconds of a plan leave out: real steps take longer."
    yield _verdict_text(plan)


def text(plan, most):
    """The first `most` rows, 0 for all, how to read them, and what to measure next."""
    unit, unit_s = _unit(plan)
    facts = plan.facts
    rows = plan.rows[:most or None]
    priced = " | cost | 95 % of cost | compute | traffic" if facts["priced"] else ""
    what = "Cost of" if rows[0].by_cost else "Time to"
    table = Table(f"{what} {facts['target_loss_nat']:g} nat, predicted: ranks of a group {facts['ranks']}, groups "
                  f"{facts['groups']}, links '{facts['links']}'",
                  f" | schedule | codecs | outer | step, s | eta | time, {unit} | 95 %{priced} | worker, MB | beyond | nodes")
    for n in range(len(rows)):
        table.add(*_cells(plan, n, unit_s))
    table.notes = list(_notes(plan, rows))
    return f"{table_text(table)}\n{next_text(plan)}\n"


def _cost_columns(plan, row):
    if not plan.facts["priced"]:
        return []
    return [none()] * 5 if row.unknown else [cell(x) for x in _costs(row)]


def csv(plan):
    table = Table("", for_programs(
        "schedule | chunks | stages | groups | codecs | algorithm | inner_steps | outer_codec | step_s | least_step_s | "
        "placement_exact | eta | time_s | time_low_s | time_high_s | reference_s | worker_bytes | within_memory | beyond | "
        "unknown | nodes" + " | cost | cost_low | cost_high | compute_cost | traffic_cost" * plan.facts["priced"]))
    for row in plan.rows:
        times = [none()] * 4 if row.unknown else \
            [cell(math.exp(x)) for x in (row.ln_eta, row.ln_time.value, row.ln_time.low, row.ln_time.high)]
        table.add(row["schedule"], row["chunks"], row["stages"], row["groups"], row["codecs"],
                  row["algorithm"] if row["outer_codec"] else "", row["inner_steps"], row["outer_codec"],
                  float(row["step_s"]), float(row["least_step_s"]), row["exact"], *times, row.reference_s,
                  row["worker_bytes"], row["within"], _beyond(row), row.unknown, _nodes(row), *_cost_columns(plan, row))
    return csv_text(csv_rows(table))


def _with_ends(ln):
    return {"value": math.exp(ln.value), "ci": [math.exp(ln.low), math.exp(ln.high)]}


def _cost_json(row):
    if row.unknown:
        return None
    value, low, high, nodes, traffic = _costs(row)
    return {"value": value, "ci": [low, high], "compute": nodes, "traffic": traffic}


def _row_json(row, priced):
    meets = bool(row["outer_codec"])
    out = {key: row[key] for key in ("schedule", "chunks", "stages", "groups", "codecs")}
    out |= {"algorithm": row["algorithm"] if meets else None, "inner_steps": row["inner_steps"],
            "outer_codec": row["outer_codec"] or None, "step_s": row["step_s"], "least_step_s": row["least_step_s"],
            "placement": {"exact": row["exact"], "groups": row.node_groups}, "worker_bytes": row["worker_bytes"],
            "within_memory": row["within"], "reference_s": row.reference_s,
            "factors": [_with_ends(f.ln) | {"name": f.name} for f in row.factors],
            "beyond": [{"what": what, "how": how} for what, how in row.beyond],
            "time_s": None if row.unknown else _with_ends(row.ln_time)}
    if priced:
        out |= {"cost": _cost_json(row), "sent_bytes_a_step": row["sent_bytes"]}
    return out | ({"unknown": row.unknown} if row.unknown else {})


def document(plan):
    """longhaul.plan/1."""
    v = plan.verdict
    return {"schema": "longhaul.plan/1", "target_loss_nat": plan.facts["target_loss_nat"], "links": plan.facts["links"],
            "link_notes": plan.facts["link_notes"], "reference_tokens": _with_ends(plan.tokens),
            "clock_error": clock_error(), **({"rank_by": plan.facts["rank_by"]} if plan.facts["priced"] else {}),
            "rows": [_row_json(row, plan.facts["priced"]) for row in plan.rows], "left_out": plan.facts["left_out"],
            "verdict": v and {"second_over_first": _with_ends(v.ln_ratio), "first_wins": v.first_wins,
                              "shares": [{"name": name, "row": n + 1, "share": share} for name, n, share in v.shares]},
            "next": next_text(plan)}


# --- what to measure next


def _next(plan):
    """(kind, row, name of the factor, share): "unknown", "factor", "clock" or "" where nothing is left."""
    if not plan.verdict:
        unknown = next((n for n, row in enumerate(plan.rows) if row["within"] and row.unknown), None)
        return ("", 0, "", 0.0) if unknown is None else ("unknown", unknown, "", 0.0)
    if plan.verdict.first_wins:
        return "", 0, "", 0.0
    name, n, share = plan.verdict.shares[0]
    return "clock" if name == CLOCK else "factor", n, name, share


def next_text(plan):
    kind, n, name, share = _next(plan)
    measure = f"longhaul plan {plan.typed} --next next.toml && longhaul measure next.toml"
    if kind == "clock":
        return f"Measure next: {100 * share:.0f} % of the interval between 1 and 2 is what the clock may be off by; time " \
               f"both: longhaul plan {plan.typed} --write choices && longhaul run choices/choice-1.toml && longhaul run " \
               "choices/choice-2.toml"
    if kind == "factor":
        return f"Measure next: {100 * share:.0f} % of the interval between 1 and 2 is {name}: {measure}"
    if kind == "unknown":
        return f"Measure next: {plan.rows[n].unknown} (row {n + 1}): {measure}"
    return "Measure next: nothing; the first two are told apart." if plan.verdict else \
        "Measure next: nothing; there is one choice. Add to the lists of [plan]."


def _quote(words):
    return '"' + words.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _toml_number(x):
    plain = number(x)
    return plain if re.search("[.eni]", plain) else f"{plain}.0"


def _arm(name, keys):
    return f"\n[[arm]]\nname = {_quote(name)}\n{keys}"


def _outer_keys(row, codec):
    return f"outer.groups = {row['groups']}\nouter.algorithm = {_quote(row['algorithm'])}\nouter.inner_steps = " \
           f"{row['inner_steps']}\nouter.lr = {_toml_number(row['outer_lr'])}\nouter.momentum = " \
           f"{_toml_number(row['outer_momentum'])}\nouter.codec = {_quote(codec)}\ntrain.batch_rows = {row['batch_rows']}\n"


def _arms(row, of):
    """The arms that measure a factor, or all of a choice."""
    arms, codec = "", row["outer_codec"]
    if of in (None, ACTIVATIONS) and row["codecs"] != NONE and row["stages"] > 1:
        arms += _arm("boundaries", f"stages = {row['stages']}\nforward = {_quote(row['forward'])}\nbackward = "
                                   f"{_quote(row['backward'])}\n")
    if not codec or of == ACTIVATIONS:
        return arms
    if row["algorithm"] == "diloco":
        arms += _arm("rounds", _outer_keys(row, "none"))
    if codec != "none" and of in (None, OUTER_CODEC):
        arms += _arm("outer-codec", _outer_keys(row, codec))
    elif row["algorithm"] != "diloco":
        arms += _arm("rounds", _outer_keys(row, codec))
    return arms


def next_campaign(plan):
    """The campaign that decides between the first two, as a spec."""
    kind, n, name, _ = _next(plan)
    if kind in ("", "clock"):
        raise Refused("--next: the clock decides between the first two, no campaign; see --write" if kind else
                      "--next: nothing is left to measure between the first two")
    row = plan.rows[n]
    factor = next((f for f in row.factors if f.name == name), None)
    question = f"What is {factor.name if factor else 'the quality of a choice that nobody measured'}, which decides between " \
               "the first two of a plan?"
    # A campaign's base is a spec without what arms and budgets say.
    own = ("seed = ", "tokens = ", "steps = ", "warmup_steps = ")
    base = "".join(f"{line}\n" for line in row["reference_toml"].split("\n") if not line.startswith(own))
    return f"# Question: {question}\n[campaign]\nname = \"next\"\nquestion = {_quote(question)}\nseeds = [1, 2, 3, 4, 5, 6, 7, " \
           "8]\nbudgets = [0.35, 0.5, 0.65, 0.8, 1.0, 1.1]\ncontrol_budgets = [0.9, 1.0]\nd0_tokens = " \
           f"{math.floor(math.exp(plan.tokens.value) + 0.5)}\nwarmup_share = 0.1\n{_arms(row, factor and factor.of)}\n{base}"
