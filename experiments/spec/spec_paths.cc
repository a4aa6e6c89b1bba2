#include "experiments/spec/spec_paths.h"

#include <filesystem>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "experiments/spec/spec_keys.h"
#include "netem/topology/topology_file.h"
#include "pp_group/outer/outer_rules.h"

namespace longhaul {
namespace {

// "text:a.txt,b.txt" with each of its paths rewritten; "headers" names none.
std::string CorpusFrom(const std::string& file, const std::string& source) {
  const size_t colon = source.find(':');
  if (colon == std::string::npos) return source;
  std::vector<std::string> paths = absl::StrSplit(source.substr(colon + 1), ',');
  for (std::string& path : paths) path = FromFolderOf(file, path);
  return source.substr(0, colon + 1) + absl::StrJoin(paths, ",");
}

std::string ClassFrom(const std::string& file, const std::string& value) {
  const std::optional<PythonClass> named = PythonClassOf(value);
  return named ? "python:" + FromFolderOf(file, named->file) + ":" + named->name : value;
}

void Rewrite(const std::string& file, Names names, TomlValue& value) {
  if (auto* list = std::get_if<TomlValue::Array>(&value.value)) {
    for (TomlValue& each : *list) Rewrite(file, names, each);
    return;
  }
  auto* text = std::get_if<std::string>(&value.value);
  if (text == nullptr || !value.where.starts_with(file + ":")) return;
  if (names == Names::kLinks && !IsTopologyFile(*text)) return;
  *text = names == Names::kCorpus   ? CorpusFrom(file, *text)
          : names == Names::kPython ? ClassFrom(file, *text)
                                    : FromFolderOf(file, *text);
}

absl::Status RewriteKey(const std::string& file, const std::string& key, Names names,
                        TomlValue& root) {
  const TomlValue* found = Find(root, key);
  if (found == nullptr) return absl::OkStatus();
  TomlValue value = *found;
  Rewrite(file, names, value);
  return SetByPath(root, key, std::move(value));
}

}  // namespace

std::string FromFolderOf(const std::string& file, const std::string& path) {
  if (path.empty()) return path;
  const std::string joined =
      (std::filesystem::path(file).parent_path() / path).lexically_normal().string();
  return joined.size() > 1 && joined.ends_with('/') ? joined.substr(0, joined.size() - 1) : joined;
}

absl::Status CountPathsFromFile(const std::string& file, TomlValue& root) {
  if (std::filesystem::path(file).parent_path().empty()) return absl::OkStatus();
  for (const SpecKey& key : SpecKeys()) {
    if (key.names == Names::kNothing) continue;
    RETURN_IF_ERROR(RewriteKey(file, key.path(), key.names, root));
  }
  for (const auto& [key, names] :
       {std::pair("program.folder", Names::kProgram), {"timing.profiles", Names::kLinks}}) {
    RETURN_IF_ERROR(RewriteKey(file, key, names, root));
  }
  const auto* found = FindAs<TomlValue::Array>(root, "arm");
  if (found == nullptr) return absl::OkStatus();
  TomlValue::Array arms = *found;
  for (TomlValue& arm : arms) {
    RETURN_IF_ERROR(CountPathsFromFile(file, arm));
  }
  return SetByPath(root, "arm", TomlValue{std::move(arms), root.where});
}

}  // namespace longhaul
