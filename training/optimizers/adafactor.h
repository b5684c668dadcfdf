// Adafactor (Shazeer and Stern, "Adafactor: adaptive learning rates with sublinear memory cost",
// arXiv 1804.04235), as torch.optim.Adafactor has it. For a matrix G [R, C] of gradients:
//    g = clip_factor * G;  b = t^beta2_decay
//    r = r + b (mean of g^2 over columns - r);  c = c + b (mean of g^2 over rows - c)
//    u = g / sqrt(max(r c^T / max(mean of r, eps), eps^2))
//    w = w (1 - lr wd) - min(lr, 1 / sqrt(t)) max(min_rms, rms(w)) u / max(1, rms(u) / d)
// rms(w) is of the weights before the update. Other parameters keep one second moment v an element:
//    v = v + b (g^2 - v);  u = g / sqrt(max(v, eps^2))
// eps, min_rms, d and beta2_decay are those of kAdafactorSettings.
// Sums over rows, columns and matrices are over all ranks (training/steps/factored_moments.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/block/parameter_matrices.h"
#include "training/optimizers/optimizer.h"

namespace packtrain {

// Names of the state's tensors, float32. A parameter has one of them.
// r and c of each of its matrices one after another. Value k belongs to block k of the parameter's
// elements, so that ranks keep, save and read it as other state of blocks. The rest is zeros.
inline constexpr const char* kAdafactorFactors = "adafactor_factors";
// v, or r and c of small matrices in place of the first elements. The rest is zeros.
inline constexpr const char* kAdafactorElements = "adafactor_exp_avg_sq";

// Values of r and c of all matrices; 0: the parameter has none.
std::int64_t num_factors(const std::vector<ParameterMatrix>& matrices);
// True if the parameter has enough blocks for its factors.
bool has_blocks_for_factors(const ParameterSpec& parameter);

// b of step t, and min(1, 1 / (lr sqrt(t))), which is 0 for a rate of 0.
double adafactor_mix(double beta2_decay, std::int64_t step);
double adafactor_rate(double learning_rate, std::int64_t step);

// As torch.optim.Adafactor has them. Only the learning rate and the weight decay are keys.
inline constexpr FactoredSettings kAdafactorSettings{
    .beta2_decay = -0.8, .epsilon = 1.1920929e-07, .min_rms = 1e-3, .clip_threshold = 1.0};

std::unique_ptr<Optimizer> make_adafactor(const OptimizerSection& options, std::uint64_t seed);

}  // namespace packtrain
