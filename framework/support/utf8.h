// Whether bytes are UTF-8.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace packtrain {

// The place of the first byte that begins no UTF-8 character (RFC 3629: no overlong forms, no
// surrogates, nothing above U+10FFFF), or nothing.
std::optional<std::size_t> first_invalid_utf8(std::string_view text);

}  // namespace packtrain
