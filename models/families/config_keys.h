// Keys of config.json that no family reads: which of them cannot change what is computed.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "models/decoder_config.h"

namespace packtrain {

// Whether a key is bookkeeping: what every configuration of transformers carries, of version 4 or
// 5, keys of generation, ids of tokens, and what other tools write beside them.
bool is_bookkeeping(const std::string& key);

// Whether a value says that something is not there: null, false, 0, an empty text, list or object.
bool is_off(const nlohmann::json& value);

// Whether the name of a key has a word of models in it (norm, attention, scale, ...). A key of a
// supported type that nobody reads and that has none is somebody's remark.
bool may_change_model(const std::string& key);

// What this model computes, under the names that other families and tools have for it: a key that
// says the same once more changes nothing.
std::map<std::string, nlohmann::json> other_names(const DecoderConfig& config);

}  // namespace packtrain
