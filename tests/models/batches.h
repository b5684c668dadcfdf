// Batches and whole-model runs for tests.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/block/batch.h"
#include "models/block/block.h"
#include "models/decoder/decoder.h"

namespace packtrain {

// A packed batch on the host, before it is a DeviceBatch.
struct Sequences {
  std::vector<std::vector<std::int32_t>> ids;
};

Sequences random_sequences(const std::vector<std::int32_t>& lengths, std::int32_t vocab_size);
// All rows but each sequence's last are supervised by the next token, with weight 0.5 + row / 64.
DeviceBatch make_batch(const Sequences& sequences, const at::Device& device);
DeviceBatch random_batch(const std::vector<std::int32_t>& lengths, std::int32_t vocab_size,
                         const at::Device& device);

// A decoder with weights and gradients of its own, run block after block as the driver does.
class TestModel {
 public:
  TestModel(const DecoderConfig& config, const DecoderOptions& options, at::TensorOptions tensors);

  struct Result {
    at::Tensor loss;
    std::map<std::string, at::Tensor> grads;  // copies, by parameter name
  };
  // Gradients are full of NaN beforehand. `deferred_weight_grads`: what blocks can leave for later
  // comes when all backwards are done.
  Result train(DeviceBatch& batch, bool deferred_weight_grads = false);
  Result train(DeviceBatch&& batch, bool deferred_weight_grads = false) {
    return train(batch, deferred_weight_grads);
  }
  at::Tensor evaluate(DeviceBatch& batch);
  at::Tensor evaluate(DeviceBatch&& batch) { return evaluate(batch); }
  at::Tensor logits(DeviceBatch batch);  // of all rows

  // Returns the saved activations of one layer.
  std::vector<SavedActivation> saved_by_layer(DeviceBatch& batch, std::size_t layer);

  const std::vector<std::unique_ptr<Block>>& blocks() const { return blocks_; }
  OperatorOptions& operator_options() { return options_; }
  at::Tensor value(const std::string& name) const { return parameters_.at(name).value; }

 private:
  // The block's parameters; the embedding's gradient adds to a tied head's.
  std::vector<Parameter> parameters_of(std::size_t block) const;

  std::vector<std::unique_ptr<Block>> blocks_;
  OperatorOptions options_;
  std::map<std::string, Parameter> parameters_;
  bool tied_;
};

// Small, with every option a family can switch on.
DecoderConfig small_config();

}  // namespace packtrain
