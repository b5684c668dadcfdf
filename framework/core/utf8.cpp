#include "framework/core/utf8.h"

#include <array>
#include <cstdint>

namespace packtrain {
namespace {

// Well-formed sequences by first byte (Unicode 15.0, table 3-7): the number of following bytes and
// the range of the first of these. All others are in 80..BF.
struct Sequences {
  std::uint8_t first;
  std::uint8_t last;
  std::size_t num_following;
  std::uint8_t low;
  std::uint8_t high;
};
constexpr std::array<Sequences, 9> kSequences{{{0x00, 0x7F, 0, 0, 0},
                                               {0xC2, 0xDF, 1, 0x80, 0xBF},
                                               {0xE0, 0xE0, 2, 0xA0, 0xBF},
                                               {0xE1, 0xEC, 2, 0x80, 0xBF},
                                               {0xED, 0xED, 2, 0x80, 0x9F},
                                               {0xEE, 0xEF, 2, 0x80, 0xBF},
                                               {0xF0, 0xF0, 3, 0x90, 0xBF},
                                               {0xF1, 0xF3, 3, 0x80, 0xBF},
                                               {0xF4, 0xF4, 3, 0x80, 0x8F}}};

// Size in bytes of the character at the beginning of `text`. 0: not a character.
std::size_t character_size(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  for (const Sequences& row : kSequences) {
    if (byte(0) < row.first || byte(0) > row.last) continue;
    if (text.size() <= row.num_following) return 0;
    for (std::size_t i = 1; i <= row.num_following; ++i) {
      const std::uint8_t low = i == 1 ? row.low : 0x80;
      const std::uint8_t high = i == 1 ? row.high : 0xBF;
      if (byte(i) < low || byte(i) > high) return 0;
    }
    return 1 + row.num_following;
  }
  return 0;
}

}  // namespace

std::optional<std::size_t> first_invalid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = character_size(text.substr(at));
    if (size == 0) return at;
    at += size;
  }
  return std::nullopt;
}

}  // namespace packtrain
