"""Prices from rows alone: the published pricings of SmolLM2 and two small ones, each figure of their documents."""

import csv
import json
import math
import pathlib
import unittest

import numpy as np

from longhaul.pricing import findings, plan, report
from longhaul.pricing.findings import Count, Gradient, Seen, Verified
from longhaul.pricing.plan import Request
from longhaul.tables import Interval, Measured

ROOT = pathlib.Path(__file__).resolve().parents[3]
PUBLISHED, GOLDEN = ROOT / "docs/results/pretrained", ROOT / "tests/golden/price"


def told_of(document, rows):
    """A document and its CSV of rows as `longhaul price` tells them: nothing of the document's estimates but bits and
    NMSE of each boundary, which no row has."""
    codecs = list(dict.fromkeys(row["codec"] for row in document["boundaries"]))

    def arm(words):
        return [(int(block), codecs.index(codec)) for block, codec in (part.split() for part in words.split(", ") if part)]

    parts = {part: {} for part in ("priced", "verified", "gradient")}
    for row in rows:
        parts[row["part"]].setdefault((row["crossings"], row["compressed"]), []).append(row)
    priced = {key[0]: value for key, value in parts["priced"].items()}
    windows = [int(row["window"]) for row in priced[""]]
    cuts = list(dict.fromkeys(tuple(row["cuts"]) for row in document["depths"]))
    verified = None
    if parts["verified"]:
        chosen = [", ".join(f"{c['before_block']} {c['codec']}" for c in choice.get("choice", []))
                  for choice in document["choices"]]
        of = {key[0]: value for key, value in parts["verified"].items()}
        verified = {"windows": [int(row["window"]) for row in of[chosen[0]]],
                    "exact": [float(row["uncompressed_nat_per_token"]) for row in of[chosen[0]]],
                    "chosen": [[float(row["loss_nat_per_token"]) for row in of[words]] for words in chosen]}
    gradients = []
    for (words, side), found in parts["gradient"].items():
        crossings = arm(words)
        gradients.append({"cuts": cuts.index(tuple(block for block, _ in crossings)), "codec": crossings[0][1],
                          "side": side, "nmse": [float(row["gradient_nmse"]) for row in found],
                          "cosine": [float(row["gradient_cosine"]) for row in found]})
    return {"conditions": document["conditions"],
            "request": {"codecs": codecs, "cuts": cuts,
                        "allowed_nat": list(dict.fromkeys(row["loss_nat_per_token"] for row in document["allowed"]))},
            "windows": windows, "arms": [arm(words) for words in priced],
            "losses": [[float(row["loss_nat_per_token"]) for row in found] for found in priced.values()],
            "forward": [(row["before_block"], codecs.index(row["codec"]), row["bits_per_element"], 1, row["nmse"], 1)
                        for row in document["boundaries"]],
            "gradients": gradients, "verified": verified, "trained_on": {"rows": 0, "source": ""}}


def priced(folder, document, rows):
    whole = json.loads((folder / document).read_text(encoding="utf-8"))
    with open(folder / rows, newline="", encoding="utf-8") as file:
        return whole, report.of_command(told_of(whole, csv.DictReader(file)))


def differ(want, got, at=""):
    """Where two documents are not the same to 1e-9; "" where they are."""
    if isinstance(want, dict):
        if list(want) != list(got):
            return f"{at}: {list(want)} {list(got)}"
        return next((found for key in want if (found := differ(want[key], got[key], f"{at}.{key}"))), "")
    if isinstance(want, list):
        if len(want) != len(got):
            return f"{at}: {len(want)} {len(got)}"
        return next((found for i, one in enumerate(want) if (found := differ(one, got[i], f"{at}[{i}]"))), "")
    if isinstance(want, float) and isinstance(got, float) and abs(want - got) <= 1e-9 * max(abs(want), abs(got), 1e-4):
        return ""
    return "" if want == got and isinstance(got, type(want)) else f"{at}: {want!r} {got!r}"


class Published(unittest.TestCase):
    maxDiff = None

    def test_documents_are_those_of_their_rows(self):
        for folder, name in ((PUBLISHED, "docs"), (PUBLISHED, "docs-deep"), (GOLDEN, "plain"), (GOLDEN, "budget")):
            with self.subTest(name):
                rows = f"rows-{name}.csv" if folder == PUBLISHED else f"{name}.csv"
                want, pricing = priced(folder, f"{name}.json", rows)
                got = json.loads(report.pricing_json(pricing))
                self.assertEqual(differ(want, got), "")
                self.assertEqual(report.rows_csv(pricing), (folder / rows).read_text(encoding="utf-8"))

    def test_text_is_what_the_command_printed(self):
        for name in ("plain", "budget"):
            with self.subTest(name):
                _, pricing = priced(GOLDEN, f"{name}.json", f"{name}.csv")
                self.assertEqual(report.pricing_text(pricing), (GOLDEN / f"{name}.txt").read_text(encoding="utf-8"))


class Plan(unittest.TestCase):
    def test_equal_cuts_are_nested(self):
        self.assertEqual(plan.equal_cuts(30, 2), (15,))
        self.assertEqual(plan.equal_cuts(30, 4), (7, 15, 22))
        self.assertEqual(plan.equal_cuts(30, 8), (3, 7, 11, 15, 18, 22, 26))

    def test_seeds_and_windows_are_the_engine_s(self):
        self.assertEqual(plan.fold_seed(1, 2, 3, 4, 5, 6), 0xBC41F02C18EC2017)  # compressors/numbers/noise.h
        for name, folder in (("docs", PUBLISHED), ("docs-deep", PUBLISHED)):
            whole, pricing = priced(folder, f"{name}.json", f"rows-{name}.csv")
            windows = whole["conditions"]["rows_in_text"]
            self.assertEqual([plan.window_of(i, windows) for i in range(len(pricing.seen.windows))], pricing.seen.windows)
        for size in (1, 2, 3, 64, 1000):
            self.assertEqual(sorted(plan.window_of(i, size) for i in range(size)), list(range(size)))


class Estimates(unittest.TestCase):
    def test_ends_beyond_what_can_be_are_cut(self):
        # Mean 0.5, sd 0.5, t(0.975, 2) = 4.302653: 0.5 +- 1.242.
        cut = findings.mean_within(np.array([0, 0.5, 1]), 0, 1)
        self.assertEqual((cut.value, cut.interval.low, cut.interval.high), (0.5, 0, 1))
        self.assertAlmostEqual(findings.mean_within(np.array([0, 0.5, 1]), 0, 10).interval.high, 1.742, 3)

    def test_one_row_has_no_interval(self):
        self.assertEqual(findings.mean_of(np.array([0.5])), Measured(0.5))

    def test_the_worst_is_compared_with_the_median_one_at_the_level_of_all_pairs(self):
        # Means 0.2, 0.5, 0.1, 0.3: the lower middle one of four is 0.2.
        alone = [np.array(x) for x in ([0.1, 0.3, 0.2], [0.5, 0.4, 0.6], [0.1, 0.1, 0.1], [0.3, 0.3, 0.3])]
        worst = findings.find_worst(alone)
        self.assertEqual((worst.worst, worst.median, worst.pairs), (1, 0, 6))
        self.assertAlmostEqual(worst.more.value, 0.3, 12)
        # Differences 0.4, 0.1, 0.4: sd 0.173205; level 1 - 0.05 / 6, t(1 - 0.025 / 6, 2) = 10.886.
        self.assertAlmostEqual(worst.more.interval.high - 0.3, 10.886 * 0.173205 / math.sqrt(3), 2)
        self.assertIsNone(findings.find_worst(alone[:1]))

    def test_neighbours_that_are_alike_are_found(self):
        self.assertAlmostEqual(findings.neighbour_correlation(np.array([1.0, 1, 1, -1, -1, -1])), 3 / 6, 12)
        self.assertAlmostEqual(findings.neighbour_correlation(np.array([1.0, -1, 1, -1])), -3 / 4, 12)
        self.assertEqual(findings.neighbour_correlation(np.array([2.0, 2, 2])), 0)
        self.assertAlmostEqual(findings.neighbour_bound(100, 5), 0.257583, 6)  # normal quantile of 0.995

    def test_bits_are_shown_by_whole_intervals(self):
        of = [(8.25, 0.0001, 0.0002), (6.5, 0.004, 0.002), (4.25, 0.009, 0.002), (3.5, 0.05, 0.01), (2.5, 0.4, 0.1)]
        priced = [findings.Depth(0, i, Measured(value, Interval(value - half, value + half, 0.95, "t")), None, bits, None,
                                 None, None, 0) for i, (bits, value, half) in enumerate(of)]
        self.assertEqual(findings.bits_for(0.01, priced), (1, 3))  # the third's interval holds 0.01
        self.assertEqual(findings.bits_for(1e-5, priced), (None, 1))
        self.assertEqual(findings.bits_for(1, priced), (4, None))

    def test_a_verdict_is_of_the_whole_interval(self):
        self.assertEqual(findings.verdict_of(0.001, 0.009, 0.01), "within the budget")
        self.assertEqual(findings.verdict_of(0.011, 0.02, 0.01), "beyond the budget")
        self.assertIn("not shown", findings.verdict_of(0.005, 0.02, 0.01))


class Choosing(unittest.TestCase):
    # Codecs: 0 of eight bits, 1 of four, 2 of two.
    PRICES = {(2, 0): (0.0, 8), (2, 1): (0.01, 4), (2, 2): (0.1, 2), (5, 0): (0.0, 8), (5, 1): (0.05, 4),
              (5, 2): (0.5, 2), (6, 0): (0.0, 8), (6, 1): (0.02, 4), (6, 2): (0.06, 2)}

    def test_takes_the_fewest_bits_that_fit_and_of_those_the_cheapest(self):
        ranges = [range(2, 3), range(5, 7)]
        # 4 + 2 bits cost 0.07 at blocks 2 and 6 (2 + 4 bits cost 0.12), 2 + 2 bits 0.16; 4 + 4 at 2 and 6 cost 0.03.
        for budget, arm in ((0.08, ((2, 1), (6, 2))), (0.17, ((2, 2), (6, 2))), (0.03, ((2, 1), (6, 1))),
                            (0, ((2, 0), (5, 0)))):
            self.assertEqual(findings.choose(self.PRICES, ranges, budget), arm)

    def test_boundaries_do_not_meet(self):
        self.assertEqual(findings.choose(self.PRICES, [range(5, 7)] * 2, 0.07), ((5, 1), (6, 1)))
        self.assertIn("no boundaries can be placed", findings.choose(self.PRICES, [range(6, 7)] * 2, 1))

    def test_a_budget_that_nothing_meets_says_the_least_there_is(self):
        self.assertIn("the least is 0.03", findings.choose({(2, 0): (0.03, 8), (2, 1): (0.1, 4)}, [range(2, 3)], 0.02))

    def test_cuts_move_within_the_model(self):
        self.assertEqual(plan.ranges_around((1, 4, 7), 2, 8), [range(1, 4), range(2, 7), range(5, 8)])


class OfTensors(unittest.TestCase):
    def test_a_large_token_hides_in_the_nmse_and_not_in_the_mean_over_tokens(self):
        """One token of norm 10 without an error beside one of norm 1 that is lost whole."""
        count = Count()
        count.add(Count(squared_error=0.0, squared_norm=100.0, token_error=0.0, tokens=1))
        count.add(Count(squared_error=1.0, squared_norm=1.0, token_error=1.0, tokens=1))
        self.assertAlmostEqual(count.nmse, 1 / 101, 12)
        self.assertEqual(count.error_of_a_token, 0.5)
        self.assertEqual(Count().error_of_a_token, 0)


class OfRows(unittest.TestCase):
    def test_two_codecs_on_four_blocks(self):
        """Losses written down: codec a costs 0.25 a boundary, b 0.5; at block 3 both cost 0.25 more; they add up."""
        request = Request(("a", "b"), ((2,), (1, 2, 3)), blocks=4, rows=5, allowed_nat=(0.3,), budget_nat=0.8, move=0)
        arms = plan.arms_of(request)
        self.assertEqual(len(arms), 1 + 6 + 2)  # S = 2 is block 2 alone
        exact, noise = np.array([2.0, 3, 2, 3, 2]), np.array([0, 0.125, 0, -0.125, 0])
        losses = {arm: exact + noise * bool(arm) + sum(0.25 * (1 + codec) + 0.25 * (block == 3) for block, codec in arm)
                  for arm in arms}
        forward = {crossing: Count(800 if crossing[1] == 0 else 400, 100) for arm in arms for crossing in arm}
        seen = Seen([4, 0, 3, 1, 2], losses, forward)
        found = findings.find_prices(request, seen)
        deep = found.depths[2]  # S = 4, codec a
        self.assertEqual((deep.cuts, deep.codec, deep.bits), (1, 0, 8))
        self.assertAlmostEqual(deep.delta.value, 1, 12)
        self.assertAlmostEqual(deep.per_crossing.value, 1 / 3, 12)
        self.assertAlmostEqual(deep.interaction.value, 0, 12)
        self.assertEqual(request.cuts[1][deep.worst.worst], 3)
        self.assertIsNone(found.depths[0].interaction)
        self.assertAlmostEqual(deep.neighbour_correlation, -0.5, 12)  # noise in the text's order: 0.125, -0.125, 0, 0, 0
        self.assertEqual([(a.enough, a.too_few) for a in found.allowed], [(None, 1), (None, 0)])
        self.assertEqual(found.choices[0].arm, ((2, 1),))  # S = 2: b alone
        self.assertIn("the least is 1", found.choices[1].none)
        seen.verified = Verified([5, 6], np.array([1.0, 1.0]), [np.array([1.4, 1.6]), np.array([])])
        choice = findings.find_prices(request, seen).choices[0]
        self.assertAlmostEqual(choice.together.value, 0.5, 12)
        self.assertIn("not shown", choice.verdict)  # two rows: the interval is wide


if __name__ == "__main__":
    unittest.main()
