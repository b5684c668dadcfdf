// What a block's forward did, operator by operator, and the way back through it. A small autograd
// for one block: its values have kinds, so that which of them are kept for backward and which are
// made again is data (RecomputePolicy); and gradients that meet in one value are added by the
// operator that comes last, in its own kernel, instead of by an operator of their own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/block.h"

namespace packtrain {

enum class ValueKind {
  kInput,       // what the block was given
  kProjection,  // by a matrix product, or rows of such
  kNormOutput,
  kActivationOutput,
  kAttentionOutput,
  kStatistics,  // a few numbers a row, which an operator's backward reads
};

// Which kinds of values stay from forward to backward; the others are made again when a backward
// asks for them. The input always stays.
class RecomputePolicy {
 public:
  static RecomputePolicy none();       // keeps all that backward reads
  static RecomputePolicy selective();  // drops what is cheap to make: no matrix product runs twice
  static RecomputePolicy full();       // keeps the block's input alone

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
  // One operator. `forward` makes its outputs from its inputs; `backward` reads the gradient of
  // outputs[0] and hands on those of the inputs.
  struct Operator {
    std::vector<Value> outputs;
    std::vector<Value> needs;  // values that `backward` reads
    // `backward` also makes outputs[0] again when is_recompute_requested() says so.
    bool recomputes_output = false;
    std::function<void()> forward;
    std::function<void()> backward;
  };

  // Parameters that operators refer to; they move between forward and backward.
  explicit OperatorTape(std::span<const Parameter> parameters);

  std::vector<Parameter>& parameters() { return parameters_; }

  // A new value, to be made by the operator recorded next.
  Value value(ValueKind kind, std::string_view name);
  Value input(const at::Tensor& x);
  // Runs the operator's forward and remembers it.
  void record(Operator step);
  // Forward is over: drops what backward does not read or the policy does not keep.
  void finish_forward(const RecomputePolicy& policy);
  // Sends `grad` of `output` back through all operators; returns the input's gradient.
  at::Tensor backward(Value output, const at::Tensor& grad);

  // For operators. get() makes a value again that is not there.
  at::Tensor get(Value v) { return get_all(v).front(); }
  void set(Value v, at::Tensor tensor) { set_all(v, {std::move(tensor)}); }
  // The same of a value that is a list, possibly empty.
  std::vector<at::Tensor> get_all(Value v);
  void set_all(Value v, std::vector<at::Tensor> tensors);
  // The value is used up: its memory now holds another value, made in place.
  void release(Value v);
  // The gradient that has arrived so far, undefined for none. An operator adds its own share to it
  // and sets the sum.
  at::Tensor gradient(Value v) const { return entry(v).gradient; }
  void set_gradient(Value v, at::Tensor grad) { entry(v).gradient = std::move(grad); }
  // For operators without a kernel that could add on the way.
  void add_gradient(Value v, const at::Tensor& grad);
  // Runs `use` when `v` is there: now, or after the backward that makes it again.
  void when_available(Value v, std::function<void(const at::Tensor&)> use);
  bool is_recompute_requested(Value v) const { return !entry(v).waiting.empty(); }

  // A product that only a parameter's gradient waits for: runs it, or leaves it for
  // flush_weight_grads() where defer_weight_grads() was called before backward. It must read no
  // weight.
  void run_or_defer_weight_grad(std::function<void()> product);
  void defer_weight_grads() { defers_weight_grads_ = true; }
  void flush_weight_grads();

  // What is kept now, by value.
  std::vector<SavedActivation> saved() const;

 private:
  struct Entry {
    ValueKind kind = ValueKind::kInput;
    std::string name;
    int maker = -1;       // operator
    int num_readers = 0;  // backwards still to come that read it
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
