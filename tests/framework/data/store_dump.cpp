// Prints a token store as one JSON object, so that tests in other languages see what C++ reads.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"
#include "framework/data/group_format.h"
#include "framework/data/store_groups.h"
#include "framework/data/token_store.h"

namespace {

nlohmann::json groups_of(const packtrain::TokenStore& store) {
  nlohmann::json groups = nlohmann::json::array();
  const auto& info = store.info().groups;
  for (std::int64_t number = 0; info && number < info->num_groups; ++number) {
    const packtrain::ExampleGroup group = store.groups()->group(number);
    nlohmann::json members = nlohmann::json::array();
    for (std::int64_t e = group.first_example; e < group.first_example + group.num_examples; ++e) {
      members.push_back({{"example", e},
                         {"group", store.groups()->group_of(e)},
                         {"role", packtrain::name_of(store.groups()->role(e))}});
    }
    groups.push_back({{"members", members},
                      {"margin", group.margin ? nlohmann::json(*group.margin) : nlohmann::json()},
                      {"num_shared", packtrain::num_shared_tokens(store, group)}});
  }
  return groups;
}

nlohmann::json columns_of(const packtrain::TokenStore& store, std::int64_t example) {
  nlohmann::json columns = nlohmann::json::object();
  const auto& names = store.info().token_columns;
  for (std::size_t c = 0; c < names.size(); ++c) {
    const auto values = store.token_column(example, c);
    columns[names[c]] = std::vector<float>(values.begin(), values.end());
  }
  return columns;
}

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
                        {"token_columns", columns_of(store, e)},
                        {"source", store.source(e)}});
  }
  return {{"tokenizer", info.tokenizer},         {"tokenizer_hash", info.tokenizer_hash},
          {"vocab_size", info.vocab_size},       {"sources", info.sources},
          {"num_tokens", info.num_tokens},       {"num_loss_tokens", info.num_loss_tokens},
          {"num_bad_lines", info.num_bad_lines}, {"loss_weights", info.loss_weights},
          {"fingerprint", store.fingerprint()},  {"examples", examples},
          {"groups", groups_of(store)}};
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
