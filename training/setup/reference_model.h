// The frozen second model of objective.reference: model.
#pragma once

#include "framework/config/config.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

// The configuration of the second model: that of the run without an adapter, all frozen.
Config reference_config(const Config& config);

// The decoder of the second model. Memory plans ask for it often: a process reads each folder once.
// Any thread may call it. Throws the errors of find_model().
DecoderConfig reference_decoder(const Config& config);

// Throws Error(kConfig) unless both have one vocabulary.
void check_reference_vocabulary(const Config& own, const DecoderConfig& reference,
                                const DecoderConfig& policy);

}  // namespace packtrain
