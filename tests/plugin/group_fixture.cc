#include "tests/plugin/group_fixture.h"

#include <chrono>
#include <utility>

#include "compressors/numbers/noise.h"

namespace longhaul {

Outcome::~Outcome() {
  if (state_->asked) (void)Wait(absl::Seconds(1));
}

Group::Done Outcome::done() const {
  state_->asked = true;
  return [state = state_](absl::Status status) {
    const std::lock_guard lock(state->mu);
    ++state->calls;
    state->status = std::move(status);
    state->changed.notify_all();
  };
}

Group::DoneFrom Outcome::done_from() const {
  state_->asked = true;
  return [state = state_](absl::StatusOr<int> from) {
    const std::lock_guard lock(state->mu);
    ++state->calls;
    state->status = from.status();
    if (from.ok()) state->source = *from;
    state->changed.notify_all();
  };
}

absl::Status Outcome::Wait(absl::Duration limit) const {
  std::unique_lock lock(state_->mu);
  if (!state_->changed.wait_for(lock, absl::ToChronoNanoseconds(limit),
                                [this] { return state_->calls > 0; })) {
    return absl::InternalError("the callback never ran");
  }
  return state_->status;
}

int Outcome::calls() const {
  const std::lock_guard lock(state_->mu);
  return state_->calls;
}

int Outcome::source() const {
  const std::lock_guard lock(state_->mu);
  return state_->source;
}

NodeOptions OptionsFor(TransportKind kind) {
  NodeOptions options{.transport = kind};
  if (kind == TransportKind::kUcx) options.interface = "lo";
  return options;
}

Cluster::Cluster(TransportKind kind, int size, std::function<void(NodeOptions&)> adjust) {
  for (int rank = 0; rank < size; ++rank) {
    NodeOptions options = OptionsFor(kind);
    if (adjust) adjust(options);
    nodes.push_back(Node::Create(options).value());
  }
}

Cluster::~Cluster() = default;

std::vector<std::string> Cluster::addresses() const {
  std::vector<std::string> all;
  for (const std::shared_ptr<Node>& node : nodes) all.push_back(node->address());
  return all;
}

std::vector<std::shared_ptr<Group>> Cluster::MakeGroup(
    const std::string& name, std::function<void(GroupOptions&)> adjust) const {
  std::vector<std::shared_ptr<Group>> groups;
  const std::vector<std::string> at = addresses();
  for (size_t rank = 0; rank < nodes.size(); ++rank) {
    GroupOptions options{
        .name = name, .rank = static_cast<int>(rank), .size = static_cast<int>(nodes.size())};
    if (adjust) adjust(options);
    groups.push_back(Group::Create(nodes[rank], options, at).value());
  }
  return groups;
}

std::vector<float> Noise(size_t count, uint64_t seed) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = NoiseUniform(seed, NoisePurpose::kSampling, i) - 0.5f;
  }
  return values;
}

}  // namespace longhaul
