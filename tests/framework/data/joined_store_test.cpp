// Several stores as one: every example of every repeat, once.
#include "framework/data/joined_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/hash.h"
#include "framework/data/store_writer.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain::joined_store_test {
namespace {

using test::error_of;
using test::TemporaryFolder;

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

TEST_F(JoinedStoreTest, OfAFractionHoldsAllAsOftenAsTheyFitAndSomeOnceMore) {
  Ids lengths;
  for (std::int32_t e = 0; e < 40; ++e) lengths.push_back(1 + e % 7);
  for (const double repeats : {0.5, 0.025, 1.0, 2.75, 0.99, 3.0}) {
    const auto joined =
        join(StorePart{store("a", 0, lengths), repeats}, StorePart{store("b", 50, {4})});
    const auto wanted = static_cast<std::int64_t>(std::llround(40 * repeats));
    ASSERT_EQ(joined->info().num_examples, wanted + 1) << repeats;
    std::map<std::int64_t, std::int64_t> times;
    std::int64_t num_tokens = 4;
    for (std::int64_t e = 0; e < wanted; ++e) {
      const ExampleOrigin origin = joined->origin(e);
      ASSERT_EQ(origin.store, folder_ / "a");
      EXPECT_EQ(origin.repeat, times[origin.example]++) << "each repeat of an example once";
      EXPECT_EQ(joined->input_ids(e)[0], origin.example);
      EXPECT_EQ(joined->lengths()[e], lengths[origin.example]);
      EXPECT_EQ(joined->num_loss_tokens()[e], lengths[origin.example] - 1);
      EXPECT_EQ(std::ssize(joined->loss_mask(e)), lengths[origin.example]);
      num_tokens += joined->lengths()[e];
    }
    EXPECT_EQ(joined->info().num_tokens, num_tokens);
    for (const auto& [example, count] : times) {
      EXPECT_GE(count, static_cast<std::int64_t>(repeats));
      EXPECT_LE(count, static_cast<std::int64_t>(std::ceil(repeats)));
    }
    EXPECT_EQ(joined->origin(wanted).store, folder_ / "b");
    EXPECT_EQ(joined->input_ids(wanted)[0], 50);
    const std::vector<StoreUse> uses = joined->uses();
    ASSERT_EQ(uses.size(), 2U);
    EXPECT_EQ(uses[0].num_examples, wanted);
    EXPECT_EQ(uses[0].num_stored, 40);
    EXPECT_EQ(uses[1].first_example, wanted);
  }
}

TEST_F(JoinedStoreTest, AFractionOfOneStoreIsNotTheStore) {
  const auto half = join(StorePart{store("a", 10, {3, 1, 2, 5}), 0.5});
  EXPECT_EQ(half->info().num_examples, 2);
  EXPECT_NE(half->fingerprint(), TokenStore::open(folder_ / "a")->fingerprint());
}

TEST_F(JoinedStoreTest, RefusesAFractionOfNoExample) {
  const Error error = error_of([&] { join(StorePart{store("a", 10, {3, 1, 2}), 0.1}); });
  EXPECT_EQ(error.category(), ErrorCategory::kConfig);
  EXPECT_EQ(error.message(),
            "data.train: 0.1 repeats of the 3 examples of " + folder_ / "a" + " are no example");
}

// Checkpoints of version 0.1 hold this value, so that it must never change.
TEST_F(JoinedStoreTest, TheFingerprintOfWholeRepeatsIsThatOfVersion01) {
  const auto joined = join(StorePart{store("a", 10, {3, 1}), 2}, StorePart{store("b", 20, {4})});
  const std::string text = TokenStore::open(folder_ / "a")->fingerprint() + " x 2\n" +
                           TokenStore::open(folder_ / "b")->fingerprint() + " x 1\n";
  EXPECT_EQ(joined->fingerprint(), hash_bytes(std::as_bytes(std::span(text))));
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

TEST_F(JoinedStoreTest, WeightsAreThoseOfEachStoreAndNoneWhenTheyAreEqual) {
  const auto joined =
      join(StorePart{store("a", 10, {3, 1}), 2, 0.5}, StorePart{store("b", 20, {4}), 1, 3.0});
  std::vector<double> weights;
  for (std::int64_t e = 0; e < 5; ++e) weights.push_back(joined->loss_weights().of(e));
  EXPECT_EQ(weights, (std::vector<double>{0.5, 0.5, 0.5, 0.5, 3.0}));
  const auto equal =
      join(StorePart{store("a", 10, {3}), 2, 0.5}, StorePart{store("b", 20, {4}), 1, 0.5});
  EXPECT_TRUE(equal->loss_weights().are_all_one());
}

TEST_F(JoinedStoreTest, TheFingerprintCoversStoresOrderAndRepeats) {
  const auto print = [&](bool a_first, double repeats, double weight) {
    StorePart a{store("a", 10, {3, 1}), repeats, weight};
    StorePart b{store("b", 20, {4})};
    return (a_first ? join(std::move(a), std::move(b)) : join(std::move(b), std::move(a)))
        ->fingerprint();
  };
  EXPECT_EQ(print(true, 2, 1.0), print(true, 2, 5.0));
  EXPECT_NE(print(true, 2, 1.0), print(true, 3, 1.0));
  EXPECT_NE(print(true, 2, 1.0), print(false, 2, 1.0));
  EXPECT_NE(print(true, 2, 1.0), print(true, 2.5, 1.0));
  EXPECT_NE(print(true, 0.5, 1.0), print(true, 1.5, 1.0));
  EXPECT_EQ(print(true, 2.5, 1.0), print(true, 2.51, 1.0)) << "the same 5 examples";
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
  for (const double repeats : {0x1p31, 0x1p62, 1e300}) {
    const Error error = error_of([&] { join(StorePart{store("a", 0, {3, 3}), repeats}); });
    EXPECT_EQ(error.category(), ErrorCategory::kData);
    EXPECT_NE(error.message().find(folder_ / "a"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace packtrain::joined_store_test
