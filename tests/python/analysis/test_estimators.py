"""Intervals, curve, eta and q, and depth against SciPy, closed forms and simulated campaigns."""

import math
import os
import pathlib
import unittest

import numpy as np
from scipy import interpolate, stats

os.environ.setdefault("LONGHAUL_READS", "1")

from estimators_scipy import Campaign, fieller, joint, power_of_depth, weighted  # noqa: E402
from longhaul.analysis import NotEstimated  # noqa: E402
from longhaul.analysis import interval  # noqa: E402
from longhaul.analysis.curve import MonotoneCubic, curve_error, fit_reference  # noqa: E402
from longhaul.analysis.depth import DepthArm, compare_depths  # noqa: E402
# Noqa: E402
from longhaul.analysis.efficiency import (against_assumed, estimate_arm, estimate_contrast, estimate_joint)
from longhaul.analysis.loss_file import read_losses  # noqa: E402
from longhaul.analysis.regression import fit_over_seeds  # noqa: E402
from longhaul.tables import LOW_END, UPPER, Interval, Measured  # noqa: E402

RESULTS = pathlib.Path(__file__).parents[3] / "docs" / "results"
BUDGETS = (0.5, 0.65, 0.8, 1.0, 1.1)


def ends(x):
    return [x.value, x.interval.low, x.interval.high]


def exact_runs(seeds=5, slope=0.3, luck=lambda seed: 0.01 * seed):
    """Losses that fall by `slope` an e-fold, without noise beside each seed's luck."""
    return [
        (seed, budget, 2.0 - slope * math.log(budget) + luck(seed))
        for seed in range(1, seeds + 1)
        for budget in BUDGETS
    ]


def arm(curve, ln_eta, slope=0.3):
    return {seed: loss - slope * ln_eta for seed, loss in curve.d0_loss_by_seed.items()}


class Intervals(unittest.TestCase):
    def test_quantiles_and_power_are_scipys(self):
        for n in (2, 3, 5, 30):
            self.assertAlmostEqual(interval.t_quantile(0.975, n - 1), stats.t.ppf(0.975, n - 1), delta=1e-9)
            critical, shift = stats.t.ppf(0.975, n - 1), interval.detectable_effect(n) * math.sqrt(n)
            power = stats.nct.sf(critical, n - 1, shift) + np.nan_to_num(stats.nct.cdf(-critical, n - 1, shift))
            self.assertAlmostEqual(power, 0.8, delta=1e-9)
        self.assertEqual(interval.two_sided_p(-2.5, 4), interval.two_sided_p(2.5, 4))
        self.assertAlmostEqual(interval.two_sided_p(2.5, 4), 2 * stats.t.sf(2.5, 4), delta=1e-14)

    def test_pairs_are_two_at_least_and_a_thousand_at_most(self):
        self.assertEqual(interval.pairs_needed(20), 2)
        self.assertEqual(interval.pairs_needed(0.01), 1001)
        for effect in (3.0, 1.0, 0.3):
            n = interval.pairs_needed(effect)
            self.assertLessEqual(interval.detectable_effect(n), effect)
            self.assertGreater(interval.detectable_effect(n - 1), effect)

    def test_ratio_is_fiellers_below_five_standard_errors(self):
        x, y = np.array([1.0, 2.0, 0.5, 1.6]), np.array([0.6, 1.1, 0.3, 0.7])
        found = interval.ratio_of_means(y, x)
        self.assertEqual(found.interval.method, "fieller")
        np.testing.assert_allclose(ends(found), fieller(y, x, 0.95), rtol=1e-9)
        steady = interval.ratio_of_means(y, x * 0.01 + 1)
        self.assertEqual(steady.interval.method, "t")
        self.assertIsNone(interval.ratio_of_means(y, x - x.mean() + 1e-3).interval, "x is not told from 0")

    def test_holm_steps_down_in_order_of_p_and_never_back(self):
        np.testing.assert_allclose(interval.holm([0.04, 0.01, 0.03]), [0.06, 0.03, 0.06])
        self.assertEqual(interval.holm([0.9, 0.8]), [1.0, 1.0])

    def test_paired_p_is_the_t_tests(self):
        x = [0.1, 0.3, -0.05, 0.2]
        self.assertAlmostEqual(interval.paired_p(x), stats.ttest_1samp(x, 0).pvalue, delta=1e-12)
        self.assertEqual([interval.paired_p(one) for one in ([0.2], [0.0, 0.0], [0.2, 0.2])], [1, 1, 0])

    def test_medians(self):
        self.assertIsNone(interval.median_of_independent([1, 2, 3, 4, 5]).interval)
        self.assertEqual(ends(interval.median_of_independent([3, 1, 2, 6, 5, 4])), [3.5, 1, 6])
        steps = [math.sin(1.7 * i) for i in range(100)]
        found = interval.median_of_steps(steps)
        self.assertEqual(found.interval.method, "block bootstrap")
        self.assertTrue(found.interval.low < found.value < found.interval.high)
        self.assertEqual(interval.median_of_steps(steps[:29]).interval.method, "order statistics")

    def test_the_bootstrap_draws_as_the_standard_says(self):
        random = interval._MersenneTwister(5489)
        self.assertEqual([random() for _ in range(10000)][-1], 9981545732273789042)  # of std::mt19937_64


class Curves(unittest.TestCase):
    def test_a_monotone_cubic_is_scipys(self):
        for y in ([3.4, 3.1, 2.9, 2.6, 2.59], [1.0, 0.5, 0.6, 0.55, 0.2], [1.0, 1.0, 0.9, 0.9, 0.4]):
            x = np.log(BUDGETS)
            curve, oracle = MonotoneCubic.through(x, y), interpolate.PchipInterpolator(x, y)
            for at in np.linspace(x[0], x[-1], 40):
                self.assertAlmostEqual(curve.at(at), float(oracle(at)), delta=1e-13)
                self.assertAlmostEqual(curve.tangent_at(at), float(oracle(at, 1)), delta=1e-11)

    def test_inverse_undoes_at_and_gives_back_points_to_the_bit(self):
        x, y = list(np.log(BUDGETS)), [3.4, 3.1, 2.9, 2.6, 2.59]
        curve = MonotoneCubic.through(x, y)
        for at, loss in zip(x[1:], y[1:]):
            self.assertEqual(curve.inverse(loss), at)
        for at in (-2.0, -0.5, -0.1, 0.05, 1.0):
            self.assertAlmostEqual(curve.inverse(curve.at(at)), at, delta=1e-12)

    def test_a_curve_needs_budgets_seeds_and_losses_that_fall(self):
        for runs, why in (([], "no seed has finished"), ([(1, 1.0, 2.0)], "no seed has finished"),
                          ([(1, 0.5, 3.0), (2, 1.0, 2.0)], "no seed has finished"),
                          ([(1, 0.5, 2.0), (1, 1.0, 2.0)], r"0.5 D0 \(2.0000 nat\) to 1 D0 \(2.0000 nat\)")):
            with self.assertRaisesRegex(NotEstimated, why):
                fit_reference(runs)

    def test_only_seeds_with_every_budget_count(self):
        curve = fit_reference(exact_runs() + [(6, 1.0, 9.0)])
        self.assertEqual(curve.seeds, [1, 2, 3, 4, 5])
        self.assertAlmostEqual(curve.slope_nat, 0.3, delta=1e-12)
        self.assertAlmostEqual(curve.own_error, 0.0, delta=1e-12)

    def test_its_error_is_nothing_at_a_budget_and_whole_between_two(self):
        curve = fit_reference(exact_runs())
        curve.own_error = 0.01
        x = curve.mean.x
        middle = (x[1] + x[2]) / 2
        self.assertAlmostEqual(curve_error(curve, [(1.0, 0.0, middle)]), 0.01, delta=1e-15)
        self.assertEqual(curve_error(curve, [(1.0, 0.0, x[1])]), 0.0)
        self.assertEqual(curve_error(curve, [(1.0, middle, middle)]), 0.0)
        self.assertAlmostEqual(curve_error(curve, [(1.0, 0.0, middle), (1.0, 0.0, (x[0] + x[1]) / 2)]),
                               0.01 * math.sqrt(2), delta=1e-15)


class Efficiencies(unittest.TestCase):
    def test_exact_losses_give_back_eta_and_q(self):
        curve = fit_reference(exact_runs())
        found = estimate_arm(curve, curve.d0_loss_by_seed, arm(curve, -0.2), 4)
        np.testing.assert_allclose(ends(found.ln_eta), [-0.2] * 3, atol=1e-9)
        self.assertAlmostEqual(found.q.value, math.exp(-0.05), delta=1e-9)
        self.assertFalse(found.equivalent)
        self.assertTrue(estimate_arm(curve, curve.d0_loss_by_seed, arm(curve, -0.001), 4).equivalent)
        self.assertIsNone(estimate_arm(curve, curve.d0_loss_by_seed, arm(curve, -0.2), 0).q)

    def test_nothing_is_said_below_the_smallest_budget(self):
        curve = fit_reference(exact_runs())
        found = estimate_arm(curve, curve.d0_loss_by_seed, arm(curve, -1.0), 2)
        self.assertTrue(found.is_bound)
        self.assertAlmostEqual(found.eta.value, 0.5, delta=1e-12)
        noisy = {seed: loss + 0.05 * (-1) ** seed for seed, loss in arm(curve, -0.6).items()}
        cut = estimate_arm(curve, curve.d0_loss_by_seed, noisy, 2)
        self.assertEqual((cut.eta.bound, cut.eta.interval.low), (LOW_END, 0.5))
        with self.assertRaisesRegex(NotEstimated, "its reference lies below"):
            estimate_arm(curve, arm(curve, -1.0), arm(curve, -1.1), 2)
        with self.assertRaisesRegex(NotEstimated, "a term lies below"):
            estimate_contrast(curve, [(1.0, curve.d0_loss_by_seed, arm(curve, -1.0))])

    def test_pairs_by_seed_only(self):
        curve = fit_reference(exact_runs())
        losses = arm(curve, -0.2)
        found = estimate_arm(curve, curve.d0_loss_by_seed, {1: losses[1], 3: losses[3], 77: 0.0}, 2)
        self.assertEqual(sorted(found.delta_by_seed), [1, 3])
        self.assertIsNone(estimate_arm(curve, curve.d0_loss_by_seed, {1: losses[1]}, 2).ln_eta.interval)
        with self.assertRaisesRegex(NotEstimated, "no seed of the reference curve"):
            estimate_arm(curve, curve.d0_loss_by_seed, {77: 0.0}, 2)

    def test_joint_q_of_every_depth(self):
        curve = fit_reference(exact_runs())
        arms = [(k, arm(curve, k * math.log(0.97))) for k in (2, 6, 14)]
        found = estimate_joint(curve, curve.d0_loss_by_seed, arms)
        np.testing.assert_allclose(ends(found.q), [0.97] * 3, atol=1e-9)
        with self.assertRaisesRegex(NotEstimated, "the fit at K = 14 lies below"):
            estimate_joint(curve, curve.d0_loss_by_seed, [(k, arm(curve, -0.05 * k)) for k in (2, 6, 14)])
        with self.assertRaisesRegex(NotEstimated, "no seed has every depth"):
            estimate_joint(curve, curve.d0_loss_by_seed, [(0, arm(curve, 0.0))])

    def test_an_interval_that_touches_the_assumed_number_holds_it(self):
        def of(low, high, directions):
            return against_assumed(Measured(low, Interval(low, high, 0.95, "t")), directions)
        self.assertEqual([of(0.9, 0.995, 2), of(0.9, 0.9949, 2), of(0.995, 1, 2), of(0.9951, 1, 2)],
                         ["not resolved", "below 0.995", "not resolved", "above 0.995"])
        self.assertEqual([of(0.98, 0.991, 1), of(0.98, 0.99, 1), of(0.9901, 1, 1)],
                         ["not resolved", "below 0.990 per boundary", "above 0.990 per boundary"])
        self.assertEqual(against_assumed(Measured(0.9), 2), "no interval")

    def test_bounds_are_cut(self):
        low = interval.cut_below(0.5, Measured(0.4, Interval(0.3, 0.45, 0.95, "t")))
        self.assertEqual((low.value, low.bound, low.interval.low), (0.5, UPPER, -math.inf))
        self.assertEqual(interval.cut_below(0.5, Measured(0.4)), Measured(0.5, None, UPPER))


class Published(unittest.TestCase):
    """docs/results/activation-small, by the product and by SciPy."""

    @classmethod
    def setUpClass(cls):
        rows = read_losses(str(RESULTS / "activation-small" / "losses.csv")).rows
        cls.reference = [
            (r.seed, 1.0 if r.arm == "reference@1" else r.budget, r.off) for r in rows if r.role == "reference"
        ]
        cls.curve, cls.oracle = fit_reference(cls.reference), Campaign({"reference": cls.reference})
        cls.arms = {}
        for r in rows:
            if r.role == "arm":
                cls.arms.setdefault(r.arm, {})[r.seed] = r.off
        cls.k = {name: 2 * (int(name[-1]) - 1) for name in cls.arms if name.startswith("P-both")}

    def asked(self, name):
        return {"crossings": self.k.get(name, 1), "losses": {str(seed): loss for seed, loss in self.arms[name].items()}}

    def test_the_curve(self):
        c, o = self.curve, self.oracle
        self.assertAlmostEqual(c.slope_nat, -float(o.curve()(0.0, 1)), delta=1e-9)
        self.assertAlmostEqual(c.own_error, o.own_error(), delta=1e-9)
        np.testing.assert_allclose([one.error.value for one in c.pseudo_controls], o.misses(), atol=1e-9)
        self.assertAlmostEqual(c.sigma_nat, math.sqrt(np.mean(np.var(o.losses, axis=0, ddof=1))), delta=1e-9)

    def test_every_arm(self):
        self.assertGreater(len(self.arms), 8)
        for name, losses in self.arms.items():
            found = estimate_arm(self.curve, self.curve.d0_loss_by_seed, losses, 1).ln_eta
            if not found.bound:
                np.testing.assert_allclose(
                    ends(found), weighted(self.oracle, [1], [self.asked(name)]), atol=1e-9, err_msg=name
                )

    def test_joint_q_contrast_and_the_power_of_depth(self):
        names, d0 = sorted(self.k), self.curve.d0_loss_by_seed
        asked = [self.asked(name) for name in names]
        found = estimate_joint(self.curve, d0, [(self.k[name], self.arms[name]) for name in names])
        np.testing.assert_allclose(ends(found.a), joint(self.oracle, asked), atol=1e-9)
        weights = [1.0, -1.0, 0.5]
        contrast, seeds = estimate_contrast(self.curve, [(w, d0, self.arms[name]) for w, name in zip(weights, names)])
        np.testing.assert_allclose(ends(contrast), weighted(self.oracle, weights, asked), atol=1e-9)
        self.assertEqual(seeds, 5)
        depths = compare_depths(
            self.curve, d0, [DepthArm(int(n[-1]), self.k[n] // 2, self.k[n] // 2, self.arms[n]) for n in names]
        )
        np.testing.assert_allclose(depths.m4.theta, power_of_depth(self.oracle, asked), rtol=1e-6)


class Depths(unittest.TestCase):
    def compared(self, x, stages=(2, 4, 8), noise=2e-4):
        """`x` of K is -ln eta."""
        curve, random = fit_reference(exact_runs(8)), np.random.default_rng(1)
        return compare_depths(curve, curve.d0_loss_by_seed, [
            DepthArm(s, s - 1, s - 1, {seed: loss + random.normal(0, noise)
                                       for seed, loss in arm(curve, -x(2 * (s - 1))).items()}) for s in stages])

    def test_each_truth_is_given_back_by_its_model(self):
        straight = self.compared(lambda k: 0.02 * k)
        self.assertEqual(straight.chosen, "M1")
        self.assertAlmostEqual(straight.m1.theta[0], 0.02, delta=2e-4)
        self.assertTrue(straight.gamma.interval.low < 1 < straight.gamma.interval.high)
        bent = self.compared(lambda k: 0.05 * math.sqrt(k))
        self.assertEqual(bent.chosen, "M4", bent.words)
        self.assertAlmostEqual(bent.gamma.value, 0.5, delta=0.02)
        self.assertLess(bent.bend_p, 1e-4)
        self.assertTrue(bent.m1.misses and not bent.m4.misses)
        a = bent.per_boundary(2)  # the planner's own form has the same loss at every depth
        for s in (2, 8):
            self.assertAlmostEqual(
                a.value * (s - 1) ** bent.gamma.value, bent.m4.minus_ln_eta(2 * (s - 1)), delta=1e-12
            )

    def test_sixteen_stages_test_the_fit_and_join_none(self):
        def bent_at_last(k):
            return 0.015 * k + (0.1 if k == 30 else 0.0)
        with_far, without = (self.compared(bent_at_last, stages) for stages in ((2, 4, 8, 16), (2, 4, 8)))
        np.testing.assert_allclose(with_far.m1.theta, without.m1.theta, rtol=1e-9)
        self.assertEqual([h.stages for h in with_far.m1.held_out], [4, 8, 16])
        self.assertTrue(with_far.m1.misses and not without.m1.misses)

    def test_one_depth_or_one_seed_has_no_shape(self):
        with self.assertRaisesRegex(NotEstimated, "fewer than two depths"):
            self.compared(lambda k: 0.02 * k, (4,))
        curve = fit_reference(exact_runs(1))
        one = compare_depths(curve, curve.d0_loss_by_seed,
                             [DepthArm(s, s - 1, 0, arm(curve, -0.02 * (s - 1))) for s in (2, 4, 8)])
        self.assertEqual((one.bend_p, one.gamma, one.m1.held_out, one.chosen), (None, None, [], "M1"))

    def test_points_that_do_not_determine_a_model_are_refused(self):
        with self.assertRaisesRegex(NotEstimated, "do not determine"):
            fit_over_seeds([[0.0, 1.0, 2.0]] * 3, lambda p: (p[0] + p[1]) * np.arange(3.0), [1.0, 1.0])
        fit = fit_over_seeds([[0.1, 1.1, 2.1], [0.4, 1.5, 2.2]], lambda p: p[0] * np.arange(3.0), [0.3])
        self.assertAlmostEqual(fit.theta[0], 0.95, delta=1e-12)
        np.testing.assert_allclose(fit.influence.sum(axis=1), 0, atol=1e-12)


class Coverage(unittest.TestCase):
    """Intervals hold the truth of campaigns whose curve is none that the program fits."""

    # Means of five seeds of a model of 0.12 M parameters; between the points a natural spline on ln D.
    TOKENS = (139264, 174080, 200704, 255000, 280576, 322500, 399360, 440320, 510000)
    LOSSES = (3.3661, 3.2125, 3.1248, 3.0018, 2.9614, 2.9079, 2.8362, 2.8064, 2.7658)

    def test_eta_of_three_and_five_seeds(self):
        x = np.log(np.array(self.TOKENS) / 399360)
        truth = interpolate.CubicSpline(x, self.LOSSES, bc_type="natural")
        random, draws = np.random.default_rng(7), 150
        eta = 0.8
        held = {}
        for seeds in (3, 5):
            held[seeds] = 0
            for _ in range(draws):
                luck = random.normal(0, 0.015, seeds)
                runs = [(j, b, float(truth(math.log(b))) + luck[j] + random.normal(0, 0.008))
                        for j in range(seeds) for b in BUDGETS]
                curve = fit_reference(runs)
                losses = {j: float(truth(math.log(eta))) + luck[j] + random.normal(0, 0.008) for j in range(seeds)}
                found = estimate_arm(curve, curve.d0_loss_by_seed, losses, 0).ln_eta.interval
                held[seeds] += found.low <= math.log(eta) <= found.high
        for seeds, count in held.items():  # 95 % of 150 draws, three standard errors down
            self.assertGreaterEqual(count, 0.895 * draws, seeds)
        self.assertLess(min(held.values()), draws, "an interval that never misses is too wide")


if __name__ == "__main__":
    unittest.main()
