"""Cosines of successive mean outer deltas, from rows of a record against NumPy on the vectors themselves."""

import math
import unittest

import numpy as np

from longhaul.analysis.pseudo_gradients import turns
from longhaul.record import OuterDelta


def rows_of(means, members, stages=2, group=0, fragment=0, every=5):
    """Rows as a run writes them: `means` [rounds, N], `members` [rounds, G, N]."""
    rows = []
    for n, (mean, own) in enumerate(zip(means, members)):
        parts, last = np.split(mean, stages), np.split(means[n - 1], stages)
        norm = float(np.mean([np.linalg.norm(one) for one in own]))
        for stage in range(stages):
            before = (None, None) if n == 0 else (float(last[stage] @ last[stage]), float(parts[stage] @ last[stage]))
            rows.append(OuterDelta(every * (n + 1), group, stage, fragment, float(parts[stage] @ parts[stage]), *before, norm))
    return rows


def cosine(a, b):
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


class PseudoGradients(unittest.TestCase):
    def test_cosines_are_those_of_the_whole_vectors(self):
        members = np.random.default_rng(1).standard_normal((4, 3, 12)) + 0.5
        means = members.mean(axis=1)
        found = turns(reversed(rows_of(means, members)))
        self.assertEqual([(t.step, t.fragment, t.group_index) for t in found], [(5, 0, 0), (10, 0, 0), (15, 0, 0), (20, 0, 0)])
        self.assertIsNone(found[0].cosine_to_last)
        for n in (1, 2, 3):
            self.assertAlmostEqual(found[n].cosine_to_last, cosine(means[n], means[n - 1]), places=12)
        for turn, mean, own in zip(found, means, members):
            self.assertAlmostEqual(turn.norm, float(np.linalg.norm(mean)), places=12)
            norms = [np.linalg.norm(one) for one in own]
            self.assertAlmostEqual(turn.member_cosine, float(np.average([cosine(one, mean) for one in own], weights=norms)),
                                   places=12)

    def test_the_same_way_the_other_way_and_across(self):
        means = np.array([[1.0, 0, 0, 0], [2, 0, 0, 0], [-1, 0, 0, 0], [0, 0, 3, 0]])
        found = turns(rows_of(means, means[:, None]))
        self.assertEqual([t.cosine_to_last for t in found], [None, 1, -1, 0])
        self.assertEqual([t.member_cosine for t in found], [1, 1, 1, 1])

    def test_what_is_not_known_is_none(self):
        still = turns(rows_of(np.zeros((2, 4)), np.zeros((2, 1, 4))))
        self.assertEqual([(t.cosine_to_last, t.member_cosine, t.norm) for t in still], [(None, None, 0.0)] * 2)
        resumed = rows_of(np.ones((1, 4)), np.ones((1, 1, 4)))
        resumed[0].member_norm = None
        self.assertIsNone(turns(resumed)[0].member_cosine)
        self.assertEqual(turns([]), [])

    def test_fragments_and_groups_stay_apart(self):
        ones = np.ones((2, 4))
        rows = rows_of(ones, ones[:, None]) + rows_of(-ones, ones[:, None], fragment=1) + rows_of(ones, ones[:, None], group=2)
        self.assertEqual([(t.step, t.fragment, t.group_index) for t in turns(rows)],
                         [(5, 0, 0), (5, 0, 2), (5, 1, 0), (10, 0, 0), (10, 0, 2), (10, 1, 0)])
        self.assertTrue(all(math.isclose(t.norm, 2) for t in turns(rows)))


if __name__ == "__main__":
    unittest.main()
