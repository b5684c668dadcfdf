// The precision of linear layers as a run sets and logs it.
#pragma once

#include <set>
#include <string>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

LinearPrecision linear_precision(const PrecisionSection& precision);
// The weights that precision.keep_bf16 names.
std::set<std::string> kept_weights(const DecoderConfig& decoder);

// Logs which weights multiply in 8-bit floats, and which do not. Nothing for a model without them.
// Throws Error(kConfig) when none does, or a pattern of precision.keep_bf16 names none. Throws
// Error(kDevice) when the device cannot.
void prepare_linear_precision(const DecoderConfig& decoder, const Device& device);

}  // namespace packtrain
