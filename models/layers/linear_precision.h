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

// Which numbers share a scale.
enum class Fp8Recipe : std::uint8_t {
  kTensor,                    // those of a tensor (ops/fp8/fp8.h)
  kBlock,                     // each 128 (ops/fp8/fp8_block.h)
  kBlockAndTensorOfGradient,  // of a tensor in the product that gives the weight's gradient
};

// True if a cast for these products needs the largest value of its tensor.
constexpr bool needs_amax(Fp8Products products, Fp8Recipe recipe) {
  if (recipe == Fp8Recipe::kTensor) return products != Fp8Products::kNone;
  return recipe == Fp8Recipe::kBlockAndTensorOfGradient && products == Fp8Products::kAll;
}

struct LinearPrecision {
  Fp8Products products = Fp8Products::kNone;
  std::vector<std::string> keep = {};  // weights that stay out; `*` matches any characters
  Fp8Recipe recipe = Fp8Recipe::kTensor;

  // Of a weight [out, in] with this name: layers.0.mlp.down.weight. Those that make the decays of a
  // gated delta rule have none.
  Fp8Products of(const std::string& weight, std::int64_t out, std::int64_t in) const;
  // True if the products with these weights [E, out, in] of experts have 8-bit operands. The
  // gradients of the weights do not.
  bool takes_experts(const std::string& weight, std::int64_t out, std::int64_t in) const;
  // True if a pattern of `keep` names the weight.
  bool keeps(const std::string& weight) const;

  bool operator==(const LinearPrecision&) const = default;
};

}  // namespace packtrain
