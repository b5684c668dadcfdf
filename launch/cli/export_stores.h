// What the stores that a run trained on say about the model that is exported.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/checkpoint/training_state.h"

namespace packtrain {

struct RunStores {
  std::vector<std::string> folders;      // those that are where the run had them
  std::vector<std::string> gone;         // those that are not
  std::vector<std::int64_t> end_tokens;  // special tokens that learned passages end in, ascending
  std::vector<std::string> end_texts;    // the same, as the tokenizer writes them
  std::string chat_template;             // of the first store that has one, or ""
};

// Reads the stores of data.train of the run that saved `state`. Of each store up to 10,000 examples
// are looked at, spread evenly; a special token counts that ends one in twenty of their learned
// passages. Throws Error(kData) for a store that is damaged.
RunStores read_run_stores(const TrainingState& state);

// Throws Error(kData) where `tokenizer_folder` has another tokenizer than one of the stores.
void check_exported_tokenizer(const RunStores& stores, const std::string& tokenizer_folder);

}  // namespace packtrain
