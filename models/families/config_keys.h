// Classifies the keys of config.json that no family reads: which ones cannot change the
// computation.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "models/layers/decoder_config.h"

namespace packtrain {

// True for bookkeeping keys: those of every transformers 4 or 5 configuration, keys of generation,
// token ids, and keys that other tools add.
bool is_bookkeeping(const std::string& key);

// True when a value switches something off: null, false, 0, or an empty text, list or object.
bool is_off(const nlohmann::json& value);

// True when the name of a key has a word of models in it (norm, attention, scale, ...). An unread
// key of a supported type without such a word is only a note.
bool may_change_model(const std::string& key);

// Values that this model computes with, under the names that other families and tools use. A key
// that repeats one of them has no effect.
std::map<std::string, nlohmann::json> other_names(const DecoderConfig& config);

}  // namespace packtrain
