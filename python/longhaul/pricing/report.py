"""A pricing as tables, text, one JSON document, a CSV of every row, and a page."""

from collections.abc import Mapping
from dataclasses import dataclass

from longhaul.pricing.findings import Findings, Seen, find_prices, neighbour_bound
from longhaul.pricing.plan import Arm, Request, arm_of
from longhaul.report.page import figure_html, html_page
from longhaul.tables import (Cell, Table, cell, csv_rows, csv_text, escaped, html, json_rows, json_text, measured_json,
                             none, number, shown, text, with_interval)

SCHEMA = "longhaul.price/1"
_NAT, _GRADIENT = 5, 4  # digits


@dataclass
class Pricing:
    """A request, what was seen and what was found."""

    request: Request
    seen: Seen
    conditions: dict  # of the JSON document
    head: list[str]  # conditions for people, a line each
    notes: list[str]  # what a reader must know before a figure

    def __post_init__(self):
        self.findings: Findings = find_prices(self.request, self.seen)
        self.head = [*self.head, f"uncompressed: {with_interval(self.findings.exact, _NAT)} nat/token"]
        most = max((d.neighbour_correlation for d in self.findings.depths), default=-1.0)
        bound = neighbour_bound(self.request.rows, len(self.findings.depths))
        if most > bound:
            self.notes = [*self.notes, "note: rows that follow each other in the text differ alike (correlation up to "
                          f"{most:.2f}, by chance below {bound:.2f}): intervals are for the whole of this text and may "
                          "be too narrow for others; a longer --context or text helps"]


def arm_text(arm: Arm, codecs: tuple[str, ...]) -> str:
    """"7 int8-b64, 15 int4-b64"."""
    return ", ".join(f"{block} {codecs[codec]}" for block, codec in arm)


def _cuts(p: Pricing, cuts: int) -> tuple[int, Cell]:
    """The cells of S, and of the cuts for programs."""
    blocks = p.request.cuts[cuts]
    return len(blocks) + 1, shown("", list(blocks))


def depths(p: Pricing) -> Table:
    table = Table("All boundaries of S stages compressed, forward",
                  "S:stages | -:cuts | codec:codec | bits/el:bits_per_element | "
                  "Delta (nat/token):delta_nat_per_token[] | a crossing:per_crossing_nat_per_token[] | "
                  "each alone, added:alone_added_nat_per_token[] | "
                  "together less added:together_less_added_nat_per_token[] | -:neighbour_correlation | -:worst",
                  notes=["Delta: loss less that of the same rows uncompressed. Bits are of the frames' bytes, headers "
                         "included."])
    for d in p.findings.depths:
        table.add(*_cuts(p, d.cuts), p.request.codecs[d.codec], cell(d.bits, "{:.3f}"), cell(d.delta, _NAT),
                  cell(d.per_crossing, _NAT), cell(d.sum_alone, _NAT), cell(d.interaction, _NAT),
                  d.neighbour_correlation)
    for cuts in p.request.cuts:
        table.notes.append(f"S = {len(cuts) + 1}: stages begin with blocks 0, {', '.join(map(str, cuts))}.")
    return table


def boundaries(p: Pricing) -> Table:
    by_token = any(b.count.tokens for b in p.findings.boundaries)  # not of what was told before it was counted
    table = Table("Each boundary alone",
                  "before block:before_block | codec:codec | bits/el:bits_per_element | NMSE:nmse",
                  notes=["NMSE: squared error of the tensor that crosses, over its square sum."
                         + (" A token's: the same of each token alone, mean over tokens." if by_token else "")])
    table.add_columns("a token's:token_nmse" if by_token else [])
    table.add_columns("Delta (nat/token):delta_nat_per_token[]")
    for b in p.findings.boundaries:
        table.add(b.crossing[0], p.request.codecs[b.crossing[1]], cell(b.count.bits_per_element, "{:.3f}"),
                  cell(b.count.nmse, "{:.3g}"), *([cell(b.count.error_of_a_token, "{:.3g}")] if by_token else []),
                  cell(b.delta, _NAT))
    return table


def worst(p: Pricing) -> Table:
    table = Table("The boundary that costs most", "S | codec | worst | median | more by (nat/token) | pairs",
                  notes=["Blocks before which the boundary lies. Worst and median are picked by the same rows: each "
                         "interval is wide enough that 95 % holds for all pairs of boundaries together (Bonferroni)."])
    for d in p.findings.depths:
        if d.worst:
            cuts = p.request.cuts[d.cuts]
            table.add(len(cuts) + 1, p.request.codecs[d.codec], cuts[d.worst.worst], cuts[d.worst.median],
                      cell(d.worst.more, _NAT), d.worst.pairs)
    return table


def allowed(p: Pricing) -> Table:
    table = Table("Bits that a loss allows",
                  "S:stages | -:cuts | loss (nat/token):loss_nat_per_token | "
                  "fewest bits shown to keep it:fewest_bits_that_keep_it | "
                  "most bits shown to miss it:most_bits_that_miss_it",
                  notes=["Shown: the whole 95 % interval of Delta is on that side. Between the two nothing is shown."])
    bits = {(d.cuts, d.codec): d.bits for d in p.findings.depths}

    def codec_with_bits(cuts, codec):
        if codec is None:
            return none("none of these")
        return shown(f"{p.request.codecs[codec]} ({bits[cuts, codec]:.3f})", p.request.codecs[codec])

    for a in p.findings.allowed:
        table.add(*_cuts(p, a.cuts), float(a.nat), codec_with_bits(a.cuts, a.enough),
                  codec_with_bits(a.cuts, a.too_few))
    return table


def choices(p: Pricing) -> Table:
    move = p.request.move
    table = Table(f"Fewest bits within {number(p.request.budget_nat or 0)} nat",
                  "S:stages | -:cuts | -:none | codec before each block:choice | bits/el:bits_per_element | "
                  "prices added (nat/token):prices_added_nat_per_token[] | "
                  "seen on other rows:on_other_rows_nat_per_token[] | :verdict",
                  notes=[f"Cuts move by at most {move} block{'' if move == 1 else 's'}. Chosen by adding the prices of "
                         "single boundaries, which favours those that came out low by chance; then all together on "
                         f"{p.request.rows} rows that had no part in it."])
    for c in p.findings.choices:
        if c.none:
            table.add(*_cuts(p, c.cuts), c.none, none(c.none), none(), none(), none(), none("none"))
        else:
            table.add(*_cuts(p, c.cuts), none(), arm_text(c.arm, p.request.codecs),
                      cell(c.bits / len(c.arm), "{:.3f}"), cell(c.predicted, _NAT), cell(c.together, _NAT), c.verdict)
    return table


def gradients(p: Pricing) -> Table:
    table = Table("The gradient of all parameters against the exact one",
                  "S:stages | -:cuts | codec:codec | compressed:compressed | NMSE:gradient_nmse[] | "
                  "cosine:gradient_cosine[]",
                  notes=[f"Of one row's mean loss; t over {p.request.gradient_rows} rows, cut at 0 and 1. Backward: the "
                         "gradient that crosses each boundary is compressed; forward: the activation, and the gradient "
                         "is taken behind it."])
    for g in p.findings.gradients:
        table.add(*_cuts(p, g.cuts), p.request.codecs[g.codec], g.side, cell(g.nmse, _GRADIENT),
                  cell(g.cosine, _GRADIENT))
    return table


def tables(p: Pricing) -> list[Table]:
    """Each finding once; those without rows are left out."""
    return [table for table in (make(p) for make in (depths, boundaries, worst, allowed, choices, gradients))
            if table.rows]


def pricing_text(p: Pricing) -> str:
    return "".join(f"{line}\n" for line in (*p.head, *p.notes)) + "".join("\n" + text(table) for table in tables(p))


def _depths_json(p):
    rows = json_rows(depths(p))
    for row, d in zip(rows, p.findings.depths):
        if d.worst:
            cuts = p.request.cuts[d.cuts]
            row["worst"] = {"before_block": cuts[d.worst.worst], "median_before_block": cuts[d.worst.median],
                            "more_than_median_nat_per_token": measured_json(d.worst.more), "pairs": d.worst.pairs}
    return rows


def _choices_json(p):
    rows = json_rows(choices(p))
    for i, c in enumerate(p.findings.choices):
        if c.none:
            rows[i] = {"stages": rows[i]["stages"], "cuts": rows[i]["cuts"], "none": c.none}
        else:
            rows[i]["choice"] = [{"before_block": block, "codec": p.request.codecs[codec]} for block, codec in c.arm]
    return rows


def document(p: Pricing) -> dict:
    """Everything of the tables and conditions, unrounded, with intervals; units in keys."""
    return {"schema": SCHEMA, "conditions": p.conditions, "notes": p.notes,
            "uncompressed_nat_per_token": measured_json(p.findings.exact), "depths": _depths_json(p),
            "boundaries": json_rows(boundaries(p)), "allowed": json_rows(allowed(p)), "choices": _choices_json(p),
            "gradients": json_rows(gradients(p)), "error": None}


def pricing_json(p: Pricing) -> str:
    return json_text(document(p))


ROW_KEYS = ("part", "row", "window", "compressed", "crossings", "loss_nat_per_token", "uncompressed_nat_per_token",
            "gradient_nmse", "gradient_cosine")


def rows(p: Pricing) -> list[tuple]:
    """Every row's figures by ROW_KEYS; None where there is none."""
    out, codecs, exact = [], p.request.codecs, p.seen.losses[()]
    for arm, losses in p.seen.losses.items():
        for r, window in enumerate(p.seen.windows):
            out.append(("priced", r, window, "forward" if arm else "", arm_text(arm, codecs), losses[r], exact[r], None,
                        None))
    if p.seen.verified:
        v = p.seen.verified
        for choice, losses in zip(p.findings.choices, v.chosen):
            for r, loss in enumerate(losses):
                out.append(("verified", len(exact) + r, v.windows[r], "forward", arm_text(choice.arm, codecs), loss,
                            v.exact[r], None, None))
    for g in p.seen.gradients:
        words = arm_text(arm_of(p.request.cuts[g.cuts], g.codec), codecs)
        for r, (nmse, cosine) in enumerate(zip(g.nmse, g.cosine)):
            out.append(("gradient", r, p.seen.windows[r], g.side, words, None, None, nmse, cosine))
    return out


def rows_csv(p: Pricing) -> str:
    def field(value):
        return "" if value is None else number(value) if not isinstance(value, (str, int)) else str(value)
    return csv_text([list(ROW_KEYS), *([field(value) for value in row] for row in rows(p))])


def _figure(draw, table):
    keys, *rows = csv_rows(table)
    return draw([dict(zip(keys, row)) for row in rows])


def pricing_page(p: Pricing) -> str:
    """A self-contained page. Without matplotlib it says so and has no figures."""
    drawn, why = ["", ""], ""
    try:
        from longhaul.pricing import figures

        drawn = [_figure(figures.depths, depths(p)), _figure(figures.boundaries, boundaries(p))]
    except ImportError as error:
        why = f'<p class="note">No figures: {escaped(str(error))} (matplotlib is needed to draw).</p>\n'
    body = ["<header><h1>What compressed boundaries cost this model</h1>\n",
            *(f"<p>{escaped(line)}</p>\n" for line in p.head), "</header>\n",
            *(f'<p class="first">{escaped(line)}</p>\n' for line in p.notes), why,
            figure_html(drawn[0], "All boundaries of S stages compressed: &Delta; with its 95 % interval over rows, by "
                                  "bits an element."),
            figure_html(drawn[1], "Each boundary alone: &Delta; with its 95 % interval, by the block that it lies "
                                  "before."),
            *(f"<section>{html(table, 'h2')}</section>\n" for table in tables(p))]
    return html_page("longhaul: price of boundaries", "".join(body))


def unmet(p: Pricing) -> str:
    """Why no choice keeps the budget; "" where one does or none was asked for."""
    found = p.findings.choices
    if not found or any(not c.none for c in found):
        return ""
    return (f"--budget {number(p.request.budget_nat)}: with S = {len(p.request.cuts[found[0].cuts]) + 1}, "
            f"{found[0].none}; a larger budget or a codec of more bits is needed")


def of_command(told: Mapping) -> Pricing:
    """What `longhaul price` tells the verb _price: experiments/price/price_told.h."""
    import numpy as np

    from longhaul.pricing.findings import Count, Gradient, Verified

    def arm(crossings):
        return tuple((block, codec) for block, codec in crossings)

    c, asked = told["conditions"], told["request"]
    request = Request(codecs=tuple(asked["codecs"]), cuts=tuple(map(tuple, asked["cuts"])), blocks=c["blocks"],
                      rows=c["rows"], allowed_nat=tuple(asked["allowed_nat"]), budget_nat=c["budget_nat"],
                      move=c["move_blocks"], gradient_rows=c["gradient_rows"])
    verified = told["verified"] and Verified(told["verified"]["windows"], np.array(told["verified"]["exact"]),
                                             [np.array(one) for one in told["verified"]["chosen"]])
    seen = Seen(windows=told["windows"],
                losses={arm(crossings): np.array(losses) for crossings, losses in zip(told["arms"], told["losses"])},
                forward={(block, codec): Count(*count) for block, codec, *count in told["forward"]},
                gradients=[Gradient(g["cuts"], g["codec"], g["side"], np.array(g["nmse"]), np.array(g["cosine"]))
                           for g in told["gradients"]],
                verified=verified)
    threads = f"{c['threads']} thread{'' if c['threads'] == 1 else 's'}"
    head = [f"model: {c['weights']}, {c['kind']} of {c['blocks']} blocks, width {c['width']}, "
            f"{c['parameters'] / 1e6:.4g} M parameters; SHA-256 {c['weights_sha256']}",
            f"text: {c['tokens']}, {c['tokens_in_text']} tokens; SHA-256 {c['tokens_sha256']}",
            f"rows: {c['rows']} of {c['context_tokens']} tokens each, drawn from all {c['rows_in_text']} of the text; "
            "intervals are 95 %, t over rows",
            f"computed by: engine {c['engine']}, torch {c['torch']} ({c['cpu_path_torch']}), codecs "
            f"{c['cpu_path_codecs']}, {threads}"]
    notes = []
    if told["trained_on"]["rows"]:
        every = request.rows * (2 if request.budget_nat else 1)
        notes.append(f"note: {told['trained_on']['rows']} of the {every} rows stand in {told['trained_on']['source']}, "
                     f"from which {c['model_file']} says that this model trains: what is priced there is text that it "
                     "has seen")
    return Pricing(request, seen, c, head, notes)
