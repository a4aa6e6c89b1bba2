"""What plan and scale make of the engine's clock: factors, times and verdicts against figures that one can count with."""

import json
import math
import re
import tempfile
import unittest
from unittest import mock

from longhaul.analysis import loss_file
from longhaul.planning import plan as planning
from longhaul.planning import scale
from longhaul.planning.plan import links, quality, tables
from longhaul.planning.simulator import calibration
from longhaul.refusal import Refused


def depth(stages, ln_eta, low, high):
    return {"S": stages, "ln_eta": {"value": ln_eta, "ci": [low, high]}, "delta_nat": {"value": 0.1, "ci": [0.0, 0.2]}}


CALIBRATION = {
    "schema": "longhaul.calibration/2", "plan_sha256": "x", "commit": "y", "params": 1000000,
    "activation": [
        {"codec": "int8-b64 / int8-b64", "direction": "both", "eval": "off", "by_S": [depth(2, -0.1, -0.2, -0.05),
                                                                                      depth(4, -0.4, -0.5, -0.3)]},
        {"codec": "int4-b64-h64 / none", "direction": "forward", "eval": "off", "by_S": [depth(3, -0.2, -0.3, -0.1)]}],
    "eta_diloco": [
        {"M": 2, "H": 10, "eta": 0.9, "ci": [0.8, 0.95], "codec": "none", "boundary": "", "batch": "global-batch-matched"},
        {"M": 2, "H": 1000, "eta": 0.6, "ci": [0.5, 0.7], "codec": "none", "boundary": "",
         "batch": "global-batch-matched"}],
    "eta_outer": [
        {"algorithm": "streaming", "codec": "e3m0-b64", "M": 4, "H": 12, "eta": 0.7, "ci": [0.6, 0.8]},
        {"algorithm": "streaming", "codec": "e3m0-b64", "M": 2, "H": 30, "eta": 0.6, "ci": [0.5, 0.65]},
        {"algorithm": "swarm", "codec": "dyn8-b4096", "M": 2, "H": 1, "eta": 0.95, "ci": [0.9, 1.1]}],
    "eta_c": [{"codec": "int4-b64-h64+ef", "ratio": 3.7, "eta": 1.0, "ci": [0.98, 1.02]}]}
# 3.2 nat with 50,000 tokens and 3.0 with 100,000, of seeds that are 0.04 nat apart.
LOSSES = """arm,role,codecs,stages,crossings,seed,budget,train_tokens,loss_off_nat,loss_on_nat
reference@0.5,reference,none / none,1,0,1,0.5,50000,3.18,
reference@0.5,reference,none / none,1,0,2,0.5,50000,3.22,
reference@1,reference,none / none,1,0,1,1,100000,2.98,
reference@1,reference,none / none,1,0,2,1,100000,3.02,
act,arm,int8-b64 / int8-b64,2,2,1,1,100000,9,,
""".replace(",9,,", ",9,")
BYTES = {"none / none": [400, 400], "int8-b64 / int8-b64": [105, 105], "int4-b64-h64 / none": [55, 400],
         "fp16 / fp16": [200, 200], "tiny / tiny": [5, 5]}


def read():
    return quality.Quality([calibration.parse(json.dumps(CALIBRATION), "c.json")])


def losses():
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.write(LOSSES)
        file.flush()
        return loss_file.read_losses(file.name)


class QualityOfChoices(unittest.TestCase):
    def near(self, got, want):
        self.assertAlmostEqual(got, want, places=12)

    def test_a_measured_depth_stands_and_others_are_marked(self):
        def at(stages):
            return read().activations("int8-b64 / int8-b64", stages, BYTES)
        for got, want in zip((at(2).ln.value, at(2).ln.low, at(2).ln.high), (-0.1, -0.2, -0.05)):
            self.near(got, want)
        self.assertEqual(at(2).beyond, [])
        self.near(at(3).ln.value, -0.25)  # half way from -0.1 to -0.4
        self.assertEqual(at(3).beyond, [("S", "S = 3 lies between 2 and 4")])
        self.near(at(6).ln.value, 5 * -0.4 / 3)  # as much a boundary as in the deepest, five of them
        self.near(at(6).ln.low, 5 * -0.5 / 3)
        self.assertEqual(at(6).beyond, [("S", "S = 6; the deepest measured is 4")])
        self.assertEqual(at(1).ln.value, 0)
        self.near(read().activations("int4-b64-h64 / none", 5, BYTES).ln.value, 4 * -0.2 / 2)  # one direction

    def test_a_codec_that_nobody_measured_lies_between_its_neighbours_by_bytes(self):
        found = read().activations("fp16 / fp16", 2, BYTES)
        self.near(found.ln.value, -0.05)  # of -0.1 and of nothing
        self.near(found.ln.low, -0.2)
        self.assertEqual(found.ln.high, 0)
        self.assertEqual(found.beyond[0][0], "bits")
        self.assertIn("between 'int8-b64 / int8-b64' and 'none / none'", found.beyond[0][1])
        for pair in ("tiny / tiny", "other / other"):
            self.assertIsNone(read().activations(pair, 2, BYTES), pair)

    def test_rounds_are_a_cell_or_a_line_over_ln_h_of_the_nearest_groups(self):
        self.near(read().rounds(2, 10).ln.value, math.log(0.9))
        # sqrt(10 x 1000) = 100 is half way: the ends of independent points add up in quadrature.
        between = read().rounds(2, 100)
        self.near(between.ln.value, math.log(0.9 * 0.6) / 2)
        self.near(between.ln.value - between.ln.low, math.hypot(math.log(0.9 / 0.8), math.log(0.6 / 0.5)) / 2)
        self.assertEqual(between.beyond, [("H", "H = 100 lies between 10 and 1000")])
        far = read().rounds(3, 100_000)  # a second such gap and a half behind: -1 and 2 of the points
        self.near(far.ln.value, 2 * math.log(0.6) - math.log(0.9))
        self.assertEqual([how for _, how in far.beyond], ["G = 3; the nearest measured is 2",
                                                          "H = 100000 lies outside of the line through 10 and 1000"])
        self.assertIsNone(read().rounds(1, 10))  # one group has no cell here, and two say nothing of it
        self.near(read().outer_codec("int4-b64-h64+ef").ln.low, math.log(0.98))
        self.assertIsNone(read().outer_codec("bf16"))

    def test_an_outer_algorithm_is_the_arm_of_the_nearest_groups_then_rounds(self):
        own = read().outer("streaming", "e3m0-b64", 4, 12)
        self.near(own.ln.value, math.log(0.7))
        self.assertEqual(own.beyond, [])
        self.assertEqual(read().outer("streaming", "e3m0-b64", 2, 10).beyond, [("H", "H = 10; the nearest measured is 30")])
        self.assertEqual(read().outer("swarm", "dyn8-b4096", 8, 1).beyond, [("G", "G = 8; the nearest measured is 2")])
        self.assertIsNone(read().outer("streaming", "none", 4, 12))

    def test_size_is_told_from_one_per_cent_on(self):
        self.assertIsNone(read().size(1e6, []))
        self.assertEqual(read().size(2e9, [])[1], "2e+09 parameters; measured at 1e+06: x 2e+03")
        self.assertEqual(read().size(1e6, [quality.Factor("x", parameters=5e5)])[1],
                         "1e+06 parameters; measured at 5e+05: x 2")

    def test_tokens_to_a_loss_are_read_off_the_curve(self):
        """Two budgets make a line over ln D."""
        ln = quality.ln_tokens_to_loss(losses(), 3.1)
        self.assertAlmostEqual(math.exp(ln.value), 1e5 * math.sqrt(0.5), places=5)
        # Without one seed, the other's line: each moves ln D by 0.02 / slope; t(1) = 12.706 times that.
        move = 0.02 / (0.2 / math.log(2))
        self.assertAlmostEqual(ln.high - ln.value, 12.706 * move, delta=1e-3 * move)
        for target, why in ((2.5, "2.5 lies below the curve's floor"), (4, "above the curve")):
            with self.assertRaisesRegex(Refused, why):
                quality.ln_tokens_to_loss(losses(), target)


def choice(**more):
    """A choice as the engine gives it: two stages, no codecs, one group."""
    return {"schedule": "gpipe", "chunks": 1, "stages": 2, "ranks": 2, "groups": 1, "codecs": "none / none",
            "forward": "none", "backward": "none", "algorithm": "diloco", "exchanges_gradients": False, "inner_steps": 0,
            "outer_codec": "", "outer_lr": 0.7, "outer_momentum": 0.9, "batch_rows": 2, "tokens_per_step": 128,
            "parameters": 1e6, "pair_bytes": BYTES, "step_s": 3.0, "least_step_s": 3.0, "exact": True, "nodes": ["x", "y"],
            "worker_bytes": 1_000_000, "within": True, "links_toml": "", "timed_toml": "",
            "reference_toml": "seed = 1\n[train]\nlr = 0.1\nsteps = 3\n"} | more


def planned(*choices, rank_by="time"):
    tokens = quality.ln_tokens_to_loss(losses(), 3.1)
    rows = [planning.Row(one, by_cost=rank_by == "cost") for one in choices]
    for row in rows:
        planning._judge(read(), tokens, row)  # pylint: disable=protected-access
    rows.sort(key=planning._key)  # pylint: disable=protected-access
    ranked = [row["within"] and not row.unknown for row in rows[:2]] == [True, True]
    facts = {"target_loss_nat": 3.1, "curve": "l.csv", "links": "l.json", "ranks": 2, "groups": 1, "link_notes": [],
             "lossy": False, "left_out": [], "rank_by": rank_by, "priced": "compute_cost" in choices[0]}
    verdict = planning._compare(*rows[:2]) if ranked else None  # pylint: disable=protected-access
    return planning.Plan(facts, "s.toml", tokens, rows, verdict)


CODED = {"codecs": "int8-b64 / int8-b64", "forward": "int8-b64", "backward": "int8-b64"}


class Ranking(unittest.TestCase):
    def test_time_is_tokens_over_eta_times_seconds(self):
        plan = planned(choice())
        self.assertAlmostEqual(math.exp(plan.rows[0].ln_time.value), 1e5 * math.sqrt(0.5) / 128 * 3, places=3)
        self.assertIn("there is one choice", tables.next_text(plan))

    def test_a_codec_trades_tokens_for_seconds(self):
        plan = planned(choice(), choice(step_s=2.9, **CODED))
        self.assertEqual(plan.rows[0]["codecs"], "none / none")  # the link costs less than the tokens
        coded, curve = plan.rows[1], 12.7062 * 0.02 / (0.2 / math.log(2))
        self.assertAlmostEqual(coded.ln_time.high - coded.ln_time.value, math.hypot(curve, 0.1), places=4)
        self.assertAlmostEqual(coded.ln_time.value - coded.ln_time.low, math.hypot(curve, 0.05), places=4)
        # The curve is both rows' and cancels: eta and the clock's 0.1 are left.
        ratio = 0.1 + math.log(2.9 / 3)
        self.assertAlmostEqual(plan.verdict.ln_ratio.value, ratio, places=9)
        self.assertAlmostEqual(ratio - plan.verdict.ln_ratio.low, math.hypot(0.05, 0.1), places=9)
        self.assertFalse(plan.verdict.first_wins)
        self.assertEqual(plan.verdict.shares[0][0], planning.CLOCK)
        self.assertAlmostEqual(plan.verdict.shares[0][2], 0.8, places=9)  # 0.01 of 0.0125
        with self.assertRaisesRegex(Refused, "the clock decides"):
            tables.next_campaign(plan)
        slow = planned(choice(step_s=30.0), choice(**CODED))
        self.assertEqual(slow.rows[0]["codecs"], CODED["codecs"])
        self.assertTrue(slow.verdict.first_wins)

    def test_what_both_choices_lose_does_not_decide(self):
        plan = planned(choice(**CODED), choice(schedule="1f1b", step_s=3.1, **CODED))
        self.assertEqual([name for name, _, _ in plan.verdict.shares], [planning.CLOCK])

    def test_what_decides_is_named_with_a_campaign_that_measures_it(self):
        plan = planned(choice(stages=4, step_s=3.7), choice(stages=4, codecs="fp16 / fp16", forward="fp16", backward="fp16"))
        name = plan.verdict.shares[0][0]
        self.assertEqual(name, "eta(fp16 / fp16, S = 4)")
        self.assertIn(f"{name}: longhaul plan s.toml --next next.toml && longhaul measure next.toml", tables.next_text(plan))
        campaign = tables.next_campaign(plan)
        self.assertIn("d0_tokens = 70711\n", campaign)
        self.assertIn('[[arm]]\nname = "boundaries"\nstages = 4\nforward = "fp16"\nbackward = "fp16"\n', campaign)
        self.assertNotIn("steps = 3", campaign)
        self.assertIn("beyond, bits: 'fp16 / fp16' was not measured", plan.text(0))

    def test_what_nobody_measured_has_no_rank_but_a_break_even(self):
        outer = {"outer_codec": "none", "groups": 2, "stages": 1}
        plan = planned(choice(algorithm="noloco", inner_steps=10, **outer), choice(inner_steps=10, **outer),
                       choice(algorithm="dp", exchanges_gradients=True, **outer))
        self.assertEqual(plan.rows[2].unknown, "no calibration measures 'noloco' with none")
        self.assertIn("unknown: first from eta", plan.text(0))
        self.assertEqual([len(row.factors) for row in plan.rows[:2]], [0, 1])

    def test_rows_beyond_the_memory_are_last(self):
        plan = planned(choice(step_s=1.0, within=False), choice())
        self.assertEqual([row["within"] for row in plan.rows], [True, False])
        self.assertIsNone(plan.verdict)
        self.assertIn("1.0 OVER", plan.text(0))
        self.assertEqual(plan.document()["rows"][0]["time_s"]["value"], math.exp(plan.rows[0].ln_time.value))


def priced(step_s, nodes, traffic, **more):
    """What a step costs: of nodes, of traffic."""
    return choice(step_s=step_s, compute_cost=nodes, traffic_cost=traffic, sent_bytes=1000.0, **more)


class Money(unittest.TestCase):
    """To 3.1 nat the reference needs 1e5 sqrt(1/2) tokens, 552.43 steps of 128: a cost is that of a step as often."""
    STEPS = 1e5 * math.sqrt(0.5) / 128

    def test_cost_is_that_of_a_step_times_steps_nodes_and_traffic_apart(self):
        plan = planned(priced(3.0, 0.5, 0.25))
        row = plan.document()["rows"][0]
        for got, want in zip((row["cost"]["value"], row["cost"]["compute"], row["cost"]["traffic"]), (0.75, 0.5, 0.25)):
            self.assertAlmostEqual(got, self.STEPS * want, places=2)
        for cost, time in zip(row["cost"]["ci"], row["time_s"]["ci"]):
            self.assertAlmostEqual(cost / row["cost"]["value"], time / row["time_s"]["value"], places=12)  # carries over
        self.assertRegex(plan.text(0), r"cost +95 % of cost +compute +traffic")
        self.assertRegex(plan.text(0), r" 414\.3 +\S+ to \S+ +276\.2 +138\.1 ")
        self.assertEqual(plan.csv().splitlines()[0].split(",")[-5:],
                         ["cost", "cost_low", "cost_high", "compute_cost", "traffic_cost"])
        self.assertNotIn("cost", planned(choice()).text(0) + planned(choice()).csv() + str(planned(choice()).document()))

    def test_a_codec_that_needs_more_tokens_pays_for_them_twice(self):
        row = planned(priced(3.0, 0.5, 0.25, **CODED)).document()["rows"][0]  # eta exp(-0.1)
        self.assertAlmostEqual(row["cost"]["traffic"], self.STEPS * math.exp(0.1) * 0.25, places=2)

    def test_the_cheaper_is_first_when_cost_ranks_and_the_faster_else(self):
        choices = priced(3.0, 1.0, 1.0), priced(4.0, 1.2, 0.1, schedule="1f1b")
        self.assertEqual([row["schedule"] for row in planned(*choices).rows], ["gpipe", "1f1b"])
        plan = planned(*choices, rank_by="cost")
        self.assertEqual([row["schedule"] for row in plan.rows], ["1f1b", "gpipe"])
        self.assertEqual(plan.document()["rank_by"], "cost")
        # The clock's 10 % is of what nodes cost: of 1.2 of 1.3 at most.
        self.assertAlmostEqual(plan.verdict.ln_ratio.value, math.log(2 / 1.3), places=9)
        self.assertAlmostEqual(plan.verdict.ln_ratio.high, math.log(2 / 1.3) + 0.1 * 1.2 / 1.3, places=9)
        self.assertTrue(plan.verdict.first_wins)
        self.assertIn("1 is first: 2 costs 1.538 [1.403, 1.687] times as much as 1", plan.text(0))
        self.assertIn("Cost of 3.1 nat, predicted", plan.text(0))

    def test_a_choice_without_a_time_has_no_cost_but_a_break_even_of_costs(self):
        unknown = {"codecs": "tiny / tiny", "forward": "tiny", "backward": "tiny"}
        plan = planned(priced(3.0, 1.0, 1.0), priced(3.0, 0.5, 0.0, **unknown), rank_by="cost")
        self.assertIn("unknown: first from eta 0.25 on", plan.text(0))
        self.assertIsNone(plan.document()["rows"][1]["cost"])
        self.assertEqual(plan.csv().splitlines()[2].split(",")[-5:], [""] * 5)


RTT = {"median_ms": 5, "received": 20}


def probe(nodes, **changes):
    """As `net probe --json` writes it, of equal links but for the first path's changes."""
    paths = [{"from": a, "to": b, "rate_mbit": 1, "loss": 0, "rtt": RTT, "goodput": {"mbit": 95.64}}
             for a in nodes for b in nodes if a != b]
    paths[0] = {key: value for key, value in (paths[0] | changes).items() if value != "absent"}
    return json.dumps({"paths": paths})


class LinkMatrices(unittest.TestCase):
    def refusal(self, text, nodes=2):
        with self.assertRaises(Refused) as refused:
            links.parse(text, "m.json", nodes)
        return str(refused.exception)

    def test_a_probe_gives_half_the_round_trip_and_the_goodput_with_headers(self):
        matrix, notes = links.parse(probe(["b", "10.1.2.3"]), "m.json", 2)
        self.assertEqual((matrix["nodes"], notes), (["b", "10.1.2.3"], []))  # in the order in which paths name them
        path = {"delay_ms": 2.5, "loss": 0, "rate_mbit": 95.64 * (1514 / 1448), "queue_packets": None}
        self.assertEqual(matrix["paths"], [{"from": 0, "to": 1} | path, {"from": 1, "to": 0} | path])
        matrix, _ = links.parse(probe("ab", datagrams={"loss": 0.25}, queue_packets=7), "m.json", 2)
        self.assertEqual([matrix["paths"][0][key] for key in ("loss", "queue_packets")], [0.25, 7])

    def test_what_is_no_matrix_is_one_line(self):
        twice = json.loads(probe("ab"))
        twice["paths"].append(twice["paths"][0])
        for text, nodes, says in (
                ("not json", 2, "no JSON"), (probe("ab", rtt={"median_ms": 1}).replace(": 1}", ": 1e999}"), 2, "number too large"),
                ("[]", 2, "not what 'longhaul net probe LAB --json' writes: no 'paths'"), ('{"paths": 3}', 2, "no 'paths'"),
                ('{"paths": [{"from": 1}]}', 2, "a path without 'from' and 'to'"), (probe("ab", to="a"), 2, "leads to itself"),
                (json.dumps(twice), 2, "path a > b stands there twice"),
                (probe("ab"), 3, "has 2 nodes; the run has 3 workers"), (probe("ab", to="c"), 3, "no path a > b; probe them all")):
            self.assertRegex(self.refusal(text, nodes), "^m.json: .*" + re.escape(says))

    def test_a_path_without_figures_is_refused_by_its_cause(self):
        for changes, says in (
                ({"carrier": "down"}, "was down when it was probed"),
                ({"rtt": "absent", "why": "b > a is down"}, "has no round trip: rtt.median_ms is missing; the probe says: b > a is"),
                ({"rtt": "absent"}, "has no round trip: rtt.median_ms is missing; probe it again"),
                ({"rtt": 3}, "rtt.median_ms has no figure"), ({"rtt": {"median_ms": None}}, "rtt.median_ms is null"),
                ({"rtt": {"median_ms": -5}}, "rtt.median_ms is -5"), ({"rtt": {"median_ms": 0}}, "rtt.median_ms is 0"),
                ({"rtt": {"median_ms": "65 ms"}}, 'rtt.median_ms is "65 ms"'), ({"rtt": RTT | {"received": 0}}, "answered no echo"),
                ({"loss": 1}, "loses everything"), ({"goodput": {"mbit": None}}, "goodput.mbit is null"),
                ({"goodput": None}, "goodput.mbit has no figure"), ({"goodput": {"mbit": 0}}, "has 0 Mbit/s"),
                ({"goodput": {"mbit": -1}}, "has -1.04558 Mbit/s"),
                ({"goodput": "absent", "rate_mbit": "absent"}, "has neither goodput.mbit nor rate_mbit")):
            self.assertIn(f"m.json: path a > b {says}" if says[0] != "r" and says[0] != "g" else says,
                          self.refusal(probe("ab", **changes)), changes)

    def test_what_is_not_as_measured_in_bounds_is_said(self):
        for changes, says in (
                ({"in_bounds": False, "why": "goodput 5, want 9"}, "was out of bounds when it was probed: goodput 5, want 9"),
                ({"goodput": "absent"}, "has no measured rate: its nominal 1 Mbit/s is taken"),
                ({"goodput": "absent", "rate_mbit": None}, "has no rate, measured or nominal: it counts as without a limit")):
            self.assertEqual(links.parse(probe("ab", **changes), "m.json", 2)[1], [f"path a > b {says}"])


class Sweeps(unittest.TestCase):
    def swept(self, axes, seeds=1):
        """Of an engine whose goodput is the point's number plus the seed's."""
        def answer(question, request):
            self.assertEqual(question, "scale")
            self.request = request
            for n, _ in enumerate(request["points"]):
                seeds = [{"seed": s, "goodput_tokens_per_s": n + s, "seconds": 1.0, "utilisation": 0.5, "tokens_counted": 3.0,
                          "tokens_lost": float(s), "ended_early": ""} for s in range(request["seeds"])]
                yield {"step_s": 1.0, "ideal_tokens_per_s": 10.0, "seeds": seeds}
        with mock.patch.object(scale, "ask_clock", answer):
            return scale.sweep("s.toml", [], axes, seeds)

    def test_the_last_axis_is_the_fastest(self):
        found = self.swept([scale.parse_axis("a.b=1,2"), scale.parse_axis("c=x,y")])
        self.assertEqual([p.at for p in found.points], [["1", "x"], ["1", "y"], ["2", "x"], ["2", "y"]])
        self.assertEqual(self.request["points"][1], ["a.b=1", "c=y"])

    def test_means_have_t_intervals_over_seeds(self):
        goodput = self.swept([], 2).points[0].goodput
        self.assertEqual(goodput.value, 0.5)
        self.assertAlmostEqual(goodput.interval.high - 0.5, 12.7062 * 0.5, places=3)  # t(1) times the error of the mean
        self.assertAlmostEqual(self.swept([], 2).points[0].lost_share.value, 0.125)  # of 0 and 1 of 4

    def test_ten_thousand_points_and_no_more(self):
        def axis(n):
            return scale.parse_axis("k=" + ",".join(map(str, range(1, n + 1))))
        self.assertEqual(len(self.swept([axis(100), axis(100)]).points), 10_000)
        with self.assertRaisesRegex(Refused, "more than 10000 combinations"):
            self.swept([axis(100), axis(101)])
        for bad in ("k", "=1", "k=", "k=1,,2"):
            with self.assertRaises(Refused, msg=bad):
                scale.parse_axis(bad)

    def test_a_figure_wants_positive_numbers(self):
        self.assertIn("</svg>", self.swept([scale.parse_axis("k=1,10")], 2).svg())
        for axes in ([], [scale.parse_axis("k=a,b")], [scale.parse_axis("k=0,1")]):
            with self.assertRaises(Refused):
                self.swept(axes).svg()


if __name__ == "__main__":
    unittest.main()
