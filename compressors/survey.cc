#include "compressors/survey.h"

#include <fmt/format.h>

#include <algorithm>

#include "compressors/catalog.h"
#include "compressors/frame.h"

namespace longhaul {
namespace {

// Calls `pass` until the time is up, at least twice; the rate of the fastest call in GB/s.
absl::StatusOr<double> FastestGbPerS(const SurveyOptions& options, double gigabytes,
                                     const std::function<absl::Status()>& pass) {
  double best_s = 0, spent_s = 0;
  for (int calls = 0; calls < 2 || spent_s < options.seconds_per_speed; ++calls) {
    const double start_s = options.now_s();
    if (absl::Status s = pass(); !s.ok()) return s;
    const double took_s = std::max(options.now_s() - start_s, 1e-9);
    best_s = calls == 0 ? took_s : std::min(best_s, took_s);
    spent_s += took_s;
  }
  return gigabytes / best_s;
}

absl::StatusOr<CodecSurvey> SurveyOne(const SurveyOptions& options, const std::string& name,
                                      const std::array<std::vector<float>, 4>& inputs) {
  const auto codec = MakeCodec(name, options.isa);
  if (!codec.ok()) return codec.status();
  const Shape shape = {1, options.elements};
  std::vector<std::byte> frame((*codec)->MaxFrameBytes(shape, DType::kF32));
  std::vector<float> y(options.elements);
  CodecSurvey survey = {.name = name, .id = (*codec)->id()};
  size_t bytes = 0;
  for (size_t d = inputs.size(); d-- > 0;) {  // the Gaussian last: bits and speeds are its
    const auto state = (*codec)->NewState(shape);
    const auto encode = [&] {
      const auto sent = (*codec)->Encode({inputs[d].data(), DType::kF32, shape}, options.seed,
                                         state.get(), frame);
      if (sent.ok()) bytes = *sent;
      return sent.status();
    };
    const auto decode = [&] {
      return (*codec)->Decode(std::span(frame).first(bytes), state.get(),
                              {y.data(), DType::kF32, shape});
    };
    if (absl::Status s = encode(); !s.ok()) return s;
    if (absl::Status s = decode(); !s.ok()) return s;
    survey.nmse[d] = Nmse(inputs[d], y);
    if (d != 0 || !options.now_s) continue;
    const double gigabytes = 4e-9 * static_cast<double>(options.elements);
    const auto encode_gb_s = FastestGbPerS(options, gigabytes, encode);
    if (!encode_gb_s.ok()) return encode_gb_s.status();
    const auto decode_gb_s = FastestGbPerS(options, gigabytes, decode);
    if (!decode_gb_s.ok()) return decode_gb_s.status();
    survey.encode_gb_s = *encode_gb_s;
    survey.decode_gb_s = *decode_gb_s;
  }
  survey.bits_per_element =
      8.0 * static_cast<double>(bytes - kFrameHeaderBytes) / static_cast<double>(options.elements);
  survey.ratio_bf16 = 16 / survey.bits_per_element;
  return survey;
}

}  // namespace

absl::StatusOr<std::vector<CodecSurvey>> SurveyCodecs(const SurveyOptions& options) {
  std::array<std::vector<float>, 4> inputs;
  for (Distribution d : kDistributions) {
    inputs[static_cast<size_t>(d)] = DrawReference(d, options.elements, options.seed);
  }
  std::vector<CodecSurvey> surveys;
  std::vector<std::string> names = options.names;
  if (names.empty()) {
    names = CodecNames();
    for (const CodecAlias& alias : CodecAliases()) names.emplace_back(alias.name);
  }
  for (const std::string& name : names) {
    auto survey = SurveyOne(options, name, inputs);
    if (!survey.ok()) return survey.status();
    surveys.push_back(*std::move(survey));
  }
  return surveys;
}

absl::Status SortSurvey(std::string_view column, std::vector<CodecSurvey>& surveys) {
  const auto by = [&surveys](auto key) {
    std::stable_sort(surveys.begin(), surveys.end(),
                     [key](const auto& a, const auto& b) { return key(a) < key(b); });
    return absl::OkStatus();
  };
  using S = const CodecSurvey&;
  if (column == "name") return by([](S s) { return s.name; });
  if (column == "id") return by([](S s) { return s.id; });
  if (column == "bits") return by([](S s) { return s.bits_per_element; });
  if (column == "error") return by([](S s) { return s.nmse[0]; });
  if (column == "outlier") return by([](S s) { return s.nmse[3]; });
  if (column == "encode") return by([](S s) { return -s.encode_gb_s; });
  if (column == "decode") return by([](S s) { return -s.decode_gb_s; });
  return absl::InvalidArgumentError(fmt::format(
      "cannot sort by '{}'; columns: name, id, bits, error, outlier, encode, decode", column));
}

std::string SurveyJson(const std::vector<CodecSurvey>& surveys, Isa isa) {
  const auto speed = [](double gb_s) {
    return gb_s > 0 ? fmt::format("{:.4g}", gb_s) : std::string("null");
  };
  std::string text = "[";
  for (const CodecSurvey& s : surveys) {
    text += fmt::format(
        "{}\n  {{\"name\": \"{}\", \"id\": {}, \"bits_per_element\": {:.6g}, \"ratio_bf16\": "
        "{:.6g}, "
        "\"nmse\": {{",
        text.size() > 1 ? "," : "", s.name, s.id, s.bits_per_element, s.ratio_bf16);
    for (Distribution d : kDistributions) {
      text += fmt::format("{}\"{}\": {:.6g}", d == kDistributions[0] ? "" : ", ",
                          DistributionName(d), s.nmse[static_cast<size_t>(d)]);
    }
    text += fmt::format("}}, \"isa\": \"{}\", \"encode_gb_per_s\": {}, \"decode_gb_per_s\": {}}}",
                        IsaName(isa), speed(s.encode_gb_s), speed(s.decode_gb_s));
  }
  return text + "\n]\n";
}

std::string FormatSurvey(const std::vector<CodecSurvey>& surveys, Isa isa) {
  size_t width = 5;
  for (const CodecSurvey& s : surveys) width = std::max(width, s.name.size());
  std::string text =
      fmt::format("{:<{}}    id   bits/el  x bf16  {:^47}  GB/s of fp32, one thread ({})\n", "",
                  width, "error ||x - y||^2 / ||x||^2", IsaName(isa));
  text +=
      fmt::format("{:<{}}                         {:>11} {:>11} {:>11} {:>11}   encode  decode\n",
                  "codec", width, "Gaussian", "Laplace", "Student-t4", "outlier");
  for (const CodecSurvey& s : surveys) {
    text += fmt::format("{:<{}}  0x{:02x}  {:>8.3f}  {:>6.2f} ", s.name, width, s.id,
                        s.bits_per_element, s.ratio_bf16);
    for (double nmse : s.nmse) text += fmt::format(" {:>11.3g}", nmse);
    text += s.encode_gb_s > 0 ? fmt::format("  {:>7.2f} {:>7.2f}\n", s.encode_gb_s, s.decode_gb_s)
                              : std::string("        -       -\n");
  }
  return text;
}

}  // namespace longhaul
