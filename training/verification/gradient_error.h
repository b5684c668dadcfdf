// Relative error of a gradient.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "training/verification/measure.h"

namespace packtrain {

// Whole gradients by parameter, which errors are measured against.
class ReferenceGradients {
 public:
  // `whole`: of a single-rank model, which owns all of each parameter.
  explicit ReferenceGradients(const std::vector<OwnedGradient>& whole);

  // |got - reference| / |reference|, 2-norms: of the owned elements, and of the whole parameter's
  // gradient. If the parameter's gradient is below 1e-6 of the model's norm, that value is the
  // denominator. NaN when any element is not finite.
  double error_of(const OwnedGradient& got) const;
  // " (most of it in TENSOR)": the Hugging Face tensor in which a fused parameter's gradient
  // differs most. Empty when the parameter is one tensor.
  std::string most_of_it(const OwnedGradient& got) const;

 private:
  struct Reference {
    at::Tensor values;  // float32 [n]
    double norm = 0;
  };
  std::map<std::string, Reference> references_;
  double model_norm_ = 0;
};

}  // namespace packtrain
