#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "pp_group/models/model.h"
#include "pp_group/state/reshard.h"

namespace longhaul {
namespace {

using Fields = std::map<std::string, std::string>;

Fields FieldsOf(const std::string& text) {
  Fields fields;
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  for (const std::string& line : lines) {
    const size_t at = line.find('=');
    if (at == std::string::npos) continue;
    fields.emplace(line.substr(0, at), line.substr(at + 1));
  }
  fields.emplace("kind", "gpt");  // which says nothing of itself
  return fields;
}

std::string Of(const Fields& fields, const std::string& name) {
  const auto at = fields.find(name);
  return at == fields.end() ? "none" : at->second;
}

int64_t NumberOf(const Fields& fields, const std::string& name) {
  int64_t value = 0;
  return absl::SimpleAtoi(Of(fields, name), &value) ? value : 0;
}

// What makes a parameter another one, or its training another's.
constexpr const char* kSame[] = {"kind",    "blocks",   "width",       "heads",     "context",
                                 "vocab",   "kv_heads", "hidden",      "tied_head", "rope_theta",
                                 "experts", "subspace", "train_sha256"};

absl::Status CheckSameModel(const std::string& path, const Fields& left, const Fields& wanted) {
  for (const char* name : kSame) {
    if (Of(left, name) == Of(wanted, name)) continue;
    const bool data = std::string_view(name) == "train_sha256";
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoint ", path, " is of ", data ? "other data" : "another model", ": ",
                     name, " = ", Of(left, name), ", and this run's is ", Of(wanted, name)));
  }
  return absl::OkStatus();
}

std::string ChangesOf(const Fields& left, const Fields& wanted) {
  std::string text;
  const auto note = [&](const std::string& name) {
    if (Of(left, name) == Of(wanted, name)) return;
    absl::StrAppend(&text, text.empty() ? "" : ", ", name, "=", Of(left, name), " > ",
                    Of(wanted, name));
  };
  for (const auto& [name, value] : wanted) note(name);
  for (const auto& [name, value] : left) {
    if (!wanted.contains(name)) note(name);
  }
  return text;
}

OuterPlan PlanOf(const Fields& left) {
  OuterSpec outer{.inner_steps = NumberOf(left, "inner_steps")};
  if (left.contains("outer_algorithm")) outer.algorithm = left.at("outer_algorithm");
  if (left.contains("outer_fragments")) {
    outer.fragments = NumberOf(left, "outer_fragments");
    outer.overlap_steps = NumberOf(left, "outer_overlap");
    outer.mix = std::atof(left.at("outer_mix").c_str());
  }
  return OuterPlan(outer, NumberOf(left, "steps"));
}

// Whether all groups held equal parameters after this step.
bool GroupsAgreed(const Fields& left, int64_t step) { return PlanOf(left).AgreedAfter(step); }

// Rows that two slots of one parameter have in common, as floats of the flat buffers.
struct RowsInBoth {
  int64_t from, to, elements;
};

RowsInBoth InBoth(const ParameterSlot& from, const ParameterSlot& to) {
  if (from.whole_rows != to.whole_rows || from.cols != to.cols) return {0, 0, 0};
  const int64_t begin = std::max(from.first_row, to.first_row),
                end = std::min(from.first_row + from.rows, to.first_row + to.rows);
  return {.from = from.offset + (begin - from.first_row) * from.cols,
          .to = to.offset + (begin - to.first_row) * to.cols,
          .elements = (end - begin) * to.cols};
}

}  // namespace

absl::StatusOr<LeftCheckpoints> LeftCheckpoints::Open(const std::string& directory, int64_t step,
                                                      const TrainSpec& spec,
                                                      const std::string& text) {
  LeftCheckpoints left;
  left.directory_ = directory;
  left.step_ = step;
  left.files_.resize(1);
  left.files_[0].resize(1);
  ASSIGN_OR_RETURN(const auto first, left.File(0, 0));
  left.left_text_ = first->spec;
  const std::string path = CheckpointPath(directory, 0, 0, step);
  const Fields was = FieldsOf(left.left_text_), is = FieldsOf(text);
  RETURN_IF_ERROR(CheckSameModel(path, was, is));
  if (step > spec.steps) {
    return absl::FailedPreconditionError(absl::StrCat(
        "checkpoint ", path, " is of a later step than this run's last one, ", spec.steps));
  }
  left.stages_ = static_cast<int>(NumberOf(was, "stages"));
  left.groups_ = static_cast<int>(NumberOf(was, "groups"));
  std::vector<int64_t> cuts;
  if (was.contains("cuts")) {
    const std::vector<std::string> blocks = absl::StrSplit(was.at("cuts"), ',');
    for (const std::string& text_of_block : blocks) {
      int64_t block = 0;
      if (absl::SimpleAtoi(text_of_block, &block)) cuts.push_back(block);
    }
  }
  const bool whole = left.stages_ >= 1 && left.groups_ >= 1 &&
                     (cuts.empty() ? spec.model.blocks % left.stages_ == 0
                                   : static_cast<int>(cuts.size()) == left.stages_ - 1);
  if (!whole) {
    return absl::DataLossError(absl::StrCat("checkpoint ", path, ": its text says no stages"));
  }
  if (left.groups_ != spec.groups && !GroupsAgreed(was, step)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "checkpoint ", path, " of ", left.groups_, " groups is between two outer steps (H = ",
        Of(was, "inner_steps"), "), when they differ: ", spec.groups,
        " groups can start only from a step that is a multiple of H"));
  }
  for (const auto& [whose, plan] : {std::pair("the run that left it", PlanOf(was)),
                                    std::pair("this run", OuterPlan(spec.outer, spec.steps))}) {
    if (plan.InFlightAfter(step).empty()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoint ", path, " is of step ", step, ", after which an exchange of ",
                     whose, " is in flight between the groups; want a step without one"));
  }
  left.outer_ = NumberOf(was, "inner_steps") > 0;
  left.same_stages_ = left.stages_ == spec.stages && cuts == spec.cuts &&
                      Of(was, "rank_of_stage") == Of(is, "rank_of_stage");
  left.changes_ = ChangesOf(was, is);
  ModelSpec model = spec.model;
  model.expert_parallel = std::max<int64_t>(1, NumberOf(was, "expert_parallel"));
  left.layouts_.resize(static_cast<size_t>(model.expert_parallel));
  for (size_t holder = 0; holder < left.layouts_.size(); ++holder) {
    for (int s = 0; s < left.stages_; ++s) {
      left.layouts_[holder].push_back(
          LayoutOf(OnExpertRank(model, static_cast<int>(holder)), s, left.stages_, cuts));
    }
  }
  left.files_.resize(static_cast<size_t>(left.groups_));
  for (auto& group : left.files_) group.resize(static_cast<size_t>(left.stages_));
  return left;
}

absl::StatusOr<const Checkpoint*> LeftCheckpoints::File(int group, int stage) {
  std::unique_ptr<Checkpoint>& file =
      files_[static_cast<size_t>(group)][static_cast<size_t>(stage)];
  if (file != nullptr) return file.get();
  const std::string path = CheckpointPath(directory_, group, stage, step_);
  ASSIGN_OR_RETURN(Checkpoint read, ReadCheckpoint(path));
  if (read.step != step_ || read.group != group || read.stage != stage ||
      (!left_text_.empty() && read.spec != left_text_)) {
    return absl::DataLossError(absl::StrCat("checkpoint ", path, " holds step ", read.step,
                                            " of group ", read.group, ", stage ", read.stage,
                                            ", or is of another run than the files beside it"));
  }
  file = std::make_unique<Checkpoint>(std::move(read));
  return file.get();
}

absl::Status LeftCheckpoints::Fill(const std::string& section, int group, const StageLayout& layout,
                                   std::span<float> flat) {
  int64_t found = 0;
  for (size_t holder = 0; holder < layouts_.size(); ++holder) {
    // Groups that spread their experts hold all else alike.
    const int own = group < groups_ ? group : 0;
    const int from = layouts_.size() > 1 ? static_cast<int>(holder) : own;
    for (int s = 0; s < stages_; ++s) {
      const StageLayout& was = layouts_[holder][static_cast<size_t>(s)];
      std::span<const std::byte> bytes;
      for (const ParameterSlot& slot : layout.slots) {
        const auto at =
            std::find_if(was.slots.begin(), was.slots.end(), [&](const ParameterSlot& x) {
              return x.global_index == slot.global_index && x.name == slot.name;
            });
        if (at == was.slots.end() || (holder > 0 && !at->spread())) continue;
        if (was.IsCopy(*at)) continue;  // stage 0 has had it
        const RowsInBoth rows = InBoth(*at, slot);
        if (rows.elements <= 0) continue;
        if (bytes.empty()) {
          ASSIGN_OR_RETURN(const auto content, Values(section, from, s, was));
          bytes = content;
        }
        std::memcpy(flat.data() + rows.to,
                    bytes.data() + static_cast<size_t>(rows.from) * sizeof(float),
                    static_cast<size_t>(rows.elements) * sizeof(float));
        found += rows.elements;
      }
    }
  }
  if (found == layout.parameter_elements) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("checkpoints of step ", step_, " in ", directory_,
                                          " hold ", found, " of ", layout.parameter_elements,
                                          " parameter elements of stage ", layout.stage));
}

absl::StatusOr<std::span<const std::byte>> LeftCheckpoints::Values(const std::string& section,
                                                                   int group, int stage,
                                                                   const StageLayout& layout) {
  ASSIGN_OR_RETURN(const auto file, File(group, stage));
  return file->Section(section, static_cast<size_t>(layout.flat_elements) * sizeof(float));
}

absl::StatusOr<const Checkpoint*> LeftCheckpoints::SameRank(int group, int stage) {
  if (!same_stages_ || group >= groups_) return nullptr;
  return File(group, stage);
}

}  // namespace longhaul
