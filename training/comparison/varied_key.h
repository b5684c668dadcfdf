// The key that a comparison varies, and its values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace packtrain {

struct VariedKey {
  std::string key = "batch.strategy";
  std::vector<std::string> values;  // as given, in order

  bool is_strategy() const { return key == VariedKey().key; }
  // section.key=value
  std::string override_with(const std::string& value) const { return key + "=" + value; }
  // Name of the folder of a value's runs: letters, digits and any of ._+-, and none twice.
  std::string folder_of(const std::string& value) const;
};

// "KEY=a,b,c". Commas inside of brackets, braces and quotes do not divide. Throws Error(kConfig)
// for an unknown key, a wrong value, a value given twice, fewer than two values, and a key that a
// comparison sets itself.
VariedKey parse_varied_key(std::string_view text);

}  // namespace packtrain
