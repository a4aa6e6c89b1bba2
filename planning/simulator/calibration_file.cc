#include "planning/simulator/calibration_file.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "netem/topology/text_file.h"

namespace longhaul::simulator {
namespace {

using nlohmann::json;

// A crossing that gains this much would be a miswritten file, not a codec; noise stays far below.
constexpr double kMostQ = 1.2;
// Beyond these a number is in another unit: per cent for a share, thousandths for nats.
constexpr double kMostShare = 10;
constexpr double kMostNat = 20;       // more than any vocabulary's ln
constexpr double kMostBeyond = 1000;  // ln eta of many stages, which nobody measures
constexpr char kShare[] = "a share, not per cent";

// Reads fields of one JSON document; the first error stands, later reads give zeros.
class Reader {
 public:
  explicit Reader(std::string_view origin) : origin_(origin) {}

  void Fail(const std::string& where, std::string_view message) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(fmt::format("{}: {} {}", origin_, where, message));
  }

  double Number(const json& from, const char* key, const std::string& where) {
    const auto found = from.find(key);
    if (found == from.end() || !found->is_number() || !std::isfinite(found->get<double>())) {
      Fail(where, fmt::format("has no number '{}'", key));
      return 0;
    }
    return found->get<double>();
  }

  int64_t Count(const json& from, const char* key, const std::string& where) {
    const double number = Number(from, key, where);
    const bool whole = number >= 1 && number <= 1e9 && number == std::floor(number);
    if (!whole) Fail(where, fmt::format("'{}' is not a whole number of at least 1", key));
    return whole ? static_cast<int64_t>(number) : 1;
  }

  std::string Text(const json& from, const char* key, const std::string& where) {
    const auto found = from.find(key);
    if (found == from.end() || !found->is_string()) {
      Fail(where, fmt::format("has no text '{}'", key));
      return "";
    }
    return found->get<std::string>();
  }

  // from[key] with the interval from[ci].
  Measured WithInterval(const json& from, const char* key, const char* ci,
                        const std::string& where) {
    const double value = Number(from, key, where);
    const auto ends = from.find(ci);
    const bool two = ends != from.end() && ends->is_array() && ends->size() == 2 &&
                     (*ends)[0].is_number() && (*ends)[1].is_number();
    if (!two) {
      Fail(where, fmt::format("gives '{}' without an interval '{}' = [low, high]", key, ci));
      return {value, value, value};
    }
    const Measured out{value, (*ends)[0].get<double>(), (*ends)[1].get<double>()};
    if (out.low > out.high) {
      Fail(where,
           fmt::format("'{}' = [{}, {}] is upside down; want [low, high]", ci, out.low, out.high));
    }
    if (!(out.low <= value && value <= out.high)) {
      Fail(where, fmt::format("'{}' = {} lies outside its interval [{}, {}]", key, value, out.low,
                              out.high));
    }
    return out;
  }

  Measured Positive(const json& from, const char* key, const char* ci, const std::string& where) {
    const Measured out = WithInterval(from, key, ci, where);
    if (!(out.low > 0)) Fail(where, fmt::format("'{}' or its interval is not above 0", key));
    return out;
  }

  // The point within -most..most (an interval may be wide), or a wrong unit: `want` says which.
  Measured Within(Measured m, double most, const char* key, const char* want,
                  const std::string& where) {
    if (std::abs(m.value) > most) {
      Fail(where, fmt::format("'{}' = {} is beyond {} and looks like another unit; want {}", key,
                              m.value, most, want));
    }
    return m;
  }

  // The elements of from[key], each an object; none where the key is absent.
  std::vector<json> Objects(const json& from, const char* key) {
    const auto found = from.find(key);
    if (found == from.end()) return {};
    if (!found->is_array()) return Fail(key, "is not an array"), std::vector<json>{};
    std::vector<json> out;
    for (const json& item : *found) {
      if (!item.is_object()) return Fail(key, "holds something that is no object"), out;
      out.push_back(item);
    }
    return out;
  }

  const absl::Status& status() const { return status_; }

 private:
  std::string origin_;
  absl::Status status_;
};

// By direction at a stated width; older files have one for both, of the campaign's own tensors.
void ReadRatios(Reader& r, const json& entry, const std::string& where, ActivationEntry& a) {
  const auto ratio = [&](const char* key) {
    const double x = r.Number(entry, key, where);
    if (!(x >= 1 && x <= 1e6)) r.Fail(where, fmt::format("'{}' is not between 1 and 1e6", key));
    return x;
  };
  if (entry.contains("ratio_forward") || entry.contains("ratio_backward")) {
    a.forward_ratio = ratio("ratio_forward");
    a.backward_ratio = ratio("ratio_backward");
    a.ratio_width = r.Count(entry, "ratio_width", where);
  } else if (entry.contains("ratio")) {
    a.forward_ratio = a.backward_ratio = ratio("ratio");
  }
}

ActivationEntry ReadActivation(Reader& r, const json& entry, Calibration& out) {
  ActivationEntry a;
  a.codec = r.Text(entry, "codec", "activation");
  const std::string where = fmt::format("activation of '{}'", a.codec);
  a.direction = r.Text(entry, "direction", where);
  a.evaluation = r.Text(entry, "eval", where);
  a.q = r.Positive(entry, "q", "q_ci", where);
  if (a.q.value > kMostQ) {
    r.Fail(where, fmt::format("'q' = {} is above {}: no crossing makes tokens worth that much more",
                              a.q.value, kMostQ));
  }
  if (entry.contains("level")) a.level = r.Number(entry, "level", where);
  a.bound = entry.contains("q_ci_low_bound") || entry.contains("bound");
  ReadRatios(r, entry, where, a);
  // Where M1 (q per crossing) held, the file's gamma describes the data and is not the model.
  const auto depth = entry.find("depth_model");
  const bool m1_held =
      depth != entry.end() && depth->is_object() && depth->value("chosen", json()) == json("M1");
  if (entry.contains("gamma") && !m1_held) {
    a.gamma = r.WithInterval(entry, "gamma", "gamma_ci", where);
  }
  for (const json& row : r.Objects(entry, "by_S")) {
    if (row.contains("ci_low_bound") || row.contains("bound")) {
      ++out.bounds;
      continue;
    }
    a.ln_eta.push_back(
        {r.Count(row, "S", where), r.Within(r.WithInterval(row, "ln_eta", "ci", where), kMostNat,
                                            "ln_eta", "the logarithm of a share", where)});
  }
  for (const json& row : r.Objects(entry, "beyond")) {
    a.beyond.push_back(
        {r.Count(row, "S", where), r.Within(r.WithInterval(row, "ln_eta", "ci", where), kMostBeyond,
                                            "ln_eta", "the logarithm of a share", where)});
  }
  for (const json& row : r.Objects(entry, "delta_nat")) {
    a.delta_nat.push_back(
        {r.Count(row, "S", where), r.Within(r.WithInterval(row, "value", "ci", where), kMostNat,
                                            "value", "nat, not thousandths", where)});
  }
  out.bounds += a.bound ? 1 : 0;
  return a;
}

ReplicaEntry ReadReplica(Reader& r, const json& row, const char* key) {
  return {r.Count(row, "M", key), r.Count(row, "H", key),
          r.Within(r.Positive(row, "eta", "ci", key), kMostShare, "eta", kShare, key)};
}

void ReadReplicas(Reader& r, const json& document, const char* key,
                  std::vector<ReplicaEntry>& out) {
  for (const json& row : r.Objects(document, key)) out.push_back(ReadReplica(r, row, key));
}

// Cells of DiLoCo as a whole; those with a codec or a boundary are of more than M and H.
void ReadTotals(Reader& r, const json& document, Calibration& out) {
  constexpr const char* kWhere = "eta_diloco";
  json plain = json::array();
  for (const json& row : r.Objects(document, kWhere)) {
    const bool taken = r.Text(row, "codec", kWhere) == "none" &&
                       r.Text(row, "boundary", kWhere).empty() &&
                       r.Text(row, "batch", kWhere) == "global-batch-matched";
    if (taken) plain.push_back(row);
  }
  ReadReplicas(r, json{{kWhere, plain}}, kWhere, out.totals);
}

void ReadOuter(Reader& r, const json& document, Calibration& out) {
  ReadTotals(r, document, out);
  ReadReplicas(r, document, "eta_H", out.eta_h);
  ReadReplicas(r, document, "eta_r", out.eta_r);
  for (const json& row : r.Objects(document, "eta_c")) {
    out.eta_c.push_back(
        {r.Text(row, "codec", "eta_c"), r.Number(row, "ratio", "eta_c"),
         r.Within(r.Positive(row, "eta", "ci", "eta_c"), kMostShare, "eta", kShare, "eta_c")});
  }
  for (const json& row : r.Objects(document, "eta_outer")) {
    out.outer.push_back({r.Text(row, "algorithm", "eta_outer"), r.Text(row, "codec", "eta_outer"),
                         ReadReplica(r, row, "eta_outer")});
  }
  if (const auto alpha = document.find("alpha"); alpha != document.end() && alpha->is_object()) {
    out.alpha = r.Positive(*alpha, "value", "ci", "alpha");
    out.alpha_billions = r.Number(*alpha, "P_B", "alpha");
    if (!(out.alpha_billions > 1e-5)) r.Fail("alpha", "'P_B' is not above 1e-5");
  }
}

void ReadMachine(Reader& r, const json& document, Calibration& out) {
  if (const auto found = document.find("straggler");
      found != document.end() && found->is_object()) {
    out.straggler = r.Within(r.Positive(*found, "coef", "ci", "straggler"), 1, "coef",
                             "a share for each doubling, not per cent", "straggler");
  }
  if (const auto found = document.find("step_time");
      found != document.end() && found->is_object()) {
    json copy = *found;
    if (copy.contains("p05") && copy.contains("p95")) {
      copy["ci"] = json::array({copy["p05"], copy["p95"]});
    }
    out.step_time = r.Within(r.Positive(copy, "ratio", "ci", "step_time"), 100, "ratio",
                             "times the formula's step, not seconds", "step_time");
  }
}

}  // namespace

absl::StatusOr<Calibration> ParseCalibration(std::string_view text, std::string_view origin) {
  Reader r(origin);
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) {
    return absl::InvalidArgumentError(fmt::format("{}: not a JSON object", origin));
  }
  const std::string schema = document.value("schema", json()).is_string()
                                 ? document["schema"].get<std::string>()
                                 : std::string("none");
  if (schema != "longhaul.calibration/1") {
    return absl::InvalidArgumentError(
        fmt::format("{}: schema '{}'; expected 'longhaul.calibration/1': write the file anew with "
                    "'longhaul report RESULTS'",
                    origin, schema));
  }
  if (document.contains("controls_failed") && !document["controls_failed"].empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: the campaign's controls failed: its figures calibrate nothing", origin));
  }
  Calibration out;
  out.plan_sha256 = r.Text(document, "plan_sha256", "the document");
  out.commit = r.Text(document, "commit", "the document");
  out.parameters = r.Number(document, "params", "the document");
  if (!(out.parameters >= 1)) r.Fail("the document", "'params' is not at least 1");
  if (document.contains("tokens")) out.tokens = r.Number(document, "tokens", "the document");
  for (const json& entry : r.Objects(document, "activation")) {
    out.activation.push_back(ReadActivation(r, entry, out));
  }
  ReadOuter(r, document, out);
  ReadMachine(r, document, out);
  if (!r.status().ok()) return r.status();
  return out;
}

absl::StatusOr<Calibration> ReadCalibration(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  if (!text.ok()) return text.status();
  return ParseCalibration(*text, path);
}

}  // namespace longhaul::simulator
