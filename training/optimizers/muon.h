// Muon (Jordan et al., https://kellerjordan.github.io/posts/muon): momentum, of which each matrix
// is orthogonalised.
//    g = clip_factor * grad; m = u m + (1 - u) g; n = u m + (1 - u) g   (Nesterov)
//    w = w (1 - lr wd) - lr 0.2 sqrt(max(rows, columns)) newton_schulz(n);
// The factor gives updates the root mean square of AdamW's (arXiv 2502.16982). So AdamW's learning
// rate serves. torch.optim.Muon calls it "match_rms_adamw". newton_schulz() does not depend on the
// gradient's norm. So clipping changes how steps mix in m, and not the size of the update.
#pragma once

#include <cstdint>
#include <memory>

#include "training/optimizers/optimizer.h"

namespace packtrain {

inline constexpr const char* kMomentumBuffer = "momentum_buffer";  // name of the state's tensor

// The factor of a matrix's update.
double muon_scale(std::int64_t rows, std::int64_t columns);

std::unique_ptr<Optimizer> make_muon(const OptimizerSection& options, std::uint64_t seed);

}  // namespace packtrain
