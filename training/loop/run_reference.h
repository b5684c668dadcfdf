// Where the log-probabilities of an objective's reference come from, ready for use.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "framework/config/config.h"
#include "parallel/communicators/world.h"
#include "parallel/sharding/sharded_model.h"
#include "training/evaluation/reference_log_probs.h"
#include "training/setup/model_source.h"
#include "training/setup/run_device.h"
#include "training/steps/reference_pass.h"

namespace packtrain {

struct RunReference {
  std::optional<ReferenceSource> source;  // nothing: the loss has no reference
  std::string digest;                     // kLogProbs: of the model of the files
  std::unique_ptr<ShardedModel> model;    // kModel: frozen, to be destroyed before the trained one

  // What computes the reference next to the trained model `policy`.
  ReferenceModel forward(ShardedModel& policy) const;
};

// `config`: resolved. `policy`: with its weights. `saved_digest`: RunReference::digest of the
// checkpoint of `policy`. Empty: `policy` has the weights that training begins with, and
// `base_digest` is of those under an adapter. Collective. Throws Error(kConfig) when the second
// model has another vocabulary, or when the model under the adapter cannot be computed.
RunReference open_reference(const Config& config, const ModelSource& source,
                            const RunDevice& device, ShardedModel& policy,
                            const std::string& base_digest, const std::string& saved_digest,
                            World& world);

// Throws Error(kData) that names all stores of the run that lack a file, with the command for each,
// when several do.
void require_log_probs(const RunReference& reference, const Config& config);

// The files of a store. Null unless the reference comes from files, or for a store without groups.
// `store` must outlive the result.
std::unique_ptr<ReferenceLogProbs> open_log_probs(const RunReference& reference,
                                                  const Config& config, const TokenStore& store);

}  // namespace packtrain
