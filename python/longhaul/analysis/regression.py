"""Least squares of a model with a few parameters over points that every seed has, and what each seed moves the
parameters by: the spread of that over seeds gives the t intervals. y[j][i] = u_j + m_i(theta) + noise."""

from dataclasses import dataclass

import numpy as np

from longhaul.analysis import NotEstimated
from longhaul.analysis.interval import around
from longhaul.tables import Measured


@dataclass
class SeedRegression:
    theta: np.ndarray
    influence: np.ndarray  # [parameter, seed]; each row sums to 0
    by_point: np.ndarray  # [parameter, point]: d theta / d y, of all seeds
    residual_squares: float  # all seeds and points

    def parameter(self, p: int, level: float = 0.95) -> Measured:
        return around(float(self.theta[p]), self.influence[p], level)


@np.errstate(over="ignore", invalid="ignore")  # a step too far, which is halved
def fit_over_seeds(y, model, start, seed_effects: bool = True) -> SeedRegression:
    """Gauss and Newton from `start`, a step halved until it does not raise the squares.

    Args:
        y: [seed][point].
        model: theta -> m at every point.
        seed_effects: With u_j; else all are 0.

    Raises:
        NotEstimated: No seed has every arm, the points do not determine every parameter, or it does not converge.
    """
    if not len(y):
        raise NotEstimated("no seed has every arm")
    y, theta = np.asarray(y, float), np.asarray(start, float)

    def centred(rows):
        return rows - rows.mean(axis=-1, keepdims=True) if seed_effects else rows

    def gradient(theta):
        columns = []
        for p in range(len(theta)):
            h = np.zeros(len(theta))
            h[p] = 1e-6 * max(abs(theta[p]), 1e-3)
            columns.append((np.asarray(model(theta + h)) - np.asarray(model(theta - h))) / (2 * h[p]))
        z = centred(np.array(columns))
        sizes = np.linalg.norm(z, axis=1)
        if not (np.isfinite(z).all() and (sizes > 0).all()) or np.linalg.svd(
                z / sizes[:, None], compute_uv=False)[-1] ** 2 <= 1e-9:
            raise NotEstimated("the arms do not determine its parameters")
        return np.linalg.pinv(z.T)

    def left(theta, rows):
        return centred(rows - np.asarray(model(theta)))

    mean = y.mean(axis=0)
    r = left(theta, mean)
    for _ in range(400):
        step, squares, share = gradient(theta) @ r, r @ r, 1.0
        while share > 1e-9:
            ahead = left(theta + share * step, mean)
            if np.isfinite(ahead).all() and ahead @ ahead <= squares:
                break
            share /= 2
        size = np.max(np.abs(step) / np.maximum(np.abs(theta), 1e-3))
        if share > 1e-9:
            theta, r = theta + share * step, ahead
        if size < 1e-13 or (size < 1e-8 and r @ r >= squares * (1 - 1e-14)) or share <= 1e-9:
            break
    else:
        raise NotEstimated("its fit does not converge")
    inverse = gradient(theta)
    return SeedRegression(theta, inverse @ centred(y - mean).T, inverse @ centred(np.eye(len(mean))).T,
                          float(np.square(left(theta, y)).sum()))
