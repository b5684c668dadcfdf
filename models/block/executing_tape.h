// Runs the operators of a block as they are recorded, and later their backward: a small autograd
// for one block. Gradients that meet in one value are added by the operator that comes last, in its
// own kernel.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "models/block/batch.h"
#include "models/block/operator_tape.h"

namespace packtrain {

class ExecutingTape final : public OperatorTape {
 public:
  // The block's parameters, in the order in which it declares them. Their addresses may change
  // between forward and backward. The batch must outlive the tape.
  ExecutingTape(std::span<const Parameter> parameters, DeviceBatch& batch);

  // Throws Error(kInternal) when the block's next parameter has another shape.
  ParameterId parameter(const ParameterSpec& spec) override;
  std::int64_t num_rows() const override { return batch_.num_rows(); }
  std::int64_t num_supervised_rows() const override { return batch_.loss_index.size(0); }

  Value input(const at::Tensor& x);
  // Runs the operator's forward and keeps it for backward.
  void record(Operator step) override;
  // Called after forward: frees what backward does not read or the policy does not save.
  void finish_forward(const RecomputePolicy& policy);
  // Runs the backward of all operators, from `grad` of `output`. Returns the gradient of the input.
  at::Tensor backward(Value output, const at::Tensor& grad);

  // For operators.
  DeviceBatch& batch() const { return batch_; }
  const Parameter& parameter(ParameterId id) const {
    return parameters_.at(static_cast<std::size_t>(id.index));
  }
  // Null for a parameter that the block does not have.
  const Parameter* find(ParameterId id) const { return id.index < 0 ? nullptr : &parameter(id); }
  void set_parameters(std::span<const Parameter> parameters);
  // get() recomputes a value that is not available.
  at::Tensor get(Value v) { return get_all(v).front(); }
  at::Tensor get(const std::optional<Value>& v) { return v ? get(*v) : at::Tensor(); }
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
  DeviceBatch& batch_;
  std::size_t num_declared_ = 0;  // of parameters_
  std::vector<Entry> entries_;    // of values
  std::vector<Operator> operators_;
  Value input_;
  bool defers_weight_grads_ = false;
  std::vector<std::function<void()>> deferred_weight_grads_;
};

}  // namespace packtrain
