// A block that runs the operators which it records (executing_tape.h).
#pragma once

#include <string>
#include <vector>

#include "models/block/block.h"
#include "models/block/executing_tape.h"
#include "models/block/recompute_by_rows.h"
#include "models/block/split_backward.h"

namespace packtrain {

class RecordedBlock : public Block, public SplitBackward {
 public:
  RecordedBlock(std::string name, std::vector<ParameterSpec> parameters, RecomputeByRows policies);

  const std::string& name() const final { return name_; }
  const std::vector<ParameterSpec>& parameters() const final { return parameters_; }

  BlockOutput forward(std::span<const Parameter> parameters, const BlockContext& context,
                      const at::Tensor& x) const final;
  at::Tensor backward(std::span<const Parameter> parameters, const BlockContext& context,
                      std::unique_ptr<Tape> tape, const at::Tensor& grad_output) const final;
  const SplitBackward* split_backward() const final { return this; }
  at::Tensor backward_input(std::span<const Parameter> parameters, Tape& tape,
                            const at::Tensor& grad_output) const final;
  void backward_weight(Tape& tape) const final;

 protected:
  // Records the block's operators on x and returns its output.
  virtual Value record(OperatorTape& tape, Value x) const = 0;

 private:
  const RecomputePolicy& policy_of(const BlockContext& context) const;

  std::string name_;
  std::vector<ParameterSpec> parameters_;
  RecomputeByRows policies_;
};

// Saved activations of such a block's forward. For tests of the memory estimate.
std::vector<SavedActivation> saved_activations(const Tape& tape);

}  // namespace packtrain
