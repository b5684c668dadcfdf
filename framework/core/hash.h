// XXH3-128 as 32 hexadecimal digits. It detects changes, but is not secure against manipulation.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "framework/core/error.h"

namespace packtrain {

// Takes the input in pieces. The digest is that of their concatenation.
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

// The digest as two integers, for code that stores many.
struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  friend auto operator<=>(const Digest&, const Digest&) = default;
};

Digest digest_bytes(std::span<const std::byte> bytes);
std::string hash_bytes(std::span<const std::byte> bytes);
// Reads the file once. Throws Error(`category`) with its name.
std::string hash_file(const std::string& path, ErrorCategory category);

}  // namespace packtrain
