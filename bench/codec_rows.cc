#include "bench/codec_rows.h"

#include <cstdio>
#include <fstream>

namespace longhaul {
namespace {

double LimitShare(const Row& row, const Timing& timing, double passes) {
  return timing.of_read * (passes + row.bits / 32);
}

}  // namespace

double PassesOf(std::string_view name) {
  if (name.starts_with("stat")) return 2;  // mean and deviation, codes
  return name == "nvfp4" ? 2 : 1;
}

void Print(const Row& row) {
  std::printf("%-24s %5s %zuT %7.3f bits  encode %6.2f GB/s %4.0f %%  decode %6.2f GB/s %4.0f %%\n",
              row.name.c_str(), row.place.name.c_str(), row.place.threads, row.bits,
              row.encode.gb_per_s, 100 * LimitShare(row, row.encode, row.passes),
              row.decode.gb_per_s, 100 * LimitShare(row, row.decode, 1));
  std::fflush(stdout);
}

void Print(const Ratio& ratio) {
  std::printf("%s / %s, %s: encode %.2f, decode %.2f times as fast\n", ratio.name.c_str(),
              ratio.peer.c_str(), ratio.place.name.c_str(), ratio.encode, ratio.decode);
  std::fflush(stdout);
}

void WriteJson(const std::string& path, Isa isa, const std::vector<Row>& rows,
               const std::vector<Ratio>& ratios) {
  std::ofstream out(path);
  out << "{\"isa\": \"" << IsaName(isa) << "\", \"rows\": [\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    char line[512];
    std::snprintf(line, sizeof(line),
                  "  {\"name\": \"%s\", \"place\": \"%s\", \"threads\": %zu, \"elements\": %zu, "
                  "\"tensors\": %zu, "
                  "\"bits\": %.4f, \"passes\": %.0f, \"encode_gb_s\": %.4f, \"decode_gb_s\": %.4f, "
                  "\"encode_of_read\": %.4f, \"decode_of_read\": %.4f, "
                  "\"encode_of_limit\": %.4f, \"decode_of_limit\": %.4f}",
                  row.name.c_str(), row.place.name.c_str(), row.place.threads, row.place.elements,
                  row.place.tensors, row.bits, row.passes, row.encode.gb_per_s, row.decode.gb_per_s,
                  row.encode.of_read, row.decode.of_read, LimitShare(row, row.encode, row.passes),
                  LimitShare(row, row.decode, 1));
    out << line << (i + 1 < rows.size() ? ",\n" : "\n");
  }
  out << "], \"ratios\": [\n";
  for (size_t i = 0; i < ratios.size(); ++i) {
    const Ratio& ratio = ratios[i];
    char line[256];
    std::snprintf(line, sizeof(line),
                  "  {\"name\": \"%s\", \"peer\": \"%s\", \"place\": \"%s\", \"encode\": %.4f, "
                  "\"decode\": %.4f}",
                  ratio.name.c_str(), ratio.peer.c_str(), ratio.place.name.c_str(), ratio.encode,
                  ratio.decode);
    out << line << (i + 1 < ratios.size() ? ",\n" : "\n");
  }
  out << "]}\n";
}

}  // namespace longhaul
