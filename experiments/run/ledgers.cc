#include "experiments/run/ledgers.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "experiments/spec/fault_script.h"

namespace longhaul {
namespace {

std::optional<int64_t> Sum(std::optional<int64_t> a, std::optional<int64_t> b) {
  return a && b ? std::optional<int64_t>(*a + *b) : std::nullopt;
}

void AddNmse(const CrossingRow& earlier, CrossingRow& row) {
  if (earlier.nmse_samples == 0) return;
  const auto sum = [](const CrossingRow& c) {
    return c.nmse_mean.value_or(0) * static_cast<double>(c.nmse_samples);
  };
  const double total = sum(earlier) + sum(row);
  row.nmse_samples += earlier.nmse_samples;
  row.nmse_mean = total / static_cast<double>(row.nmse_samples);
  row.nmse_max = std::max(row.nmse_max.value_or(0), earlier.nmse_max.value_or(0));
}

// A joiner tells of its state when it has it: who gave it does not know what arrived.
bool IsARow(const CrossingCount& count) {
  return count.sent || count.group_kind == CrossingKind::kState;
}

// Of a fault that has just struck, or has been over for long: its group was lost, or joined.
bool CameOrWent(const FaultRow& fault) {
  if (fault.what == "lost" || fault.recovered_step) return true;
  if ((!fault.said.empty() && fault.said != kByPlan) || fault.group_index < 0) return false;
  return fault.what == "kill" || fault.what == "leave" || fault.what == "stop" ||
         fault.what == "join";
}

}  // namespace

void AddCounts(const CrossingRow& earlier, CrossingRow& row) {
  row.tensors += earlier.tensors;
  row.elements += earlier.elements;
  row.payload_bytes += earlier.payload_bytes;
  row.message_bytes += earlier.message_bytes;
  row.kernel_tx_bytes = Sum(row.kernel_tx_bytes, earlier.kernel_tx_bytes);
  row.kernel_rx_bytes = Sum(row.kernel_rx_bytes, earlier.kernel_rx_bytes);
  row.encode_s += earlier.encode_s;
  row.decode_s += earlier.decode_s;
  row.payload_hash += earlier.payload_hash;
  AddNmse(earlier, row);
}

void AddEarlierCounts(std::span<const CrossingRow> earlier, std::vector<CrossingRow>& since) {
  for (const CrossingRow& before : earlier) {
    const auto same = std::find_if(since.begin(), since.end(), [&](const CrossingRow& c) {
      return c.src_rank == before.src_rank && c.dst_rank == before.dst_rank &&
             c.direction == before.direction;
    });
    if (same == since.end()) {
      since.push_back(before);
    } else {
      AddCounts(before, *same);
    }
  }
}

void CrossingLedger::Observe(CrossingCount count) {
  if (!IsARow(count)) return;
  const Key key(count.rank, count.life, count.group_kind, count.peer, count.kind, count.stage);
  (count.checkpoint > 0 ? at_[count.checkpoint] : last_)[key] = std::move(count);
}

CrossingRow CrossingLedger::RowOf(const CrossingCount& c) const {
  const bool tied = c.group_kind == CrossingKind::kTied;
  const bool within = c.group_kind == CrossingKind::kBoundary || tied;
  const int64_t peer =
      within ? c.rank / ranks_ * ranks_ + c.peer : c.peer * ranks_ + c.rank % ranks_;
  const auto [src, dst] = c.sent ? std::pair(c.rank, peer) : std::pair(peer, c.rank);
  const bool outer = c.group_kind == CrossingKind::kOuter;
  const bool activation = c.kind.empty() ? dst > src : c.kind == kActivationCount;
  return {.src_rank = src,
          .dst_rank = dst,
          .direction = outer        ? Direction::kOuter
                       : tied       ? Direction::kTied
                       : !within    ? Direction::kOther
                       : activation ? Direction::kForward
                                    : Direction::kBackward,
          .codec = outer ? outer_codec_ : c.codec,
          .tensors = c.tensors,
          .elements = c.elements,
          .payload_bytes = c.payload_bytes,
          .message_bytes = c.message_bytes,
          .nmse_samples = c.nmse_samples,
          .nmse_mean = c.nmse_mean,
          .nmse_max = c.nmse_max,
          .encode_s = c.encode_s,
          .decode_s = c.decode_s,
          .payload_hash = c.payload_hash};
}

std::vector<CrossingRow> CrossingLedger::Sum(const Counts& counts) const {
  std::map<std::tuple<int64_t, int64_t, Direction>, CrossingRow> sums;
  for (const auto& [key, count] : counts) {
    CrossingRow row = RowOf(count);
    const auto [at, fresh] = sums.try_emplace({row.src_rank, row.dst_rank, row.direction}, row);
    if (!fresh) AddCounts(row, at->second);
  }
  std::vector<CrossingRow> rows;
  for (auto& [key, row] : sums) rows.push_back(std::move(row));
  return rows;
}

std::vector<CrossingRow> CrossingLedger::RowsAt(int64_t checkpoint) const {
  const auto told = at_.find(checkpoint);
  if (told == at_.end()) return {};
  std::map<int64_t, int64_t> life;  // by rank, the one that wrote the checkpoint
  for (const auto& [key, count] : told->second) {
    life[count.rank] = std::max(life[count.rank], count.life);
  }
  Counts counts = told->second;
  for (const auto& [key, count] : last_) {
    const auto now = life.find(count.rank);
    const bool before = now != life.end() && count.life < now->second;
    const bool given =
        now != life.end() && count.life == now->second && count.group_kind == CrossingKind::kState;
    if (before || given) counts.emplace(key, count);
  }
  return Sum(counts);
}

FaultLedger::FaultLedger(const OuterPlan& plan, int64_t stages, std::function<absl::Duration()> now)
    : plan_(plan), stages_(stages), now_(std::move(now)) {}

// The last stage may tell of a step after another stage has told that the group is lost: of one
// before the loss, whose price it then is, or of the very one, which one stage finished for nothing.
bool FaultLedger::TakeStepOfALostGroup(const StepRow& step) {
  for (InjectedFault& fault : faults_) {
    if (!fault.waits || fault.row.what == "join") continue;
    if (fault.row.group_index != step.group_index) continue;
    if (step.step > plan_.EndOfRound(fault.row.step)) continue;
    if (step.step < fault.row.step) {
      int64_t& lost = fault.row.lost_tokens;
      lost = step.outer_synced ? 0 : lost + step.tokens;
      fault.changed = true;
    }
    return true;
  }
  return false;
}

void FaultLedger::SeeStep(const StepRow& step) {
  group_step_[step.group_index] = step.step;
  if (step.stage != stages_ - 1 || TakeStepOfALostGroup(step)) return;
  int64_t& tokens = unsynced_tokens_[step.group_index];
  tokens = step.outer_synced ? 0 : tokens + step.tokens;
  for (InjectedFault& fault : faults_) {
    if (!fault.waits || fault.row.group_index != step.group_index) continue;
    if (step.step <= plan_.EndOfRound(fault.row.step)) continue;
    fault.waits = false;
    fault.changed = true;
    fault.row.recovered_step = step.step;
    fault.row.recovery_s = absl::ToDoubleSeconds(now_() - fault.at);
  }
}

// A group that is lost has lost what it trained since its last outer step.
void FaultLedger::SeeFault(FaultRow fault) {
  fault.number = earlier_ + static_cast<int64_t>(faults_.size());
  if (fault.what == "lost") {
    for (InjectedFault& told : faults_) {
      if (!told.waits || told.row.group_index != fault.group_index) continue;
      told.row.said = fault.said;
      told.changed = true;
      return;
    }
    fault.step = group_step_[fault.group_index] + 1;
  }
  const bool joins = fault.what == "join" && CameOrWent(fault);
  const bool lost = CameOrWent(fault) && !joins;
  if (lost) fault.lost_tokens = std::exchange(unsynced_tokens_[fault.group_index], 0);
  if (lost || joins) groups_.insert(fault.group_index);
  // What the plan says happens once, however many lives come to its step.
  const auto known = std::find_if(planned_.begin(), planned_.end(), [&](const FaultRow& earlier) {
    return earlier.step == fault.step && earlier.what == fault.what &&
           earlier.place == fault.place && earlier.said == fault.said;
  });
  if (known != planned_.end()) {
    fault.number = known->number;
  } else if (lost || joins) {
    ++came_or_went_;
  }
  faults_.push_back({.row = std::move(fault), .at = now_(), .waits = lost || joins});
}

void FaultLedger::SeeEarlier(std::span<const FaultRow> faults) {
  for (const FaultRow& fault : faults) {
    earlier_ = std::max(earlier_, fault.number + 1);
    if (fault.said == kByPlan) planned_.push_back(fault);
  }
  came_or_went_ += std::count_if(faults.begin(), faults.end(), CameOrWent);
}

std::vector<FaultRow> FaultLedger::TakeChanged() {
  std::vector<FaultRow> rows;
  for (InjectedFault& fault : faults_) {
    if (std::exchange(fault.changed, false)) rows.push_back(fault.row);
  }
  return rows;
}

}  // namespace longhaul
