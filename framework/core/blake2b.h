// BLAKE2b (RFC 7693) without a key, for digests of stores. Python computes the same with hashlib.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace packtrain {

// Takes the input in pieces. The digest of 16 bytes is that of their concatenation.
class Blake2b {
 public:
  Blake2b();
  void update(std::span<const std::byte> bytes);
  std::string hex() const;  // 32 digits

 private:
  static constexpr std::size_t kBlockBytes = 128;

  void compress(const std::byte* block, bool is_last);

  std::array<std::uint64_t, 8> state_;
  std::array<std::byte, kBlockBytes>
      block_{};  // input that is not compressed yet: the last block needs a flag
  std::size_t num_waiting_ = 0;
  std::uint64_t num_compressed_ = 0;  // bytes
};

}  // namespace packtrain
