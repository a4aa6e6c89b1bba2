#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/record/record_rows.h"

namespace longhaul {

// What the files held that one key of a spec names: the value alone says where they lie, and files
// change.
struct FileContent {
  std::string key;    // "data.source"
  std::string value;  // as the spec has it: "text:/data/a.txt,/data/b.txt"
  // Of one file its SHA-256. Of several the SHA-256 of their hashes, a line each, in their order:
  // what `sha256sum FILES | cut -c1-64 | sha256sum` prints.
  std::string sha256;
  int64_t bytes = 0, files = 0;  // all together
  // Of the files' names, sizes, inodes and times: equal stamps on one machine are equal contents,
  // and nobody wrote to the files in between. "": not known. Never recorded.
  std::string stamp = {};
};

// A line each, "KEY SHA256 BYTES FILES VALUE": what a record keeps (kNamedFilesFact).
std::string ContentsText(std::span<const FileContent> contents);
// Lines that are none are left out: an older record has none.
std::vector<FileContent> ReadContents(std::string_view text);

// Where both know a key of the same value and its files held something else; else "":
// "data.source (text:/a.txt): SHA-256 0123456789abcdef there, fedcba9876543210 here".
std::string ContentConflict(std::span<const FileContent> there, std::span<const FileContent> here);

// What two plans promise but for the contents of files: without the table [frozen].
std::string PlanWithoutFrozen(std::string_view plan_text);
// The entries of [frozen], as contents of their names: hashes of the data, by older plans too.
std::vector<FileContent> FrozenContents(std::string_view plan_text);

// As much of a hash as a message shows.
std::string_view ShortHash(std::string_view sha256);

// SHA-256 of a file's bytes, read a piece at a time. NotFound and FailedPrecondition with the path
// and what the system said.
absl::StatusOr<std::string> Sha256OfFile(const std::string& path);

}  // namespace longhaul
