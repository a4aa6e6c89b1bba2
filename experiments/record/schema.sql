-- The record of one results folder. Times of day are UTC, ISO 8601; durations are seconds; losses
-- are nat per token; hashes are lower-case hex. Version: PRAGMA user_version, written by record.cc.

CREATE TABLE experiments (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('run', 'campaign')),
  name TEXT NOT NULL,
  question TEXT NOT NULL,
  plan_text TEXT NOT NULL,           -- what was promised before the first run; '' for kind 'run'
  plan_sha256 TEXT NOT NULL,         -- of plan_text, and of the named files
  d0_tokens INTEGER,                 -- campaign: the token budget that eta refers to
  begun_utc TEXT NOT NULL,
  UNIQUE (kind, plan_sha256, name)
);

-- What was known when the first run began and is no part of the plan: 'forecast', the text of what
-- the design can resolve, and 'accepted_unresolved', 'true' where it was begun although the
-- forecast said that it resolves no loss of 0.5 % per crossing. And 'named_files', what the files held
-- that the plan names, "KEY SHA256 BYTES FILES VALUE" a line: part of plan_sha256, which is that of
-- plan_text, "\n[files]\n" and this list; of plan_text alone where there is none.
CREATE TABLE IF NOT EXISTS experiment_facts (
  experiment_id INTEGER NOT NULL REFERENCES experiments (id) ON DELETE CASCADE,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (experiment_id, key)
) WITHOUT ROWID;

CREATE TABLE runs (
  id INTEGER PRIMARY KEY,
  experiment_id INTEGER NOT NULL REFERENCES experiments (id),
  arm TEXT NOT NULL,                 -- one configuration; paired across arms by seed
  role TEXT NOT NULL CHECK (role IN ('reference', 'control', 'arm', 'single')),
  budget_fraction REAL NOT NULL,     -- of d0_tokens; 1 for kind 'run'
  seed INTEGER NOT NULL,
  train_tokens INTEGER NOT NULL,     -- D, summed over groups
  stages INTEGER NOT NULL,           -- S
  groups INTEGER NOT NULL,           -- G
  forward_codec TEXT NOT NULL,
  backward_codec TEXT NOT NULL,
  profile TEXT NOT NULL,             -- link profile; 'loopback' without links
  spec_toml TEXT NOT NULL,           -- resolved: every key
  git_revision TEXT NOT NULL,
  host TEXT NOT NULL,
  kernel TEXT NOT NULL,
  emulator TEXT NOT NULL,            -- 'netem', 'tap' or 'none'
  congestion_control TEXT NOT NULL,  -- as the kernel named it; '' without links
  torch_version TEXT NOT NULL,
  cpu TEXT NOT NULL,
  isa TEXT NOT NULL,                 -- instruction set that the codecs used
  threads INTEGER NOT NULL,          -- per worker
  pid INTEGER NOT NULL,              -- of the process that wrote the row
  begun_utc TEXT NOT NULL,
  finished_utc TEXT,
  status TEXT NOT NULL CHECK (
    status IN ('running', 'ok', 'partial', 'failed', 'diverged', 'invalid', 'interrupted')),
  reason TEXT NOT NULL DEFAULT ''
);
CREATE INDEX runs_by_arm ON runs (experiment_id, arm, seed);

CREATE TABLE run_facts (             -- what has no column: transport, parameters, corpus hashes, ...
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (run_id, key)
) WITHOUT ROWID;

CREATE TABLE steps (                 -- one row per worker (group, stage) and inner step
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  step INTEGER NOT NULL,             -- 1-based
  group_index INTEGER NOT NULL,
  stage INTEGER NOT NULL,
  loss_nat REAL,                     -- last stage only
  tokens INTEGER NOT NULL,           -- of this group's batch
  wall_s REAL NOT NULL,
  forward_s REAL NOT NULL,           -- compute, all micro-batches
  backward_s REAL NOT NULL,
  optimizer_s REAL NOT NULL,
  wait_s REAL NOT NULL,              -- blocked on a receive
  outer_s REAL NOT NULL,             -- outer synchronisation
  encode_s REAL NOT NULL,
  decode_s REAL NOT NULL,
  outer_synced INTEGER NOT NULL CHECK (outer_synced IN (0, 1)),
  outer_sent_bytes INTEGER NOT NULL,
  parameter_hash TEXT NOT NULL,      -- of the stage's parameters after the step; '': not hashed
  PRIMARY KEY (run_id, step, group_index, stage)
) WITHOUT ROWID;

-- Of runs with a simulated clock: when each step would have ended on links and a machine that are not
-- here, from the start of the run. No second of this table is a real one.
CREATE TABLE IF NOT EXISTS simulated_times (
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  step INTEGER NOT NULL,
  group_index INTEGER NOT NULL,
  stage INTEGER NOT NULL,
  simulated_s REAL NOT NULL,
  message_bytes INTEGER NOT NULL,    -- by then: received over boundaries, sent in exchanges
  PRIMARY KEY (run_id, step, group_index, stage)
) WITHOUT ROWID;

CREATE TABLE links (                 -- one row per ordered pair of nodes and phase
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  phase TEXT NOT NULL CHECK (phase IN ('before', 'after')),
  src_node INTEGER NOT NULL,
  dst_node INTEGER NOT NULL,
  nominal_rate_bit_per_s REAL,       -- Ethernet level; NULL: not limited
  nominal_rtt_s REAL NOT NULL,
  rtt_min_s REAL, rtt_median_s REAL, rtt_p99_s REAL,   -- probed; NULL: not probed
  nominal_goodput_bit_per_s REAL, goodput_bit_per_s REAL,  -- probed, TCP payload
  nominal_loss_prob REAL NOT NULL,
  probes_sent INTEGER NOT NULL, probes_received INTEGER NOT NULL,
  packets INTEGER NOT NULL,          -- what the kernel or the emulator counted on this path
  bytes INTEGER NOT NULL,            -- Ethernet level
  queue_drops INTEGER NOT NULL,
  loss_drops INTEGER NOT NULL,
  ok INTEGER NOT NULL CHECK (ok IN (0, 1)),
  why TEXT NOT NULL,                 -- when not ok: measured, bound, what to do
  PRIMARY KEY (run_id, phase, src_node, dst_node)
) WITHOUT ROWID;

CREATE TABLE crossings (             -- per ordered pair of ranks and direction, whole run, sender's side
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  src_rank INTEGER NOT NULL,
  dst_rank INTEGER NOT NULL,
  direction TEXT NOT NULL CHECK (direction IN ('forward', 'backward', 'outer', 'tied', 'other')),
  codec TEXT NOT NULL,
  tensors INTEGER NOT NULL,
  elements INTEGER NOT NULL,
  predicted_wire_bytes INTEGER,      -- codec's size x tensors x wire/payload factor, of all on the path
  payload_bytes INTEGER NOT NULL,    -- codec frames: what a measured ratio comes from
  message_bytes INTEGER NOT NULL,    -- handed to the transport, message headers included
  kernel_tx_bytes INTEGER,           -- counted on the path src > dst; NULL: no links
  kernel_rx_bytes INTEGER,           -- counted at the receiver's interface; NULL: no links
  nmse_samples INTEGER NOT NULL,
  nmse_mean REAL, nmse_max REAL,     -- |x - decoded|^2 / |x|^2 on real tensors; NULL: not sampled
  encode_s REAL NOT NULL,
  decode_s REAL NOT NULL,
  payload_hash TEXT NOT NULL,
  PRIMARY KEY (run_id, src_rank, dst_rank, direction)
) WITHOUT ROWID;

CREATE TABLE checkpoint_crossings (  -- crossings of steps 1 to `step`: what a resumed run counts on from
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  step INTEGER NOT NULL,             -- a checkpoint was written after it
  src_rank INTEGER NOT NULL,
  dst_rank INTEGER NOT NULL,
  direction TEXT NOT NULL,
  codec TEXT NOT NULL,
  tensors INTEGER NOT NULL,
  elements INTEGER NOT NULL,
  payload_bytes INTEGER NOT NULL,
  message_bytes INTEGER NOT NULL,
  kernel_tx_bytes INTEGER,
  kernel_rx_bytes INTEGER,
  nmse_samples INTEGER NOT NULL,
  nmse_mean REAL, nmse_max REAL,
  encode_s REAL NOT NULL,
  decode_s REAL NOT NULL,
  payload_hash TEXT NOT NULL,
  PRIMARY KEY (run_id, step, src_rank, dst_rank, direction)
) WITHOUT ROWID;

-- What the boundary codecs lost over the training, from the sampled frames of a twentieth of the
-- steps each: the first, those around 10 and 50 %, the last.
CREATE TABLE IF NOT EXISTS crossing_errors (
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  src_rank INTEGER NOT NULL,
  dst_rank INTEGER NOT NULL,
  percent INTEGER NOT NULL,          -- of the training: 0, 10, 50, 100
  first_step INTEGER NOT NULL,
  last_step INTEGER NOT NULL,
  samples INTEGER NOT NULL,
  nmse_mean REAL NOT NULL,
  nmse_p95 REAL NOT NULL,            -- the least sample with 95 % of them at or below it
  PRIMARY KEY (run_id, src_rank, dst_rank, percent)
) WITHOUT ROWID;

-- Codecs of boundaries that changed while the run trained: in the warm-up or by a policy. Before the
-- first step every boundary has 'none'.
CREATE TABLE IF NOT EXISTS codec_switches (
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  step INTEGER NOT NULL,             -- the first that has it
  group_index INTEGER NOT NULL,
  boundary INTEGER NOT NULL,         -- between stages b and b + 1
  direction TEXT NOT NULL CHECK (direction IN ('forward', 'backward')),
  from_codec TEXT NOT NULL,
  to_codec TEXT NOT NULL,
  cause TEXT NOT NULL,               -- in words, with the figures that decided
  PRIMARY KEY (run_id, step, group_index, boundary, direction)
) WITHOUT ROWID;

-- Outer steps of a run whose groups come and go, and those that left a group out. Lists of groups
-- are texts of numbers with spaces between them.
CREATE TABLE IF NOT EXISTS rounds (
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  round INTEGER NOT NULL,            -- 1-based
  last_step INTEGER NOT NULL,        -- the outer step follows it
  members TEXT NOT NULL,             -- groups that contributed
  joiners TEXT NOT NULL,             -- took over the state after it
  lost TEXT NOT NULL,                -- there when the round began, not when it ended
  left_out TEXT NOT NULL,            -- members whose outer delta was no number or of absurd norm
  attempts INTEGER NOT NULL,         -- exchanges until one was whole on all members
  waited_s REAL NOT NULL,            -- for groups that came late or not at all
  PRIMARY KEY (run_id, round)
) WITHOUT ROWID;

-- The mean outer delta (pseudo-gradient) of a stage, as the lowest group that met had it (where groups
-- meet in pairs or clusters: every group), against the mean of the outer step before. Over stages and
-- fragments squared norms and dots add up: their cosine is dot / sqrt(squared_norm last_squared_norm).
CREATE TABLE IF NOT EXISTS outer_deltas (
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  step INTEGER NOT NULL,             -- behind which it was applied
  group_index INTEGER NOT NULL,
  stage INTEGER NOT NULL,
  fragment INTEGER NOT NULL,         -- 0 where all parameters cross at once
  squared_norm REAL NOT NULL,
  last_squared_norm REAL,            -- NULL, as dot: the first of the run, of a resumed one, of this group
  dot REAL,
  member_norm REAL,                  -- norm of a member's own delta over all stages, mean over members
  PRIMARY KEY (run_id, step, group_index, stage, fragment)
) WITHOUT ROWID;

-- Faults that struck, of the spec's script or not.
CREATE TABLE IF NOT EXISTS faults (
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  number INTEGER NOT NULL,           -- in the order of striking, from 0
  step INTEGER NOT NULL,
  what TEXT NOT NULL,                -- 'kill', 'stop', ..., or 'lost' without a script
  place TEXT NOT NULL,               -- 'group 1 stage 0', 'link 0 > 3', ...
  group_index INTEGER NOT NULL,      -- -1: no group's
  said TEXT NOT NULL,
  lost_tokens INTEGER NOT NULL,      -- trained by the group since its last outer step, and lost
  recovered_step INTEGER,            -- first step that the group finished after it was back
  recovery_s REAL,                   -- from the strike to the end of that step
  PRIMARY KEY (run_id, number)
) WITHOUT ROWID;

CREATE TABLE evaluations (
  run_id INTEGER NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
  step INTEGER NOT NULL,
  codec TEXT NOT NULL CHECK (codec IN ('on', 'off')),  -- of the boundaries, while evaluating
  loss_nat REAL NOT NULL,
  standard_error_nat REAL NOT NULL,  -- over held-out rows
  tokens INTEGER NOT NULL,
  PRIMARY KEY (run_id, step, codec)
) WITHOUT ROWID;

CREATE TABLE estimates (             -- replaced as a whole each time they are computed
  experiment_id INTEGER NOT NULL REFERENCES experiments (id) ON DELETE CASCADE,
  arm TEXT NOT NULL,                 -- '' for a quantity of the whole campaign
  evaluation TEXT NOT NULL,          -- 'on', 'off' or ''
  quantity TEXT NOT NULL,            -- 'eta', 'q', 'slope', ...
  unit TEXT NOT NULL,
  value REAL,
  low REAL, high REAL,               -- NULL: no interval, and why stands in note
  level REAL,
  method TEXT NOT NULL,
  seeds INTEGER NOT NULL,
  note TEXT NOT NULL,
  PRIMARY KEY (experiment_id, arm, evaluation, quantity)
) WITHOUT ROWID;
