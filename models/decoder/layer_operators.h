// The description of a decoder layer: its parameters and operators, in order. A layer that runs,
// its parameters and all estimates of its size come from it. A layer has two branches that add to
// the residual stream: attention or another mixer, and an MLP or a mixture of experts. It may have
// one of them alone. DecoderConfig has their order and the other parts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "models/block/shape_tape.h"
#include "models/layers/decoder_config.h"
#include "models/layers/recorded_experts.h"
#include "models/ops/rotary/rotary_frequencies.h"

namespace packtrain {

class LayerOperators {
 public:
  // Layers with the same rotary settings share `frequencies`. A ShapeTape does not need them.
  LayerOperators(const DecoderConfig& config, std::int64_t index,
                 std::shared_ptr<const RotaryFrequencies> frequencies = nullptr);

  // Records the layer on x and returns its output. The last layer returns only the supervised rows
  // [N, hidden], because the head reads no others. Its output projection and MLP compute only
  // these (unless last_layer_needs_all_rows()).
  Value record(OperatorTape& tape, Value x) const;

 private:
  // What the last operator of a branch adds: residual + scale * its own output.
  struct BranchSum {
    Value residual;
    double scale = 1.0;
  };

  Value norm_before(OperatorTape& tape, const std::string& name, Value x) const;
  // In the model, of the linear layer with this name.
  std::string weight_name(const std::string& name) const;
  Value project(OperatorTape& tape, const std::string& name, Value x, std::int64_t width, bool bias,
                std::optional<BranchSum> sum = std::nullopt) const;
  // Queries, keys and values, as self_attention() reads them.
  Value merged_heads(OperatorTape& tape, Value x) const;
  Value merged_latent_heads(OperatorTape& tape, Value x) const;
  Value latent_norm(OperatorTape& tape, const std::string& name, Value x) const;
  Value attend(OperatorTape& tape, Value x) const;
  Value convolve(OperatorTape& tape, Value x) const;
  Value scan(OperatorTape& tape, Value x) const;
  // Attention, or the mixer that the layer has instead.
  Value mix(OperatorTape& tape, Value x) const;
  Value project_scanned(OperatorTape& tape, Value scanned, std::optional<BranchSum> sum) const;
  // The last projection of a mixer.
  Value project_mixed(OperatorTape& tape, Value mixed, std::optional<BranchSum> sum) const;
  // An MLP of `inner` elements. Its parameters start with `name`.
  Value dense(OperatorTape& tape, const std::string& name, Value x, std::int64_t inner, bool bias,
              std::optional<BranchSum> sum) const;
  Value mlp(OperatorTape& tape, Value x, std::optional<BranchSum> sum) const;
  // True where the layer has experts next to its MLP.
  bool has_both() const;
  // The sum of both. The MLP reads `normed`, and experts read x under a norm of their own.
  Value mlp_and_experts(OperatorTape& tape, Value x, Value normed,
                        std::optional<BranchSum> sum) const;
  ExpertsOptions experts_options() const;
  Value mixture(OperatorTape& tape, const ExpertsInputs& x, std::optional<Value> residual) const;
  Value shared_expert(OperatorTape& tape, Value x, std::optional<Value> residual) const;
  // The branch that reads x and the layer's own inputs (DecoderConfig::layer_input_width).
  Value layer_input_branch(OperatorTape& tape, Value x) const;
  // Adds that branch, and multiplies by the layer's constant.
  Value finish(OperatorTape& tape, Value x) const;
  // Computes the output of a branch, and the sum if there is one.
  using BranchEnd = std::function<Value(std::optional<BranchSum> sum)>;
  // Adds the output of a branch, times `multiplier`, to the residual stream.
  Value add_branch(OperatorTape& tape, const std::string& branch, double multiplier,
                   const BranchEnd& end, Value residual) const;
  // The branch of the MLP reads these. In the last layer they are the supervised rows.
  struct BranchRows {
    Value input;   // of the layer
    Value normed;  // of the layer's input
    Value stream;  // the input and the output of the mixers
  };
  BranchRows mixer_branch(OperatorTape& tape, Value x, bool selects) const;
  Value mlp_branch(OperatorTape& tape, const BranchRows& rows) const;
  // A layer with several copies of the hidden state (DecoderConfig::altup; altup_layer.cpp). The
  // first layer makes the copies, and the last one returns one row of them.
  Value record_altup(OperatorTape& tape, Value x) const;
  Value expand_copies(OperatorTape& tape, Value x) const;
  Value merge_copies(OperatorTape& tape, Value rows) const;
  struct ActiveRows {
    Value predictions;  // of all copies
    Value active;       // the active one of them
    Value normed;       // which attention read
    Value mixed;        // the output of attention, before its projection
  };
  ActiveRows select_active(OperatorTape& tape, const ActiveRows& rows) const;
  // The active copy after attention and after the MLP.
  Value activate(OperatorTape& tape, const ActiveRows& rows) const;

  DecoderConfig config_;
  std::int64_t index_;
  std::shared_ptr<const RotaryFrequencies> frequencies_;
  std::shared_ptr<const RotaryFrequencies> no_frequencies_;  // AttentionOptions::no_frequencies
  double gate_quantile_;                                     // of LayerPattern::gate_sparsity
};

// The layer's tape for micro-batches of this size.
ShapeTape layer_shapes(const DecoderConfig& config, std::int64_t index,
                       const MicroBatchShape& size);

}  // namespace packtrain
