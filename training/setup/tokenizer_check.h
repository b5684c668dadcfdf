// Checks that the token ids of stores and model have the same meaning.
#pragma once

#include <string>
#include <vector>

#include "framework/config/config.h"

namespace packtrain {

// Throws Error(kData) when ids of a store of data.train or data.validation mean other tokens than
// in model.path's tokenizer. Compares only when both have a tokenizer.json. An equal vocabulary
// size alone does not show that tokenizers are equal. A few ids may differ, such as reserved tokens
// that got a name: they are a warning.
void check_tokenizers(const Config& config);

// The same for one store. `tokens`: tokens by id of the tokenizer in `folder`.
void check_store_tokenizer(const std::string& store, const std::string& folder,
                           const std::vector<std::string>& tokens, const std::string& advice);

}  // namespace packtrain
