#include "compressors/survey.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/status_macros.h"
#include "compressors/catalog.h"
#include "compressors/frame/frame.h"

namespace longhaul {
namespace {

// Calls `pass` until the time is up, at least twice; the rate of the fastest call in GB/s.
// `prepare` comes before each and is not timed.
absl::StatusOr<double> FastestGbPerS(const SurveyOptions& options, double gigabytes,
                                     const std::function<absl::Status()>& prepare,
                                     const std::function<absl::Status()>& pass) {
  double best_s = 0, spent_s = 0;
  for (int calls = 0; calls < 2 || spent_s < options.seconds_per_speed; ++calls) {
    RETURN_IF_ERROR(prepare());
    const double start_s = options.now_s();
    RETURN_IF_ERROR(pass());
    const double took_s = std::max(options.now_s() - start_s, 1e-9);
    best_s = calls == 0 ? took_s : std::min(best_s, took_s);
    spent_s += took_s;
  }
  return gigabytes / best_s;
}

// The tensor that a codec is measured on: as one row, or as 1024 tokens where differences are sent.
struct Trial {
  Trial(const Codec& codec, const std::vector<float>& row) : shape{1, row.size()}, x(row) {
    if (DecodingNeedsState(codec) && row.size() % 1024 == 0) shape = {1024, row.size() / 1024};
  }
  Shape shape;
  std::vector<float> x;
};

// Encodes and decodes one trial; where differences are sent, x as a difference to zeros.
class Measurement {
 public:
  Measurement(const Codec& codec, const SurveyOptions& options, const Trial& trial)
      : codec_(codec),
        options_(options),
        trial_(trial),
        state_(codec.NewState(trial.shape)),
        received_(codec.NewDecoderState(trial.shape)),
        frame_(codec.MaxFrameBytes(trial.shape, DType::kF32)),
        y_(trial.shape.elements()) {}

  absl::Status RoundTrip() {
    if (received_ != nullptr) {
      RETURN_IF_ERROR(Encode(y_, frame_));
      RETURN_IF_ERROR(Decode());
      primed_.resize(received_->bytes());
      received_->Save(primed_);
    }
    RETURN_IF_ERROR(Encode(trial_.x, frame_));
    return Decode();
  }
  size_t bytes() const { return bytes_; }
  double nmse() const { return Nmse(trial_.x, y_); }
  double gigabytes() const { return 4e-9 * static_cast<double>(y_.size()); }

  absl::StatusOr<double> EncodeSpeed() {
    std::vector<std::byte> frame(frame_.size());
    const size_t bytes = bytes_;
    const auto speed = FastestGbPerS(
        options_, gigabytes(), [] { return absl::OkStatus(); },
        [&] { return Encode(trial_.x, frame); });
    bytes_ = bytes;
    return speed;
  }
  absl::StatusOr<double> DecodeSpeed() {
    return FastestGbPerS(
        options_, gigabytes(),
        [this] { return received_ == nullptr ? absl::OkStatus() : received_->Load(primed_); },
        [this] { return Decode(); });
  }

 private:
  absl::Status Encode(const std::vector<float>& x, std::span<std::byte> frame) {
    const auto sent =
        codec_.Encode({x.data(), DType::kF32, trial_.shape}, options_.seed, state_.get(), frame);
    if (sent.ok()) bytes_ = *sent;
    return sent.status();
  }
  absl::Status Decode() {
    return codec_.Decode(std::span(frame_).first(bytes_), received_.get(),
                         {y_.data(), DType::kF32, trial_.shape});
  }

  const Codec& codec_;
  const SurveyOptions& options_;
  const Trial& trial_;
  const std::unique_ptr<CodecState> state_, received_;
  std::vector<std::byte> frame_, primed_;
  std::vector<float> y_;
  size_t bytes_ = 0;
};

absl::StatusOr<CodecSurvey> SurveyOne(const SurveyOptions& options, const std::string& name,
                                      const std::array<std::vector<float>, 4>& inputs) {
  ASSIGN_OR_RETURN(const auto codec, MakeCodec(name, options.isa));
  CodecSurvey survey = {.name = name, .id = codec->id()};
  for (Distribution d : kDistributions) {
    const auto i = static_cast<size_t>(d);
    const Trial trial(*codec, inputs[i]);
    Measurement measured(*codec, options, trial);
    RETURN_IF_ERROR(measured.RoundTrip());
    survey.nmse[i] = measured.nmse();
    if (d != Distribution::kGaussian) continue;  // bits and speeds are the Gaussian's
    survey.bits_per_element = 8.0 * static_cast<double>(measured.bytes() - kFrameHeaderBytes) /
                              static_cast<double>(trial.shape.elements());
    survey.ratio_bf16 = 16 / survey.bits_per_element;
    if (!options.now_s) continue;
    ASSIGN_OR_RETURN(const auto encode_gb_s, measured.EncodeSpeed());
    ASSIGN_OR_RETURN(const auto decode_gb_s, measured.DecodeSpeed());
    survey.encode_gb_s = encode_gb_s;
    survey.decode_gb_s = decode_gb_s;
  }
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
    for (std::string& name : ParametricExamples()) names.push_back(std::move(name));
    for (const CodecAlias& alias : CodecAliases()) names.emplace_back(alias.name);
  }
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(auto survey, SurveyOne(options, name, inputs));
    surveys.push_back(std::move(survey));
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
  std::string text = "{\"schema\": \"longhaul.codecs/1\", \"codecs\": [";
  for (const CodecSurvey& s : surveys) {
    text += fmt::format(
        "{}\n  {{\"name\": \"{}\", \"id\": {}, \"bits_per_element\": {:.6g}, \"ratio_bf16\": "
        "{:.6g}, "
        "\"nmse\": {{",
        &s == &surveys.front() ? "" : ",", s.name, s.id, s.bits_per_element, s.ratio_bf16);
    for (Distribution d : kDistributions) {
      text += fmt::format("{}\"{}\": {:.6g}", d == kDistributions[0] ? "" : ", ",
                          DistributionName(d), s.nmse[static_cast<size_t>(d)]);
    }
    text += fmt::format("}}, \"isa\": \"{}\", \"encode_gb_per_s\": {}, \"decode_gb_per_s\": {}}}",
                        IsaName(isa), speed(s.encode_gb_s), speed(s.decode_gb_s));
  }
  return text + "\n]}\n";
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
