// The inputs of all layers (per-layer embeddings, Gemma 3n and Gemma 4), which the embedding block
// computes. With the embedded row x [H], L layers and width P, layer i reads P elements of
//    (RMSNorm_P(W x / sqrt(H)) + sqrt(P) E[id]) / sqrt(2)
// E [V, L P] is a second embedding of the token, W [L P, H] a projection. The norm is that of each
// layer's P elements, with one weight [P] for all layers. Forward fills BatchState::layer_inputs.
// Backward reads the gradient that the layers wrote there, and frees both.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "models/block/block.h"
#include "models/block/operator_tape.h"
#include "models/layers/decoder_config.h"
#include "models/layers/norm.h"

namespace packtrain {

class LayerInputs {
 public:
  static constexpr std::size_t kNumParameters = 3;

  explicit LayerInputs(const DecoderConfig& config);

  bool exist() const { return width_ > 0; }
  // `parameters`: E, W and the weight of the norm. `embedded` is x of all tokens [T, H].
  void forward(std::span<const Parameter> parameters, const BlockContext& context,
               const at::Tensor& embedded) const;
  // Writes the gradients of the parameters. Returns `grad_embedded` [T, H] plus the gradient of x
  // that comes from the projection.
  at::Tensor backward(std::span<const Parameter> parameters, const BlockContext& context,
                      const at::Tensor& embedded, const at::Tensor& grad_embedded) const;

 private:
  // The rows of E that tokens have (DecoderConfig::layer_input_vocab).
  at::Tensor known_ids(const at::Tensor& ids) const;
  // W x / sqrt(H) as rows [T L, P].
  at::Tensor project(const Parameter& weight, const BlockContext& context,
                     const at::Tensor& embedded) const;

  std::int64_t width_;
  std::int64_t num_layers_;
  std::int64_t num_rows_;  // of E; 0: each id has one
  double projection_multiplier_;
  NormConfig norm_;
};

// per_layer_embed.weight [V, L P], per_layer_projection.weight [L P, H] and
// per_layer_norm.weight [P].
void declare_layer_inputs(OperatorTape& tape, const DecoderConfig& config);

}  // namespace packtrain
