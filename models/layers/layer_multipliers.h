// Constant factors inside a layer.
#pragma once

#include <array>

namespace packtrain {

// Constant factors of parts of a layer (Falcon-H1). A factor of the input of a projection
// multiplies its output, so that a family refuses one next to a bias.
struct LayerMultipliers {
  double attention_input = 1;
  double key = 1;
  double attention_output = 1;
  double mamba2_input = 1;
  std::array<double, 5> mamba2_parts = {1, 1, 1, 1, 1};  // of its projection: gate, x, B, C, steps
  double mamba2_output = 1;
  double mlp_gate = 1;  // of the gate's projection, before the activation
  double mlp_output = 1;

  // The factors of the scores, and of attention's output in the residual stream.
  double scores() const { return attention_input * attention_input * key; }
  double attention() const { return attention_input * attention_output; }

  bool operator==(const LayerMultipliers&) const = default;
};

}  // namespace packtrain
