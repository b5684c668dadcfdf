// Tests which beginnings of examples a model continues.
#include "training/evaluation/prompts.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/helpers/temporary_folder.h"
#include "tests/samplers/group_store.h"
#include "tests/samplers/memory_store.h"
#include "training/evaluation/generation_batch.h"

namespace packtrain {
namespace {

using Ids = std::vector<std::int32_t>;
using test::MemoryExample;
using test::MemoryStore;
using test::TemporaryFolder;
using test::write_bytes;

std::vector<Prompt> choose(const MemoryStore& store, const SamplesSection& options,
                           std::int64_t max_tokens = 1000) {
  return choose_prompts(store, "", options, max_tokens, {});
}

Prompt only_prompt(const MemoryExample& example, const SamplesSection& options = {}) {
  return choose(MemoryStore({example}), options).at(0);
}

TEST(Prompts, EndWhereTheFirstLearnedPassageBegins) {
  const Prompt prompt = only_prompt({{5, 6, 7, 8, 9, 10}, {0, 0, 1, 1, 0, 1}});
  EXPECT_EQ(prompt.ids, Ids({5, 6}));
  EXPECT_EQ(prompt.reference, Ids({7, 8})) << "up to what is not learned";
}

TEST(Prompts, OfPairsHaveTheChosenAndTheRejectedAnswer) {
  const test::GroupStore store(GroupKind::kPairs, {test::pair(2, 3, 4)});
  const std::vector<Prompt> prompts = choose_prompts(store, "", {.num_prompts = 2}, 1000, {});
  ASSERT_EQ(prompts.size(), 1) << "a rejected answer has no prompt of its own";
  EXPECT_EQ(prompts[0].ids, Ids({0, 1}));
  EXPECT_EQ(prompts[0].reference, Ids({100, 101, 102}));
  EXPECT_EQ(prompts[0].rejected, Ids({500, 501, 502, 503}));
}

TEST(Prompts, OfPlainTextHaveTheConfiguredLength) {
  const MemoryExample text = {{1, 2, 3, 4, 5, 6}, {1, 1, 1, 1, 1, 1}};
  const Prompt prompt = only_prompt(text, {.prompt_tokens = 4});
  EXPECT_EQ(prompt.ids, Ids({1, 2, 3, 4}));
  EXPECT_EQ(prompt.reference, Ids({5, 6}));
  EXPECT_EQ(only_prompt(text, {.prompt_tokens = 6}).ids, Ids({1, 2, 3})) << "too short: half of it";
  EXPECT_EQ(only_prompt({{1, 2}, {0, 1}}).ids, Ids({1}));
}

TEST(Prompts, AreSpreadOverTheStoreAndPassByWhatDoesNotServe) {
  std::vector<MemoryExample> examples(9, MemoryExample{{1, 2, 3, 4}, {0, 0, 1, 1}});
  examples[3].loss_mask = {1, 0, 0, 0};  // nothing to predict
  examples[4] = {};
  examples[6] = {Ids(50, 1), std::vector<std::uint8_t>(50)};
  examples[6].loss_mask.back() = 1;  // its prompt is too long
  const MemoryStore store(std::move(examples));
  std::vector<std::int64_t> found;
  for (const Prompt& prompt : choose(store, {.num_prompts = 3, .max_new_tokens = 10}, 40)) {
    found.push_back(prompt.example);
  }
  EXPECT_EQ(found, (std::vector<std::int64_t>{0, 5, 7}));
  EXPECT_EQ(choose(store, {.num_prompts = 100}).size(), 7) << "all that serve";
  EXPECT_TRUE(choose(store, {.max_new_tokens = 64}, 60).empty());
}

// A store folder whose tokenizer has 90 as a special token, and 91 as one that is not.
class FolderStore final : public TokenStore {
 public:
  FolderStore(std::string folder, MemoryExample example)
      : folder_(std::move(folder)), memory_({std::move(example)}) {}
  const StoreInfo& info() const override { return memory_.info(); }
  const std::string& folder() const override { return folder_; }
  ExampleCounts lengths() const override { return memory_.lengths(); }
  ExampleCounts num_loss_tokens() const override { return memory_.num_loss_tokens(); }
  std::span<const std::int32_t> input_ids(std::int64_t e) const override {
    return memory_.input_ids(e);
  }
  std::span<const std::uint8_t> loss_mask(std::int64_t e) const override {
    return memory_.loss_mask(e);
  }
  std::int16_t source(std::int64_t e) const override { return memory_.source(e); }
  std::string fingerprint() const override { return {}; }

 private:
  std::string folder_;
  MemoryStore memory_;
};

TEST(Prompts, EndAtTheSpecialTokenThatTheirReferenceEndsWith) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "tokenizer");
  write_bytes(folder / "tokenizer/tokenizer.json",
              R"({"added_tokens": [{"id": 90, "special": true}, {"id": 91, "special": false}]})");
  const auto ends = [&](std::int32_t last) {
    const FolderStore store(folder.path(), {{1, 2, 3, last}, {0, 0, 1, 1}});
    return choose_prompts(store, "", {}, 1000, {7}).at(0).ends;
  };
  EXPECT_EQ(ends(90), (std::unordered_set<std::int32_t>{7, 90}));
  EXPECT_EQ(ends(91), (std::unordered_set<std::int32_t>{7}));
}

TEST(EndTokens, AreThoseOfTheModel) {
  EXPECT_TRUE(end_tokens(R"({})").empty());
  EXPECT_TRUE(end_tokens(R"({"eos_token_id": null})").empty());
  EXPECT_EQ(end_tokens(R"({"eos_token_id": 2})"), (std::unordered_set<std::int32_t>{2}));
  EXPECT_EQ(end_tokens(R"({"eos_token_id": [2, 5]})"), (std::unordered_set<std::int32_t>{2, 5}));
}

TEST(GenerationBatch, SuperviseTheNextTokenAndKeepTheirLength) {
  Prompt prompt;
  prompt.ids = {5, 6};
  GenerationBatch texts({prompt}, 2, 10);
  using Mask = std::vector<std::uint8_t>;
  const auto mask = [&] { return Mask(texts.loss_mask(0).begin(), texts.loss_mask(0).end()); };
  EXPECT_EQ(texts.lengths()[0], 4);
  EXPECT_EQ(mask(), (Mask{0, 0, 1, 0}));
  texts.append(0, 8);
  EXPECT_EQ(mask(), (Mask{0, 0, 0, 1}));
  EXPECT_FALSE(texts.is_full(0));
  texts.append(0, 9);
  EXPECT_EQ(mask(), (Mask{0, 0, 0, 1})) << "a row stays, so that shapes do";
  EXPECT_TRUE(texts.is_full(0));
  EXPECT_EQ(Ids(texts.input_ids(0).begin(), texts.input_ids(0).end()), Ids({5, 6, 8, 9}));
}

}  // namespace
}  // namespace packtrain
