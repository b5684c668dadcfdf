#include "framework/core/blake2b.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace packtrain {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie");

constexpr std::size_t kDigestBytes = 16;

constexpr std::array<std::uint64_t, 8> kStart = {
    0x6a09e667f3bcc908ULL, 0xbb67ae8584caa73bULL, 0x3c6ef372fe94f82bULL, 0xa54ff53a5f1d36f1ULL,
    0x510e527fade682d1ULL, 0x9b05688c2b3e6c1fULL, 0x1f83d9abfb41bd6bULL, 0x5be0cd19137e2179ULL};

// Order of message words in each round (RFC 7693, 2.7). Rounds 10 and 11 repeat 0 and 1.
constexpr std::array<std::array<std::uint8_t, 16>, 10> kWords = {{
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
}};

using Work = std::array<std::uint64_t, 16>;

void mix(Work& v, std::size_t a, std::size_t b, std::size_t c, std::size_t d, std::uint64_t x,
         std::uint64_t y) {
  v[a] += v[b] + x;
  v[d] = std::rotr(v[d] ^ v[a], 32);
  v[c] += v[d];
  v[b] = std::rotr(v[b] ^ v[c], 24);
  v[a] += v[b] + y;
  v[d] = std::rotr(v[d] ^ v[a], 16);
  v[c] += v[d];
  v[b] = std::rotr(v[b] ^ v[c], 63);
}

}  // namespace

Blake2b::Blake2b() : state_(kStart) {
  state_[0] ^= 0x01010000U ^ kDigestBytes;
}

void Blake2b::compress(const std::byte* block, bool is_last) {
  std::array<std::uint64_t, 16> words{};
  std::memcpy(words.data(), block, kBlockBytes);
  Work v{};
  std::ranges::copy(state_, v.begin());
  std::ranges::copy(kStart, v.begin() + 8);
  v[12] ^= num_compressed_;  // the high half of the counter stays 0: inputs are below 2^64 bytes
  if (is_last) v[14] = ~v[14];
  for (std::size_t round = 0; round < 12; ++round) {
    const auto& w = kWords[round % kWords.size()];
    mix(v, 0, 4, 8, 12, words[w[0]], words[w[1]]);
    mix(v, 1, 5, 9, 13, words[w[2]], words[w[3]]);
    mix(v, 2, 6, 10, 14, words[w[4]], words[w[5]]);
    mix(v, 3, 7, 11, 15, words[w[6]], words[w[7]]);
    mix(v, 0, 5, 10, 15, words[w[8]], words[w[9]]);
    mix(v, 1, 6, 11, 12, words[w[10]], words[w[11]]);
    mix(v, 2, 7, 8, 13, words[w[12]], words[w[13]]);
    mix(v, 3, 4, 9, 14, words[w[14]], words[w[15]]);
  }
  for (std::size_t i = 0; i < state_.size(); ++i) state_[i] ^= v[i] ^ v[i + 8];
}

void Blake2b::update(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (num_waiting_ == kBlockBytes) {
      num_compressed_ += kBlockBytes;
      compress(block_.data(), false);
      num_waiting_ = 0;
    }
    const std::size_t count = std::min(bytes.size(), kBlockBytes - num_waiting_);
    std::memcpy(block_.data() + num_waiting_, bytes.data(), count);
    num_waiting_ += count;
    bytes = bytes.subspan(count);
  }
}

std::string Blake2b::hex() const {
  Blake2b last = *this;
  last.num_compressed_ += num_waiting_;
  std::fill(last.block_.begin() + static_cast<std::ptrdiff_t>(num_waiting_), last.block_.end(),
            std::byte{0});
  last.compress(last.block_.data(), true);
  std::string digits;
  for (std::size_t i = 0; i < kDigestBytes; ++i) {
    digits += fmt::format("{:02x}", (last.state_[i / 8] >> (8 * (i % 8))) & 0xffU);
  }
  return digits;
}

}  // namespace packtrain
