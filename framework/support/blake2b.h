// BLAKE2b (RFC 7693) without a key: the digest of stores' contents, which hashlib makes in Python.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace packtrain {

// Fed piece by piece; the digest of 16 bytes is that of all pieces in a row.
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
      block_{};  // bytes that wait for more: the last block is marked
  std::size_t num_waiting_ = 0;
  std::uint64_t num_compressed_ = 0;  // bytes
};

}  // namespace packtrain
