#include "netem/lab_control/lab_requests.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <thread>
#include <utility>

#include "netem/lab_control/path_figures.h"
#include "netem/probes/probe.h"
#include "netem/topology/access_lines.h"
#include "netem/topology/queue_limits.h"

namespace longhaul {
namespace {

using nlohmann::json;

double Ms(absl::Duration time) { return absl::ToDoubleMilliseconds(time); }

absl::StatusOr<std::vector<std::pair<int, int>>> AllPaths(const Topology& topology) {
  std::vector<std::pair<int, int>> pairs;
  for (const PathSpec& path : topology.paths) pairs.emplace_back(path.from, path.to);
  return pairs;
}

// Of a request; a wrong type counts as absent.
template <typename T>
T Field(const json& request, const char* key, T otherwise) {
  const auto found = request.find(key);
  if (found == request.end() || found->type() != json(otherwise).type()) return otherwise;
  return found->get<T>();
}

int64_t Whole(const json& request, const char* key, int64_t otherwise) {
  const auto found = request.find(key);
  const bool whole = found != request.end() && found->is_number_integer();
  return whole ? found->get<int64_t>() : otherwise;
}

}  // namespace

LabRequests::LabRequests(std::string name, std::unique_ptr<Emulator> emulator)
    : name_(std::move(name)),
      started_(MonotonicNow()),
      emulator_(std::move(emulator)),
      user_ns_(open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC)),
      mount_ns_(open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC)),
      pid_ns_(open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC)) {
  if (!emulator_->topology().changes.empty()) std::thread([this] { FollowSchedule(); }).detach();
}

json LabRequests::Figures(const PathSpec& path) const {
  json figures = PathFigures(emulator_->topology(), path);
  figures["carrier"] = down_.contains({path.from, path.to}) ? "down" : "up";
  return figures;
}

// "" where echoes can come back; the lab's user is told what brings them back.
std::string LabRequests::WhyUnreachable(const PathSpec& path) const {
  const Topology& topology = emulator_->topology();
  for (const auto& [from, to] : {std::pair(path.from, path.to), {path.to, path.from}}) {
    const std::string& a = topology.nodes[from].name;
    const std::string& b = topology.nodes[to].name;
    const std::string way = from == path.from ? "" : fmt::format("the way back, {} > {}, ", a, b);
    if (down_.contains({from, to})) {
      return fmt::format("{}is down; `longhaul net set {} '{}>{}' carrier=up` brings it up", way,
                         name_, a, b);
    }
    const PathSpec* here = FindPath(topology, from, to);
    if (here != nullptr && MeanLoss(*here) >= 1)
      return way + "loses everything, as it was asked to";
  }
  return "";
}

json LabRequests::Unreachable(const PathSpec& path, const std::string& why) const {
  json result = Figures(path);
  result["in_bounds"] = false;
  result["why"] =
      fmt::format("path {} > {} {}", result.value("from", ""), result.value("to", ""), why);
  return result;
}

json LabRequests::Answer(const json& request, std::vector<int>& fds) {
  const std::string what = Field<std::string>(request, "do", "");
  if (what == "set") return Set(request);
  const std::shared_lock lock(mu_);
  if (what == "info") return Info();
  if (what == "stats") return Stats();
  if (what == "probe") return Probe(request);
  if (what == "enter") return Enter(request, fds);
  return ErrorAnswer(
      absl::UnimplementedError(fmt::format("lab: unknown request '{}'; it may be older", what)));
}

json LabRequests::Info() const {
  const Topology& topology = emulator_->topology();
  json nodes = json::array();
  for (size_t i = 0; i < topology.nodes.size(); ++i) {
    json node = {{"name", topology.nodes[i].name}, {"address", NodeAddress(static_cast<int>(i))}};
    if (const AccessSpec* line = LineBefore(topology, static_cast<int>(i)); line != nullptr) {
      node["up_mbit"] = InMbit(line->up);
      node["down_mbit"] = InMbit(line->down);
      if (line->aqm.kind != QueueManagement::Kind::kDropTail) {
        node["access_aqm"] = AqmFigures(line->aqm);
      }
    }
    if (const auto& site = topology.nodes[i].site) node["site"] = topology.sites[*site].name;
    nodes.push_back(std::move(node));
  }
  json paths = json::array();
  for (const PathSpec& path : topology.paths) paths.push_back(Figures(path));
  const absl::Status health = emulator_->health();
  return {{"ok", true},
          {"protocol", kLabProtocol},
          {"name", name_},
          {"emulator", ToString(emulator_->kind())},
          {"scheduling", emulator_->scheduling()},
          {"profile", topology.profile},
          {"mtu", topology.mtu},
          {"up_s", absl::ToDoubleSeconds(MonotonicNow() - started_)},
          {"health", health.ok() ? failed_change_ : std::string(health.message())},
          {"changes_planned", topology.changes.size()},
          {"nodes", std::move(nodes)},
          {"paths", std::move(paths)}};
}

json LabRequests::Stats() const {
  const Topology& topology = emulator_->topology();
  json paths = json::array();
  for (const PathSpec& path : topology.paths) {
    auto counters = emulator_->counters(path.from, path.to);
    if (!counters.ok()) return ErrorAnswer(counters.status());
    json one = Figures(path);
    one["packets"] = counters->packets;
    one["bytes"] = counters->bytes;
    one["drops_queue"] = counters->drops_queue;
    one["drops_loss"] = counters->drops_loss;
    one["drops_aqm"] = counters->drops_aqm;
    one["ecn_marks"] = counters->ecn_marks;
    one["held_bytes"] = counters->held_bytes;
    paths.push_back(std::move(one));
  }
  auto lines = emulator_->line_counters();
  if (!lines.ok()) return ErrorAnswer(lines.status());
  json access = json::array();
  for (const LineCounters& line : *lines) access.push_back(LineJson(line));
  json unread = json::object();
  for (size_t i = 0; i < topology.nodes.size(); ++i) {
    auto drops = UnreadDrops(*emulator_, static_cast<int>(i));
    if (!drops.ok()) return ErrorAnswer(drops.status());
    unread[topology.nodes[i].name] = *drops;
  }
  const Lateness late = emulator_->lateness();
  return {{"ok", true},
          {"at_s", absl::ToDoubleSeconds(MonotonicNow() - started_)},
          {"cpu_s", absl::ToDoubleSeconds(emulator_->cpu_time())},
          {"unroutable_drops", emulator_->unroutable_drops().value_or(-1)},
          {"unread_drops", std::move(unread)},
          {"frames", late.frames},
          {"late_frames", late.late_frames},
          {"latest_ms", Ms(late.max)},
          {"lead_ms", Ms(late.lead)},
          {"health", std::string(emulator_->health().message())},
          {"access_lines", std::move(access)},
          {"paths", std::move(paths)}};
}

json LabRequests::Probe(const json& request) const {
  VerifyOptions options;
  options.pings = static_cast<int>(Whole(request, "pings", 20));
  options.measure_rate = Field(request, "rate", true);
  options.loss_datagrams = Whole(request, "loss_datagrams", 0);
  if (options.pings < 1 || options.pings > 10'000 || options.loss_datagrams < 0) {
    return ErrorAnswer(absl::InvalidArgumentError("probe: want 1 to 10000 echoes"));
  }
  const Topology& topology = emulator_->topology();
  const std::string selector = Field<std::string>(request, "path", "");
  auto pairs = selector.empty() ? AllPaths(topology) : SelectPaths(topology, selector);
  if (!pairs.ok()) return ErrorAnswer(pairs.status());
  json paths = json::array();
  bool all = true;
  for (const auto& [from, to] : *pairs) {
    const PathSpec& path = *FindPath(topology, from, to);
    if (const std::string why = WhyUnreachable(path); !why.empty()) {
      paths.push_back(Unreachable(path, why));
      all = false;
    } else {
      options.pairs.emplace_back(from, to);
    }
  }
  auto verdicts =
      options.pairs.empty() ? std::vector<PathVerdict>{} : VerifyLinks(*emulator_, options);
  if (!verdicts.ok()) return ErrorAnswer(verdicts.status());
  for (const PathVerdict& verdict : *verdicts) {
    paths.push_back(
        VerdictJson(topology, verdict, Figures(*FindPath(topology, verdict.from, verdict.to))));
    all = all && paths.back().value("in_bounds", false);
  }
  return {{"ok", true},
          {"in_bounds", all},
          {"emulator", ToString(emulator_->kind())},
          {"scheduling", emulator_->scheduling()},
          {"rtt_tolerance_ms", Ms(options.rtt_tolerance)},
          {"rtt_tolerance_share", options.rtt_tolerance_fraction},
          {"rate_tolerance_share", options.rate_tolerance},
          {"paths", std::move(paths)}};
}

// All are judged before one is changed.
absl::StatusOr<std::vector<std::pair<int, int>>> LabRequests::SetPaths(
    const std::string& selector, const std::vector<std::string>& words) {
  const Topology& topology = emulator_->topology();
  auto pairs = SelectPaths(topology, selector);
  if (!pairs.ok()) return pairs.status();
  if (words.empty()) return absl::InvalidArgumentError("set: want KEY=VALUE");
  std::vector<PathChange> changes;
  for (const auto& [from, to] : *pairs) {
    auto change = ApplyAssignments(*FindPath(topology, from, to), words, topology.mtu);
    if (!change.ok()) return change.status();
    if (auto s = ValidatePath(topology, change->path); !s.ok()) return s;
    changes.push_back(*std::move(change));
  }
  if (auto s = Apply(changes); !s.ok()) return s;
  return pairs;
}

json LabRequests::Set(const json& request) {
  const std::unique_lock lock(mu_);
  std::vector<std::string> words;
  const auto assignments = request.find("assignments");
  if (assignments != request.end() && assignments->is_array()) {
    for (const json& word : *assignments) {
      if (word.is_string()) words.push_back(word.get<std::string>());
    }
  }
  const auto pairs = SetPaths(Field<std::string>(request, "path", ""), words);
  if (!pairs.ok()) return ErrorAnswer(pairs.status());
  json paths = json::array();
  for (const auto& [from, to] : *pairs) {
    paths.push_back(Figures(*FindPath(emulator_->topology(), from, to)));
  }
  return {{"ok", true}, {"paths", std::move(paths)}};
}

// As EndOutage, a thread that the process does not wait for. A change that fails is what the lab's
// health says from then on.
void LabRequests::FollowSchedule() {
  const std::vector<ScheduledChange> changes = [this] {
    const std::shared_lock lock(mu_);
    return emulator_->topology().changes;
  }();
  for (const ScheduledChange& change : changes) {
    absl::SleepFor(started_ + change.at - MonotonicNow());
    const std::unique_lock lock(mu_);
    const auto done = SetPaths(change.path, change.figures);
    if (!done.ok()) {
      failed_change_ = fmt::format("the change of line {} failed: {}", change.line,
                                   std::string(done.status().message()));
    }
  }
}

absl::Status LabRequests::Apply(const std::vector<PathChange>& changes) {
  for (const PathChange& change : changes) {
    const int from = change.path.from, to = change.path.to;
    if (auto s = emulator_->ChangePath(change.path); !s.ok()) return s;
    if (change.carrier) {
      if (auto s = SetCarrier(from, to, *change.carrier); !s.ok()) return s;
    }
    if (change.outage) {
      if (auto s = SetCarrier(from, to, Carrier::kDown); !s.ok()) return s;
      EndOutage(from, to, *change.outage);
    }
  }
  return absl::OkStatus();
}

absl::Status LabRequests::SetCarrier(int from, int to, Carrier carrier) {
  if (auto s = emulator_->SetCarrier(from, to, carrier); !s.ok()) return s;
  if (carrier == Carrier::kDown) {
    down_.insert({from, to});
  } else {
    down_.erase({from, to});
  }
  return absl::OkStatus();
}

// The process ends without waiting for this thread; until then the object lives.
void LabRequests::EndOutage(int from, int to, absl::Duration after) {
  std::thread([this, from, to, after] {
    absl::SleepFor(after);
    const std::unique_lock lock(mu_);
    if (auto s = SetCarrier(from, to, Carrier::kUp); !s.ok()) {
      fmt::print(stderr, "end of an outage: {}\n", std::string(s.message()));
    }
  }).detach();
}

json LabRequests::Enter(const json& request, std::vector<int>& fds) const {
  const std::string node = Field<std::string>(request, "node", "");
  const Topology& topology = emulator_->topology();
  if (!user_ns_.ok() || !mount_ns_.ok() || !pid_ns_.ok()) {
    return ErrorAnswer(absl::ResourceExhaustedError(
        fmt::format("lab '{}' could not open its own namespaces when it was built", name_)));
  }
  for (size_t i = 0; i < topology.nodes.size(); ++i) {
    if (topology.nodes[i].name != node) continue;
    fds = {user_ns_.get(), mount_ns_.get(), pid_ns_.get(),
           emulator_->node_netns_fd(static_cast<int>(i))};
    return {{"ok", true}, {"address", NodeAddress(static_cast<int>(i))}};
  }
  std::string known;
  for (const NodeSpec& spec : topology.nodes) known += " " + spec.name;
  return ErrorAnswer(
      absl::NotFoundError(fmt::format("no node '{}' in lab '{}'; nodes:{}", node, name_, known)));
}

}  // namespace longhaul
