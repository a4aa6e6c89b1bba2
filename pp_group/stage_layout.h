#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace longhaul {

// Which vectors of a matrix are summands of the residual stream: none, each row (an embedding's), each
// column (those of a block's two last products). What subspace.h holds in a subspace.
enum class StreamVectors { kNone, kRows, kColumns };

// One parameter of a stage: a view into the stage's flat buffers.
struct ParameterSlot {
  std::string name;      // "block3.attention.qkv"
  int64_t global_index;  // in the whole model, the same for every S; names its initial values
  int64_t rows, cols;    // a vector is one row; matrices are [out, in]
  int64_t offset;        // floats from the start of the flat buffer, a multiple of kAlignment
  double initial_scale;  // standard deviation of the normal initial values; 0: constant
  double initial_value;  // where initial_scale is 0
  bool decays;           // weight decay: matrices only
  int clip_group;        // index into StageLayout::clip_groups
  // Of a matrix whose rows are spread over ranks: which these are, and how many all have together.
  int64_t first_row, whole_rows;
  StreamVectors stream = StreamVectors::kNone;
  int64_t elements() const { return rows * cols; }
  bool spread() const { return rows != whole_rows; }
};

// Parameters whose gradients are clipped together: the embeddings, one block, or the final norm and
// head. The groups do not depend on S, so neither does the training.
struct ClipGroup {
  int64_t begin, end;  // floats of the flat buffer
};

// A run of a stage's flat buffers, or of what it shares of them.
struct FlatRange {
  int64_t begin, end;
};

// Where the parameters of stage s of S lie. Pure data.
struct StageLayout {
  // 256 bytes: every parameter starts on its own cache lines and on its own 64-element codec block.
  // The gap before the next parameter is zero and stays zero.
  static constexpr int64_t kAlignment = 64;

  int stage, stages;
  int64_t first_block, num_blocks;
  std::vector<ParameterSlot> slots;
  std::vector<ClipGroup> clip_groups;
  int64_t flat_elements;       // length of the flat buffers, gaps included
  int64_t parameter_elements;  // without gaps
  // The embedding matrix where it is the head too, on the first and the last stage, with the gap
  // behind it: first on the first, last on the last of several stages, which both hold it, equal
  // bit for bit.
  std::optional<FlatRange> tied = std::nullopt;
  bool first() const { return stage == 0; }
  bool last() const { return stage == stages - 1; }
  // Held by the first stage, which counts it, and here once more.
  bool IsCopy(const ParameterSlot& slot) const {
    return tied && !first() && slot.offset == tied->begin;
  }
};

// Floats of the flat buffers that all ranks hold alike which run the same stage on rows of their
// own: everything but spread parameters, in ascending runs; gaps are of the parameter before them.
std::vector<FlatRange> SharedRanges(const StageLayout& layout);
int64_t SharedElements(const StageLayout& layout);

// What crosses between groups, one shared range behind the other, in parts that have a frame of a
// codec each: everything, or, of a stage that holds a tied matrix as another one does, that matrix
// and the rest. Of equal values the frames of both stages' matrices are equal, and so is what their
// codecs remember.
struct FramePart {
  int64_t begin, end;  // of SharedElements
  bool tied, copy;     // copy: the last stage's, which the first one's stands for where both count
  int64_t elements() const { return end - begin; }
};
std::vector<FramePart> FrameParts(const StageLayout& layout);
// Where the frame of a part may begin in a message of several, in bytes.
inline constexpr int64_t kFrameAlignment = 64;

// A layout of stage s of S without parameters yet. `cuts` [S - 1], ascending: the blocks with which
// stages 1, 2, ... begin; empty: equal stages.
StageLayout EmptyLayout(int64_t blocks, int stage, int stages, std::span<const int64_t> cuts);

// Puts parameters one behind the other into a layout, which must outlive the builder.
class LayoutBuilder {
 public:
  explicit LayoutBuilder(StageLayout* layout) : layout_(layout) {}

  void BeginClipGroup();
  // [rows, cols], drawn with this standard deviation; decays.
  void Matrix(const std::string& name, int64_t global_index, int64_t rows, int64_t cols,
              double scale, StreamVectors stream = StreamVectors::kNone);
  // The same, which is also the head (StageLayout::tied).
  void TiedMatrix(const std::string& name, int64_t global_index, int64_t rows, int64_t cols,
                  double scale);
  // Rows first .. first + rows - 1 of such a matrix of whole_rows; drawn as they are there.
  void MatrixRows(const std::string& name, int64_t global_index, int64_t first, int64_t rows,
                  int64_t whole_rows, int64_t cols, double scale);
  // [cols], all of this value; does not decay.
  void Vector(const std::string& name, int64_t global_index, int64_t cols, double value);

 private:
  void Add(ParameterSlot slot);

  StageLayout* layout_;
};

// Fills `flat` ([flat_elements], zeroed by the caller) with the initial values of `seed`: for each
// parameter normal draws keyed by (seed, global index) and by the place in the whole parameter, so
// the model is the same for every S and however rows are spread.
void InitializeParameters(const StageLayout& layout, uint64_t seed, float* flat);

}  // namespace longhaul
