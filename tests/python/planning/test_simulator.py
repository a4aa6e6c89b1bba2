"""The planning model against the rows of the documents that it reproduces, closed forms, and bad input.

The published tables themselves are planning/scenarios/governance; the approval family `simulate` holds what they print.
"""

import csv
import json
import math
import os
import pathlib
import re
import unittest
from unittest import mock

import numpy as np

from longhaul import toml
from longhaul.planning.simulator import simulate
from longhaul.planning.simulator import calibration, conclusions, model, results, scenario_file, spreads, terms
from longhaul.refusal import Refused

ROOT = pathlib.Path(__file__).parents[3]
a100, h100, configuration = model.a100_nodes, model.h100_fp8_nodes, model.configuration


def at(s, mbps, rtt):
    return model.simulate(s.but(wan_up=mbps * 1e6, wan_down=mbps * 1e6, wan_rtt=rtt))


class Documents(unittest.TestCase):
    """Computed values at 1e-5."""

    def near(self, got, want, of=""):
        self.assertLess(abs(float(got) / want - 1), 1e-5, f"{of}: {got} for {want}")

    def test_nodes_of_48_a100(self):
        rows = {1: (1, 1, 2.83564e23), 4: (168, .861716, 9.77407e23), 8: (176, .860600, 1.95228e24),
                16: (183, .859658, 3.90029e24), 32: (191, .858628, 7.79123e24), 72: (200, .857516, 1.75076e25),
                144: (207, .856680, 3.49810e25), 500: (221, .855094, 1.21237e26)}
        whole = model.simulate(a100(np.array(list(rows))))  # all at once
        for i, (nodes, (h, eta, local)) in enumerate(rows.items()):
            for out in (model.simulate(a100(nodes)), None):
                pick = (lambda name: getattr(whole, name)[i]) if out is None else (lambda name: getattr(out, name))
                self.assertEqual(pick("inner_steps"), h)
                self.near(pick("eta"), eta, nodes)
                self.near(pick("local"), local, nodes)
        self.assertEqual(model.simulate(a100(1000)).inner_steps, 229)

    def test_configurations(self):
        rows = {"A": (244, 1, 244, .870606, .852683, 9.67161e26, 9.86899e26, 9.37554e26),
                "B": (18, 13, 64.8999, .901778, .883214, 1.00179e27, 1.02224e27, 9.71124e26),
                "C": (250, 1, 250, .862209, .843748, 1.01224e27, 1.03290e27, 9.81253e26),
                "D": (19, 12, 65.8179, .895514, .876340, 1.05134e27, 1.07280e27, 1.01916e27),
                "E": (39, 1, 39, .913766, .867558, 9.84033e26, 1.02547e27, 9.32242e26),
                "F": (3, 13, 10.8167, .940579, .892264, 1.07044e27, 1.11551e27, 1.01410e27)}
        for name, (h, h_r, effective, eta_h, eta, *locals_) in rows.items():
            out = model.simulate(configuration(name))
            self.assertEqual((out.inner_steps, out.regional_cycles), (h, h_r), name)
            for got, want in ((out.effective_steps, effective), (out.eta_h, eta_h), (out.eta, eta)):
                self.near(got, want, name)
            for case, want in zip(("expected", "optimistic", "conservative"), locals_):
                self.near(model.simulate(configuration(name).but(case=case)).local, want, f"{name} {case}")

    def test_adverse_networks(self):
        for mbps, rtt, h_500, local_500, h_2000, local_2000 in (
                (100, .1, 221, 1.21237e26, 250, 1.01224e27), (50, .105, 442, 1.18971e26, 499, 9.91991e26),
                (25, .23, 883, 1.16709e26, 998, 9.71683e26), (10, .34, 2207, 1.13714e26, 2495, 9.44837e26)):
            for s, h, local in ((a100(500), h_500, local_500), (h100(2000), h_2000, local_2000)):
                self.assertEqual(at(s, mbps, rtt).inner_steps, h)
                self.near(at(s, mbps, rtt).local, local)
        self.near(at(a100(500).but(case="conservative"), 10, .34).local, 1.10233e26)
        self.near(at(configuration("F").but(case="conservative"), 10, .34).local, 9.84092e26)

    def test_sweep_of_the_wan_rate(self):
        for mbps, h, flat, h_r, f in (
                (10, 1994, 1.64249e25, 121, 1.03876e27), (25, 798, 1.68561e25, 49, 1.05160e27),
                (50, 399, 1.71824e25, 25, 1.06116e27), (100, 200, 1.75076e25, 13, 1.07044e27),
                (250, 80, 1.79390e25, 5, 1.08401e27), (500, 40, 1.82653e25, 3, 1.09127e27),
                (1000, 20, 1.85917e25, 2, 1.09702e27)):
            out = at(a100(72), mbps, .1)
            self.assertEqual(out.inner_steps, h)
            self.near(out.local, flat)
            out = at(configuration("F"), mbps, .1)
            self.assertEqual((out.inner_steps, out.regional_cycles), (3, h_r))
            self.near(out.local, f)

    def test_experts(self):
        s = a100(72).but(parameters=600e9, active_parameters=100e9, expert_parallel="global")
        out = model.simulate(s)
        self.assertEqual([f"{out.state_bytes / 1e9:.0f}", f"{100 * out.overhead:.1f}", f"{out.expert_time:.1f}"],
                         ["1711", "32.8", "6.4"])
        self.near(model.simulate(s.but(nodes=4000)).local, 6.32121e26)
        regional = s.but(expert_parallel="regional")
        self.near(model.simulate(regional).state_bytes, (100e9 + 500e9 / 8) * 16)
        self.assertEqual([float(model.simulate(regional.but(nodes=n)).stages) for n in (3, 4)], [3, 1])

    def test_fewest_nodes(self):
        for build, device, rows in ((a100, "a100", {48: (5, 42, 413), 25: (8, 79, 783), 12: (16, 161, 1611),
                                                    6: (32, 317, 3186), 3: (63, 627, 6309)}),
                                    (h100, "h100", {16: (2, 20, 197), 8: (4, 39, 390), 4: (8, 77, 771), 2: (16, 152, 1527),
                                                    1: (30, 302, 3045)})):
            for devices, wants in rows.items():
                s = model.node(build(1), device, devices)
                self.assertEqual(tuple(int(model.fewest_nodes(s, "c_local", flop, 100_000)[0])
                                       for flop in (1e24, 1e25, 1e26)), wants)
        self.assertEqual(model.fewest_nodes(h100(1), "c_local", 1e28, 100_000)[0], 19826)
        exactly = float(model.simulate(a100(42)).local)
        self.assertEqual(model.fewest_nodes(a100(1), "c_local", exactly, 100)[0], 42)
        self.assertEqual(model.fewest_nodes(a100(1), "c_local", exactly * (1 + 1e-12), 100)[0], 43)
        self.assertTrue(np.isnan(model.fewest_nodes(a100(1), "c_local", exactly, 41)[0]))

    def test_remarks_that_do_not_follow(self):
        """What the text of a document says beside its tables, and what its formulas give."""
        self.near(model.simulate(a100(4).but(case="conservative")).local, 9.47486e23)  # printed 9.52e23
        share = at(configuration("F"), 100, .1).local / at(configuration("F"), 1000, .1).local
        self.assertEqual(f"{100 * share:.2f}", "97.58")  # printed 97
        self.assertEqual(f"{model.simulate(h100(20000)).cost / 1e9:.1f}", "9.6")  # printed 9.5
        self.assertEqual([f"{model.simulate(a100(n)).outer_time / 60:.0f}" for n in (4, 1000)],
                         ["88", "120"])  # printed "every 50 to 90 minutes"
        self.assertEqual(f"{100 * model.simulate(a100(72).but(parameters=720e9)).bubble:.1f}", "20.0")  # printed 22.2
        flat = at(a100(72), 10, .1).local / at(a100(72), 1000, .1).local
        self.assertEqual(f"{100 * (1 - flat):.1f}", "11.7")  # printed "6 to 8 points"

    def test_pipelines(self):
        s = a100(4000, "governance-pp").but(parameters=960e9)
        base = model.simulate(s)
        self.assertEqual(float(base.eta_r), 1 - 0.005 * (2.4 / 960) * math.log2(1000))
        self.near(model.simulate(s.but(micro_compute="whole-model")).compute_time, 4 * float(base.compute_time))
        self.assertLess(model.simulate(s.but(stage_parallel_sync=True)).sync_time, base.sync_time / 3.9)
        self.assertEqual(f"{model.simulate(s.but(boundary_overlap=True)).step_time:.0f}", "47")


class ClosedForms(unittest.TestCase):
    def test_chi_is_one_at_the_allocation(self):
        """D = r P is what the compute is best spent on: nothing else reaches that loss with less."""
        p, r = 91e9, 20.0
        self.assertAlmostEqual(float(terms.chi(1.0, p, r * p, 6 * p * r * p, r)), 1.0, places=9)
        self.assertLess(float(terms.chi(1.0, p, 4 * r * p, 24 * p * r * p, r)), 1.0)

    def test_draws_are_numbers_of_their_place_alone(self):
        few, many = spreads.uniform(1, 10, 3), spreads.uniform(1, 10_000, 3)
        self.assertTrue((few == many[:10]).all())
        self.assertAlmostEqual(many.mean(), 0.5, delta=0.02)
        low = spreads.triangular_quantile(0.9, 0.95, 1.0, np.array([0.0, 0.5, 1.0]))
        self.assertEqual(low.tolist(), [0.9, 0.95, 1.0])

    def test_changes_are_found_to_a_billionth(self):
        found = spreads.changes_of(lambda x: (x > 0.3) & (x < 0.7001), 0.0, 1.0)
        self.assertEqual(len(found), 2)
        self.assertLess(max(abs(found[0] - 0.3), abs(found[1] - 0.7001)), 1e-9)

    def test_a_measured_number_at_the_ends_of_its_interval(self):
        m = calibration.Span(0.9, 0.8, 0.95)
        self.assertAlmostEqual(float(m.log(-calibration.END)), 0.8, places=12)
        self.assertAlmostEqual(float(m.log(calibration.END)), 0.95, places=12)
        self.assertEqual(float(m.linear(0)), 0.9)

    def test_q_per_boundary_of_eight_stages(self):
        """8 stages keep 0.90 of q^14 down to 0.9^(1/14)."""
        eight = conclusions.conclusions()[-1]
        self.assertAlmostEqual(conclusions.break_even_q(eight), 0.9 ** (1 / 14), places=9)

    def test_what_no_source_measures_stays_bit_for_bit(self):
        plan = calibration.Plan(calibration.parse(json.dumps(
            {"schema": calibration.SCHEMA, "plan_sha256": "p", "commit": "c", "params": 1e6}), "none"))
        for c in conclusions.conclusions():
            j = conclusions.judge(plan, c)
            self.assertEqual((j.low, j.point, j.high, j.touched), (j.assumed, j.assumed, j.assumed, False))

    def test_depths_are_drawn_as_they_correlate(self):
        for correlation in (0.0, 0.06, 0.95):
            a = calibration.Activation("a / b", "both", "off", [
                calibration.Depth(at, calibration.Span(-0.1 * at, -0.1 * at - 0.1, -0.1 * at + 0.1), calibration.Span(0, -1, 1))
                for at in (4, 8)], np.array([[1, correlation], [correlation, 1]]))
            (_, four), (_, eight) = a.ln_eta_by_depth([conclusions._deviates(10_000, n) for n in range(2)])
            self.assertAlmostEqual(np.corrcoef(four, eight)[0, 1], correlation, delta=0.03)
            self.assertAlmostEqual(np.std(eight), 0.1 / calibration.END, delta=1e-3)

    def test_a_loss_is_worth_tokens_by_the_law_inverted(self):
        """0.0164 nat over seven boundaries of a model of 1e9 with 20 tokens a parameter: the same loss at 0.465 of them."""
        kept = float(terms.tokens_kept(7 * 0.0164, 2e10))
        self.assertAlmostEqual(float(terms.loss(1e9, 2e10 * kept)), float(terms.loss(1e9, 2e10)) + 7 * 0.0164, places=12)
        self.assertAlmostEqual(kept, 0.465, delta=1e-3)

    def test_published_losses_of_diloco_in_tokens(self):
        """The table of the page is this: losses of arXiv 2503.09799 at 20 tokens a parameter, by the planning model's law."""
        folder = ROOT / "docs/results/published"
        with open(folder / "losses.csv", newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["source"] == "arXiv 2503.09799" and row["table"] == "4"]
        of = {(int(row["parameters"]), row["groups"]): float(row["loss_nat"]) for row in rows}
        sizes = sorted({size for size, _ in of})
        self.assertEqual(len(sizes), 7)
        lines = []
        for size in sizes:
            kept = [float(terms.tokens_kept(of[size, groups] - of[size, "dp"], 20 * size)) for groups in "1248"]
            lines.append(f"| {size / 1e6:,.0f} M | {' | '.join(f'{one:.2f}' for one in kept)} |")
        page = (folder / "details.md").read_text(encoding="utf-8")
        self.assertIn("\n".join(lines), page)
        eight = [float(line.split("|")[5]) for line in lines]
        self.assertIn(f"M = 8 keeps {min(eight):.2f} to {max(eight):.2f}", page)

    def plan(self, parameters, **changes):
        depths = [{"S": 4, "ln_eta": {"value": -0.08, "ci": [-0.1, -0.06]}, "delta_nat": {"value": 0.03, "ci": [0.02, 0.04]},
                   "price_nat": {"value": 0.024, "ci": [0.021, 0.027]}}]
        return calibration.Plan(calibration.parse(json.dumps(
            {"schema": calibration.SCHEMA, "plan_sha256": "p", "commit": "c", "params": parameters, "activation": [
                {"codec": "a / b", "direction": "both", "eval": "off", "by_S": depths, "ratio_forward": 3.5,
                 "ratio_backward": 1.9, "ratio_width": 4096} | changes]}), "none"))

    def test_verdicts_end_at_ten_times_the_size_and_a_band_begins(self):
        eight = conclusions.conclusions()[-1]
        size = float(model.simulate(eight.scenarios[0]).parameters)
        near = conclusions.judge(self.plan(size / 9), eight)
        self.assertEqual((near.way, near.verdict), (calibration.MEASURED, "flips"))
        self.assertAlmostEqual(near.point, math.exp(-0.08 * 7 / 3) / 0.9, places=12)  # as much a boundary as at S = 4
        far = conclusions.judge(self.plan(size / 11), eight)
        self.assertEqual((far.way, far.verdict), (calibration.BAND, "none"))
        tokens = eight.scenarios[0].tokens_per_parameter * size

        def margin(nat):
            return float(terms.tokens_kept(7 * nat, tokens)) / 0.9
        self.assertAlmostEqual(far.point, margin(0.008), places=12)
        self.assertAlmostEqual(far.low, margin(1.5 * 0.009), places=12)
        self.assertAlmostEqual(far.high, margin(0.8 * 0.007), places=12)

    def test_without_a_price_the_bytes_alone_are_measured(self):
        plan = self.plan(1e6, by_S=[{"S": 4, "ln_eta": {"value": -0.08, "ci": [-0.1, -0.06]},
                                     "delta_nat": {"value": 0.03, "ci": [0.02, 0.04]}}])
        found = {a.whole.name: a for a in conclusions.attribute(plan)}
        eight = found["8 stages keep eta_act >= 0.90"].whole
        self.assertEqual((eight.way, eight.point), (calibration.BYTES, eight.assumed))
        pipelines = found["best at 500 nodes: pipelines of 480B"]
        self.assertLess(pipelines.whole.point, pipelines.whole.assumed)  # gradients go back in 8 bits
        self.assertGreater(pipelines.back_as_forward.point, pipelines.whole.point)  # and in fewer where they need not

    def test_a_price_of_a_model_that_exists(self):
        path = str(ROOT / "docs/results/pretrained/docs.json")
        span, parameters, where = calibration.read_price(path, "int4-b64-h64 / int8-b64")
        rows = [row for row in json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["depths"]
                if row["codec"] == "int4-b64-h64"]
        deepest = max(rows, key=lambda row: row["stages"])["per_crossing_nat_per_token"]
        self.assertEqual((span.value, span.low, span.high), (deepest["value"], deepest["low"], deepest["high"]))
        self.assertEqual(parameters, 134515008)
        with self.assertRaisesRegex(Refused, "prices .*; name one of them with --codec"):
            calibration.read_price(path, "fp64")
        with self.assertRaisesRegex(Refused, "no document of schema 'longhaul.price/1'"):
            calibration.read_price(str(ROOT / "tests/approval/scenarios/all.json"), "a")


class Files(unittest.TestCase):
    def rows(self, text):
        return results.Rows(scenario_file.read(toml.parse(text, "plan.toml")))

    def test_each_end_of_a_key_is_taken_and_the_next_number_refused(self):
        for key in scenario_file.KEYS:
            if not key.is_number:
                continue
            for end, beyond in ((key.least, -math.inf), (key.most, math.inf)):
                root = toml.parse("", "plan.toml")
                toml.put(root, key.path, toml.Value(end, "plan.toml:1"))
                draft = scenario_file.read(root).draft
                field = draft if key.fields[0] in scenario_file.Draft.NODE else draft.scenario
                self.assertAlmostEqual(getattr(field, key.fields[0]), end * key.times, delta=1e-9 * end * key.times)
                over = end + int(math.copysign(1, beyond)) if key.of is int else math.nextafter(end, beyond)
                toml.put(root, key.path, toml.Value(over, "plan.toml:1"))
                with self.assertRaisesRegex(Refused, f"'{key.path}' is .*; want .* to "):
                    scenario_file.read(root)

    def test_lists_are_every_combination_once_in_order(self):
        rows = self.rows("case = ['expected', 'conservative']\n[network]\nnodes = [4, 72, 500]\nwan_mbps = [10, 100]\n")
        self.assertEqual(rows.n, 12)
        for i in range(rows.n):
            self.assertEqual(rows.field("local", i), float(model.simulate(rows.scenario(i)).local))
        self.assertEqual((rows.scenario(1).nodes, rows.scenario(1).wan_up, rows.scenario(11).case),
                         (4, 100e6, "conservative"))

    def test_the_product_reaches_a_million_and_no_further(self):
        lists = "[network]\nwan_mbps = [" + ",".join(map(str, range(1, 1001))) + "]\nnodes = [{}]\n"
        for most, fits in ((1000, True), (1001, False)):
            text = lists.format(",".join(map(str, range(1, most + 1))))
            if fits:
                self.assertEqual(scenario_file.read(toml.parse(text, "p")).size, 1_000_000)
            else:
                with self.assertRaisesRegex(Refused, "more than 1000000 scenarios"):
                    scenario_file.read(toml.parse(text, "p"))

    def test_printed_digits(self):
        for value, printed, want in ((9.47486e23, "9.52e23", "9.47e23"), (0.8617, "0.862", "0.862"), (96.6, "97", "97"),
                                     (123.0, "1e2", "1e2"), (1.04e27, "1.0e+27", "1.0e+27")):
            self.assertEqual(scenario_file.as_printed(value, printed), want)

    def test_any_values_within_the_bounds_have_an_answer(self):
        random = np.random.default_rng(1)
        built = 0
        for _ in range(3000):
            draft = scenario_file.profile_draft(str(random.choice(model.PROFILES)))
            for key in scenario_file.KEYS:
                if random.random() > 1 / 3:
                    continue
                value = bool(random.integers(2)) if key.of is bool else str(random.choice(key.names)) if key.names else \
                    key.of(max(key.least, 1e-9) * (key.most / max(key.least, 1e-9)) ** random.random())
                draft = draft.but([(key, value)])
            s, wrong = draft.build()
            if wrong:
                continue
            built += 1
            out = model.simulate(s)
            for name in ("eta_h", "eta_c", "eta_r", "eta_act", "chi"):
                self.assertTrue(0 <= getattr(out, name) <= 1 + 1e-12, (name, s))
            for name in ("raw", "local", "quality", "tokens", "outer_time", "cost"):
                self.assertTrue(np.isfinite(getattr(out, name)) and getattr(out, name) >= 0, (name, s))
            self.assertTrue(out.raw > 0 and out.inner_steps >= 1 and out.stages >= 1, s)
        self.assertGreater(built, 700)

    def test_the_page_has_what_the_engine_says(self):
        page = (ROOT / "docs/planner-engine.md").read_text(encoding="utf-8")
        with mock.patch.dict(os.environ, {"LONGHAUL_COMMAND": os.environ["LONGHAUL_BINARY"]}):
            text = simulate(str(ROOT / "planning/scenarios/engine.toml")).text()
        self.assertIn(re.search(r"<!-- table engine -->\n```\n(.*?)```", page, re.DOTALL)[1], text)

    def test_refusals(self):
        """One line each: file, line, what is wrong, what is known."""
        whole = (ROOT / "tests/approval/scenarios/all.json").read_text(encoding="utf-8")
        for case in json.loads((pathlib.Path(__file__).parent / "refusals.json").read_text(encoding="utf-8")):
            with self.subTest(**case):
                with self.assertRaises(Refused) as refused:
                    if "calibration" in case:
                        calibration.parse(whole.replace(*case["calibration"]), "all.json")
                    else:
                        root = toml.parse(case["scenario"], "plan.toml")
                        file = scenario_file.read(root)
                        spreads.read_break_even(root, file)
                        results.Rows(file)
                self.assertEqual(str(refused.exception), case["refusal"])


if __name__ == "__main__":
    unittest.main()
