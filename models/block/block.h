// An abstract block: parameters, a forward and a backward. This is all that parallel/sharding knows
// of a model. A model is a list of blocks. Each passes one activation [rows, hidden] to the next,
// and the last one returns the loss. Blocks do not know ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "models/block/operator_options.h"
#include "models/block/parameter_encoding.h"

namespace packtrain {

struct DeviceBatch;
class SplitBackward;

struct Initialization {
  enum class Kind {
    kNormal,
    kUniform,  // between +-sqrt(3) deviations
    kOnes,
    kZeros,
    kConstant,      // `minimum`
    kLogOfUniform,  // logarithms of uniform numbers between the limits
    // y with softplus(y) = x, where the logarithm of x is uniform between those of the limits
    kInverseSoftplus
  };
  Kind kind = Kind::kNormal;
  double standard_deviation = 0.02;
  double minimum = 0;  // limits of the last two kinds
  double maximum = 0;
};

// The parameters of a group have the same options of the optimizer (training/optimizers).
enum class OptimizerGroup : std::uint8_t {
  kDecay,    // with weight decay
  kNoDecay,  // norms and biases
};
inline constexpr std::size_t kNumOptimizerGroups = 2;

// The rows of a parameter that one Hugging Face tensor holds: `num_runs` runs of `num_rows` rows,
// `stride` rows apart. A row has the elements of the last dimension, or is one element of a vector.
struct ParameterPart {
  std::string tensor;
  std::int64_t begin = 0;
  std::int64_t num_rows = 0;
  std::int64_t num_runs = 1;
  std::int64_t stride = 0;

  bool operator==(const ParameterPart&) const = default;
};

struct ParameterSpec {
  std::string name;  // unique in the model; two blocks with the same name share the parameter
  std::vector<std::int64_t> shape;
  Initialization initialization = {};
  OptimizerGroup group = OptimizerGroup::kDecay;
  bool trainable = true;     // false: no gradient, no optimizer state
  bool in_adapter = false;   // of a low-rank update, not of the model itself
  int adapter = 0;           // number of the adapter that it is of, where several are trained
  int optimizer = 0;         // number of its optimizer settings (training/optimizers)
  bool block_state = false;  // its optimizer has state for blocks of elements
  ParameterEncoding encoding = {};
  // The optimizer updates the encoded weight itself, without a float32 master. Trainable ones of a
  // model have it all or none.
  bool own_master = false;
  std::vector<ParameterPart> parts = {};  // empty: the model has no Hugging Face names
  bool decodable = false;                 // its operator decodes it (ops/encoded_weight.h)
  bool in_fp8 = false;                    // its products read 8-bit floats of one scale (ops/fp8)
  bool keep_float32 = false;              // its encoding is float32 in any model
  // Rows of each matrix that it stacks, in order (parameter_matrices.h). Empty: all are of one.
  std::vector<std::int64_t> fused_rows = {};
  bool is_matrix = true;  // false: no linear map of rows, as filters of channels

  std::int64_t numel() const {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  }
  std::int64_t row_numel() const { return shape.size() == 1 ? 1 : shape.back(); }
};

// A parameter as stored. In NF4 the groups of the first range are first. Each range is a Hugging
// Face tensor, whose last group may be partly unused. 8-bit floats have one range.
struct EncodedParameter {
  at::Tensor bytes;  // uint8 [stored_numel()]
  std::vector<ElementRange> ranges;
  ParameterEncoding::Format format = ParameterEncoding::Format::kNf4;
};

// Views of flat buffers. `grad` is undefined for a frozen parameter and in evaluation. Backward
// writes it. It adds to it when `accumulate` is set, which is the second use of a shared parameter
// in a micro-batch.
struct Parameter {
  at::Tensor value;
  at::Tensor grad;
  bool accumulate = false;
  // Null: `value` is the weight. Otherwise products decode it. decode_weight() writes `value`,
  // which all encoded parameters of a model share.
  std::shared_ptr<const EncodedParameter> encoded = nullptr;
  // Of a weight in 8-bit products: its scale, float32 [2] (ops/fp8). Undefined: the cast finds it.
  at::Tensor fp8_scale = {};
  // Its codes, e4m3 in the shape of `value`. `value` has numbers then only if it is decoded.
  // Undefined: `value` has them.
  at::Tensor fp8_codes = {};
};

// Saved activations of a forward. Block::forward fills it and Block::backward consumes it.
class Tape {
 public:
  virtual ~Tape() = default;
  // The block's input, which the tape no longer has then. Undefined for a block without one. The
  // caller returns it, or a copy, before backward.
  virtual at::Tensor take_input() { return {}; }
  virtual void return_input(at::Tensor /*x*/) {}
};

struct BlockOutput {
  at::Tensor value;            // [rows, hidden], or the loss, float32 [] (sum of weight * loss)
  std::unique_ptr<Tape> tape;  // null in evaluation
};

// The purpose of a forward.
enum class BlockMode {
  kTrain,    // saves what backward needs
  kEvaluate  // saves nothing
};

// What a block gets in addition to its parameters and the output of the previous block.
struct BlockContext {
  DeviceBatch& batch;  // a block may change batch.state alone
  BlockMode mode;
  const OperatorOptions& options;
};

class Block {
 public:
  virtual ~Block() = default;

  virtual const std::string& name() const = 0;
  virtual const std::vector<ParameterSpec>& parameters() const = 0;

  // `parameters` are in the order of parameters(). `x` is the output of the previous block,
  // undefined for the first block. The last block may write its parameters' gradients here in
  // training, because the gradient of the loss is 1.
  virtual BlockOutput forward(std::span<const Parameter> parameters, const BlockContext& context,
                              const at::Tensor& x) const = 0;
  // Writes the parameters' gradients. Returns d loss / dx, undefined for the first block.
  // `grad_output` is undefined for the last block. `tape` is consumed.
  virtual at::Tensor backward(std::span<const Parameter> parameters, const BlockContext& context,
                              std::unique_ptr<Tape> tape, const at::Tensor& grad_output) const = 0;
  // The backward in two parts (split_backward.h). Null if the block has none.
  virtual const SplitBackward* split_backward() const { return nullptr; }
};

}  // namespace packtrain
