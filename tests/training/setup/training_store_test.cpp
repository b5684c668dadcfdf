#include "training/setup/training_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "framework/data/store_writer.h"
#include "tests/helpers/temporary_folder.h"
#include "tests/parallel/communicators/thread_ranks.h"

namespace packtrain {
namespace {

// A rank's view of a store, which says when it is read.
class ReadStore final : public TokenStore {
 public:
  explicit ReadStore(std::function<std::string()> read) : read_(std::move(read)) {}

  const StoreInfo& info() const override { return info_; }
  const std::string& folder() const override { return folder_; }
  ExampleCounts lengths() const override { return none_; }
  ExampleCounts num_loss_tokens() const override { return none_; }
  std::span<const std::int32_t> input_ids(std::int64_t) const override { return {}; }
  std::span<const std::uint8_t> loss_mask(std::int64_t) const override { return {}; }
  std::int16_t source(std::int64_t) const override { return 0; }
  std::string fingerprint() const override { return kept_.empty() ? read_() : kept_; }
  void keep_fingerprint(const std::string& found) const override { kept_ = found; }

 private:
  std::function<std::string()> read_;
  StoreInfo info_;
  std::string folder_ = "store";
  std::vector<std::int32_t> none_;
  mutable std::string kept_;
};

// Six ranks, three of each of two hosts.
constexpr int kRanksPerHost = 3;
constexpr int kNumRanks = 2 * kRanksPerHost;

std::string share(const TokenStore& store, Communicator& control) {
  const std::string host = control.rank() < kRanksPerHost ? "one" : "two";
  return share_fingerprint(store, control.rank() % kRanksPerHost, host, control);
}

TEST(SharedFingerprint, IsReadOnceAHost) {
  std::atomic<int> num_reads = 0;
  test::run_ranks(kNumRanks, [&](Communicator& control) {
    const ReadStore store([&] {
      ++num_reads;
      return std::string("as read");
    });
    EXPECT_EQ(share(store, control), "as read");
    EXPECT_EQ(store.fingerprint(), "as read");  // for a checkpoint, later
  });
  EXPECT_EQ(num_reads, 2);
}

// The message of each rank's Error, or nothing.
std::vector<std::string> messages_of(const std::function<std::string(int rank)>& read) {
  std::vector<std::string> messages(kNumRanks);
  test::run_ranks(kNumRanks, [&](Communicator& control) {
    const ReadStore store([&] { return read(control.rank()); });
    try {
      share(store, control);
    } catch (const Error& error) {
      messages[static_cast<std::size_t>(control.rank())] = error.message();
    }
  });
  return messages;
}

TEST(SharedFingerprint, AnotherStoreOnAnotherHostIsRefusedByAllRanks) {
  const auto messages = messages_of([](int rank) { return rank < kRanksPerHost ? "a" : "b"; });
  EXPECT_EQ(messages, std::vector<std::string>(kNumRanks,
                                               "store on host two has fingerprint b, on host one "
                                               "a: these are different examples"));
}

TEST(SharedFingerprint, AFileThatOneHostCannotReadEndsAllRanks) {
  const auto messages = messages_of([](int rank) -> std::string {
    if (rank >= kRanksPerHost) throw Error(ErrorCategory::kData, "a damaged file");
    return "a";
  });
  EXPECT_EQ(messages, std::vector<std::string>(kNumRanks, "a damaged file"));
}

// `count` pairs of a prompt of two tokens, a chosen answer of one and a rejected one of `rejected`.
void write_pairs(const std::string& folder, int count, std::size_t rejected) {
  StoreInfo info;
  info.vocab_size = 10;
  info.sources = {"web"};
  info.groups = GroupInfo{GroupKind::kPairs, 0, false};
  const auto writer = StoreWriter::create(folder, info, true);
  const std::vector<std::int32_t> chosen = {1, 2, 3};
  const std::vector<std::uint8_t> chosen_mask = {0, 0, 1};
  std::vector<std::int32_t> other(2 + rejected, 4);
  std::vector<std::uint8_t> other_mask(2 + rejected, 1);
  other_mask[0] = other_mask[1] = 0;
  for (int g = 0; g < count; ++g) {
    const std::vector<GroupMember> members = {{{chosen, chosen_mask, 0}, GroupRole::kChosen},
                                              {{other, other_mask, 0}, GroupRole::kRejected}};
    writer->add_group(members, std::nullopt);
  }
  writer->finish();
}

// A conversation of two turns.
void write_turns(const std::string& folder) {
  StoreInfo info;
  info.vocab_size = 10;
  info.sources = {"chats"};
  info.groups = GroupInfo{GroupKind::kTurns, 0, false};
  const auto writer = StoreWriter::create(folder, info, true);
  const std::vector<std::int32_t> first = {1, 2, 3};
  const std::vector<std::int32_t> second = {1, 2, 4, 5};
  const std::vector<std::uint8_t> mask = {0, 0, 0, 1};
  const std::vector<GroupMember> members = {
      {{first, std::span(mask).subspan(1), 0}, GroupRole::kTurn},
      {{second, mask, 0}, GroupRole::kTurn}};
  writer->add_group(members, std::nullopt);
  writer->finish();
}

void write_plain(const std::string& folder, int count) {
  StoreInfo info;
  info.vocab_size = 10;
  info.sources = {"web"};
  const auto writer = StoreWriter::create(folder, info, true);
  const std::vector<std::int32_t> ids = {1, 2, 3};
  const std::vector<std::uint8_t> mask = {0, 1, 1};
  for (int e = 0; e < count; ++e) writer->add({ids, mask, 0});
  writer->finish();
}

Config config_of(std::vector<TrainStore> stores) {
  Config config;
  config.objective.kind = ObjectiveKind::kDpo;
  config.data.train = std::move(stores);
  config.data.max_length = 100;
  return config;
}

TEST(TurnMixture, APlainStoreHasAGroupOfEachExample) {
  const test::TemporaryFolder folder;
  write_turns(folder / "turns");
  write_plain(folder / "plain", 6);
  Config config =
      config_of({{.path = folder / "turns"}, {.path = folder / "plain", .repeats = 0.5}});
  config.objective.kind = ObjectiveKind::kNextToken;
  const auto store = open_training_store(config);
  EXPECT_EQ(store->info().groups->kind, GroupKind::kTurns);
  EXPECT_EQ(store->info().groups->num_groups, 1 + 3);
  EXPECT_EQ(store->info().num_examples, 2 + 3);
}

TEST(TurnMixture, StoresOfSeveralAdaptersAreOfOneKind) {
  const test::TemporaryFolder folder;
  write_turns(folder / "turns");
  write_plain(folder / "plain", 6);
  Config config = config_of({});
  config.objective.kind = ObjectiveKind::kNextToken;
  config.adapter.kind = AdapterKind::kLora;
  for (const char* name : {"plain", "turns"}) {
    config.adapters.push_back({name, {{"data.train", folder / name}}});
  }
  const TrainingStores stores = open_training_stores(config);
  EXPECT_EQ(stores.all->info().groups->num_groups, 6 + 1);
  EXPECT_EQ(stores.of(0).info().groups->kind, GroupKind::kTurns);
}

// Pairs of 6 and of 18 tokens: three of the first weigh as much as one of the second.
TEST(GroupMixture, SharesOfTokensAreOfWholeGroups) {
  const test::TemporaryFolder folder;
  write_pairs(folder / "short", 30, 1);
  write_pairs(folder / "long", 100, 13);
  const Config config = config_of(
      {{.path = folder / "short", .share = 0.5}, {.path = folder / "long", .share = 0.5}});
  const auto store = open_training_store(config);
  EXPECT_EQ(store->info().groups->num_groups, 30 + 10);
  EXPECT_EQ(store->info().num_examples, 2 * (30 + 10));
  EXPECT_EQ(store->groups()->group(39).first_example, 78);
}

TEST(GroupMixture, ProbabilitiesAreOfGroups) {
  const test::TemporaryFolder folder;
  write_pairs(folder / "short", 30, 1);
  write_pairs(folder / "long", 100, 13);
  const auto store =
      open_training_store(config_of({{.path = folder / "short", .probability = 0.25},
                                     {.path = folder / "long", .probability = 0.75}}));
  EXPECT_EQ(store->info().groups->num_groups, 30 + 90);
}

TEST(GroupMixture, AStoreWhoseGroupsAreAllTooLongHasNothingForItsShare) {
  const test::TemporaryFolder folder;
  write_pairs(folder / "short", 30, 1);
  write_pairs(folder / "long", 100, 13);
  Config config = config_of(
      {{.path = folder / "short", .share = 0.5}, {.path = folder / "long", .share = 0.5}});
  config.data.max_length = 14;
  const Error error = test::error_of([&] { open_training_store(config); });
  EXPECT_NE(error.message().find("all groups of " + (folder / "long") + " have an example longer"),
            std::string::npos)
      << error.message();
}

TEST(GroupMixture, AStoreThatTheObjectiveDoesNotReadIsRefused) {
  const test::TemporaryFolder folder;
  write_pairs(folder / "pairs", 3, 1);
  Config config = config_of({{.path = folder / "pairs"}});
  config.objective.kind = ObjectiveKind::kKto;
  const Error error = test::error_of([&] { open_training_store(config); });
  EXPECT_NE(error.message().find("holds groups of the kind 'pairs', but objective.kind: kto"),
            std::string::npos)
      << error.message();
}

}  // namespace
}  // namespace packtrain
