#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/status_macros.h"
#include "compressors/catalog.h"
#include "compressors/frame/frame.h"
#include "compressors/survey.h"
#include "compressors/wrappers/saturate.h"
#include "experiments/command/command.h"
#include "experiments/record/whole_file.h"
#include "plugin/core/clock.h"

namespace longhaul {
namespace {

struct CatalogueOptions {
  std::vector<std::string> names;
  std::string sort;
  double max_bits = 32, max_error = 1e300;
  bool json = false;
};

absl::Status PrintCatalogue(const CatalogueOptions& wanted) {
  if (std::vector<CodecSurvey> none; !wanted.sort.empty()) {  // before all are measured
    RETURN_IF_ERROR(SortSurvey(wanted.sort, none));
  }
  SurveyOptions options;
  options.names = wanted.names;
  options.now_s = [] { return absl::ToDoubleSeconds(MonotonicClock().Now()); };
  ASSIGN_OR_RETURN(std::vector<CodecSurvey> surveys, SurveyCodecs(options));
  std::erase_if(surveys, [&](const CodecSurvey& s) {
    return s.bits_per_element > wanted.max_bits || s.nmse[0] > wanted.max_error;
  });
  if (surveys.empty()) {
    return absl::NotFoundError(fmt::format("no codec passes --max-bits {:g} and --max-error {:g}",
                                           wanted.max_bits, wanted.max_error));
  }
  if (!wanted.sort.empty()) SortSurvey(wanted.sort, surveys).IgnoreError();
  fmt::print("{}",
             wanted.json ? SurveyJson(surveys, options.isa) : FormatSurvey(surveys, options.isa));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::byte>> ReadFile(const std::string& path) {
  constexpr uintmax_t kMostBytes = uint64_t{1} << 30;
  std::ifstream in(path, std::ios::binary);
  std::error_code of_size;
  const uintmax_t size = std::filesystem::file_size(path, of_size);
  if (!in || of_size == std::errc::is_a_directory) {
    return absl::NotFoundError(fmt::format("cannot read {}: want a file", path));
  }
  if (!of_size && size > kMostBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{} has {} bytes; at most {} are read", path, size, kMostBytes));
  }
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto view = std::as_bytes(std::span(bytes));
  return std::vector<std::byte>(view.begin(), view.end());
}

absl::Status WriteFile(const std::string& path, std::span<const std::byte> bytes) {
  return WriteWholeFile(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

struct FileOptions {
  std::string codec, in, out;
  DType dtype = DType::kF32;
  uint64_t rows = 0, cols = 0, seed = 1;
};

// What is wrong with a file, by its name.
absl::Status WrongWith(const std::string& path, const absl::Status& status, const char* hint = "") {
  return absl::Status(status.code(),
                      fmt::format("{}: {}{}", path, std::string(status.message()), hint));
}
constexpr char kFrameHint[] = "; a frame is what `longhaul codecs encode` writes";

absl::Status EncodeFile(const FileOptions& o) {
  const auto codec = MakeCodec(o.codec);
  if (!codec.ok()) return codec.status();
  ASSIGN_OR_RETURN(const auto values, ReadFile(o.in));
  const Shape shape = {o.rows, o.cols};
  uint64_t elements = 0;
  if (__builtin_mul_overflow(o.rows, o.cols, &elements) ||
      elements != values.size() / BytesPerElement(o.dtype) ||
      values.size() % BytesPerElement(o.dtype) != 0) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} bytes are not {} x {} elements of {} bytes", o.in, values.size(),
                    o.rows, o.cols, BytesPerElement(o.dtype)));
  }
  std::vector<std::byte> frame((*codec)->MaxFrameBytes(shape, o.dtype));
  const auto state = (*codec)->NewState(shape);
  const auto bytes = (*codec)->Encode({values.data(), o.dtype, shape}, o.seed, state.get(), frame);
  if (!bytes.ok()) return WrongWith(o.in, bytes.status());
  if (const uint64_t replaced = SaturatedElements(**codec); replaced > 0) {
    fmt::print(stderr, "{}: {} NaN or Inf replaced\n", o.in, replaced);
  }
  return WriteFile(o.out, std::span(frame).first(*bytes));
}

absl::Status DecodeFile(const FileOptions& o) {
  ASSIGN_OR_RETURN(const auto frame, ReadFile(o.in));
  const auto header = ParseFrame(frame);
  if (!header.ok()) return WrongWith(o.in, header.status(), kFrameHint);
  // Every codec writes a byte or more per 2^16 elements; a shape beyond that is a lie.
  uint64_t elements = 0;
  if (__builtin_mul_overflow(header->shape.rows, header->shape.cols, &elements) ||
      elements >> 16 > frame.size()) {
    return absl::DataLossError(fmt::format("{}: {} bytes for a tensor of {} x {}", o.in,
                                           frame.size(), header->shape.rows, header->shape.cols));
  }
  std::vector<std::byte> values(elements * BytesPerElement(o.dtype));
  if (absl::Status s = DecodeFrame(frame, {values.data(), o.dtype, header->shape}); !s.ok()) {
    return WrongWith(o.in, s);
  }
  return WriteFile(o.out, values);
}

absl::Status InspectFile(const FileOptions& o) {
  ASSIGN_OR_RETURN(const auto frame, ReadFile(o.in));
  const auto text = DescribeFrame(frame);
  if (!text.ok()) return WrongWith(o.in, text.status(), kFrameHint);
  fmt::print("{}", *text);
  return absl::OkStatus();
}

void AddDType(CLI::App* command, FileOptions& o) {
  command
      ->add_option("--dtype", o.dtype,
                   "Type of the raw little-endian values: f32, bf16 or fp16 [default: f32]")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, DType>{
              {"f32", DType::kF32}, {"bf16", DType::kBF16}, {"fp16", DType::kF16}},
          CLI::ignore_case))
      ->option_text("TYPE");
}

// encode, decode, inspect: raw files of values and files of one frame.
void AddFileCommands(CLI::App* codecs, int* exit_status) {
  auto o = std::make_shared<FileOptions>();
  const auto run = [o, exit_status](CLI::App* command, absl::Status (*work)(const FileOptions&)) {
    command->callback([o, exit_status, work] { *exit_status = Fail(work(*o)); });
  };
  CLI::App* encode =
      codecs->add_subcommand("encode", "Encode one tensor of raw values as one frame");
  encode->add_option("name", o->codec, "Codec")->required();
  encode->add_option("in", o->in, "Raw little-endian values, row by row")->required();
  encode->footer(
      "Example:\n  longhaul codecs encode int8-b64 values.bin frame.bin --rows 64 --cols 256");
  encode->add_option("frame", o->out, "Frame to write")->required();
  encode->add_option("--rows", o->rows, "Rows of the tensor")->required();
  encode->add_option("--cols", o->cols, "Columns of the tensor")->required();
  encode->add_option("--seed", o->seed, "Seed of stochastic codecs [default: 1]");
  AddDType(encode, *o);
  run(encode, EncodeFile);
  CLI::App* decode = codecs->add_subcommand("decode", "Decode one frame to raw values");
  decode->footer("Example:\n  longhaul codecs decode frame.bin values.bin");
  decode->add_option("frame", o->in, "Frame to read")->required();
  decode->add_option("out", o->out, "Raw little-endian values to write")->required();
  AddDType(decode, *o);
  run(decode, DecodeFile);
  CLI::App* inspect =
      codecs->add_subcommand("inspect", "Show the header fields, sections and sizes of a frame");
  inspect->footer("Example:\n  longhaul codecs inspect frame.bin");
  inspect->add_option("frame", o->in, "Frame to read")->required();
  run(inspect, InspectFile);
}

}  // namespace

void AddCodecsCommand(CLI::App& app, int* exit_status) {
  auto wanted = std::make_shared<CatalogueOptions>();
  CLI::App* command = app.add_subcommand(
      "codecs", "List codecs with their bits, error and speed; encode and decode tensors");
  command->group("Data and codecs");
  command->add_option("names", wanted->names, "Codecs to list [default: all]");
  command->add_option("--sort", wanted->sort,
                      "Order: name, id, bits, error, outlier, encode or decode [default: id]");
  command->add_option("--max-bits", wanted->max_bits, "Most bits per element");
  command->add_option("--max-error", wanted->max_error,
                      "Most squared error, relative to the energy of a Gaussian");
  command->add_flag("--json", wanted->json, kJsonHelp);
  AddFileCommands(command, exit_status);
  command->footer(
      "Examples:\n"
      "  longhaul codecs --sort bits --max-bits 4.5\n"
      "  longhaul codecs encode int8-b64 values.bin frame.bin --rows 64 --cols 256");
  command->callback([wanted, command, exit_status] {
    if (!command->get_subcommands().empty()) return;  // it has spoken already
    *exit_status = Fail(PrintCatalogue(*wanted));
  });
}

}  // namespace longhaul
