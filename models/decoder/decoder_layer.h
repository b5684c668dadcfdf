// One transformer layer: attention and an MLP or a mixture of experts. Each is a branch that adds
// to the residual stream. DecoderConfig has the order and the other parts of a layer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "models/block/recorded_block.h"
#include "models/layers/decoder_config.h"
#include "models/layers/norm.h"
#include "models/ops/rotary/rotary_frequencies.h"

namespace packtrain {

class DecoderLayer final : public RecordedBlock {
 public:
  // Layers with the same rotary settings share `frequencies`. The last layer returns only the
  // supervised rows [N, hidden], because the head reads no others. Its output projection and MLP
  // compute only these (unless last_layer_needs_all_rows()).
  DecoderLayer(const DecoderConfig& config, std::int64_t index, RecomputePolicy policy,
               std::vector<ParameterSpec> parameters,
               std::shared_ptr<const RotaryFrequencies> frequencies);

 protected:
  Value record(OperatorTape& tape, const DeviceBatch& batch, Value x) const override;

 private:
  // Finds a parameter by its name without the layer's prefix; null if the model has none.
  const Parameter* find(OperatorTape& tape, const std::string& name) const;
  NormWeights norm_weights(OperatorTape& tape, std::string_view name) const;

  Value norm_before(OperatorTape& tape, std::string_view name, Value x) const;
  Value project(OperatorTape& tape, const std::string& name, Value x,
                std::optional<Value> residual = std::nullopt) const;
  Value attend(OperatorTape& tape, const DeviceBatch& batch, Value x) const;
  // The part of an MLP before its last projection: `projection` and the activation.
  Value mlp_inner(OperatorTape& tape, const std::string& branch, Value x) const;
  Value mlp(OperatorTape& tape, const DeviceBatch& batch, Value x,
            std::optional<Value> residual) const;
  Value shared_expert(OperatorTape& tape, Value x, std::optional<Value> residual) const;
  // Computes the output of a branch. It adds `residual` where an operator can add it at no cost.
  using BranchEnd = std::function<Value(std::optional<Value> residual)>;
  // Adds the output of a branch to the residual stream.
  Value add_branch(OperatorTape& tape, const std::string& branch, const BranchEnd& end,
                   Value residual) const;

  DecoderConfig config_;
  std::int64_t index_;
  bool has_experts_;
  bool last_;
  std::map<std::string, std::size_t> parameter_index_;  // of parameters, by name
  std::shared_ptr<const RotaryFrequencies> frequencies_;
};

}  // namespace packtrain
