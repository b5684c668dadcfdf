// One transformer layer: attention and an MLP (or a mixture of experts), each a branch that adds to
// the residual stream. What else a layer has, and in which order, is data (DecoderConfig).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "models/decoder_config.h"
#include "models/norm.h"
#include "models/ops/rotary/rotary_frequencies.h"
#include "models/recorded_block.h"

namespace packtrain {

class DecoderLayer final : public RecordedBlock {
 public:
  // `frequencies` are shared by all layers of a model that turn alike. The last layer returns the
  // supervised rows alone [N, hidden], which are all that the head reads: its output projection and
  // its MLP work on these only (unless last_layer_needs_all_rows()).
  DecoderLayer(const DecoderConfig& config, std::int64_t index, RecomputePolicy policy,
               std::vector<ParameterSpec> parameters,
               std::shared_ptr<const RotaryFrequencies> frequencies);

 protected:
  Value record(OperatorTape& tape, const DeviceBatch& batch, Value x) const override;

 private:
  // The layer's parameter of this name, without the layer's own; null where the model has none.
  const Parameter* find(OperatorTape& tape, const std::string& name) const;
  NormWeights norm_weights(OperatorTape& tape, std::string_view name) const;

  Value norm_before(OperatorTape& tape, std::string_view name, Value x) const;
  Value project(OperatorTape& tape, const std::string& name, Value x,
                std::optional<Value> residual = std::nullopt) const;
  Value attend(OperatorTape& tape, const DeviceBatch& batch, Value x) const;
  // The part of an MLP before its last projection: `projection` and an activation.
  Value mlp_inner(OperatorTape& tape, const std::string& branch, Value x) const;
  Value mlp(OperatorTape& tape, const DeviceBatch& batch, Value x,
            std::optional<Value> residual) const;
  Value shared_expert(OperatorTape& tape, Value x, std::optional<Value> residual) const;
  // What a branch makes, with the residual stream added where that costs nothing.
  using BranchEnd = std::function<Value(std::optional<Value> residual)>;
  // The residual stream with a branch's output added to it.
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
