// Which settings a resumed run may change.
#include "framework/training/saving/resumed_settings.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "framework/config/config.h"
#include "framework/config/load.h"
#include "framework/training/plan/plan_header.h"
#include "framework/training/plan/plan_source.h"

namespace packtrain {
namespace {

// Decide numbers, and are compared by what they stand for: the model, the run's length, how many
// examples of each store an epoch has.
const std::set<std::string> kComparedOtherwise = {"model.path",        "model.config",
                                                  "model.ignore_keys", "run.num_epochs",
                                                  "run.max_steps",     "data.mixture_until"};

// Whole sections, and keys of others, that decide no number of a step.
const std::set<std::string> kFreeSections = {"parallel", "checkpoint", "guard", "metrics",
                                             "memory",   "samples",    "debug", "fault"};
const std::set<std::string> kFree = {"model.prefix",  // of names in files
                                     "data.validation",
                                     "batch.micro_batch_size",
                                     "batch.cost",
                                     "precision.deterministic",
                                     "run.output",
                                     "run.evaluate_steps",
                                     "run.early_stopping_patience",
                                     "run.early_stopping_min_delta",
                                     "run.cuda_graphs",
                                     "run.trace_steps",
                                     "run.trace_first"};

std::set<std::string> refused_keys() {
  std::set<std::string> keys(decisive_keys().begin(), decisive_keys().end());
  Config config;
  config.batch.strategy = Strategy::kMultipack;  // whose plan depends on most
  for (const auto& [key, value] :
       plan_settings(config, plan_options(config, DecoderConfig{}, 2, 1024), "f00d")) {
    keys.insert(key);
  }
  return keys;
}

// A new key belongs to one of these: one that decides numbers and is in none would let a changed
// run go on in silence.
TEST(ResumedSettings, EveryKeyIsRefusedComparedOrFree) {
  const std::set<std::string> refused = refused_keys();
  for (const std::string& key : config_keys()) {
    const std::string section = key.substr(0, key.find('.'));
    const bool is_free = kFree.contains(key) || kFreeSections.contains(section);
    const int places = static_cast<int>(refused.contains(key)) +
                       static_cast<int>(kComparedOtherwise.contains(key)) +
                       static_cast<int>(is_free);
    EXPECT_EQ(places, 1) << key << ": kDecisiveKeys, plan_settings() or this test's kFree";
  }
}

}  // namespace
}  // namespace packtrain
