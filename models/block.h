// An abstract block: its parameters, a forward and a backward. All that parallel/sharding knows of
// a model. A model is a list of blocks; each passes one activation [rows, hidden] to the next, and
// the last one returns the loss. Blocks know no ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace packtrain {

struct DeviceBatch;

struct Initialization {
  enum class Kind { kNormal, kOnes, kZeros };
  Kind kind = Kind::kNormal;
  double standard_deviation = 0.02;
};

struct ParameterSpec {
  std::string name;  // unique in the model; the same name in two blocks is one shared parameter
  std::vector<std::int64_t> shape;
  Initialization initialization;
  bool decay = true;      // false for norms and biases
  bool trainable = true;  // false: no gradient, no optimizer state

  std::int64_t numel() const {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  }
};

// Views of flat buffers. `grad` is undefined for a frozen parameter and in evaluation; its memory
// is written by backward, or added to when `accumulate` is set (a second use of a shared parameter
// in the same micro-batch).
struct Parameter {
  at::Tensor value;
  at::Tensor grad;
  bool accumulate = false;
};

// What a forward keeps for its backward. Filled by Block::forward, used up by Block::backward.
class Tape {
 public:
  virtual ~Tape() = default;
};

struct BlockOutput {
  at::Tensor value;            // [rows, hidden], or the loss, float32 [] (sum of weight * loss)
  std::unique_ptr<Tape> tape;  // null in evaluation
};

class Block {
 public:
  virtual ~Block() = default;

  virtual const std::string& name() const = 0;
  virtual const std::vector<ParameterSpec>& parameters() const = 0;

  // `parameters` are in the order of parameters(). `x`: the previous block's output; undefined for
  // the first block. `training`: keep what backward needs. The last block may already write its
  // parameters' gradients here when training (the loss's own gradient is 1 by definition).
  virtual BlockOutput forward(std::span<const Parameter> parameters, const DeviceBatch& batch,
                              const at::Tensor& x, bool training) const = 0;
  // Writes the parameters' gradients; returns d loss / d x, undefined for the first block.
  // `grad_output` is undefined for the last block. `tape` is used up.
  virtual at::Tensor backward(std::span<const Parameter> parameters, const DeviceBatch& batch,
                              std::unique_ptr<Tape> tape, const at::Tensor& grad_output) const = 0;
};

}  // namespace packtrain
