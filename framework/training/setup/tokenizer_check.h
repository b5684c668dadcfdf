// Whether stores and model speak of the same tokens.
#pragma once

#include <string>

#include "framework/config/config.h"

namespace packtrain {

// Throws Error(kData) where the ids of a store of data.train or data.validation mean other tokens
// than those of model.path's tokenizer, as far as both have a tokenizer.json: a vocabulary of the
// right size says nothing of that. A few ids may differ, such as reserved tokens that were named.
void check_tokenizers(const Config& config);

}  // namespace packtrain
