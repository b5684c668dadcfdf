// How far a gradient is from what it should be.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "framework/verification/measure.h"

namespace packtrain {

// Whole gradients by parameter, with what errors are measured against.
class ReferenceGradients {
 public:
  // `whole`: of a lone model, which owns all of each parameter.
  explicit ReferenceGradients(const std::vector<OwnedGradient>& whole);

  // |got - reference| / |reference|, 2-norms: of the elements owned, and of the whole parameter's
  // gradient. A parameter that hardly has a gradient, less than 1e-6 of the model's norm, is
  // measured against that instead. NaN when any element is not finite.
  double error_of(const OwnedGradient& got) const;

 private:
  struct Reference {
    at::Tensor values;  // float32 [n]
    double norm = 0;
  };
  std::map<std::string, Reference> references_;
  double model_norm_ = 0;
};

}  // namespace packtrain
