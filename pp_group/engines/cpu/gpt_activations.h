#pragma once

// Private to pp_group's .cc files: the tensors of a stage, all made once and reused.

#include <thread>
#include <vector>

#include <ATen/ATen.h>

#include "pp_group/engines/cpu/gpt_stage.h"
#include "pp_group/kernels/kernels.h"

namespace longhaul {

// A matrix with its transpose made once: making a view costs as much as a small product.
struct Matrix {
  at::Tensor tensor, transposed;
  Matrix() = default;
  explicit Matrix(at::Tensor t) : tensor(std::move(t)), transposed(tensor.t()) {}
  float* values() const { return tensor.data_ptr<float>(); }
};

// Of one block and micro-batch; n token rows.
struct BlockActivations {
  Matrix norm1;           // [n, D] input of the qkv product
  Matrix qkv;             // [n, 3 D]
  Matrix attention;       // [n, D] heads side by side
  at::Tensor residual;    // [n, D] after attention
  Matrix norm2;           // [n, D]
  Matrix slope;           // [n, 4 D] gelu'(u)
  Matrix hidden;          // [n, 4 D] gelu(u)
  at::Tensor log_sum;     // [rows, heads, T]
  at::Tensor statistics;  // [4, n]: mean and rstd of norm1, mean and rstd of norm2
  float* statistic(int row) const {
    return statistics.data_ptr<float>() + row * statistics.size(1);
  }
};

class GptActivations : public Activations {
 public:
  GptActivations(const ModelSpec& spec, const StageLayout& layout, int64_t rows);

  int64_t rows, tokens;  // tokens = rows * T
  AttentionShape shape;
  std::vector<BlockActivations> blocks;
  std::vector<at::Tensor> streams;  // [n, D] residual stream after each block but the last
  at::Tensor input;                 // what Forward was given, or the embedding
  at::Tensor output;                // where the last block wrote
  // Last stage only.
  Matrix final_norm;            // [n, D]
  at::Tensor final_statistics;  // [2, n]
  at::Tensor final_output;      // [n, D] the stream that enters the final norm
  at::Tensor final_gradient;    // [n, D] its gradient, made by Loss
};

struct CpuGptStage::BlockParameters {
  const float *norm1_weight, *norm1_bias, *norm2_weight, *norm2_bias;
  float *norm1_weight_grad, *norm1_bias_grad, *norm2_weight_grad, *norm2_bias_grad;
  Matrix qkv, out, up, down;  // [3 D, D], [D, D], [4 D, D], [D, 4 D]
  at::Tensor qkv_grad, out_grad, up_grad, down_grad;
};

// Scratch that no one reads after the call that wrote it; shared by all blocks and micro-batches.
struct CpuGptStage::Workspace {
  Workspace(const AttentionShape& shape, int64_t tokens);
  bool Fits(const AttentionShape& of, int64_t of_tokens) const {
    return tokens == of_tokens && shape.context == of.context && shape.heads == of.heads &&
           shape.head_width == of.head_width;
  }
  const std::thread::id thread = std::this_thread::get_id();
  const AttentionShape shape;  // of one row
  const int64_t tokens;
  Matrix wide;             // [n, 4 D] gradient of the hidden layer
  Matrix triple;           // [n, 3 D] gradient of qkv
  at::Tensor narrow;       // [n, D]
  at::Tensor residual;     // [n, D] gradient of BlockActivations::residual
  Matrix residual_matrix;  // the same memory as `residual`
  Matrix flow[2];          // [n, D] gradients between blocks
  at::Tensor scratch;      // attention and norm scratch
};

}  // namespace longhaul
