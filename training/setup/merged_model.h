// The whole model that an adapter makes of the weights that it was trained over.
#pragma once

#include <cstdint>
#include <string>

#include "training/checkpoint/hugging_face.h"
#include "training/setup/model_source.h"

namespace packtrain {

// Parameters of the source's model with its adapter added: W + scale B A, in float32, whose
// rows have the adapter's magnitudes with DoRA. W is what
// `config`, the run's, stores: the decoded weight with model.base: nf4. Reads one parameter at a
// time. `seed`: of the run, for random weights.
ParameterSource merged_parameters(const ModelSource& source, std::uint64_t seed,
                                  const Config& config);

// Throws Error(kCheckpoint) when the source's model is not the one of this digest, which was
// computed with weights as `config` stores them (base_digest.h). Reads the whole model once.
void check_base(const ModelSource& source, std::uint64_t seed, const std::string& digest,
                const Config& config);

}  // namespace packtrain
