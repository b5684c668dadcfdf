// Small decoders of every structure that DecoderConfig can describe.
#pragma once

#include <string>
#include <vector>

#include "models/layers/decoder_config.h"

namespace packtrain {

struct Variant {
  std::string name;
  DecoderConfig config;
};

// Each has something that the others lack.
std::vector<Variant> decoder_variants();
// The same, and each with 8-bit products: of all kinds, without the weight gradient, and with
// scales of blocks.
std::vector<Variant> variants_and_fp8();
// Those of attention alone, and of other mixers, which decoder_variants() has too.
std::vector<Variant> attention_variants();
std::vector<Variant> mixer_variants();

}  // namespace packtrain
