#include "framework/core/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <new>

#include "framework/core/mapped_file.h"

namespace packtrain {
namespace {

std::string digits(XXH128_hash_t hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

struct Hasher::State {
  State() : xxh(XXH3_createState()) {
    if (xxh == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(xxh);
  }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  XXH3_state_t* xxh;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {}
Hasher::~Hasher() = default;

void Hasher::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

std::string Hasher::hex() const {
  return digits(XXH3_128bits_digest(state_->xxh));
}

Digest digest_bytes(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

std::string hash_bytes(std::span<const std::byte> bytes) {
  return digits(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string hash_file(const std::string& path, ErrorCategory category) {
  return hash_bytes(MappedFile::open(path, category)->bytes());
}

}  // namespace packtrain
