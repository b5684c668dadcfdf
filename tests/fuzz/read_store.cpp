#include <algorithm>
#include <memory>
#include <vector>

#include "framework/core/error.h"
#include "framework/data/store_groups.h"
#include "framework/data/store_writer.h"
#include "framework/data/token_store.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/targets.h"

namespace packtrain::fuzz {
namespace {

// A sound store of two examples.
std::unique_ptr<InputFolder> sound_store() {
  auto folder = std::make_unique<InputFolder>();
  StoreInfo info;
  info.vocab_size = 10;
  info.sources = {"a", "b"};
  const auto writer = StoreWriter::create(folder->path(), info, /*overwrite=*/true);
  writer->add(std::vector<std::int32_t>{1, 2, 3}, std::vector<std::uint8_t>{1, 0, 1}, 0);
  writer->add(std::vector<std::int32_t>{9, 8}, std::vector<std::uint8_t>{0, 1}, 1);
  writer->finish();
  return folder;
}

// A sound store of one pair, with a margin and a column of tokens.
std::unique_ptr<InputFolder> sound_pairs() {
  auto folder = std::make_unique<InputFolder>();
  StoreInfo info;
  info.vocab_size = 10;
  info.sources = {"a"};
  info.groups = GroupInfo{GroupKind::kPairs, 0, true};
  info.token_columns = {"advantage"};
  const auto writer = StoreWriter::create(folder->path(), info, /*overwrite=*/true);
  const std::vector<std::int32_t> chosen{1, 2, 3};
  const std::vector<std::int32_t> rejected{1, 2, 4};
  const std::vector<std::uint8_t> mask{0, 0, 1};
  const std::vector<float> advantage{0, 0, 1.5F};
  const std::vector<GroupMember> pair{{{chosen, mask, 0, {advantage}}, GroupRole::kChosen},
                                      {{rejected, mask, 0, {advantage}}, GroupRole::kRejected}};
  writer->add_group(pair, 0.5F);
  writer->finish();
  return folder;
}

// A sound store of three rollouts of two prompts.
std::unique_ptr<InputFolder> sound_rollouts() {
  auto folder = std::make_unique<InputFolder>();
  StoreInfo info;
  info.vocab_size = 10;
  info.sources = {"a"};
  info.groups = GroupInfo{GroupKind::kRollouts, 0, false};
  const auto writer = StoreWriter::create(folder->path(), info, /*overwrite=*/true);
  const std::vector<std::int32_t> ids{1, 2, 3};
  const std::vector<std::uint8_t> mask{0, 0, 1};
  const GroupMember rollout{{ids, mask}, GroupRole::kRollout};
  writer->add_group(std::vector{rollout, rollout}, {});
  writer->add_group(std::vector{rollout}, {});
  writer->finish();
  return folder;
}

void read_groups(const TokenStore& store) {
  if (store.groups() == nullptr) return;
  std::int64_t num_examples = 0;
  for (std::int64_t number = 0; number < store.info().groups->num_groups; ++number) {
    const ExampleGroup group = store.groups()->group(number);
    require(group.first_example == num_examples, "groups follow each other");
    for (std::int64_t e = 0; e < group.num_examples; ++e) {
      require(store.groups()->group_of(num_examples + e) == number, "examples know their group");
      store.groups()->role(num_examples + e);
    }
    num_examples += group.num_examples;
    require(num_shared_tokens(store, group) < store.lengths()[group.first_example],
            "an example has a token of its own");
  }
  require(num_examples == store.info().num_examples, "every example is in a group");
}

void open_store(const std::string& folder) {
  try {
    const auto store = TokenStore::open(folder);
    store->check_all(0, 1);
    std::int64_t num_tokens = 0;
    for (std::int64_t e = 0; e < store->info().num_examples; ++e) {
      const auto ids = store->input_ids(e);
      const auto mask = store->loss_mask(e);
      require(!ids.empty() && ids.size() == mask.size(), "every token has a mask");
      for (const std::int32_t id : ids) {
        require(id >= 0 && id < store->info().vocab_size, "ids are in the vocabulary");
      }
      const std::size_t num_weights = std::max<std::size_t>(store->token_weights(e).size(), 2);
      for (const std::uint8_t value : mask) require(value < num_weights, "masks have a weight");
      const auto source = static_cast<std::size_t>(store->source(e));
      require(source < store->info().sources.size(), "sources are known");
      num_tokens += std::ssize(ids);
    }
    require(num_tokens == store->info().num_tokens, "tokens are as many as said");
    read_groups(*store);
    store->fingerprint();
  } catch (const Error&) {
  }
}

}  // namespace

void read_store_manifest(std::string_view input) {
  static const auto folder = sound_store();
  folder->write("store.json", input);
  open_store(folder->path());
}

void read_store_shard(std::string_view input) {
  static const auto folder = sound_store();
  folder->write("part-00000.safetensors", input);
  open_store(folder->path());
}

void read_store_pairs(std::string_view input) {
  static const auto folder = sound_pairs();
  folder->write("part-00000.safetensors", input);
  open_store(folder->path());
}

void read_store_rollouts(std::string_view input) {
  static const auto folder = sound_rollouts();
  folder->write("part-00000.safetensors", input);
  open_store(folder->path());
}

}  // namespace packtrain::fuzz
