// Which linear layers multiply 8-bit floats, and in which of their products (ops/fp8).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace packtrain {

// The products of one linear layer that read 8-bit floats. The others read the layer's own dtype.
enum class Fp8Products : std::uint8_t {
  kNone,
  kForwardAndInput,  // the output, and the gradient of the input
  kAll,              // the gradient of the weight too
};

struct LinearPrecision {
  Fp8Products products = Fp8Products::kNone;
  std::vector<std::string> keep = {};  // weights that stay out; `*` matches any characters

  // Of a weight [out, in] with this name: layers.0.mlp.down.weight.
  Fp8Products of(const std::string& weight, std::int64_t out, std::int64_t in) const;
  // True if a pattern of `keep` names the weight.
  bool keeps(const std::string& weight) const;

  bool operator==(const LinearPrecision&) const = default;
};

}  // namespace packtrain
