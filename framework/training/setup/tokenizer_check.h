// Whether stores and model speak of the same tokens.
#pragma once

#include <string>
#include <vector>

#include "framework/config/config.h"

namespace packtrain {

// Throws Error(kData) where the ids of a store of data.train or data.validation mean other tokens
// than those of model.path's tokenizer, as far as both have a tokenizer.json: a vocabulary of the
// right size says nothing of that. A few ids may differ, such as reserved tokens that were named.
void check_tokenizers(const Config& config);

// The same of one store and the tokens by id of a tokenizer that lies in `folder`.
void check_store_tokenizer(const std::string& store, const std::string& folder,
                           const std::vector<std::string>& tokens, const std::string& advice);

}  // namespace packtrain
