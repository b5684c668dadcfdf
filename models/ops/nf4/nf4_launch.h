// The kernels of NF4. `stream` is a cudaStream_t. All throw Error(kDevice) when a launch fails.
#pragma once

#include <cstdint>

namespace packtrain {

// Element types of values.
enum class Nf4Values : std::uint8_t { kFloat32, kBFloat16 };

// Ranges of a parameter whose groups lie one after another.
struct Nf4DecodeArguments {
  static constexpr int kMaxRanges = 8;

  const std::uint8_t* groups = nullptr;
  void* values = nullptr;
  Nf4Values type = Nf4Values::kFloat32;
  int num_ranges = 0;
  std::int64_t first_group[kMaxRanges + 1] = {};  // of each range, and their total
  std::int64_t begin[kMaxRanges] = {};            // first element, a multiple of 64
  std::int64_t numel[kMaxRanges] = {};
};
void launch_nf4_decode(const Nf4DecodeArguments& arguments, void* stream);

struct Nf4AbsmaxArguments {
  const void* values = nullptr;
  Nf4Values type = Nf4Values::kFloat32;
  std::int64_t num_blocks = 0;  // at least 1
  float* absmax = nullptr;
};
void launch_nf4_absmax(const Nf4AbsmaxArguments& arguments, void* stream);

struct Nf4QuantizeArguments {
  const void* values = nullptr;
  Nf4Values type = Nf4Values::kFloat32;
  std::int64_t num_blocks = 0;  // at least 1
  float offset = 0;
  std::uint8_t* groups = nullptr;
};
void launch_nf4_quantize(const Nf4QuantizeArguments& arguments, void* stream);

}  // namespace packtrain
