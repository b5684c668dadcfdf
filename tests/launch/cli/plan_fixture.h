// packtrain plan from outside, on a small synthetic store.
#pragma once

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/launch/cli/program_fixture.h"

namespace packtrain {

using Json = nlohmann::json;

inline constexpr std::string_view kConfig =
    "model:\n"
    "  config: {model_type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2,\n"
    "    num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 128,\n"
    "    max_position_embeddings: 512, rms_norm_eps: 1.0e-5, rope_theta: 10000.0,\n"
    "    tie_word_embeddings: true}\n"
    "data: {train: store, max_length: 256}\n"
    "batch: {global_batch_size: 16, max_tokens_per_micro_batch: 512}\n"
    "run: {output: run, num_epochs: 3}\n";

inline constexpr std::int64_t kNumExamples = 200;
inline constexpr std::int64_t kStepsPerEpoch = 13;  // 200 / 16, rounded up

class Plan : public ProgramTest {
 protected:
  void SetUp() override {
    write("config.yaml", kConfig);
    const Outcome made = packtrain(
        "prepare --synthetic lognormal:3.5,0.8,2,256 --examples 200 --vocab-size 128 --out store");
    ASSERT_EQ(made.exit_code, 0) << made.said;
    // "store: 200 examples, N tokens, M loss tokens"
    // NOLINTNEXTLINE(bugprone-unchecked-string-to-number-conversion): what it read is asserted
    ASSERT_EQ(std::sscanf(made.said.c_str(), "store: 200 examples, %ld tokens, %ld loss",
                          &num_tokens_, &num_loss_tokens_),
              2);
  }

  Json plan(const std::string& arguments) const {
    const Outcome outcome = packtrain("plan config.yaml --json " + arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.said;
    return Json::parse(outcome.said);
  }

  std::int64_t num_tokens_ = 0;
  std::int64_t num_loss_tokens_ = 0;
};

inline std::vector<std::int64_t> examples_of(const Json& step) {
  std::vector<std::int64_t> examples;
  for (const Json& rank : step.at("ranks")) {
    for (const Json& micro_batch : rank) {
      for (const Json& piece : micro_batch) examples.push_back(piece.at(0));
    }
  }
  std::ranges::sort(examples);
  return examples;
}

inline std::set<std::string> keys_of(const Json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

inline std::set<std::string> names_of_warnings(const Json& json) {
  std::set<std::string> names;
  for (const Json& warning : json.at("warnings")) names.insert(warning.at("name"));
  return names;
}

}  // namespace packtrain
