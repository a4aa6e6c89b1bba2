"""The rows of the record as plain values; experiments/record/schema.sql says what each column means.

A dataclass is one table: its fields are the columns, in their order.
"""

from dataclasses import dataclass, field

# Keys of facts (experiments/record/record_rows.h).
PROGRAM, COMPUTE, RANKS, RESTORED_STEP = "program", "compute", "ranks", "restored_step"
RUN_ID, ATTEMPT, ONE_SIDED_PATHS = "run_id", "attempt", "paths_judged_for_lack_alone"
NAMED_FILES = "named_files"
STILL_SHARE, CORE_WAIT_SHARE, STOLEN_SHARE = "still_share", "core_wait_share", "stolen_share"
EMULATOR_PUNCTUAL = "emulator_p99_in_bound"
HELD_OUT_IN_TRAINING, EPOCHS, UNIGRAM = "held_out_windows_in_training", "epochs", "held_out_unigram_nat"
SIMULATED_CLOCK = "simulated_clock"
UNTRAINED_PRICE = "untrained_price_nat"
HASH, HASHES_OF_TWO_KINDS = "parameter_hash", "of two kinds"
LOSSES, FORECAST, ACCEPTED_UNRESOLVED = "losses_sha256", "forecast", "accepted_unresolved"

DIRECTIONS = ("forward", "backward", "outer", "tied", "other")  # in this order in tables


@dataclass(slots=True)
class Experiment:
    id: int
    kind: str  # "run" or "campaign"
    name: str
    question: str
    plan_text: str
    plan_sha256: str
    d0_tokens: int | None
    begun_utc: str
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def campaign(self) -> bool:
        return self.kind == "campaign"


@dataclass(slots=True)
class Run:
    id: int
    experiment_id: int
    arm: str
    role: str  # "reference", "control", "arm" or "single"
    budget_fraction: float
    seed: int
    train_tokens: int
    stages: int
    groups: int
    forward_codec: str
    backward_codec: str
    profile: str
    spec_toml: str
    git_revision: str
    host: str
    kernel: str
    emulator: str
    congestion_control: str
    torch_version: str
    cpu: str
    isa: str
    threads: int
    pid: int
    begun_utc: str
    finished_utc: str | None
    status: str  # that of the schema, or "died": says "running", and no process writes it
    reason: str
    facts: dict[str, str] = field(default_factory=dict)


def same_hashes(a: Run, b: Run) -> bool:
    """Whether the parameter hashes of two runs can be compared: hashes of two kinds say nothing of each other."""
    kind = a.facts.get(HASH, "")
    return kind == b.facts.get(HASH, "") and kind != HASHES_OF_TWO_KINDS


@dataclass(slots=True)
class Step:
    step: int
    group_index: int
    stage: int
    loss_nat: float | None
    tokens: int
    wall_s: float
    forward_s: float
    backward_s: float
    optimizer_s: float
    wait_s: float
    outer_s: float
    encode_s: float
    decode_s: float
    outer_synced: bool
    outer_sent_bytes: int
    parameter_hash: str  # "": not hashed after this step


@dataclass(slots=True)
class Simulated:
    """When a step would have ended on links and a machine that are not here, from the start of the run."""

    step: int
    group_index: int
    stage: int
    simulated_s: float
    message_bytes: int


@dataclass(slots=True)
class Link:
    phase: str  # "before" or "after"
    src_node: int
    dst_node: int
    nominal_rate_bit_per_s: float | None
    nominal_rtt_s: float
    rtt_min_s: float | None
    rtt_median_s: float | None
    rtt_p99_s: float | None
    nominal_goodput_bit_per_s: float | None
    goodput_bit_per_s: float | None
    nominal_loss_prob: float
    probes_sent: int
    probes_received: int
    packets: int
    bytes: int
    queue_drops: int
    loss_drops: int
    ok: bool
    why: str


@dataclass(slots=True)
class Crossing:
    src_rank: int
    dst_rank: int
    direction: str  # of DIRECTIONS
    codec: str
    tensors: int
    elements: int
    predicted_wire_bytes: int | None
    payload_bytes: int
    message_bytes: int
    kernel_tx_bytes: int | None
    kernel_rx_bytes: int | None
    nmse_samples: int
    nmse_mean: float | None
    nmse_max: float | None
    encode_s: float
    decode_s: float
    payload_hash: str


@dataclass(slots=True)
class CrossingError:
    src_rank: int
    dst_rank: int
    percent: int
    first_step: int
    last_step: int
    samples: int
    nmse_mean: float
    nmse_p95: float


@dataclass(slots=True)
class CodecSwitch:
    step: int
    group_index: int
    boundary: int
    direction: str
    from_codec: str
    to_codec: str
    cause: str


@dataclass(slots=True)
class Evaluation:
    step: int
    codec: str  # "on" or "off"
    loss_nat: float
    standard_error_nat: float
    tokens: int


@dataclass(slots=True)
class Round:
    round: int
    last_step: int
    members: str
    joiners: str
    lost: str
    left_out: str
    attempts: int
    waited_s: float


@dataclass(slots=True)
class OuterDelta:
    step: int
    group_index: int
    stage: int
    fragment: int
    squared_norm: float
    last_squared_norm: float | None
    dot: float | None
    member_norm: float | None


@dataclass(slots=True)
class Fault:
    number: int
    step: int
    what: str
    place: str
    group_index: int
    said: str
    lost_tokens: int
    recovered_step: int | None
    recovery_s: float | None


@dataclass(slots=True)
class Estimate:
    """`method` says where the value ("<="), or the interval's low end ("t, low end <="), is an upper bound."""

    arm: str  # "" for the whole campaign
    evaluation: str  # "on", "off" or ""
    quantity: str
    unit: str
    value: float | None
    low: float | None
    high: float | None
    level: float | None
    method: str
    seeds: int
    note: str

    @property
    def value_bound(self) -> str:
        return "<=" if self.method == "<=" else ""

    @property
    def low_bound(self) -> str:
        return "<=" if self.method.endswith(", low end <=") else ""


# What is measured while a run runs: table and order of rows. Tables with "later" are lacking in the first records.
TABLES = {
    Step: ("steps", "step, group_index, stage"),
    Simulated: ("simulated_times", "step, group_index, stage"),
    Link: ("links", "phase DESC, src_node, dst_node"),
    Crossing: ("crossings", "src_rank, dst_rank, direction"),
    CrossingError: ("crossing_errors", "src_rank, dst_rank, percent"),
    CodecSwitch: ("codec_switches", "step, group_index, boundary, direction DESC"),
    Round: ("rounds", "round"),
    OuterDelta: ("outer_deltas", "step, fragment, group_index, stage"),
    Fault: ("faults", "number"),
    Evaluation: ("evaluations", "step, codec"),
}
LATER = {"simulated_times", "crossing_errors", "codec_switches", "rounds", "outer_deltas", "faults"}
