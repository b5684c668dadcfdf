// Alternating updates (AltUp, Baykal et al., arXiv 2301.13310) and learned augmented residuals
// (LAuReL, Menghani et al., arXiv 2411.07501) as Gemma 3n combines them. The rows between layers
// have several copies of the hidden state.
#pragma once

#include <cstdint>

namespace packtrain {

struct AltUpConfig {
  std::int64_t num_copies = 0;   // 0: layers have one hidden state and no LAuReL
  std::int64_t active = 0;       // the copy that a layer's branches compute on
  double coefficient_clip = 0;   // weights of coefficients are clipped to +-clip; 0: they are not
  std::int64_t laurel_rank = 0;  // of the branch next to attention

  bool exists() const { return num_copies > 0; }
  bool operator==(const AltUpConfig&) const = default;
};

}  // namespace packtrain
