// Several stores as one: every example of every repeat, once.
#include "framework/data/joined_store.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "framework/data/store_writer.h"
#include "framework/support/error.h"
#include "tests/support/temporary_folder.h"

namespace packtrain {
namespace {

using testing::error_of;
using testing::TemporaryFolder;

using Ids = std::vector<std::int32_t>;
using Mask = std::vector<std::uint8_t>;

struct StoreOptions {
  std::vector<std::string> sources = {"web"};
  std::int64_t vocab_size = 100;
  std::string tokenizer_hash = "";
};

class JoinedStoreTest : public ::testing::Test {
 protected:
  // Example e has the ids first + e, once for each of its `lengths[e]` tokens; its source is e
  // modulo their number.
  std::unique_ptr<TokenStore> store(const std::string& name, std::int32_t first, const Ids& lengths,
                                    const StoreOptions& options = {}) {
    StoreInfo info;
    info.vocab_size = options.vocab_size;
    info.sources = options.sources;
    info.tokenizer_hash = options.tokenizer_hash;
    const auto writer = StoreWriter::create(folder_ / name, info, true);
    for (std::size_t e = 0; e < lengths.size(); ++e) {
      const auto length = static_cast<std::size_t>(lengths[e]);
      writer->add(Ids(length, first + static_cast<std::int32_t>(e)), Mask(length, 1),
                  static_cast<std::int16_t>(e % options.sources.size()));
    }
    writer->finish();
    return TokenStore::open(folder_ / name);
  }

  template <typename... Parts>
  static std::unique_ptr<TokenStore> join(Parts... given) {
    std::vector<StorePart> parts;
    (parts.push_back(std::move(given)), ...);
    return join_stores(std::move(parts));
  }

  const TemporaryFolder folder_;
};

TEST_F(JoinedStoreTest, HoldsEveryRepeatOfEveryExample) {
  const auto joined = join(StorePart{store("a", 10, {3, 1}), 2}, StorePart{store("b", 20, {4})});
  EXPECT_EQ(joined->info().num_examples, 5);
  EXPECT_EQ(joined->info().num_tokens, 12);
  EXPECT_EQ(joined->info().num_loss_tokens, 7);
  const auto lengths = joined->lengths();
  EXPECT_EQ(Ids(lengths.begin(), lengths.end()), (Ids{3, 1, 3, 1, 4}));
  const auto counts = joined->num_loss_tokens();
  EXPECT_EQ(Ids(counts.begin(), counts.end()), (Ids{2, 0, 2, 0, 3}));
  const Ids first_ids{10, 11, 10, 11, 20};
  for (std::int64_t e = 0; e < 5; ++e) {
    EXPECT_EQ(std::ssize(joined->input_ids(e)), lengths[static_cast<std::size_t>(e)]);
    EXPECT_EQ(joined->input_ids(e).size(), joined->loss_mask(e).size());
    EXPECT_EQ(joined->input_ids(e)[0], first_ids[static_cast<std::size_t>(e)]);
  }
}

TEST_F(JoinedStoreTest, SaysWhereAnExampleComesFrom) {
  const auto joined = join(StorePart{store("a", 10, {3, 1}), 2}, StorePart{store("b", 20, {4})});
  const ExampleOrigin second_repeat = joined->origin(3);
  EXPECT_EQ(second_repeat.store, folder_ / "a");
  EXPECT_EQ(second_repeat.repeat, 1);
  EXPECT_EQ(second_repeat.example, 1);
  EXPECT_EQ(joined->origin(4).store, folder_ / "b");
  EXPECT_EQ(joined->origin(4).repeat, 0);
  EXPECT_EQ(joined->origin(4).example, 0);
  EXPECT_EQ(error_of([&] { joined->input_ids(5); }).category(), ErrorCategory::kInternal);
}

TEST_F(JoinedStoreTest, JoinsSourcesByName) {
  const auto joined = join(StorePart{store("a", 10, {1, 1}, {.sources = {"web", "books"}})},
                           StorePart{store("b", 20, {1, 1}, {.sources = {"books", "code"}})});
  EXPECT_EQ(joined->info().sources, (std::vector<std::string>{"web", "books", "code"}));
  std::vector<int> sources;
  for (std::int64_t e = 0; e < 4; ++e) sources.push_back(joined->source(e));
  EXPECT_EQ(sources, (std::vector<int>{0, 1, 1, 2}));
}

TEST_F(JoinedStoreTest, ASingleStoreIsReturnedAsItIs) {
  auto single = store("a", 10, {3});
  const TokenStore* address = single.get();
  const auto joined = join(StorePart{std::move(single), 1, 0.5});
  EXPECT_EQ(joined.get(), address);
  EXPECT_EQ(joined->origin(0).store, folder_ / "a");
}

TEST_F(JoinedStoreTest, WeightsAreThoseOfEachStoreAndNoneWhenTheyAreAlike) {
  const auto joined =
      join(StorePart{store("a", 10, {3, 1}), 2, 0.5}, StorePart{store("b", 20, {4}), 1, 3.0});
  std::vector<double> weights;
  for (std::int64_t e = 0; e < 5; ++e) weights.push_back(joined->loss_weights().of(e));
  EXPECT_EQ(weights, (std::vector<double>{0.5, 0.5, 0.5, 0.5, 3.0}));
  const auto alike =
      join(StorePart{store("a", 10, {3}), 2, 0.5}, StorePart{store("b", 20, {4}), 1, 0.5});
  EXPECT_TRUE(alike->loss_weights().are_all_one());
}

TEST_F(JoinedStoreTest, TheFingerprintCoversStoresOrderAndRepeats) {
  const auto print = [&](bool a_first, std::int64_t repeats, double weight) {
    StorePart a{store("a", 10, {3, 1}), repeats, weight};
    StorePart b{store("b", 20, {4})};
    return (a_first ? join(std::move(a), std::move(b)) : join(std::move(b), std::move(a)))
        ->fingerprint();
  };
  EXPECT_EQ(print(true, 2, 1.0), print(true, 2, 5.0));
  EXPECT_NE(print(true, 2, 1.0), print(true, 3, 1.0));
  EXPECT_NE(print(true, 2, 1.0), print(false, 2, 1.0));
}

TEST_F(JoinedStoreTest, RefusesStoresWhoseIdsMeanSomethingElse) {
  const auto refused = [&](const StoreOptions& a, const StoreOptions& b) {
    const Error error = error_of([&] {
      join(StorePart{store("a", 0, {3}, a)}, StorePart{store("plain", 0, {3})},
           StorePart{store("b", 0, {3}, b)});
    });
    EXPECT_EQ(error.category(), ErrorCategory::kData);
    EXPECT_NE(error.message().find(folder_ / "a"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find(folder_ / "b"), std::string::npos) << error.message();
    return error.message();
  };
  EXPECT_NE(refused({}, {.vocab_size = 101}).find("101"), std::string::npos);
  EXPECT_NE(refused({.tokenizer_hash = "abc"}, {.tokenizer_hash = "def"}).find("def"),
            std::string::npos);
}

TEST_F(JoinedStoreTest, RefusesMoreExamplesThanCanBeNumbered) {
  for (const std::int64_t repeats : {std::int64_t{1} << 31, std::int64_t{1} << 62}) {
    const Error error = error_of([&] { join(StorePart{store("a", 0, {3, 3}), repeats}); });
    EXPECT_EQ(error.category(), ErrorCategory::kData);
    EXPECT_NE(error.message().find(folder_ / "a"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace packtrain
