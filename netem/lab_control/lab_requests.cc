#include "netem/lab_control/lab_requests.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <map>
#include <utility>

#include "base/status_macros.h"
#include "netem/lab_control/path_figures.h"
#include "netem/lab_control/probed_lab.h"
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

// Of "info", "stats" and "probe".
json GatewayJson(const GatewaySpec& spec) {
  json forwards = json::array();
  for (const PortForward& forward : spec.forwards) {
    forwards.push_back({{"host_address", forward.host_address},
                        {"host_port", forward.host_port},
                        {"node", forward.node},
                        {"port", forward.node_port}});
  }
  return {{"device", kGatewayDevice},
          {"rate_mbit", nullptr},  // not shaped
          {"host_name", kHostName},
          {"host_address", kHostAddress},
          {"name_server", spec.resolver.server},
          {"forwards", std::move(forwards)}};
}

}  // namespace

LabRequests::LabRequests(std::string name, std::unique_ptr<Emulator> emulator,
                         std::unique_ptr<Gateway> gateway)
    : name_(std::move(name)),
      started_(MonotonicNow()),
      emulator_(std::move(emulator)),
      gateway_(std::move(gateway)),
      changes_(*emulator_, started_),
      user_ns_(open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC)),
      mount_ns_(open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC)),
      pid_ns_(open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC)),
      timekeeper_([this] { KeepTime(); }) {}

LabRequests::~LabRequests() {
  {
    const std::lock_guard lock(mu_);
    ending_ = true;
  }
  wake_.notify_all();
  timekeeper_.join();
}

// Makes what is due, when it is due; a probe does not hold it up.
void LabRequests::KeepTime() {
  std::unique_lock lock(mu_);
  while (!ending_) {
    changes_.RunUntil(MonotonicNow());
    if (const auto next = changes_.next()) {
      wake_.wait_for(lock, absl::ToChronoNanoseconds(*next - MonotonicNow()));
    } else {
      wake_.wait(lock);
    }
  }
}

json LabRequests::Figures(const PathSpec& path) const {
  json figures = PathFigures(emulator_->topology(), path);
  figures["carrier"] = changes_.IsDown({path.from, path.to}) ? "down" : "up";
  return figures;
}

json LabRequests::LateChanges() const {
  json all = json::array();
  for (const LateChange& change : changes_.late()) {
    all.push_back({{"what", change.what},
                   {"at_s", absl::ToDoubleSeconds(change.at)},
                   {"late_s", absl::ToDoubleSeconds(change.late)}});
  }
  return all;
}

// "" where echoes can come back; the lab's user is told what brings them back.
std::string LabRequests::WhyUnreachable(const PathSpec& path) const {
  const Topology& topology = emulator_->topology();
  for (const auto& [from, to] : {std::pair(path.from, path.to), {path.to, path.from}}) {
    const std::string& a = topology.nodes[from].name;
    const std::string& b = topology.nodes[to].name;
    const std::string way = from == path.from ? "" : fmt::format("the way back, {} > {}, ", a, b);
    if (changes_.IsDown({from, to})) {
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
  if (what == "probe") return Probe(request);
  const std::lock_guard lock(mu_);
  if (what == "set") return Set(request);
  if (what == "info") return Info();
  if (what == "stats") return Stats();
  if (what == "enter") return Enter(request, fds);
  return ErrorAnswer(
      absl::UnimplementedError(fmt::format("lab: unknown request '{}'; it may be older", what)));
}

json LabRequests::Info() const {
  const Topology& topology = emulator_->topology();
  json nodes = json::array();
  for (size_t i = 0; i < topology.nodes.size(); ++i) {
    json node = {{"name", topology.nodes[i].name}, {"address", NodeAddress(static_cast<int>(i))}};
    if (emulator_->options().ip == IpVersions::kBoth) {
      node["address6"] = NodeAddress6(static_cast<int>(i));
    }
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
  const std::string broken = Broken();
  return {{"ok", true},
          {"protocol", kLabProtocol},
          {"name", name_},
          {"emulator", ToString(emulator_->kind())},
          {"scheduling", emulator_->scheduling()},
          {"profile", topology.profile},
          {"mtu", topology.mtu},
          {"up_s", absl::ToDoubleSeconds(MonotonicNow() - started_)},
          {"health", broken.empty() ? changes_.failure() : broken},
          {"gateway", gateway_ == nullptr ? json() : GatewayJson(gateway_->spec())},
          {"changes_planned", topology.changes.size()},
          {"late_changes", LateChanges()},
          {"nodes", std::move(nodes)},
          {"paths", std::move(paths)}};
}

// What broke; "": nothing.
std::string LabRequests::Broken() const {
  absl::Status health = emulator_->health();
  if (health.ok() && gateway_ != nullptr) health = gateway_->health();
  return std::string(health.message());
}

json LabRequests::GatewayTraffic() const {
  json all = json::object();
  const Topology& topology = emulator_->topology();
  for (size_t i = 0; gateway_ != nullptr && i < topology.nodes.size(); ++i) {
    const DeviceCounters counters = gateway_->counters(*emulator_, static_cast<int>(i));
    all[topology.nodes[i].name] = {{"sent_bytes", counters.sent_bytes},
                                   {"sent_packets", counters.sent_packets},
                                   {"received_bytes", counters.received_bytes},
                                   {"received_packets", counters.received_packets}};
  }
  return all;
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
          {"health", Broken()},
          {"gateway", gateway_ == nullptr ? json() : GatewayJson(gateway_->spec())},
          {"gateway_traffic", GatewayTraffic()},
          {"late_changes", LateChanges()},
          {"access_lines", std::move(access)},
          {"paths", std::move(paths)}};
}

// What a probe measures, as it was when it began.
struct LabRequests::Probing {
  std::unique_ptr<ProbedLab> lab;
  json unreachable = json::array();
  std::map<LabChanges::Pair, json> figures;
  std::map<LabChanges::Pair, int64_t> changes;
};

absl::StatusOr<LabRequests::Probing> LabRequests::BeginProbe(const std::string& selector) const {
  const std::lock_guard lock(mu_);
  const Topology& topology = emulator_->topology();
  ASSIGN_OR_RETURN(auto pairs,
                   selector.empty() ? AllPaths(topology) : SelectPaths(topology, selector));
  Probing probing;
  probing.lab = std::make_unique<ProbedLab>(*emulator_, mu_);
  for (const auto& pair : pairs) {
    const PathSpec& path = *FindPath(topology, pair.first, pair.second);
    if (const std::string why = WhyUnreachable(path); !why.empty()) {
      probing.unreachable.push_back(Unreachable(path, why));
    } else {
      probing.figures[pair] = Figures(path);
      probing.changes[pair] = changes_.count(pair);
    }
  }
  return probing;
}

json LabRequests::Probe(const json& request) const {
  VerifyOptions options;
  options.pings = static_cast<int>(Whole(request, "pings", 20));
  options.measure_rate = Field(request, "rate", true);
  if (Field(request, "ipv6", false)) options.ip = IpVersion::kIpv6;
  options.loss_datagrams = Whole(request, "loss_datagrams", 0);
  if (options.ip == IpVersion::kIpv6 && emulator_->options().ip == IpVersions::kIpv4) {
    return ErrorAnswer(absl::FailedPreconditionError(
        fmt::format("lab '{}' has no IPv6: the kernel has none", name_)));
  }
  if (options.pings < 1 || options.pings > 10'000 || options.loss_datagrams < 0) {
    return ErrorAnswer(absl::InvalidArgumentError("probe: want 1 to 10000 echoes"));
  }
  const auto probing = BeginProbe(Field<std::string>(request, "path", ""));
  if (!probing.ok()) return ErrorAnswer(probing.status());
  for (const auto& [pair, figures] : probing->figures) options.pairs.push_back(pair);
  const ProbedLab& lab = *probing->lab;
  auto verdicts = options.pairs.empty() ? std::vector<PathVerdict>{} : VerifyLinks(lab, options);
  if (!verdicts.ok()) return ErrorAnswer(verdicts.status());
  json paths = probing->unreachable;
  bool all = paths.empty();
  const std::lock_guard lock(mu_);
  for (const PathVerdict& verdict : *verdicts) {
    const LabChanges::Pair pair(verdict.from, verdict.to), back(verdict.to, verdict.from);
    json path = VerdictJson(lab.topology(), options, verdict, probing->figures.at(pair));
    const auto changed = [&](LabChanges::Pair of) {
      const auto before = probing->changes.find(of);
      return before != probing->changes.end() && before->second != changes_.count(of);
    };
    if (changed(pair) || changed(back)) {
      path["in_bounds"] = false;
      path["why"] = fmt::format("path {} > {} was changed while it was probed: probe it again",
                                path.value("from", ""), path.value("to", ""));
    }
    all = all && path.value("in_bounds", false);
    paths.push_back(std::move(path));
  }
  return {{"ok", true},
          {"in_bounds", all},
          {"emulator", ToString(emulator_->kind())},
          {"scheduling", emulator_->scheduling()},
          {"ip", options.ip == IpVersion::kIpv6 ? 6 : 4},
          {"rtt_tolerance_ms", Ms(options.rtt_tolerance)},
          {"rtt_tolerance_share", options.rtt_tolerance_fraction},
          {"rate_tolerance_share", options.rate_tolerance},
          {"gateway", gateway_ == nullptr ? json() : GatewayJson(gateway_->spec())},
          {"paths", std::move(paths)}};
}

json LabRequests::Set(const json& request) {
  std::vector<std::string> words;
  const auto assignments = request.find("assignments");
  if (assignments != request.end() && assignments->is_array()) {
    for (const json& word : *assignments) {
      if (word.is_string()) words.push_back(word.get<std::string>());
    }
  }
  const auto pairs = changes_.Set(Field<std::string>(request, "path", ""), words, MonotonicNow());
  wake_.notify_all();  // an outage may have begun, whose end is the next thing due
  if (!pairs.ok()) return ErrorAnswer(pairs.status());
  json paths = json::array();
  for (const auto& [from, to] : *pairs) {
    paths.push_back(Figures(*FindPath(emulator_->topology(), from, to)));
  }
  return {{"ok", true}, {"paths", std::move(paths)}};
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
