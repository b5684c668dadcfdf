// The operators of a block's forward, in order. A block describes itself once, as operators on an
// OperatorTape. An ExecutingTape (executing_tape.h) runs them and their backward. A ShapeTape
// (shape_tape.h) has no tensors: parameters, saved activations, memory peaks and FLOPs are computed
// from what it recorded. Values have kinds, so that a RecomputePolicy can say which are saved and
// which are recomputed.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/block/block.h"

namespace packtrain {

class OperatorContext;  // models/block/operator_context.h

enum class ValueKind {
  kInput,       // input of the block
  kProjection,  // output of a GEMM, or rows of one
  kNormOutput,
  kActivationOutput,
  kAttentionOutput,
  kStatistics,  // a few numbers a row that an operator's backward reads
  kScaled,      // rows of a projection times factors, which is saved instead
};

// Kinds of values that are saved from forward to backward. The others are recomputed when backward
// reads them. The input is always saved.
class RecomputePolicy {
 public:
  static RecomputePolicy none();       // saves all that backward reads, except scaled rows
  static RecomputePolicy selective();  // drops cheap values: no GEMM runs twice
  static RecomputePolicy full();       // saves the input and statistics

  bool keeps(ValueKind kind) const { return (kept_ & bit(kind)) != 0; }
  bool operator==(const RecomputePolicy&) const = default;

 private:
  explicit RecomputePolicy(unsigned kept) : kept_(kept) {}
  static unsigned bit(ValueKind kind) { return 1U << static_cast<unsigned>(kind); }

  unsigned kept_;
};

// A value on a tape.
struct Value {
  int id = -1;
  bool operator==(const Value&) const = default;
};

struct ValueShape {
  std::int64_t num_rows = 0;
  std::int64_t width = 0;  // elements of a row; 0: the value does not exist
  c10::ScalarType dtype = c10::kFloat;

  std::int64_t numel() const { return num_rows * width; }
  std::int64_t bytes() const {
    return numel() * static_cast<std::int64_t>(c10::elementSize(dtype));
  }
};

struct SavedActivation {
  std::string name;
  std::int64_t bytes = 0;
};

// A parameter that a block declared on a tape.
struct ParameterId {
  int index = -1;  // -1: the block does not have it
};

// Shared memory of a block of threads on GPUs of compute capability 9.0.
inline constexpr int kHopperSharedBytes = 227 << 10;

// Sizes of a micro-batch, for estimates.
struct MicroBatchShape {
  std::int64_t num_rows = 0;             // of a micro-batch, padding included
  std::int64_t num_supervised_rows = 0;  // of these
  std::int64_t max_rows = 0;  // of any micro-batch; attention's workspace is sized for them
  std::int64_t num_sequences = 1;
  // Keys of attention where segments have prefixes, copies of prefixes included. 0: none has.
  std::int64_t num_keys = 0;
  std::int64_t max_keys = 0;  // of any micro-batch
  bool on_gpu = true;
  std::int64_t shared_bytes = kHopperSharedBytes;  // of a block of threads of the GPU
  c10::ScalarType compute = c10::kBFloat16;
  bool narrow_head_gradient = false;  // the head's gradient is stored in less than float32
};

// A tensor that exists in an operator's backward and is not a value of the tape.
struct BackwardBuffer {
  std::string name;
  std::int64_t bytes = 0;
  bool largest_of_layers = false;  // planned as the largest of all layers
};

// An operator at whose backward the memory of a step may peak.
struct BackwardMemory {
  std::string peak;  // name; empty: never a peak
  std::vector<BackwardBuffer> buffers;
};

// Multiplications with an addition in an operator's forward.
struct MultiplyAdds {
  std::int64_t of_rows = 0;
  std::int64_t of_frozen_rows = 0;  // with weights that have no gradient
  // Factor of the sum over examples of L^2, half of which are pairs that causal attention computes.
  std::int64_t of_squares = 0;
  // Those of both kinds of rows whose product reads 8-bit floats, and in how many of the products
  // of forward and backward.
  std::int64_t of_fp8_rows = 0;
  int num_fp8_products = 0;
};

// One operator. `forward` computes its outputs from its inputs. `backward` reads the gradient of
// outputs[0] and sets those of the inputs. It also reads and clears gradients of other outputs that
// have one. The other members describe both for estimates.
struct Operator {
  std::vector<Value> inputs;  // values that `forward` reads
  // The input that forward adds to its result, so that backward passes the gradient on unchanged.
  std::optional<Value> residual = std::nullopt;
  std::vector<Value> outputs;
  std::vector<Value> needs;  // values that `backward` reads
  // True if `backward` also recomputes outputs[0] when is_recompute_requested() is true.
  bool recomputes_output = false;
  MultiplyAdds multiply_adds;
  std::function<void(OperatorContext&)> forward;
  std::function<void(OperatorContext&)> backward;
  // Called by estimates only. Undefined: small enough that the step's peak is never there.
  std::function<BackwardMemory(const MicroBatchShape&, const RecomputePolicy&)> memory;
};

class OperatorTape : public Tape {
 public:
  // Declares a parameter, whose name lacks the block's prefix. A block has them in this order.
  virtual ParameterId parameter(const ParameterSpec& spec) = 0;
  // Rows of the micro-batch, padding included, and those of them that have a label.
  virtual std::int64_t num_rows() const = 0;
  virtual std::int64_t num_supervised_rows() const = 0;
  // Adds an operator after those recorded before.
  virtual void record(Operator step) = 0;

  // Creates a value, which the operator recorded next must set.
  Value value(ValueKind kind, std::string_view name, const ValueShape& shape);

  std::size_t num_values() const { return values_.size(); }
  // References stay valid while values are added.
  const ValueShape& shape(Value v) const { return info(v).shape; }
  ValueKind kind(Value v) const { return info(v).kind; }
  const std::string& name(Value v) const { return info(v).name; }

 private:
  struct Info {
    ValueKind kind = ValueKind::kInput;
    std::string name;
    ValueShape shape;
  };

  const Info& info(Value v) const { return values_.at(static_cast<std::size_t>(v.id)); }

  std::deque<Info> values_;  // a vector would move them when it grows
};

}  // namespace packtrain
