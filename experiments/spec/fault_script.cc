#include "experiments/spec/fault_script.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "compressors/numbers/noise.h"
#include "netem/topology/table_reader.h"

namespace longhaul {
namespace {

// What a kind of fault takes beside its time and place.
enum Takes : unsigned {
  kNothing = 0,
  kSteps = 1,
  kSeconds = 2,
  kFactor = 4,
  kRate = 8,
  kDelay = 16,
  kMoment = 32,
  kAtLink = 64,       // the place is a link
  kAtLab = 128,       // the place may be the lab
  kWholeGroup = 256,  // the place is a group, never one worker
};

struct KindEntry {
  FaultKind kind;
  std::string_view name;
  unsigned takes;
  unsigned needs;  // of kFactor, kRate, kDelay
};

constexpr KindEntry kKinds[] = {
    {FaultKind::kKill, "kill", kMoment | kAtLab, kNothing},
    {FaultKind::kStop, "stop", kSeconds, kNothing},
    {FaultKind::kSlow, "slow", kFactor | kSteps, kFactor},
    {FaultKind::kLinkDown, "link_down", kAtLink | kSteps | kSeconds, kNothing},
    {FaultKind::kLinkRate, "link_rate", kAtLink | kRate | kSteps | kSeconds, kRate},
    {FaultKind::kLinkDelay, "link_delay", kAtLink | kDelay | kSteps | kSeconds, kDelay},
    {FaultKind::kDiskFull, "disk_full", kNothing, kNothing},
    {FaultKind::kPoison, "poison", kFactor | kWholeGroup, kFactor},
    {FaultKind::kLeave, "leave", kWholeGroup, kNothing},
    {FaultKind::kJoin, "join", kWholeGroup, kNothing},
};
constexpr std::string_view kMoments[] = {"begin", "forward",    "backward",
                                         "outer", "checkpoint", "transfer"};

constexpr int64_t kMostFaults = 4096;
constexpr double kLongestFaultS = 86'400, kMostFactor = 1e6, kMostMbit = 1e6, kMostMs = 600'000;

const KindEntry& EntryOf(FaultKind kind) { return kKinds[static_cast<size_t>(kind)]; }

// A number at the front of *text, taken off; nullopt: there is none.
std::optional<int64_t> TakeNumber(std::string_view* text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return value;
}

bool TakeWord(std::string_view* text, std::string_view word) {
  if (!text->starts_with(word)) return false;
  text->remove_prefix(word.size());
  return true;
}

std::optional<FaultPlace> PlaceFrom(std::string_view text) {
  using Kind = FaultPlace::Kind;
  if (text == "any group") return FaultPlace{.kind = Kind::kAnyGroup};
  if (text == "lab") return FaultPlace{.kind = Kind::kLab};
  FaultPlace place;
  std::optional<int64_t> first, second;
  if (TakeWord(&text, "link ")) {
    place.kind = Kind::kLink;
    first = TakeNumber(&text);
    place.both_ways = TakeWord(&text, " - ");
    if (!place.both_ways && !TakeWord(&text, " > ")) return std::nullopt;
    second = TakeNumber(&text);
    if (!first || !second || !text.empty()) return std::nullopt;
    place.from = *first;
    place.to = *second;
    return place;
  }
  if (!TakeWord(&text, "group ") || !(first = TakeNumber(&text))) return std::nullopt;
  place.group = *first;
  if (text.empty()) return place;
  place.kind = Kind::kWorker;
  if (!TakeWord(&text, " stage ") || !(second = TakeNumber(&text)) || !text.empty()) {
    return std::nullopt;
  }
  place.stage = *second;
  return place;
}

// Reads one [[fault]].
class FaultReader {
 public:
  FaultReader(const TomlValue& table, const FaultBounds& bounds)
      : r_(TableReader::Of(table, "fault")), bounds_(bounds) {
    fault_.written = table.where;
    // A value that is wrong is told before a key that is not read because of it.
    for (const char* key : {"what", "where", "at_step", "mean_time_between_steps", "during",
                            "for_steps", "for_s", "factor", "rate_mbit", "delay_ms"}) {
      r_.Skip(key);
    }
  }

  absl::StatusOr<Fault> Read() {
    ReadWhat();
    if (r_.status().ok()) ReadWhere();
    if (r_.status().ok()) ReadWhen();
    if (r_.status().ok()) ReadFigures();
    RETURN_IF_ERROR(r_.Finish());
    return fault_;
  }

 private:
  bool Takes(unsigned what) const { return (EntryOf(fault_.what).takes & what) != 0; }

  void ReadWhat() {
    std::string name;
    r_.Require("what", &name);
    std::vector<std::string_view> names;
    for (const KindEntry& kind : kKinds) {
      names.push_back(kind.name);
      if (kind.name == name) fault_.what = kind.kind;
    }
    if (r_.status().ok()) r_.OneOf("what", name, names);
  }

  void ReadWhere() {
    std::string text;
    r_.Require("where", &text);
    if (!r_.status().ok()) return;
    const std::optional<FaultPlace> place = PlaceFrom(text);
    if (!place) {
      return r_.Fail("where",
                     fmt::format("is '{}'; want 'group 1', 'group 1 stage 0', 'any group', "
                                 "'link 0 > 3', 'link 0 - 3' or 'lab'",
                                 Shown(text)));
    }
    fault_.where = *place;
    CheckPlace(text);
  }

  void CheckPlace(const std::string& text) {
    using Kind = FaultPlace::Kind;
    const FaultPlace& place = fault_.where;
    const std::string_view what = EntryOf(fault_.what).name;
    const bool link = place.kind == Kind::kLink;
    r_.Check(link == Takes(kAtLink), "where",
             fmt::format("is '{}', but '{}' strikes {}", Shown(text), what,
                         Takes(kAtLink) ? "a link: 'link 0 > 3' or 'link 0 - 3'" : "no link"));
    r_.Check(place.kind != Kind::kLab || Takes(kAtLab), "where",
             fmt::format("is 'lab', which only 'kill' strikes, not '{}'", what));
    r_.Check(place.kind != Kind::kWorker || !Takes(kWholeGroup), "where",
             fmt::format("is '{}', but '{}' strikes a whole group", Shown(text), what));
    if (link) {
      const int64_t ranks = bounds_.groups * bounds_.stages;
      r_.Check(place.from < ranks && place.to < ranks && place.from != place.to, "where",
               fmt::format("is '{}'; want two of the ranks 0 to {} ({} groups x {} stages)",
                           Shown(text), ranks - 1, bounds_.groups, bounds_.stages));
      return;
    }
    r_.Check(place.group < bounds_.groups, "where",
             fmt::format("is '{}'; outer.groups = {} has the groups 0 to {}", Shown(text),
                         bounds_.groups, bounds_.groups - 1));
    r_.Check(place.stage < bounds_.stages, "where",
             fmt::format("is '{}'; schedule.stages = {} has the stages 0 to {}", Shown(text),
                         bounds_.stages, bounds_.stages - 1));
  }

  void ReadWhen() {
    r_.Allow("at_step", &fault_.at_step);
    r_.Allow("mean_time_between_steps", &fault_.mean_time_between_steps);
    const bool drawn = r_.Has("mean_time_between_steps");
    r_.Check(drawn != r_.Has("at_step"), drawn ? "mean_time_between_steps" : "at_step",
             "exactly one of fault.at_step and fault.mean_time_between_steps must be given");
    if (!r_.status().ok()) return;
    if (drawn) {
      r_.Within("mean_time_between_steps", fault_.mean_time_between_steps, 1.0, 1e12, "steps");
    } else {
      r_.Check(fault_.at_step >= 1 && fault_.at_step <= bounds_.steps, "at_step",
               fmt::format("is {}; the run has the steps 1 to {}", fault_.at_step, bounds_.steps));
    }
    r_.Check(drawn || fault_.where.kind != FaultPlace::Kind::kAnyGroup, "where",
             "is 'any group', which wants fault.mean_time_between_steps instead of at_step");
    std::string moment(kMoments[0]);
    r_.Allow("during", &moment);
    if (!r_.status().ok() || !r_.Has("during")) return;
    r_.Check(Takes(kMoment), "during", "goes with 'kill' only");
    r_.OneOf("during", moment, {std::begin(kMoments), std::end(kMoments)});
    for (size_t i = 0; i < std::size(kMoments); ++i) {
      if (kMoments[i] == moment) fault_.during = static_cast<FaultMoment>(i);
    }
  }

  // A figure that this kind takes, within its range; another kind's is refused.
  template <typename T>
  void Figure(const std::string& key, unsigned bit, T* value, T least, T most,
              std::string_view unit) {
    const KindEntry& kind = EntryOf(fault_.what);
    if ((kind.needs & bit) != 0) {
      r_.Require(key, value);
    } else {
      r_.Allow(key, value);
    }
    if (!r_.status().ok() || !r_.Has(key)) return;
    r_.Check(Takes(bit), key, fmt::format("does not go with '{}'", kind.name));
    const bool poison_by_nan = fault_.what == FaultKind::kPoison && *value != *value;
    if (!poison_by_nan) r_.Within(key, *value, least, most, unit);
  }

  void ReadFigures() {
    const bool poison = fault_.what == FaultKind::kPoison;
    Figure<int64_t>("for_steps", kSteps, &fault_.for_steps, 1, bounds_.steps, "steps");
    Figure<double>("for_s", kSeconds, &fault_.for_s, 0.001, kLongestFaultS, "s");
    Figure<double>("factor", kFactor, &fault_.factor, poison ? -1e30 : 1.0,
                   poison ? 1e30 : kMostFactor, "");
    Figure<double>("rate_mbit", kRate, &fault_.rate_mbit, 0.001, kMostMbit, "Mbit/s");
    Figure<double>("delay_ms", kDelay, &fault_.delay_ms, 0.0, kMostMs, "ms");
    r_.Check(fault_.for_steps == 0 || fault_.for_s == 0, "for_s",
             "and fault.for_steps: one of them says how long");
  }

  TableReader r_;
  const FaultBounds bounds_;
  Fault fault_;
};

// Steps until the next strike: exponential, a whole number and at least 1.
int64_t DrawGap(double mean, uint64_t seed) {
  // 53 bits in (0, 1].
  const double u = (static_cast<double>(seed >> 11) + 1) * 0x1p-53;
  const double gap = std::ceil(-mean * std::log(u));
  return static_cast<int64_t>(std::clamp(gap, 1.0, 1e15));
}

bool SameNumber(double a, double b) { return a == b || (a != a && b != b); }

}  // namespace

std::string_view ToString(FaultKind kind) { return EntryOf(kind).name; }
std::string_view ToString(FaultMoment moment) { return kMoments[static_cast<size_t>(moment)]; }

std::string ToString(const FaultPlace& place) {
  switch (place.kind) {
    case FaultPlace::Kind::kWorker:
      return fmt::format("group {} stage {}", place.group, place.stage);
    case FaultPlace::Kind::kGroup:
      return fmt::format("group {}", place.group);
    case FaultPlace::Kind::kAnyGroup:
      return "any group";
    case FaultPlace::Kind::kLink:
      return fmt::format("link {} {} {}", place.from, place.both_ways ? "-" : ">", place.to);
    case FaultPlace::Kind::kLab:
      break;
  }
  return "lab";
}

bool operator==(const Fault& a, const Fault& b) {
  return a.what == b.what && a.where == b.where && a.at_step == b.at_step &&
         a.mean_time_between_steps == b.mean_time_between_steps && a.during == b.during &&
         a.for_steps == b.for_steps && a.for_s == b.for_s && SameNumber(a.factor, b.factor) &&
         a.rate_mbit == b.rate_mbit && a.delay_ms == b.delay_ms;
}

absl::StatusOr<std::vector<Fault>> ReadFaults(const TomlValue& root, const FaultBounds& bounds) {
  std::vector<Fault> faults;
  const TomlValue* found = Find(root, "fault");
  if (found == nullptr) return faults;
  const auto* tables = std::get_if<TomlValue::Array>(&found->value);
  if (tables == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("{}: 'fault' is {}, want tables [[fault]]", found->where, KindName(*found)));
  }
  if (static_cast<int64_t>(tables->size()) > kMostFaults) {
    return absl::InvalidArgumentError(fmt::format("{}: {} tables [[fault]]; want at most {}",
                                                  found->where, tables->size(), kMostFaults));
  }
  for (const TomlValue& table : *tables) {
    ASSIGN_OR_RETURN(Fault fault, FaultReader(table, bounds).Read());
    faults.push_back(std::move(fault));
  }
  return faults;
}

SpecLines FaultLines(const std::vector<Fault>& faults) {
  SpecLines lines;
  for (size_t i = 0; i < faults.size(); ++i) {
    const Fault& f = faults[i];
    const unsigned needs = EntryOf(f.what).needs;
    const auto line = [&](bool given, const char* key, std::string value) {
      if (given) lines.push_back({fmt::format("fault[{}]", i), key, std::move(value)});
    };
    const auto text = [](std::string_view value) { return fmt::format("\"{}\"", value); };
    line(true, "what", text(ToString(f.what)));
    line(true, "where", text(ToString(f.where)));
    line(f.at_step > 0, "at_step", fmt::format("{}", f.at_step));
    line(f.mean_time_between_steps != 0, "mean_time_between_steps",
         TomlNumber(f.mean_time_between_steps));
    line(f.during != FaultMoment::kBegin, "during", text(ToString(f.during)));
    line(f.for_steps > 0, "for_steps", fmt::format("{}", f.for_steps));
    line(f.for_s != 0, "for_s", TomlNumber(f.for_s));
    line((needs & kFactor) != 0, "factor", TomlNumber(f.factor));
    line(f.rate_mbit != 0, "rate_mbit", TomlNumber(f.rate_mbit));
    line((needs & kDelay) != 0, "delay_ms", TomlNumber(f.delay_ms));
  }
  return lines;
}

std::vector<Fault> DrawFaults(const std::vector<Fault>& faults, const FaultBounds& bounds,
                              uint64_t seed) {
  std::vector<Fault> drawn;
  for (size_t rule = 0; rule < faults.size(); ++rule) {
    const Fault& fault = faults[rule];
    if (fault.at_step > 0) {
      drawn.push_back(fault);
      continue;
    }
    const bool any = fault.where.kind == FaultPlace::Kind::kAnyGroup;
    for (int64_t clock = 0; clock < (any ? bounds.groups : 1); ++clock) {
      int64_t step = 0;
      for (uint64_t strike = 0;; ++strike) {
        step += DrawGap(
            fault.mean_time_between_steps,
            FoldSeed({seed, uint64_t{0x6661756c74}, rule, static_cast<uint64_t>(clock), strike}));
        if (step > bounds.steps) break;
        Fault one = fault;
        one.at_step = step;
        one.mean_time_between_steps = 0;
        if (any) one.where = {.kind = FaultPlace::Kind::kGroup, .group = clock};
        drawn.push_back(std::move(one));
      }
    }
  }
  std::stable_sort(drawn.begin(), drawn.end(),
                   [](const Fault& a, const Fault& b) { return a.at_step < b.at_step; });
  return drawn;
}

bool IsOfLab(const Fault& fault) {
  return fault.where.kind == FaultPlace::Kind::kLink ||
         fault.where.kind == FaultPlace::Kind::kLab || fault.what == FaultKind::kJoin;
}

std::string Describe(const Fault& fault) {
  std::string text =
      fmt::format("step {}: {}, {}", fault.at_step, ToString(fault.what), ToString(fault.where));
  if (fault.during != FaultMoment::kBegin) text += fmt::format(", {}", ToString(fault.during));
  if (fault.what == FaultKind::kSlow || fault.what == FaultKind::kPoison) {
    text += fmt::format(", x {}", fault.factor);
  }
  if (fault.what == FaultKind::kLinkRate) text += fmt::format(", {} Mbit/s", fault.rate_mbit);
  if (fault.what == FaultKind::kLinkDelay) text += fmt::format(", {} ms", fault.delay_ms);
  if (fault.for_steps > 0) text += fmt::format(", for {} steps", fault.for_steps);
  if (fault.for_s > 0) text += fmt::format(", for {} s", fault.for_s);
  return text;
}

}  // namespace longhaul
