// Validation of UTF-8.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace packtrain {

// The index of the first byte that does not begin a UTF-8 character, or nothing. By RFC 3629 there
// are no overlong forms, surrogates, or characters above U+10FFFF.
std::optional<std::size_t> first_invalid_utf8(std::string_view text);

}  // namespace packtrain
