// Runs the operators of a block as they are recorded, and later their backward: a small autograd
// for one block. Gradients that meet in one value are added by the operator that comes last, in its
// own kernel.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "models/block/operator_context.h"
#include "models/block/operator_tape.h"

namespace packtrain {

class ExecutingTape final : public OperatorTape, public OperatorContext {
 public:
  // The block's parameters, in the order in which it declares them. The batch and the options of
  // the context must outlive the tape.
  ExecutingTape(std::span<const Parameter> parameters, const BlockContext& context);

  using OperatorContext::parameter;
  // Throws Error(kInternal) when the block's next parameter has another shape.
  ParameterId parameter(const ParameterSpec& spec) override;
  std::int64_t num_rows() const override { return batch().num_rows(); }
  std::int64_t num_supervised_rows() const override { return batch().loss_index.size(0); }

  Value input(const at::Tensor& x);
  at::Tensor take_input() override;
  void return_input(at::Tensor x) override { set(input_, std::move(x)); }
  // Keeps the operator. forward() runs it.
  void record(Operator step) override;
  // Runs the forward of all operators and returns `output`. A value is freed when the last operator
  // has read it. Values stay that backward reads and the policy saves, and the input. Without a
  // policy backward does not run.
  // Throws Error(kInternal) when an operator reads a value that its `inputs` do not name.
  at::Tensor forward(Value output, const RecomputePolicy* policy);
  // Runs the backward of all operators, from `grad` of `output`. Returns the gradient of the input.
  // Some recomputed values are inputs of other forwards alone. They are freed when the operators
  // that read them have their outputs, and at the latest after the backward that needed them.
  // `parameters` are those of the constructor, perhaps at other addresses.
  at::Tensor backward(Value output, const at::Tensor& grad, std::span<const Parameter> parameters);

  bool is_saved(Value v) const override { return in_forward_ && stays(v, policy_); }

  // Values that are saved now.
  std::vector<SavedActivation> saved() const;

 private:
  struct Use {
    int maker = -1;                         // index of an operator
    int num_readers = 0;                    // backwards that have yet to read it
    std::vector<int> forward_readers = {};  // operators
  };

  void recompute(Value v) override;
  bool backward_recomputes(Value v) const override;

  bool stays(Value v, const RecomputePolicy* policy) const;
  // By value: the number of the last operator whose forward reads or makes it.
  std::vector<std::size_t> last_uses() const;
  void track_values();
  Use& use(Value v) { return uses_.at(static_cast<std::size_t>(v.id)); }
  const Use& use(Value v) const { return uses_.at(static_cast<std::size_t>(v.id)); }
  void done_reading(Value v);
  bool is_unread(Value v) const;
  // After a recomputation: frees an input that no other operator needs for its output.
  void release_if_unread(Value v);
  void release_unread();

  std::size_t num_declared_ = 0;  // of the parameters
  std::vector<Use> uses_;         // of values
  std::vector<Operator> operators_;
  Value input_;
  const RecomputePolicy* policy_ = nullptr;  // in forward()
  bool in_forward_ = false;
  int in_backward_ = 0;  // the operator whose backward runs
};

}  // namespace packtrain
