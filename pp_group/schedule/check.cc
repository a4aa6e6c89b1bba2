#include "pp_group/schedule/check.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace longhaul {
namespace {

// What has been done of one micro-batch on one stage.
struct Done {
  bool forward = false, input_gradient = false, weight_gradient = false;
};

std::string Refusal(const Action& action, const Done& done) {
  if (action.op == Op::kForward) return done.forward ? "runs twice" : "";
  if (!done.forward) return "before its forward";
  if (MakesInputGradient(action.op) && done.input_gradient) return "runs twice";
  if (MakesWeightGradient(action.op) && done.weight_gradient) return "runs twice";
  if (action.op == Op::kWeightGradient && !done.input_gradient) return "before its I";
  return "";
}

absl::Status CheckActions(const PipelineProgram& program) {
  std::vector<std::vector<Done>> stages(program.num_stages(),
                                        std::vector<Done>(program.microbatches));
  for (int rank = 0; rank < program.num_ranks(); ++rank) {
    for (const Action& action : program.ranks[rank]) {
      Done& done = stages[action.stage][action.microbatch];
      if (const std::string why = Refusal(action, done); !why.empty()) {
        return absl::InvalidArgumentError(
            absl::StrCat("schedule: rank ", rank, ", action ", ToString(action), ": ", why));
      }
      done.forward |= action.op == Op::kForward;
      done.input_gradient |= MakesInputGradient(action.op);
      done.weight_gradient |= MakesWeightGradient(action.op);
    }
  }
  for (int s = 0; s < program.num_stages(); ++s) {
    for (int m = 0; m < program.microbatches; ++m) {
      const Done& done = stages[s][m];
      if (done.weight_gradient) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("schedule: stage ", s, ": no ",
                       done.input_gradient ? "W" : (done.forward ? "backward" : "forward"),
                       " of micro-batch ", m));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFifo(const PipelineProgram& program) {
  using Channel = std::tuple<int, int, MessageKind>;  // from, to, kind
  std::map<Channel, std::vector<Message>> sent, needed;
  for (const RankCommunication& rank : Communication(program)) {
    for (const RankMessage& t : rank.sends) {
      sent[{t.from_rank, t.to_rank, t.message.kind}].push_back(t.message);
    }
    for (const RankMessage& t : rank.receives) {
      needed[{t.from_rank, t.to_rank, t.message.kind}].push_back(t.message);
    }
  }
  for (const auto& [channel, messages] : needed) {
    if (sent[channel] == messages) continue;
    const auto& [from, to, kind] = channel;
    return absl::InvalidArgumentError(
        absl::StrCat("schedule: ranks ", from, " and ", to, " run their ",
                     kind == MessageKind::kActivation ? "forwards" : "backwards",
                     " in different orders; the channel between them is first in, first out"));
  }
  return absl::OkStatus();
}

// Which messages have been made.
class Made {
 public:
  explicit Made(const PipelineProgram& program)
      : stages_(program.num_stages()), microbatches_(program.microbatches) {
    for (auto& kind : made_) kind.resize(static_cast<size_t>(stages_) * microbatches_);
  }
  bool Has(const std::optional<Message>& m) const {
    return !m || made_[static_cast<int>(m->kind)][Index(*m)];
  }
  void Add(const std::optional<Message>& m) {
    if (m) made_[static_cast<int>(m->kind)][Index(*m)] = true;
  }

 private:
  size_t Index(const Message& m) const {
    return static_cast<size_t>(m.to_stage) * microbatches_ + m.microbatch;
  }
  const int stages_, microbatches_;
  std::vector<bool> made_[2];  // by kind; [S * M]
};

}  // namespace

absl::Status CheckProgram(const PipelineProgram& program) {
  RETURN_IF_ERROR(CheckActions(program));
  RETURN_IF_ERROR(CheckFifo(program));
  return GlobalOrder(program).status();
}

// Ranks are visited upwards, so a tensor's consumer mostly runs right after its producer. In one thread
// that is the order to have: a crossing inside a process has ended when its send returns, so there is
// no wait to fill with other micro-batches, and the consumer finds the tensor in the cache.
absl::StatusOr<Program> GlobalOrder(const PipelineProgram& program) {
  const int stages = program.num_stages();
  std::vector<size_t> next(program.ranks.size(), 0);
  Made made(program);
  Program order;
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t rank = 0; rank < next.size(); ++rank) {
      const Program& own = program.ranks[rank];
      if (next[rank] == own.size() || !made.Has(InputOf(own[next[rank]], stages))) continue;
      const Action& action = own[next[rank]++];
      made.Add(OutputOf(action, stages));
      order.push_back(action);
      moved = true;
    }
  }
  std::string stuck;
  for (size_t rank = 0; rank < next.size(); ++rank) {
    const Program& own = program.ranks[rank];
    if (next[rank] < own.size()) absl::StrAppend(&stuck, " ", ToString(own[next[rank]]));
  }
  if (!stuck.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("schedule: deadlock, ranks wait at", stuck));
  }
  return order;
}

absl::Status CheckMicrobatchOrder(const PipelineProgram& program) {
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    std::map<std::pair<int, bool>, int> next;  // by stage and whether it is a forward
    for (const Action& action : program.ranks[rank]) {
      if (action.op == Op::kWeightGradient) continue;
      const int want = next[{action.stage, action.op == Op::kForward}]++;
      if (action.microbatch == want) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "schedule: rank ", rank, ", action ", ToString(action), " before that of micro-batch ",
          want, ": sums follow the order of micro-batches, for equal bits"));
    }
  }
  return absl::OkStatus();
}

int PeakActivations(const Program& program) {
  struct Weights {
    int next = 0;         // the micro-batch whose gradient is to be summed next
    std::set<int> ready;  // later ones that wait for it
  };
  std::map<int, Weights> stages;
  int live = 0, peak = 0;
  for (const Action& action : program) {
    if (action.op == Op::kForward) peak = std::max(peak, ++live);
    if (!MakesWeightGradient(action.op)) continue;
    Weights& weights = stages[action.stage];
    weights.ready.insert(action.microbatch);
    while (weights.ready.erase(weights.next) > 0) {
      ++weights.next;
      --live;
    }
  }
  return peak;
}

}  // namespace longhaul
