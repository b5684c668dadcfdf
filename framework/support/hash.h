// XXH3-128, as 32 hexadecimal digits: tells changed data, not malice.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "framework/support/error.h"

namespace packtrain {

// Fed piece by piece; the digest is that of all pieces in a row.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void update(std::span<const std::byte> bytes);
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The same digest as two numbers, where many are kept.
struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  friend auto operator<=>(const Digest&, const Digest&) = default;
};

Digest digest_bytes(std::span<const std::byte> bytes);
std::string hash_bytes(std::span<const std::byte> bytes);
// Reads the file once. Throws Error(`category`) naming it.
std::string hash_file(const std::string& path, ErrorCategory category);

}  // namespace packtrain
