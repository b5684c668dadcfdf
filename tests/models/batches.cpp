#include "tests/models/batches.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "framework/core/random.h"
#include "models/block/recorded_block.h"
#include "models/decoder/initialize.h"

namespace packtrain {

Sequences random_sequences(const std::vector<std::int32_t>& lengths, std::int32_t vocab_size) {
  const CounterRandom random(2, "ids");
  Sequences sequences;
  std::uint64_t counter = 0;
  for (const std::int32_t length : lengths) {
    auto& ids = sequences.ids.emplace_back();
    for (std::int32_t i = 0; i < length; ++i) {
      ids.push_back(static_cast<std::int32_t>(
          random.below(counter++, static_cast<std::uint64_t>(vocab_size))));
    }
  }
  return sequences;
}

DeviceBatch make_batch(const Sequences& sequences, const at::Device& device) {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> index;
  std::vector<std::int32_t> labels;
  std::vector<float> weights;
  DeviceBatch batch;
  batch.cu_seqlens_host = {0};
  for (const auto& sequence : sequences.ids) {
    const auto length = static_cast<std::int32_t>(sequence.size());
    for (std::int32_t i = 0; i < length; ++i) {
      if (i + 1 < length) {
        index.push_back(static_cast<std::int32_t>(ids.size()));
        labels.push_back(sequence[i + 1]);
        weights.push_back(0.5F + static_cast<float>(i) / 64.0F);
      }
      ids.push_back(sequence[i]);
      positions.push_back(i);
    }
    batch.cu_seqlens_host.push_back(static_cast<std::int32_t>(ids.size()));
    batch.max_seqlen = std::max(batch.max_seqlen, length);
  }
  const at::TensorOptions ints(at::kInt);
  batch.input_ids = at::tensor(ids, ints).to(device);
  batch.position_ids = at::tensor(positions, ints).to(device);
  batch.cu_seqlens = at::tensor(batch.cu_seqlens_host, ints).to(device);
  batch.loss_index = at::tensor(index, ints).to(device);
  batch.loss_labels = at::tensor(labels, ints).to(device);
  batch.loss_weight = at::tensor(weights, at::TensorOptions(at::kFloat)).to(device);
  return batch;
}

DeviceBatch random_batch(const std::vector<std::int32_t>& lengths, std::int32_t vocab_size,
                         const at::Device& device) {
  return make_batch(random_sequences(lengths, vocab_size), device);
}

TestModel::TestModel(const DecoderConfig& config, const DecoderOptions& options,
                     at::TensorOptions tensors)
    : blocks_(make_decoder(config, options)), tied_(config.tied_embeddings) {
  for (const auto& block : blocks_) {
    for (const ParameterSpec& spec : block->parameters()) {
      const at::Tensor host = at::empty(spec.shape, at::TensorOptions(at::kFloat));
      initialize(spec, 3, 0, host.view({-1}));
      // Zeros would hide the branch that they multiply.
      if (spec.name.ends_with(".altup.output_scale")) host.fill_(0.7);
      const at::Tensor value =
          host.to(tensors.device(), c10::typeMetaToScalarType(tensors.dtype()));
      const at::Tensor grad = spec.trainable ? at::full_like(value, std::nan("")) : at::Tensor();
      parameters_[spec.name] = {value, grad, false};
    }
  }
}

std::vector<Parameter> TestModel::parameters_of(std::size_t block) const {
  std::vector<Parameter> parameters;
  for (const ParameterSpec& spec : blocks_[block]->parameters()) {
    parameters.push_back(parameters_.at(spec.name));
    parameters.back().accumulate = tied_ && block == 0 && spec.name == "embed.weight";
  }
  return parameters;
}

TestModel::Result TestModel::train(DeviceBatch& batch, bool deferred_weight_grads) {
  for (auto& [name, parameter] : parameters_) {
    if (parameter.grad.defined()) {
      parameter.grad.fill_(std::nan(""));
    }
  }
  std::vector<std::unique_ptr<Tape>> tapes(blocks_.size());
  at::Tensor x;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    BlockOutput output =
        blocks_[i]->forward(parameters_of(i), {batch, BlockMode::kTrain, options_}, x);
    x = output.value;
    tapes[i] = std::move(output.tape);
  }
  Result result{x, {}};
  at::Tensor grad;
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    const SplitBackward* two_parts = blocks_[i]->split_backward();
    if (deferred_weight_grads && two_parts != nullptr) {
      grad = two_parts->backward_input(parameters_of(i), *tapes[i], grad);
    } else {
      grad = blocks_[i]->backward(parameters_of(i), {batch, BlockMode::kTrain, options_},
                                  std::move(tapes[i]), grad);
    }
  }
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const SplitBackward* two_parts = blocks_[i]->split_backward();
    if (tapes[i] != nullptr && two_parts != nullptr) two_parts->backward_weight(*tapes[i]);
  }
  for (const auto& [name, parameter] : parameters_) {
    if (parameter.grad.defined()) {
      result.grads[name] = parameter.grad.clone();
    }
  }
  return result;
}

at::Tensor TestModel::evaluate(DeviceBatch& batch) {
  at::Tensor x;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    x = blocks_[i]->forward(parameters_of(i), {batch, BlockMode::kEvaluate, options_}, x).value;
  }
  return x;
}

at::Tensor TestModel::logits(DeviceBatch batch) {
  const std::int64_t num_rows = batch.input_ids.size(0);
  const std::int64_t vocab_size = blocks_.back()->parameters().back().shape.front();
  batch.loss_index = at::arange(num_rows, batch.loss_index.options());
  batch.loss_labels = at::zeros({num_rows}, batch.loss_labels.options());
  batch.loss_weight = at::zeros({num_rows}, batch.loss_weight.options());
  batch.row_logits = at::empty({num_rows, vocab_size}, batch.loss_weight.options());
  evaluate(batch);
  return batch.row_logits;
}

std::vector<SavedActivation> TestModel::saved_by_layer(DeviceBatch& batch, std::size_t layer) {
  at::Tensor x;
  for (std::size_t i = 0; i <= layer; ++i) {
    x = blocks_[i]->forward(parameters_of(i), {batch, BlockMode::kEvaluate, options_}, x).value;
  }
  const std::size_t block = layer + 1;  // block 0 is the embedding
  const BlockOutput output =
      blocks_[block]->forward(parameters_of(block), {batch, BlockMode::kTrain, options_}, x);
  return saved_activations(*output.tape);
}

DecoderConfig small_config() {
  DecoderConfig config;
  config.family = "llama";
  config.vocab_size = 61;
  config.hidden_size = 32;
  config.intermediate_size = 48;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 8;
  config.max_positions = 256;
  config.qkv_bias = config.attention_output_bias = true;
  config.mlp_bias = true;
  config.initializer_range = 0.2;  // large, so that every part matters in the loss
  return config;
}

}  // namespace packtrain
