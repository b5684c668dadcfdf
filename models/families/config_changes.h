// Changes that a user asks for to a model's config.json; of a model of more than text, to its
// 'text_config'.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace packtrain {

// Whether a key of config.json is a probability of dropout.
bool is_dropout_key(const std::string& key);

// The text of a config.json whose dropouts, one level down too (`attn_config`), are all 0.
std::string without_dropouts(const std::string& config_json);
// The text with another vocab_size.
std::string with_vocabulary(const std::string& config_json, std::int64_t vocab_size);

// The text without these keys ("object.key" for one inside), for a user who says that they change
// nothing. A key that it does not have is warned of: checkpoints and exports have lost those that
// were left out when they were made. Throws Error(kConfig) where it has one of a similar name.
std::string without_keys(const std::string& config_json, const std::vector<std::string>& keys);

}  // namespace packtrain
