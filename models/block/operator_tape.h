// Records the operators of a block's forward and runs their backward: a small autograd for one
// block. Values have kinds, so that a RecomputePolicy can say which are saved and which are
// recomputed. Gradients that meet in one value are added by the operator that comes last, in its
// own kernel.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/block/block.h"

namespace packtrain {

enum class ValueKind {
  kInput,       // input of the block
  kProjection,  // output of a GEMM, or rows of one
  kNormOutput,
  kActivationOutput,
  kAttentionOutput,
  kStatistics,  // a few numbers a row that an operator's backward reads
};

// Kinds of values that are saved from forward to backward. The others are recomputed when backward
// reads them. The input is always saved.
class RecomputePolicy {
 public:
  static RecomputePolicy none();       // saves all that backward reads
  static RecomputePolicy selective();  // drops cheap values: no GEMM runs twice
  static RecomputePolicy full();       // saves only the block's input

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
};

struct SavedActivation {
  std::string name;
  std::int64_t bytes = 0;
};

class OperatorTape final : public Tape {
 public:
  // One operator. `forward` computes its outputs from its inputs. `backward` reads the gradient of
  // outputs[0] and sets those of the inputs.
  struct Operator {
    std::vector<Value> outputs;
    std::vector<Value> needs;  // values that `backward` reads
    // True if `backward` also recomputes outputs[0] when is_recompute_requested() is true.
    bool recomputes_output = false;
    std::function<void()> forward;
    std::function<void()> backward;
  };

  // Parameters that operators refer to. Their addresses may change between forward and backward.
  explicit OperatorTape(std::span<const Parameter> parameters);

  std::vector<Parameter>& parameters() { return parameters_; }

  // Creates a value, which the operator recorded next must set.
  Value value(ValueKind kind, std::string_view name);
  Value input(const at::Tensor& x);
  // Runs the operator's forward and records it.
  void record(Operator step);
  // Called after forward: frees what backward does not read or the policy does not save.
  void finish_forward(const RecomputePolicy& policy);
  // Runs the backward of all operators, from `grad` of `output`. Returns the gradient of the input.
  at::Tensor backward(Value output, const at::Tensor& grad);

  // For operators. get() recomputes a value that is not available.
  at::Tensor get(Value v) { return get_all(v).front(); }
  void set(Value v, at::Tensor tensor) { set_all(v, {std::move(tensor)}); }
  // The same for a value that is a list, possibly empty.
  std::vector<at::Tensor> get_all(Value v);
  void set_all(Value v, std::vector<at::Tensor> tensors);
  // Frees a value whose memory another value now holds, computed in place.
  void release(Value v);
  // The gradient accumulated so far, undefined if none. An operator adds its own part and sets the
  // sum.
  at::Tensor gradient(Value v) const { return entry(v).gradient; }
  void set_gradient(Value v, at::Tensor grad) { entry(v).gradient = std::move(grad); }
  // For operators whose kernels cannot add.
  void add_gradient(Value v, const at::Tensor& grad);
  // Runs `use` with `v`: now if it is available, else after the backward that recomputes it.
  void when_available(Value v, std::function<void(const at::Tensor&)> use);
  bool is_recompute_requested(Value v) const { return !entry(v).waiting.empty(); }

  // A GEMM that only the gradient of a parameter needs. Runs it, or defers it to
  // flush_weight_grads() if defer_weight_grads() was called before backward. It must not read
  // weights.
  void run_or_defer_weight_grad(std::function<void()> product);
  void defer_weight_grads() { defers_weight_grads_ = true; }
  void flush_weight_grads();

  // Values that are saved now.
  std::vector<SavedActivation> saved() const;

 private:
  struct Entry {
    ValueKind kind = ValueKind::kInput;
    std::string name;
    int maker = -1;       // index of an operator
    int num_readers = 0;  // backwards that have yet to read it
    bool made = false;
    std::vector<at::Tensor> tensors;
    at::Tensor gradient;
    std::vector<std::function<void(const at::Tensor&)>> waiting;
  };

  Entry& entry(Value v) { return entries_.at(static_cast<std::size_t>(v.id)); }
  const Entry& entry(Value v) const { return entries_.at(static_cast<std::size_t>(v.id)); }
  void run_waiting_uses(Value v);
  void done_reading(Value v);

  std::vector<Parameter> parameters_;
  std::vector<Entry> entries_;
  std::vector<Operator> operators_;
  Value input_;
  bool defers_weight_grads_ = false;
  std::vector<std::function<void()>> deferred_weight_grads_;
};

}  // namespace packtrain
