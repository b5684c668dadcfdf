// What a run logs of weights that are stored encoded.
#pragma once

#include <memory>
#include <span>

#include "models/block/block.h"

namespace packtrain {

// Logs how much of the model is stored in `format`, and which frozen weights are not. At least one
// parameter is.
void log_encoded_weights(std::span<const std::unique_ptr<Block>> blocks,
                         ParameterEncoding::Format format);

}  // namespace packtrain
