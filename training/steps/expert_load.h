// Load of a model's experts in a step. Turns the statistics of its batches
// (models/layers/routing_statistics.h) into a record. Nothing here waits for the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>

#include "framework/metrics/metrics.h"
#include "models/block/batch.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

// Number of the tokens' counts in sum_expert_load(): layers with experts * experts.
std::int64_t num_expert_tokens(const DecoderConfig& decoder);

// Number of values of sum_expert_load(): tokens of each layer's experts, and the auxiliary loss if
// the model trains on one. 0: the model has no experts.
std::int64_t num_load_numbers(const DecoderConfig& decoder);

// Sums over batches that were trained on, float32 [num_load_numbers] on their device. The sums of
// several ranks may be added.
at::Tensor sum_expert_load(std::span<const DeviceBatch> batches, const DecoderConfig& decoder);

// The record of such sums. Nothing for a model without experts.
std::optional<ExpertLoad> expert_load(std::span<const double> sums, const DecoderConfig& decoder);

}  // namespace packtrain
