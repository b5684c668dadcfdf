// Whether a store holds what the run's objective reads, and a model serves its groups.
#pragma once

#include <string_view>

#include "framework/config/objective_section.h"
#include "framework/data/token_store.h"
#include "models/layers/decoder_config.h"

namespace packtrain {

// Pairs for dpo, ipo, orpo, simpo and cpo; judged answers for kto; rollouts for policy; plain
// examples and turns for next_token. Pairs have margins where the loss reads them, and rollouts
// have advantages. Throws Error(kData) for another store, with its folder and kind. `key`: the
// configuration key that names the store.
void check_store_kind(const TokenStore& store, const ObjectiveSection& objective,
                      std::string_view key);

// Throws Error(kConfig) if rows are shared (`shares`) and the decoder's rotary positions depend on
// the length of each example. Examples of several lengths would each need their own rotation of the
// shared rows. `model` names the decoder in the text.
void require_shareable_rows(const DecoderConfig& decoder, bool shares, const char* model);

}  // namespace packtrain
