// What the forward and backward of an operator get: parameters, values, gradients, and what the
// block got.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "models/block/batch.h"
#include "models/block/block.h"
#include "models/block/operator_options.h"
#include "models/block/operator_tape.h"
#include "models/block/weight_grad_queue.h"

namespace packtrain {

class OperatorContext {
 public:
  DeviceBatch& batch() const { return block_context_.batch; }
  const OperatorOptions& options() const { return block_context_.options; }
  const Parameter& parameter(ParameterId id) const {
    return parameters_.at(static_cast<std::size_t>(id.index));
  }
  // Null for a parameter that the block does not have.
  const Parameter* find(ParameterId id) const { return id.index < 0 ? nullptr : &parameter(id); }

  // get() recomputes a value that is not available.
  at::Tensor get(Value v) { return get_all(v).front(); }
  at::Tensor get(const std::optional<Value>& v) { return v ? get(*v) : at::Tensor(); }
  // `amax`: of the tensor, where the kernel that made it found it (Fp8Cast::amax in ops/fp8/fp8.h).
  void set(Value v, at::Tensor tensor, at::Tensor amax = {}) {
    set_all(v, {std::move(tensor)});
    entry(v).amax = std::move(amax);
  }
  // The same for a value that is a list, possibly empty.
  std::vector<at::Tensor> get_all(Value v);
  void set_all(Value v, std::vector<at::Tensor> tensors);
  bool is_available(Value v) const { return entry(v).made; }
  // True in a forward after which the value stays for backward.
  virtual bool is_saved(Value v) const = 0;
  // Frees a value whose memory another value now holds, computed in place.
  void release(Value v);

  // The gradient accumulated so far, undefined if none. An operator adds its own part and sets the
  // sum.
  at::Tensor gradient(Value v) const { return entry(v).gradient; }
  // `amax` is that of set().
  void set_gradient(Value v, at::Tensor grad, at::Tensor amax = {}) {
    entry(v).gradient = std::move(grad);
    entry(v).gradient_amax = std::move(amax);
  }
  // For operators whose kernels cannot add.
  void add_gradient(Value v, const at::Tensor& grad);

  // Undefined where no kernel found it.
  at::Tensor amax(Value v) const { return entry(v).amax; }
  at::Tensor gradient_amax(Value v) const { return entry(v).gradient_amax; }
  // Runs `use` with `v`: now if it is available, else after the backward that recomputes it.
  void when_available(Value v, std::function<void(const at::Tensor&)> use);
  bool is_recompute_requested(Value v) const { return !entry(v).waiting.empty(); }

  WeightGradQueue& weight_grads() { return weight_grads_; }

 protected:
  // The batch and the options must outlive it.
  OperatorContext(std::span<const Parameter> parameters, const BlockContext& context);
  ~OperatorContext() = default;

  // Runs the forward of the operator that makes `v` again.
  virtual void recompute(Value v) = 0;
  // True if the backward of that operator recomputes `v` on request.
  virtual bool backward_recomputes(Value v) const = 0;

  const std::vector<Parameter>& parameters() const { return parameters_; }
  // Their addresses may change between forward and backward.
  void replace_parameters(std::span<const Parameter> parameters);
  void resize_values(std::size_t num_values) { entries_.resize(num_values); }
  const std::vector<at::Tensor>& tensors(Value v) const { return entry(v).tensors; }
  void run_waiting_uses(Value v);

 private:
  struct Entry {
    bool made = false;
    std::vector<at::Tensor> tensors;
    at::Tensor amax;
    at::Tensor gradient;
    at::Tensor gradient_amax;
    std::vector<std::function<void(const at::Tensor&)>> waiting;
  };

  Entry& entry(Value v) { return entries_.at(static_cast<std::size_t>(v.id)); }
  const Entry& entry(Value v) const { return entries_.at(static_cast<std::size_t>(v.id)); }

  std::vector<Parameter> parameters_;
  BlockContext block_context_;
  std::vector<Entry> entries_;  // of values
  WeightGradQueue weight_grads_;
};

}  // namespace packtrain
