// An adapter of PiSSA as a plain adapter of the original model.
#pragma once

#include "models/layers/decoder_config.h"
#include "training/checkpoint/hugging_face.h"

namespace packtrain {

struct PlainAdapter {
  DecoderConfig config;  // each module has twice the rank and the same scale
  ParameterSource source;
};

// `config` has an adapter that was trained over W - scale B0 A0, and `checkpoint` gives its
// parameters with the initial ones. The result changes W by the same: A is [A; A0], and B is
// [B, -B0]. Magnitudes, and modules that are trained whole, stay as they
// are.
PlainAdapter over_original_model(const DecoderConfig& config, const ParameterSource& checkpoint);

}  // namespace packtrain
