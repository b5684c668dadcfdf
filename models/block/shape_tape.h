// A tape without tensors. It keeps shapes of values, declared parameters, and facts that operators
// state. models/estimates computes a model's sizes from it.
#pragma once

#include <cstdint>
#include <vector>

#include "models/block/operator_tape.h"

namespace packtrain {

class ShapeTape final : public OperatorTape {
 public:
  explicit ShapeTape(const MicroBatchShape& size) : size_(size) {}

  // The block's input, of all rows.
  Value input(std::int64_t width);
  ParameterId parameter(const ParameterSpec& spec) override;
  std::int64_t num_rows() const override { return size_.num_rows; }
  std::int64_t num_supervised_rows() const override { return size_.num_supervised_rows; }
  void record(Operator step) override;

  const MicroBatchShape& size() const { return size_; }
  const std::vector<ParameterSpec>& parameters() const { return parameters_; }
  const std::vector<Operator>& operators() const { return operators_; }

 private:
  MicroBatchShape size_;
  std::vector<ParameterSpec> parameters_;
  std::vector<Operator> operators_;
};

}  // namespace packtrain
