"""Campaigns of synthetic records: what an arm may say, and what keeps it from saying anything."""

import json
import math
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import unittest

os.environ.setdefault("LONGHAUL_READS", "1")
sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import numpy as np  # noqa: E402

from longhaul.analysis import advice, text  # noqa: E402
from longhaul.analysis.calibration import calibration, calibration_json  # noqa: E402
from longhaul.analysis.campaign import analyse  # noqa: E402
from longhaul.analysis.changes import changes_beside_codecs, compressed_crossings, spec_changes  # noqa: E402
from longhaul.analysis.forecast import forecast  # noqa: E402
from longhaul.analysis.loss_file import HEAD, PRICED, read_losses  # noqa: E402
from longhaul.analysis.rows import estimates  # noqa: E402
from longhaul.record import open_record  # noqa: E402
from longhaul.refusal import Refused  # noqa: E402
from longhaul.report.data import losses_table  # noqa: E402
from longhaul.tables import csv_rows, csv_text  # noqa: E402
from making import Made  # noqa: E402

BUDGETS = (0.5, 0.65, 0.8, 1.0, 1.1)
SLOPE, D0 = 0.3, 400_000
PACKAGE = pathlib.Path(__file__).parents[3] / "python"


def spec(seed=1, **keys):
    """A resolved spec: `train__lr=0.01` is the key train.lr."""
    values = {
        "model.blocks": 8,
        "model.width": 64,
        "model.context": 128,
        "model.vocab": 256,
        "data.source": '"text:a"',
        "train.lr": 0.003,
        "train.tokens": D0,
        "train.batch_rows": 16,
        "train.warmup_steps": 10,
        "schedule.stages": 1,
        "boundary.forward": '"none"',
        "boundary.backward": '"none"',
        "outer.groups": 1,
    } | {key.replace("__", "."): value for key, value in keys.items()}
    tables = {}
    for key, value in values.items():
        table, _, name = key.partition(".")
        tables.setdefault(table, []).append(f"{name} = {value}\n")
    return f"seed = {seed}\n" + "".join(f"\n[{table}]\n{''.join(lines)}" for table, lines in tables.items())


class Campaign:
    """Arms of a plan; losses fall by SLOPE an e-fold, every seed has its luck, every run some noise."""

    def __init__(self, seeds=5, noise=1e-4, primary="s4"):
        self.seeds, self.noise, self.primary, self.arms = range(1, seeds + 1), noise, primary, {}
        self.random = np.random.default_rng(3)
        for budget in BUDGETS:
            self.arm(f"reference@{budget:g}", role="reference", budget=budget)
        self.arm("control@0.9", role="control", budget=0.9)

    def arm(
        self, name, role="arm", budget=1.0, ln_eta=0.0, on=None, plan="", change=None, facts=None, status=None, luck=None, **keys
    ):
        """`ln_eta`: its true one. `change`: of a seed, columns of its run. `status`: of a seed; `facts` may be, too. `luck`: of a
        seed, nat."""
        self.arms[name] = dict(
            role=role,
            budget=budget,
            ln_eta=ln_eta,
            on=on,
            plan=plan,
            change=change or (lambda seed: {}),
            facts=facts or {},
            status=status or (lambda seed: "ok"),
            luck=luck or (lambda seed: 0.0),
            keys=keys,
        )
        return self

    def family(self, forward, backward, x, stages=(2, 4, 8)):
        """Arms whose -ln eta is x(K)."""
        prefix = "s" if forward != "none" != backward else "f" if forward != "none" else "b"
        for s in stages:
            k = compressed_crossings(s, forward, backward)
            self.arm(f"{prefix}{s}", ln_eta=-x(k), schedule__stages=s, boundary__forward=f'"{forward}"',
                     boundary__backward=f'"{backward}"')
        return self

    def write(self, folder):
        plan = f'[plan]\nname = "c"\nprimary = "{self.primary}"\nseeds = {list(self.seeds)}\n' + "".join(
            f"\n[[arm]]\nname = \"{name}\"\n{one['plan']}" for name, one in self.arms.items())
        made = Made(folder)
        experiment = made.experiment("campaign", "c", plan, d0_tokens=D0)
        made.db.execute("BEGIN")
        for seed in self.seeds:
            for name, one in self.arms.items():
                self._run(made, experiment, seed, name, one)
        made.db.execute("COMMIT")
        made.db.close()
        return folder

    def _run(self, made, experiment, seed, name, one):
        keys, status = one["keys"], one["status"](seed)
        loss = 2.0 - SLOPE * (math.log(one["budget"]) + one["ln_eta"]) + 0.02 * seed + self.random.normal(0, self.noise) + one["luck"](seed)
        facts = one["facts"](seed) if callable(one["facts"]) else one["facts"]
        run = made.run(experiment, facts, **({
            "arm": name, "role": one["role"], "budget_fraction": one["budget"], "seed": seed, "status": status,
            "train_tokens": round(D0 * one["budget"]), "stages": keys.get("schedule__stages", 1),
            "groups": keys.get("outer__groups", 1),
            "forward_codec": keys.get("boundary__forward", '"none"').strip('"'),
            "backward_codec": keys.get("boundary__backward", '"none"').strip('"'),
            "spec_toml": spec(seed, **({"train__tokens": round(D0 * one["budget"])} | keys)),
            "git_revision": "1a2b"} | one["change"](seed)))
        if status != "ok":
            return
        made.add("evaluations", run_id=run, step=9, codec="off", loss_nat=loss, tokens=1)
        if one["on"] is not None:
            made.add("evaluations", run_id=run, step=9, codec="on", loss_nat=loss + one["on"], tokens=1)
        for step in (1, 2):
            made.add(
                "steps", run_id=run, step=step, group_index=0, stage=0, loss_nat=loss + step, parameter_hash=f"{loss}"
            )


class Analysed(unittest.TestCase):
    def setUp(self):
        self.luck = np.random.default_rng(7)
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = f"{self.scratch.name}/results"

    def of(self, campaign):
        with open_record(campaign.write(self.folder)) as record:
            return analyse(record, record.experiments()[0])


def named(rows):
    return {(row.arm, row.evaluation, row.quantity): row for row in rows}


class Estimates(Analysed):
    def test_a_family_has_its_q_and_every_row_a_name_of_its_own(self):
        a = self.of(Campaign().family("int4", "int8", lambda k: 0.01 * k).family("int4", "none", lambda k: 0.015 * k)
                    .family("none", "int8", lambda k: 0.005 * k))
        both = next(family for family in a.families if family.directions == 2)
        self.assertAlmostEqual(both.off.q.value, math.exp(-0.01), delta=5e-4)
        self.assertEqual(both.depths.chosen, "M1")
        d, = a.findings.directions
        self.assertAlmostEqual(d.q_forward.value, math.exp(-0.015), delta=1e-3)
        self.assertAlmostEqual(d.q_backward.value, math.exp(-0.005), delta=1e-3)
        self.assertFalse(d.only_both_feeds_the_planner)
        self.assertEqual([t.name for t in a.findings.secondary],
                         ["S = 2", "S = 8", "forward only", "backward only", "M1 against a power of K"])
        # Holm over all five, whatever can be tested: the smallest p five times, and none below one before it.
        tests, least = sorted(a.findings.secondary, key=lambda t: t.p), 0.0
        for i, test in enumerate(tests):
            least = max(least, min(1.0, (5 - i) * test.p))
            self.assertAlmostEqual(test.adjusted, least, msg=test.name)
        self.assertLess(tests[0].adjusted, 0.05)
        rows = estimates(a)
        self.assertEqual(len(rows), len(named(rows)))
        self.assertIsNotNone(named(rows)["s4", "off", "q"].low)
        # The planner's file has what the table has.
        entry = next(one for one in calibration(a, {"int4": 17_000_000, "int8": 34_000_000}.get)["activation"]
                     if one["direction"] == "both")
        self.assertEqual([depth["ln_eta"]["value"] for depth in entry["by_S"]], [arm.off.ln_eta.value for arm in both.arms])
        self.assertFalse({"q", "gamma", "depth_model"} & set(entry))
        self.assertAlmostEqual(entry["ratio_forward"], 2 * 4096 * 8192 / 17e6, delta=1e-12)
        self.assertEqual(entry["ratio_backward"], 2 * 4096 * 8192 / 34e6)
        self.assertEqual(json.loads(calibration_json(a, lambda codec: None))["schema"], "longhaul.calibration/2")

    def test_the_planner_s_covariance_is_that_of_the_losses(self):
        """On a straight line a depth's ln eta is its loss difference over the slope, and so are their covariances."""
        luck = {(seed, name): self.luck.normal(0, 0.01) for seed in range(1, 9) for name in ("s4", "s8", "both")}
        c = Campaign(seeds=8, noise=0)
        for stages in (4, 8):
            c.arm(f"s{stages}", ln_eta=-0.02 * stages, schedule__stages=stages, boundary__forward='"int4"',
                  boundary__backward='"int4"', luck=lambda seed, stages=stages: luck[seed, f"s{stages}"] + luck[seed, "both"])
        entry, = [one for one in calibration(self.of(c), lambda codec: None)["activation"] if one["eval"] == "off"]
        deltas = [[luck[seed, f"s{stages}"] + luck[seed, "both"] for seed in range(1, 9)] for stages in (4, 8)]
        np.testing.assert_allclose(entry["delta_covariance"], np.cov(deltas) / 8, rtol=1e-6)
        np.testing.assert_allclose(entry["ln_eta_covariance"], np.cov(deltas) / 8 / SLOPE ** 2, rtol=0.02)
        self.assertNotAlmostEqual(entry["ln_eta_covariance"][0][1], 0, 5)
        half = (entry["by_S"][0]["ln_eta"]["ci"][1] - entry["by_S"][0]["ln_eta"]["ci"][0]) / 2
        self.assertAlmostEqual(half, 2.364624 * math.sqrt(entry["ln_eta_covariance"][0][0]), delta=0.01 * half)  # t(7)

    def test_a_price_without_training_stands_beside_what_training_costs(self):
        """Delta 0.03 off and 0.036 on over three boundaries; untrained they cost 0.024, less in the first seeds."""
        prices = {1: 0.022, 2: 0.023, 3: 0.024, 4: 0.025, 5: 0.026}
        c = Campaign(noise=1e-6).arm("s4", ln_eta=-0.1, on=0.006, schedule__stages=4, boundary__forward='"int4"',
                                     boundary__backward='"int4"',
                                     facts=lambda seed: {"untrained_price_nat": f"{prices[seed]} 0.001 1024"})
        c.arm("rate", ln_eta=-0.1, on=0.006, schedule__stages=4, boundary__forward='"int4"', train__lr=0.01,
              facts={"untrained_price_nat": "0.01 0.001 1024"})
        a = self.of(c)
        rows = named(estimates(a))
        self.assertAlmostEqual(rows["s4", "on", "P"].value, 0.024, 9)
        half = 2.776445105 * 0.0015811388 / math.sqrt(5)  # t(4), sd of the five prices
        self.assertAlmostEqual(rows["s4", "on", "P"].high, 0.024 + half, 6)
        rho = rows["s4", "on", "rho"]
        self.assertAlmostEqual(rho.value, 1.5, delta=1e-3)
        # Delta is the same in every seed, so that only P moves the ratio: by 1.5 half / 0.024.
        self.assertAlmostEqual(rho.high - rho.value, 1.5 * half / 0.024, delta=1e-3)
        self.assertAlmostEqual(rows["s4", "off", "delta per boundary"].value, 0.01, delta=1e-5)
        self.assertAlmostEqual(rows["s4", "on", "delta per boundary"].value, 0.012, delta=1e-5)
        self.assertNotIn(("rate", "on", "rho"), rows)  # its loss is not its boundaries' alone
        table = text.campaign_table(a)
        self.assertIn("P/boundary", table)
        self.assertIn("rho = 1.50 [", table)
        losses = losses_table(a)
        head = ",".join(column.keys[0] for column in losses.columns)
        self.assertEqual(head, PRICED)
        path = pathlib.Path(self.scratch.name) / "losses.csv"
        path.write_text(csv_text(csv_rows(losses)), encoding="utf-8")
        self.assertEqual([one.untrained_price for one in read_losses(str(path)).rows if one.arm == "s4"],
                         list(prices.values()))

    def test_a_bend_is_shown_and_the_planner_has_the_depths(self):
        a = self.of(Campaign(noise=2e-5).family("int4", "int8", lambda k: 0.05 * math.sqrt(k)))
        self.assertAlmostEqual(a.families[0].depths.gamma.value, 0.5, delta=0.02)
        entry, = calibration(a, lambda codec: None)["activation"]
        for depth in entry["by_S"]:  # what was measured, and no shape
            self.assertAlmostEqual(depth["ln_eta"]["value"], -0.05 * math.sqrt(2 * (depth["S"] - 1)), delta=2e-3)
        self.assertIn("M4 is preferred to M1", text.campaign_table(a, True))

    def test_directions_that_do_not_add_up(self):
        c = Campaign().family("int4", "none", lambda k: 0.01 * k, (4,)).family("none", "int8", lambda k: 0.01 * k, (4,))
        a = self.of(c.family("int4", "int8", lambda k: 0.05 * k, (4,)))
        self.assertLess(a.findings.directions[0].interactions[0].ln.interval.high, 0)
        self.assertIn("only arms with both feed the simulator", text.campaign_table(a, True))

    def test_one_cut_each_tells_position(self):
        c = Campaign()
        for cut in (1, 2, 4, 6, 7):
            c.arm(f"L{cut}", ln_eta=-0.02 - 0.08 * cut / 8, schedule__stages=2, schedule__cuts=f"[{cut}]",
                  boundary__forward='"int4"', boundary__backward='"int4"')
        found = {one.name: one for one in self.of(c).findings.contrasts}
        self.assertAlmostEqual(found["M6, tilt of -ln eta over l/L, int4 / int4"].value.value, 0.08, delta=2e-3)
        self.assertAlmostEqual(found["M6, bow of -ln eta over l/L, int4 / int4"].value.value, 0.0, delta=1e-2)

    def test_factors_of_diloco_are_ratios_of_cells(self):
        c, ln = Campaign(primary="d11"), {(1, 1): -0.01, (1, 10): -0.02, (2, 1): -0.015, (2, 10): -0.06}
        for (m, h), value in ln.items():
            c.arm(f"d{m}{h}", ln_eta=value, outer__groups=m, outer__inner_steps=h, train__batch_rows=16 // m)
        c.arm("local", ln_eta=-0.2, outer__groups=2, outer__inner_steps=10)  # another global batch
        c.arm("codec", ln_eta=-0.09, outer__groups=2, outer__inner_steps=10, outer__codec='"int4"', train__batch_rows=8)
        a = self.of(c)
        self.assertEqual([cell.arm for cell in a.findings.cells], ["d11", "d110", "d21", "d210", "codec"])
        factors = {f.name: f for f in a.findings.factors}
        for name, value in (("eta_H(10 | M = 2)", -0.045), ("eta_replicas(2 | H = 10)", -0.04),
                            ("eta_c(int4 | M = 2, H = 10)", -0.03), ("interaction of H = 10 and M = 2", -0.035)):
            self.assertAlmostEqual(factors[name].ln.value, value, delta=1e-3, msg=name)
            self.assertEqual(factors[name].eta is None, name.startswith("interaction"))
        out = calibration(a, lambda codec: None)
        self.assertEqual([(one["M"], one["H"]) for one in out["eta_H"]], [(2, 1), (2, 10), ])
        self.assertNotIn("eta_c", out, "a codec without recorded bytes has no ratio to plan with")


class NoFigure(Analysed):
    def test_no_mean_over_survivors(self):
        c = Campaign().family("int4", "int8", lambda k: 0.01 * k)
        c.arms["s4"]["status"] = lambda seed: "diverged" if seed == 2 else "ok"
        a = self.of(c)
        self.assertEqual((a.arm("s4").verdict, a.arm("s4").note), ("diverged", "diverged 1 of 5"))
        self.assertIn("no joint q: arm 's4': diverged 1 of 5", a.families[0].note)

    def test_no_curve_over_survivors(self):
        c = Campaign().family("int4", "int8", lambda k: 0.01 * k)
        c.arms["reference@0.8"]["status"] = lambda seed: "failed" if seed == 1 else "ok"
        a = self.of(c)
        self.assertIn("no reference curve over survivors: reference@0.8 failed 1 of 5", a.resolvable)
        self.assertEqual(text.campaign_summary(a), "")

    def test_a_control_that_misses_leaves_no_conclusion(self):
        c = Campaign().family("int4", "int8", lambda k: 0.01 * k)
        c.arms["control@0.9"]["ln_eta"] = -0.05
        a = self.of(c)
        self.assertIn("control@0.9 has a true eta of 0.9000 and was recovered as 0.85", a.resolvable)
        self.assertEqual((a.arm("s4").verdict, text.findings_tables(a)), ("no conclusion", []))
        out = calibration(a, lambda codec: None)
        self.assertEqual((out["activation"], len(out["controls_failed"])), ([], 1))
        self.assertNotIn("on_off", {row.quantity for row in estimates(a)})

    def test_another_setting_build_or_text_takes_the_q(self):
        def build(name):
            return lambda seed: {"git_revision": "3c4d"} if seed == 3 and name else {}
        codecs = dict(schedule__stages=4, boundary__forward='"int4"', boundary__backward='"int8"')
        c = Campaign().arm("s4", ln_eta=-0.06, **codecs)
        c.arm("lr", ln_eta=-0.1, train__lr=0.001, **codecs).arm("build", ln_eta=-0.1, change=build(True), **codecs)
        c.arm("text", data__source='"text:b"', **codecs)
        c.arm("own", ln_eta=-0.1, plan='reference = "lr"\n', train__lr=0.001, **(codecs | {"schedule__stages": 8}))
        a = self.of(c)
        self.assertIsNotNone(a.arm("s4").off.q)
        self.assertEqual(text.verdict_text(a.arm("lr")), "no q: train.lr 0.003 > 0.001")
        self.assertEqual(a.arm("build").other_build, "seed 3: revision 3c4d against 1a2b")
        self.assertIsNone(a.arm("build").off.q)
        self.assertEqual(a.arm("text").note,
                         'losses on different texts have no difference: data.source "text:a" > "text:b"')
        self.assertEqual((a.arm("own").reference, a.arm("own").changes), ("lr", []))
        self.assertIn("2 of revision: 1a2b (", a.builds[0])

    def test_the_same_held_out_text_is_no_other_text(self):
        c = Campaign()
        for one in c.arms.values():
            one["facts"] = {"eval_hash": "e1"}
        c.arm("text", data__source='"text:b"', facts={"eval_hash": "e1"})
        self.assertIsNotNone(self.of(c).arm("text").off)

    def test_files_that_changed_are_not_mixed(self):
        c = Campaign()
        c.arms["control@0.9"]["facts"] = {"data_hash": "h2"}
        for name, one in c.arms.items():
            if name != "control@0.9":
                one["facts"] = {"data_hash": "h1"}
        a = self.of(c)
        self.assertIn("data_hash", a.mixed_files)
        self.assertTrue(all(arm.note == a.curve_note and not arm.off for arm in a.arms))

    def test_a_repetition_with_another_bit_fails(self):
        c = Campaign().arm("again", role="control", budget=1.0)
        a = self.of(c)
        check, = a.identities
        self.assertTrue(check.same_spec)
        self.assertIn("NOT bit-identical in 5 of 5 seeds, first at seed 1, step 1: loss", check.text)
        self.assertEqual(len(a.failed_controls), 1)

    def test_a_lossless_arm_has_the_bits_of_its_reference(self):
        c = Campaign(noise=0.0).arm(
            "identity", schedule__stages=2, boundary__forward='"identity"', boundary__backward='"identity"'
        )
        check, = self.of(c).identities
        self.assertEqual(
            check.text,
            "lossless identity against reference@1: bit-identical in 5 of 5 seeds (10 training losses, "
            "0 parameter hashes, 5 held-out losses)",
        )
        self.assertFalse(check.same_spec)

    def test_a_deaf_program_is_told(self):
        c = Campaign()
        for one in c.arms.values():
            one["facts"] = {"program": "train.py"}
        c.random = type("", (), {"normal": lambda self, mean, sd: 0.0})()
        folder = c.write(self.folder)
        db = sqlite3.connect(f"{folder}/longhaul.sqlite")
        with db:
            db.execute(
                "UPDATE evaluations SET loss_nat = 2.5 WHERE run_id IN (SELECT id FROM runs WHERE arm = 'reference@1')"
            )
        db.close()
        with open_record(folder) as record:
            a = analyse(record, record.experiments()[0])
        self.assertIn("all 5 seeds of reference@1 told the same loss, 2.5: the program does not go by $LONGHAUL_SEED",
                      a.failed_controls)

    def test_one_seed_has_no_headline(self):
        a = self.of(Campaign(seeds=1).family("int4", "int8", lambda k: 0.01 * k))
        self.assertIn("One seed gives no interval", a.resolvable)
        self.assertEqual(a.arm("s4").verdict, "no interval")
        self.assertEqual(named(estimates(a))["s4", "off", "q"].note, "one seed gives no interval")

    def test_a_plan_that_cannot_be_read_pairs_nothing(self):
        folder = Campaign().write(self.folder)
        with open_record(folder) as record:
            experiment = record.experiments()[0]
            experiment.plan_text = "[plan"
            a = analyse(record, experiment)
        self.assertIn("the recorded plan cannot be read", a.resolvable)
        self.assertTrue(text.campaign_table(a).startswith("Nothing can be said yet"))


class Forecasts(Analysed):
    def design(self, **keys):
        arms = [
            {"name": "reference@1", "role": "reference", "stages": 1, "crossings": 0, "has_q": False, "spec": spec()},
            {"name": "s4", "role": "arm", "stages": 4, "crossings": 6, "has_q": True, "spec": spec(schedule__stages=4)},
        ]
        return {"name": "later", "seeds": 5, "primary": "s4", "arms": arms,
                "assumed": {"sigma_nat": 0.01, "rho": 0.5, "slope_nat": 0.3}} | keys

    def test_half_a_percent_is_seen_or_not(self):
        said = forecast(self.design(), None)
        self.assertTrue(said["primary_resolvable"] is False and "NOT resolvable at S = 4." in said["text"])
        quiet = forecast(self.design(assumed={"sigma_nat": 0.001, "rho": 0.5, "slope_nat": 0.3}), None)
        self.assertTrue(quiet["primary_resolvable"])
        self.assertFalse(forecast(self.design(seeds=1), None)["primary_resolvable"])
        self.assertIn("its result is an efficiency, not a q", forecast(self.design(primary="x"), None)["text"])

    def test_a_pilot_of_the_same_training_tells_the_noise(self):
        folder = Campaign(noise=0.005).family("int4", "int8", lambda k: 0.01 * k).write(self.folder)
        with open_record(folder) as record:
            self.assertIn("(pilot 'c')", forecast(self.design(), record)["text"])
            self.assertIn("(assumed, no pilot in this record)", forecast(self.design(name="c"), record)["text"])
            other = self.design()
            other["arms"][0]["spec"] = spec(train__lr=0.01)
            self.assertIn("Campaign 'c' of this record is no pilot for this one: train.lr 0.01 > 0.003.",
                          forecast(other, record)["text"])

    def test_an_arm_on_another_text_is_told_before(self):
        design = self.design()
        design["arms"][1]["spec"] = spec(model__context=64)
        self.assertIn("arm 's4' will have no eta: losses on different texts", forecast(design, None)["advice"][0])
        design["arms"][1]["spec"] = spec(data__source='"text:b"')
        self.assertIn("unless both hold out the same tokens", forecast(design, None)["advice"][0])


class Files(Analysed):
    def losses(self, body):
        path = pathlib.Path(self.scratch.name) / "losses.csv"
        path.write_bytes(body)
        return read_losses(str(path))

    def test_hostile_losses(self):
        row = b"reference@1,reference,none / none,1,0,1,1,400000,2.5,\n"
        head = HEAD.encode() + b"\n"
        for body, why in (
            (b"", "not a losses.csv"),
            (b"name,value\n", ":1: not a losses.csv"),
            (head + b"a,b\n", ":2: 2 cells"),
            (head + row + row, ":3: arm 'reference@1', seed 1 stands there twice"),
            (head + row.replace(b"2.5", b"nan"), "finite numbers"),
            (head + row.replace(b"2.5", b""), "finite"),
            (head + row.replace(b",1,1,", b",x,1,"), "finite"),
            (head + row.replace(b"400000", b"4e5"), "finite"),
            (head + row.replace(b"400000", b"4_0"), "finite"),
            (head + b"\xff" + row, "UTF-8"),
        ):
            with self.subTest(body=body), self.assertRaisesRegex(Refused, why):
                self.losses(body)
        with self.assertRaisesRegex(Refused, "cannot be read"):
            read_losses(self.scratch.name + "/none.csv")
        read = self.losses(b"\xef\xbb\xbf" + head.replace(b"\n", b"\r\n") + row + b"\n")
        self.assertEqual([(one.line, one.off, one.on) for one in read.rows], [(2, 2.5, None)])

    def asked(self, *words, packages=""):
        """What the engine gets for `_measure WORDS`."""
        start = "import sys; from longhaul.commands import main; sys.exit(main(sys.argv[1:]))"
        done = subprocess.run(
            [sys.executable, "-c", start, "_measure", *words],
            capture_output=True,
            text=True,
            check=False,
            input=json.dumps(Forecasts.design(None)),
            timeout=120,
            env=os.environ | {"LONGHAUL_READS": "1", "PYTHONPATH": f"{packages}:{PACKAGE}"},
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def test_a_package_that_lacks_is_named_and_is_no_traceback(self):
        for package, what in (("numpy", "numpy"), ("scipy", "scipy")):
            stub = pathlib.Path(self.scratch.name) / package
            stub.mkdir()
            (stub / f"{package}.py").write_text("raise ImportError('is not here')")
            told = self.asked("forecast", self.folder, packages=str(stub))
            self.assertTrue(told["missing"])
            self.assertRegex(told["error"], f"needs the Python package {what}, .*pip install {what}$")

    def test_answers_of_the_engine(self):
        self.assertIn("text", self.asked("forecast", self.folder))
        self.assertFalse(self.asked("estimates", self.folder, "1")["missing"])
        Campaign().family("int4", "int8", lambda k: 0.01 * k).write(self.folder)
        told = self.asked("estimates", self.folder, "1", "--everything")
        self.assertIn("How the loss grows with depth", told["table"])
        self.assertEqual(told["estimates"][0]["quantity"], "slope")
        self.assertIn("has no experiment 7", self.asked("estimates", self.folder, "7")["error"])


class Specs(unittest.TestCase):
    def test_crossings(self):
        self.assertEqual(
            [
                compressed_crossings(8, *codecs)
                for codecs in (
                    ("none", "none"),
                    ("int4", "none"),
                    ("int4", "int8"),
                    ("int4 at 1", "none"),
                    ("int4 at 1,2; int8 at 3", "int8"),
                )
            ],
            [0, 7, 14, 1, 10],
        )

    def test_changes(self):
        was, now = spec(1), spec(2, train__lr=0.01, schedule__stages=4, boundary__forward='"int4"')
        self.assertEqual([c.key for c in spec_changes(was, now)], ["train.lr", "schedule.stages", "boundary.forward"])
        self.assertEqual([c.key for c in changes_beside_codecs(was, now)], ["train.lr"])
        faults = "[[fault]]\nwhat = 1\n[[fault]]\nwhat = 2\n"
        self.assertEqual([(c.key, c.before, c.after) for c in spec_changes(faults, faults.replace("2", "3"))],
                         [("fault[1].what", "2", "3")])


class Advice(Analysed):
    def test_an_arm_that_learnt_nothing_is_told(self):
        c = Campaign()
        for name, one in c.arms.items():
            one["facts"] = {"held_out_unigram_nat": "2.0" if name == "control@0.9" else "9"}
        lines = advice.learnt_nothing(self.of(c))
        self.assertEqual(len(lines), 1)
        self.assertRegex(lines[0], r"arm 'control@0.9' learnt no more than byte frequencies: it ends at 2\.0")


if __name__ == "__main__":
    unittest.main()
