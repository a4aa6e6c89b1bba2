"""DiLoCo's efficiency factor by factor, codec off at evaluation. eta(M, H, c): tokens that the unsplit reference,
synchronous data parallel with the same global batch and the same rows a step, would have needed over tokens that M
groups with H inner steps and outer codec c took.

    eta_H(H | M)        = eta(M, H, 0) / eta(M, 1, 0)
    eta_replicas(M | H) = eta(M, H, 0) / eta(1, H, 0)
    eta_c(c | M, H)     = eta(M, H, c) / eta(M, H, 0)

The planner multiplies a function of H by one of M. With M = 1 nothing can diverge, so the split that it is given starts
from M0, the smallest measured M above 1: eta_H = eta(M0, H, 0) and eta_replicas = eta(M, H, 0) / eta(M0, H, 0).

Two conventions of the batch, never mixed in a factor: global-batch-matched, against the D0 reference, whose batch the
groups share out; and local-batch-matched, where every group has the D0 reference's batch, against data parallel over
the same larger global batch (an arm of its own, outer.algorithm = "dp"). """

import math
from dataclasses import dataclass, field

from longhaul.analysis.changes import OUTER_CELL_KEYS, number_of, spec_of
from longhaul.analysis.contrast import contrast
from longhaul.analysis.interval import mapped
from longhaul.record import Step
from longhaul.tables import Measured


@dataclass
class Cell:
    """An arm with an outer step: it differs from its reference in nothing but groups, the outer step and how the same
    global batch is shared out, and for joint cells in stages and boundary codecs."""

    arm: str
    local_batch: bool  # its reference is an arm of data parallel, not D0's
    groups: int  # M
    inner_steps: int  # H
    codec: str  # c, of the outer delta
    boundary: str = ""  # "int4-b64-h64 / int8-b64, S = 4"; "": unsplit
    ratio: float = 0.0  # of c, from the bytes of its frames against bf16; 0: not recorded

    @property
    def plain(self) -> bool:
        return not self.boundary and self.codec == "none"


@dataclass
class OuterArm:
    """An arm whose groups meet by an algorithm, at the rates that the campaign gave it: another one than DiLoCo, or
    DiLoCo at an inner rate of its own. All of D0, the reference's global batch, no boundary."""

    arm: str
    algorithm: str
    codec: str
    groups: int
    inner_steps: int  # 1: gradients cross in every step


INNER_STEPS, REPLICAS, CODEC, SPLIT_REPLICAS, INTERACTION, EXPONENT = (
    "inner steps", "replicas", "codec", "split replicas", "interaction", "exponent")


@dataclass
class Factor:
    kind: str  # of those above
    name: str  # "eta_H(30 | M = 4)"; with ", local batch" behind it where that matches
    groups: int
    inner_steps: int = 0
    codec: str = ""
    ratio: float = 0.0  # of a codec's factor
    terms: list[str] = field(default_factory=list)  # of an interaction: "H", "M", "act", "c"
    local_batch: bool = False
    ln: Measured | None = None  # of an exponent: the exponent itself
    seeds: int = 0
    note: str = ""  # why there is no value

    @property
    def eta(self) -> Measured | None:
        """exp(ln); none for interactions, exponents."""
        return mapped(self.ln, math.exp) if self.ln and self.kind not in (INTERACTION, EXPONENT) else None

    @property
    def value(self) -> Measured | None:
        return self.eta or self.ln


def collect(record, a) -> None:
    """Fills cells, outer and factors of the findings; nothing where no arm is a cell."""
    f = a.findings
    f.cells = _cells(a)
    f.outer = _outer_arms(a)
    for cell in f.cells:
        if cell.codec != "none":
            cell.ratio = _ratio(record, a, a.arm(cell.arm))
    for local_batch in (False, True):
        _Factors(a, local_batch).collect()


def _spec(run):
    spec = spec_of(run)

    def get(path, otherwise):
        found = number_of(spec, path, type(otherwise))
        return otherwise if found is None else found
    return get if spec else None


def _outer_spec(a, arm, may_differ):
    """The spec of an arm that has its reference's global batch and differs from it by such keys alone."""
    reference = a.reference_of(arm)
    if arm.role != "arm" or not arm.changes or not reference or any(c.key not in may_differ for c in arm.changes):
        return None
    spec, base = _spec(arm.first), _spec(reference.first)
    if not spec or not base:
        return None
    rows = [one("train.batch_rows", 0) * one("outer.groups", 1) for one in (spec, base)]
    return spec if rows[0] == rows[1] else None


def _algorithm(spec):
    algorithm = spec("outer.algorithm", "none")  # a spec of before that key is DiLoCo's
    return "diloco" if algorithm == "none" else algorithm


def _cells(a):
    cells = []
    for arm in a.arms:
        spec = _outer_spec(a, arm, OUTER_CELL_KEYS)
        if not spec or _algorithm(spec) != "diloco" or spec("outer.inner_steps", 0) < 1:
            continue
        cells.append(
            Cell(
                arm.name,
                arm.reference != "reference@1",
                spec("outer.groups", 1),
                spec("outer.inner_steps", 0),
                spec("outer.codec", "none"),
                f"{arm.codecs}, S = {arm.stages}" if arm.crossings else "",
            )
        )
    return cells


def _outer_arms(a):
    found, cells = [], {cell.arm for cell in a.findings.cells}
    for arm in a.arms:
        spec = _outer_spec(a, arm, OUTER_CELL_KEYS | {"train.lr"})
        if (not spec or arm.reference != "reference@1" or arm.crossings or spec("outer.groups", 1) < 2
                or arm.name in cells):
            continue
        found.append(OuterArm(arm.name, _algorithm(spec), spec("outer.codec", "none"), spec("outer.groups", 1),
                              max(1, spec("outer.inner_steps", 0))))
    return found


def _ratio(record, a, arm):
    """2 bytes an element over those of one frame: in a round a group sends it to every other one."""
    steps = [s for s in record.read(Step, arm.first.id) if s.group_index == 0 and s.outer_synced]
    sent, rounds = sum(s.outer_sent_bytes for s in steps), sum(s.stage == 0 for s in steps)
    return 2 * a.parameters * rounds * (arm.first.groups - 1) / sent if sent else 0.0


class _Factors:
    """Of one convention of the batch. One group alone has both."""

    def __init__(self, a, local_batch):
        self.a, self.local_batch = a, local_batch
        self.cells = [c for c in a.findings.cells if c.local_batch == local_batch or c.groups == 1]

    def collect(self):
        for cell in self.cells:
            if cell.local_batch != self.local_batch:
                continue
            if cell.boundary:
                self.joint(cell)
            elif cell.codec == "none":
                self.grid(cell)
            else:
                m, h = cell.groups, cell.inner_steps
                self.add(Factor(CODEC, f"eta_c({cell.codec} | M = {m}, H = {h})", m, h, cell.codec, cell.ratio),
                         (1, self.a.arm(cell.arm)), (-1, self.at(m, h)))
        if not self.local_batch:
            self.split()

    def at(self, groups, inner_steps, codec="none", boundary=""):
        return next((self.a.arm(c.arm) for c in self.cells
                     if (c.groups, c.inner_steps, c.codec, c.boundary) == (groups, inner_steps, codec, boundary)), None)

    def add(self, factor, *weighted):
        if any(arm is None for _, arm in weighted):
            return  # the campaign has no such cell
        factor.local_batch = self.local_batch
        factor.name += ", local batch" if self.local_batch else ""
        note = "" if self.a.curve else self.a.curve_note
        for _, arm in weighted:
            note = note or (f"arm '{arm.name}': {arm.note}" if arm.note else
                            f"arm '{arm.name}' {arm.lost_text}" if arm.lost else "")
        found = contrast(self.a, "", [] if note else weighted, note)
        factor.ln, factor.seeds, factor.note = found.value, found.seeds, found.note
        self.a.findings.factors.append(factor)

    def grid(self, cell):
        m, h, here = cell.groups, cell.inner_steps, self.a.arm(cell.arm)
        every_step, alone = self.at(m, 1), self.at(1, h)
        if h > 1:
            self.add(Factor(INNER_STEPS, f"eta_H({h} | M = {m})", m, h), (1, here), (-1, every_step))
        if m > 1:
            self.add(Factor(REPLICAS, f"eta_replicas({m} | H = {h})", m, h), (1, here), (-1, alone))
        if h > 1 and m > 1:
            self.add(Factor(INTERACTION, f"interaction of H = {h} and M = {m}", m, h, terms=["H", "M"]),
                     (1, here), (-1, every_step), (-1, alone), (1, self.at(1, 1)))

    def joint(self, cell):
        """A compressed pipeline inside of groups: does it lose what the two lose apart?"""
        joint, m, h = self.a.arm(cell.arm), cell.groups, cell.inner_steps
        if cell.codec == "none":
            pipeline = next((arm for arm in self.a.arms if arm.has_q and
                             (arm.reference, arm.stages, arm.forward_codec, arm.backward_codec) ==
                             (joint.reference, joint.stages, joint.forward_codec, joint.backward_codec)), None)
            self.add(
                Factor(INTERACTION, f"interaction of {cell.boundary} and M = {m}, H = {h}", m, h, terms=["act", "H"]),
                (1, joint),
                (-1, pipeline),
                (-1, self.at(m, h)),
            )
            return
        self.add(
            Factor(
                INTERACTION,
                f"interaction of {cell.boundary} and {cell.codec} at M = {m}, H = {h}",
                m,
                h,
                cell.codec,
                terms=["act", "c"],
            ),
            (1, joint),
            (-1, self.at(m, h, "none", cell.boundary)),
            (-1, self.at(m, h, cell.codec)),
            (1, self.at(m, h)),
        )

    def split(self):
        plain = [c for c in self.cells if c.plain]
        replicas, inner_steps = sorted({c.groups for c in plain if c.groups > 1}), sorted(
            {c.inner_steps for c in plain}
        )
        for m in replicas[1:]:
            for h in inner_steps:
                self.add(Factor(SPLIT_REPLICAS, f"eta_replicas({m} over {replicas[0]} | H = {h})", m, h),
                         (1, self.at(m, h)), (-1, self.at(replicas[0], h)))
        for m in replicas:
            # ln eta(M, H) - ln eta(M, 1) = -alpha ln H by least squares through H = 1. Linear in ln eta, so it has a
            # contrast's interval; 0 inside of it is "no trend".
            arms = [(math.log(h), self.at(m, h)) for h in inner_steps if h > 1 and self.at(m, h)]
            squares = sum(ln * ln for ln, _ in arms)
            if len(arms) > 1:
                self.add(
                    Factor(EXPONENT, f"alpha of eta_H = H^-alpha at M = {m}", m),
                    *((-ln / squares, arm) for ln, arm in arms),
                    (sum(ln for ln, _ in arms) / squares, self.at(m, 1)),
                )
