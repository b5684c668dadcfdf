// Changes that a user asks for in a model's config.json. In a multimodal model they apply to its
// 'text_config'.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace packtrain {

// True when a key of config.json is a dropout probability.
bool is_dropout_key(const std::string& key);

// Returns the text with all dropouts set to 0, also those one level down (`attn_config`).
std::string without_dropouts(const std::string& config_json);
// Returns the text with another vocab_size.
std::string with_vocabulary(const std::string& config_json, std::int64_t vocab_size);

// Returns the text without these keys ("object.key" for a nested one), which the user declares to
// have no effect. Warns of a key that is not there, because checkpoints and exports no longer have
// keys that were removed before. Throws Error(kConfig) if there is a key with a similar name.
std::string without_keys(const std::string& config_json, const std::vector<std::string>& keys);

}  // namespace packtrain
