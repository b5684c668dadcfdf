// Prints a token store as one JSON object, so that tests in other languages see what C++ reads.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"
#include "framework/data/token_store.h"

namespace {

nlohmann::json as_json(const packtrain::TokenStore& store) {
  store.check_all(0, 1);  // digests and all
  const packtrain::StoreInfo& info = store.info();
  nlohmann::json examples = nlohmann::json::array();
  for (std::int64_t e = 0; e < info.num_examples; ++e) {
    const auto ids = store.input_ids(e);
    const auto mask = store.loss_mask(e);
    examples.push_back({{"input_ids", std::vector<std::int32_t>(ids.begin(), ids.end())},
                        {"loss_mask", std::vector<std::uint8_t>(mask.begin(), mask.end())},
                        {"num_loss_tokens", store.num_loss_tokens()[e]},
                        {"source", store.source(e)}});
  }
  return {{"tokenizer", info.tokenizer},         {"tokenizer_hash", info.tokenizer_hash},
          {"vocab_size", info.vocab_size},       {"sources", info.sources},
          {"num_tokens", info.num_tokens},       {"num_loss_tokens", info.num_loss_tokens},
          {"num_bad_lines", info.num_bad_lines}, {"loss_weights", info.loss_weights},
          {"fingerprint", store.fingerprint()},  {"examples", examples}};
}

}  // namespace

// NOLINTNEXTLINE(bugprone-exception-escape): what is not an Error shall end a test loudly
int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: store_dump STORE\n");
    return static_cast<int>(packtrain::ErrorCategory::kConfig);
  }
  try {
    fmt::print("{}\n", as_json(*packtrain::TokenStore::open(argv[1])).dump());
    return 0;
  } catch (const packtrain::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return error.exit_code();
  }
}
