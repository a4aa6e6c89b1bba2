// What each arm was made of: data, weights, build.
#include <algorithm>
#include <cstdlib>
#include <set>

#include <fmt/format.h>

#include "experiments/record/file_contents.h"
#include "experiments/report/html.h"
#include "experiments/report/report_sections.h"

namespace longhaul {
namespace {

// Different values of an arm's runs.
class Distinct {
 public:
  void Add(const std::string& value) {
    if (value.empty() || !seen_.insert(value).second) return;
    cell_ += (cell_.empty() ? "" : "; ") + value;
  }
  std::string cell() const { return cell_.empty() ? "-" : cell_; }

 private:
  std::set<std::string> seen_;
  std::string cell_;
};

std::string Hash(const std::string& sha256) { return std::string(ShortHash(sha256)); }

// Passes over the data that a run trained on; "": its workers did not say.
std::string Epochs(const RunRow& run) {
  if (const std::string told = FactOf(run.facts, kEpochsFact); !told.empty()) return told;
  const double available = std::atof(FactOf(run.facts, "train_tokens_available").c_str());
  if (!(available > 0)) return "";
  return fmt::format("{:.3g}", static_cast<double>(run.train_tokens) / available);
}

struct Provenance {
  std::string arm;
  Distinct data, held_out, weights, links, epochs, revision, torch, path, host;

  void Add(const RunRow& run) {
    data.Add(Hash(FactOf(run.facts, "data_hash")));
    held_out.Add(Hash(FactOf(run.facts, "eval_hash")));
    weights.Add(Hash(FactOf(run.facts, "init_hash")));
    for (const FileContent& file : ContentsOf(run)) {
      if (file.key == "net.profile") links.Add(Hash(file.sha256));
    }
    epochs.Add(Epochs(run));
    revision.Add(run.git_revision);
    torch.Add(run.torch_version);
    const std::string of_torch = FactOf(run.facts, "cpu_path_torch");
    path.Add(of_torch.empty() ? run.isa : fmt::format("{}, LibTorch {}", run.isa, of_torch));
    const std::string device = FactOf(run.facts, "device"), coded = FactOf(run.facts, "coded_on");
    if (device != "cpu" && !coded.empty()) path.Add(fmt::format("{}, coded on {}", device, coded));
    host.Add(run.cpu.empty() ? run.host : fmt::format("{}, {}", run.host, run.cpu));
  }
};

}  // namespace

std::string ProvenancePart(const ReportedExperiment& e) {
  std::vector<Provenance> arms;
  for (const RunRow& run : e.runs) {
    auto at = std::find_if(arms.begin(), arms.end(),
                           [&](const Provenance& known) { return known.arm == run.arm; });
    if (at == arms.end()) {
      arms.emplace_back();
      arms.back().arm = run.arm;
      at = arms.end() - 1;
    }
    at->Add(run);
  }
  if (arms.empty()) return "";
  Table table{.columns = ColumnsOf("arm | data | held out | weights | links | epochs | revision | "
                                   "torch | instruction sets | host")};
  for (const Provenance& p : arms) {
    table.Add({p.arm, p.data.cell(), p.held_out.cell(), p.weights.cell(), p.links.cell(),
               p.epochs.cell(), p.revision.cell(), p.torch.cell(), p.path.cell(), p.host.cell()});
  }
  const std::string files = FactOf(e.row.facts, kNamedFilesFact);
  const std::string named =
      files.empty() ? ""
                    : HtmlDetails("files that the plan names: key, SHA-256, bytes, files, value",
                                  "<pre>" + HtmlEscape(files) + "</pre>");
  const std::string mixed =
      e.mixed_files.empty()
          ? ""
          : fmt::format("<p class=\"note\">{} {}</p>\n",
                        HtmlBadge("runs of other files make no figure together", Tone::kBad),
                        HtmlEscape(e.mixed_files));
  return mixed +
         "<h3>What each arm was made of</h3><p class=\"note\">SHA-256 of the tokens trained on and "
         "held out, of the weights begun with and of the topology file: the first 16 digits. Several "
         "values in a cell: its runs differ.</p>" +
         HtmlGrid(table) + named;
}

}  // namespace longhaul
