// How the experts of a model were used in a step: from the statistics that lie with its batches
// (models/routing_statistics.h) to a record. Nothing here waits for the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>

#include "framework/metrics/metrics.h"
#include "models/batch.h"
#include "models/decoder_config.h"

namespace packtrain {

// Numbers that sum_expert_load() makes: tokens of each layer's experts, and the auxiliary loss
// where the model is trained on one. 0: the model has no experts.
std::int64_t num_load_numbers(const DecoderConfig& decoder);

// Of batches that were trained on, float32 [num_load_numbers] on their device. The sums of several
// ranks may be added.
at::Tensor sum_expert_load(std::span<const DeviceBatch> batches, const DecoderConfig& decoder);

// What such sums stand for; nothing for a model without experts.
std::optional<ExpertLoad> expert_load(std::span<const double> sums, const DecoderConfig& decoder);

}  // namespace packtrain
