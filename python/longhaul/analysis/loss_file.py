"""A losses.csv as reports write it: every final loss of a campaign, by arm and seed."""

import hashlib
import math
from dataclasses import dataclass, field

from longhaul.refusal import Refused
from longhaul.toml import read_text

HEAD = "arm,role,codecs,stages,crossings,seed,budget,train_tokens,loss_off_nat,loss_on_nat"
PRICED = HEAD + ",untrained_price_nat"  # of a record that has prices


@dataclass(frozen=True)
class Loss:
    line: int
    arm: str
    role: str
    codecs: str
    stages: int
    seed: int
    budget: float  # of D0
    train_tokens: int
    off: float  # nat, held out
    on: float | None
    untrained_price: float | None = None


@dataclass
class LossFile:
    path: str
    sha256: str
    rows: list[Loss] = field(default_factory=list)


def read_losses(path: str) -> LossFile:
    """Raises:
        Refused: With file and line: it cannot be read, is not such a file, or has an arm and seed twice.
    """
    text = read_text(path)
    out, seen = LossFile(path, hashlib.sha256(text.encode()).hexdigest()), set()
    for line, row in enumerate(text.removesuffix("\n").split("\n"), 1):
        row, at = row.removesuffix("\r"), f"{path}:{line}: "
        if line == 1:
            if row not in (HEAD, PRICED):
                raise Refused(f"{at}not a losses.csv; its first line is '{HEAD}'")
            columns = len(row.split(","))
            continue
        if not row:
            continue
        cells = row.split(",")
        if len(cells) != columns:
            raise Refused(f"{at}{len(cells)} cells, not {columns}")
        arm, role, codecs, stages, _, seed, budget, tokens, off, on, price = (*cells, "")[:11]
        try:
            if "_" in f"{stages}{seed}{budget}{tokens}{off}{on}{price}":
                raise ValueError
            loss = Loss(line, arm, role, codecs, int(stages), int(seed), float(budget), int(tokens), float(off),
                        float(on) if on else None, float(price) if price else None)
            if not all(map(math.isfinite, (loss.budget, loss.off, loss.on or 0, loss.untrained_price or 0))):
                raise ValueError
        except ValueError:
            raise Refused(f"{at}stages, seed, budget, train_tokens and losses are finite numbers") from None
        if (arm, loss.seed) in seen:
            raise Refused(f"{at}arm '{arm}', seed {loss.seed} stands there twice")
        seen.add((arm, loss.seed))
        out.rows.append(loss)
    return out
