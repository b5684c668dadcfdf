#include "tests/training/verification/fixture.h"

#include <algorithm>

#include "collators/flattening.h"
#include "framework/data/synthetic.h"

namespace packtrain::test {

VerificationTest::VerificationTest() {
  SyntheticOptions store;
  store.lengths = {.mu = 2.8, .sigma = 0.6, .min_length = 4, .max_length = 60};
  store.num_examples = 40;
  store.vocab_size = 96;
  store.seed = 3;
  const std::string folder = folder_ / "store";
  prepare_synthetic(store, folder, false);
  config_.data.train = {{.path = folder}};
  config_.data.max_length = 64;
  config_.model.config =
      R"({"model_type": "llama", "hidden_size": 32, "intermediate_size": 80,
          "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
          "vocab_size": 96, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
          "hidden_act": "silu", "tie_word_embeddings": true})";
  config_.batch.micro_batch_size = 4;
  config_.batch.max_tokens_per_micro_batch = 256;
  config_.precision.compute = Precision::kFloat32;
  config_.precision.reduce = Precision::kFloat32;
}

VerificationReport VerificationTest::verify_damaged(
    const std::function<void(PackedBatch&)>& damage) {
  VerificationOptions options;
  options.collate = [&](const TokenStore& store, const MicroBatch& pieces,
                        const LossNormalization& normalization, const CollatorOptions& collator) {
    PackedBatch batch = flatten(store, pieces, normalization, collator);
    if (pieces.size() > 1) damage(batch);
    return batch;
  };
  return verify(options);
}

const CheckResult& check_named(const VerificationReport& report, const std::string& name) {
  return *std::ranges::find(report.checks, name, &CheckResult::name);
}

bool says(const CheckResult& check, const std::vector<std::string>& words) {
  return std::ranges::any_of(check.failures, [&](const std::string& failure) {
    return std::ranges::all_of(
        words, [&](const std::string& word) { return failure.find(word) != std::string::npos; });
  });
}

std::string all_failures(const VerificationReport& report) {
  std::string text;
  for (const CheckResult& check : report.checks) {
    for (const std::string& failure : check.failures) text += check.name + ": " + failure + "\n";
  }
  return text;
}

}  // namespace packtrain::test
