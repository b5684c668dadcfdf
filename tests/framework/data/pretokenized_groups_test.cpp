// Groups and columns of tokens from pretokenized JSONL.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/data/pretokenized.h"
#include "framework/data/store_groups.h"
#include "tests/framework/data/small_stores.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain::pretokenized_groups_test {
namespace {

using test::copy;
using test::error_of;
using test::Ids;
using test::Mask;
using test::TemporaryFolder;
using test::write_bytes;

constexpr const char* kPair =
    "{\"margin\": 1.5,\"rejected\": {\"input_ids\":[1,2,4],\"labels\":[-100,-100,4]},"
    "\"chosen\": {\"input_ids\":[1,2,3,5],\"labels\":[-100,-100,3,5]}}\n";

StoreInfo prepare(const TemporaryFolder& folder, const std::string& lines,
                  const std::vector<std::string>& columns = {}) {
  write_bytes(folder / "a.jsonl", lines);
  return prepare_pretokenized({folder / "a.jsonl"}, 10, folder / "store", true, {}, columns);
}

TEST(PretokenizedGroups, APairALineIsAGroupWithChosenFirst) {
  const TemporaryFolder folder;
  const StoreInfo info = prepare(folder, std::string("\n") + kPair + kPair);
  EXPECT_EQ(info.groups->num_groups, 2);
  const auto store = TokenStore::open(folder / "store");
  store->check_all(0, 1);
  EXPECT_EQ(copy(store->input_ids(2)), (Ids{1, 2, 3, 5}));
  EXPECT_EQ(copy(store->loss_mask(2)), (Mask{0, 0, 1, 1}));
  EXPECT_EQ(copy(store->input_ids(3)), (Ids{1, 2, 4}));
  EXPECT_EQ(store->groups()->role(3), GroupRole::kRejected);
  EXPECT_EQ(store->groups()->group(1).margin, 1.5F);
  EXPECT_EQ(num_shared_tokens(*store, store->groups()->group(1)), 2);
}

TEST(PretokenizedGroups, AJudgedAnswerALineIsAGroupOfOne) {
  const TemporaryFolder folder;
  prepare(folder,
          "{\"desirable\":{\"input_ids\":[1,2],\"labels\":[-100,2]}}\n"
          "{\"undesirable\":{\"input_ids\":[1,3],\"labels\":[-100,3]}}\n");
  const auto store = TokenStore::open(folder / "store");
  EXPECT_EQ(store->info().groups->kind, GroupKind::kJudged);
  EXPECT_EQ(store->groups()->role(0), GroupRole::kDesirable);
  EXPECT_EQ(store->groups()->role(1), GroupRole::kUndesirable);
}

constexpr const char* kRollouts =
    "{\"rollouts\": [{\"input_ids\":[1,2,3],\"loss_mask\":[0,0,1],\"advantage\":-0.5},"
    "{\"input_ids\":[1,2,4,5],\"labels\":[-100,-100,4,5],\"advantage\":[0,0,1,2]}]}\n";

TEST(PretokenizedGroups, AListOfRolloutsALineIsAGroupOfAnySize) {
  const TemporaryFolder folder;
  const std::string one =
      "{\"rollouts\":[{\"input_ids\":[6,7],\"labels\":[-100,7],\"advantage\":0}]}\n";
  const StoreInfo info = prepare(folder, kRollouts + one + kRollouts, {"advantage"});
  EXPECT_EQ(info.groups->num_groups, 3);
  const auto store = TokenStore::open(folder / "store");
  store->check_all(0, 1);
  EXPECT_EQ(store->info().groups->kind, GroupKind::kRollouts);
  EXPECT_EQ(store->groups()->group(1).num_examples, 1);
  EXPECT_EQ(store->groups()->group_of(4), 2);
  EXPECT_EQ(copy(store->loss_mask(0)), (Mask{0, 0, 1}));
  EXPECT_EQ(copy(store->token_column(0, 0)), (std::vector<float>{0, 0, -0.5F}));
  EXPECT_EQ(copy(store->token_column(1, 0)), (std::vector<float>{0, 0, 1, 2}));
}

TEST(PretokenizedGroups, AListOfTurnsALineIsAConversationWithAPromptForEach) {
  const TemporaryFolder folder;
  prepare(folder,
          "{\"turns\": [{\"input_ids\":[1,2,3],\"loss_mask\":[0,0,1]},"
          "{\"input_ids\":[1,2,4,5],\"labels\":[-100,-100,-100,5]}]}\n");
  const auto store = TokenStore::open(folder / "store");
  store->check_all(0, 1);
  EXPECT_EQ(store->info().groups->kind, GroupKind::kTurns);
  EXPECT_EQ(store->groups()->group(0).num_examples, 2);
  EXPECT_EQ(store->groups()->role(1), GroupRole::kTurn);
  EXPECT_EQ(copy(store->loss_mask(1)), (Mask{0, 0, 0, 1}));
}

TEST(PretokenizedColumns, AreReadUnderTheNamesThatAreGiven) {
  const TemporaryFolder folder;
  const std::string line =
      "{\"input_ids\":[1,2],\"advantage\":[0,-0.5],\"old_log_prob\":[0,-3],\"other\":[1]}\n";
  prepare(folder, line, {"old_log_prob", "advantage"});
  const auto store = TokenStore::open(folder / "store");
  store->check_all(0, 1);
  EXPECT_EQ(copy(store->token_column(0, 0)), (std::vector<float>{0, -3}));
  EXPECT_EQ(copy(store->token_column(0, 1)), (std::vector<float>{0, -0.5F}));
  prepare(folder, line);
  EXPECT_TRUE(TokenStore::open(folder / "store")->info().token_columns.empty());
}

TEST(PretokenizedColumns, EachMemberOfAGroupHasItsOwn) {
  const TemporaryFolder folder;
  prepare(folder,
          "{\"chosen\":{\"input_ids\":[1,2],\"labels\":[-100,2],\"weight\":[0,1]},"
          "\"rejected\":{\"input_ids\":[1,3],\"labels\":[-100,3],\"weight\":[0,0.5]}}\n",
          {"weight"});
  const auto store = TokenStore::open(folder / "store");
  EXPECT_EQ(copy(store->token_column(0, 0)), (std::vector<float>{0, 1}));
  EXPECT_EQ(copy(store->token_column(1, 0)), (std::vector<float>{0, 0.5F}));
}

TEST(PretokenizedColumns, ANameThatNoColumnCanHaveIsAConfigurationError) {
  const TemporaryFolder folder;
  for (const auto& names : {std::vector<std::string>{"Advantage"}, {""}, {"a.b"}, {"a", "a"}}) {
    const Error error = error_of([&] { prepare(folder, "{\"input_ids\":[1]}\n", names); });
    EXPECT_EQ(error.category(), ErrorCategory::kConfig);
  }
}

struct WrongGroup {
  const char* name;
  std::string line;
  const char* message;
};

class WrongPretokenizedGroup : public ::testing::TestWithParam<WrongGroup> {};

TEST_P(WrongPretokenizedGroup, IsNamedByFileAndNumber) {
  const TemporaryFolder folder;
  const Error error =
      error_of([&] { prepare(folder, std::string(kPair) + GetParam().line + "\n"); });
  EXPECT_EQ(error.category(), ErrorCategory::kData);
  EXPECT_TRUE(error.message().starts_with(folder / "a.jsonl:2: ")) << error.what();
  EXPECT_NE(error.message().find(GetParam().message), std::string::npos) << error.what();
}

std::string answer(const char* ids, const char* labels) {
  return std::string("{\"input_ids\":") + ids + ",\"labels\":" + labels + "}";
}

std::string pair(const std::string& chosen, const std::string& rejected) {
  return "{\"margin\":1,\"chosen\":" + chosen + ",\"rejected\":" + rejected + "}";
}

const std::string kTwo = answer("[1,2]", "[-100,2]");
const std::string kThree = answer("[1,3]", "[-100,3]");

const WrongGroup kWrongGroups[] = {
    {"half", "{\"margin\":1,\"chosen\":" + kTwo + "}",
     "lacks the key 'rejected': this is half a pair"},
    {"other_half", "{\"margin\":1,\"rejected\":" + kTwo + "}",
     "lacks the key 'chosen': this is half a pair"},
    {"equal", pair(kTwo, kTwo), "the answers 'chosen' and 'rejected' are equal"},
    {"empty", pair(kTwo, answer("[1,3]", "[-100,-100]")),
     "'rejected': has no label after its first token: the answer is empty"},
    {"no_prompt", pair(answer("[1,2]", "[1,2]"), kThree),
     "'chosen': its first token has a label, and no token before it predicts it"},
    {"prompts", pair(kTwo, answer("[3,2]", "[-100,2]")),
     "the prompts of 'chosen' and 'rejected' (the ids before the first label) differ"},
    {"no_margin", "{\"chosen\":" + kTwo + ",\"rejected\":" + kThree + "}",
     "has no key 'margin', unlike the first line"},
    {"no_labels", "{\"chosen\":{\"input_ids\":[1,2]}}", "'chosen': lacks the key 'labels'"},
    {"judged", "{\"desirable\":" + kTwo + "}",
     "has the key 'desirable', wanted groups of the kind 'pairs' as in the first line"},
    {"plain", "{\"input_ids\":[1]}", "lacks the key 'chosen': this is half a pair"},
    {"no_object", "{\"chosen\":[1,2]}", "'chosen' is [1,2], wanted an object"},
    {"rollouts", kRollouts, "lacks the key 'chosen': this is half a pair"},
    {"outside", "{\"chosen\":" + answer("[10]", "[10]") + "}",
     "'chosen': input_ids[0] is 10, wanted 0..9"},
};

INSTANTIATE_TEST_SUITE_P(Pretokenized, WrongPretokenizedGroup, ::testing::ValuesIn(kWrongGroups),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PretokenizedGroups, WrongRolloutsAreNamed) {
  const TemporaryFolder folder;
  const auto has = [&](const std::string& line, const std::string& wanted) {
    const Error error = error_of([&] { prepare(folder, kRollouts + line + "\n"); });
    const bool is_named = error.message().find(":2: " + wanted) != std::string::npos;
    return is_named ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << error.what();
  };
  EXPECT_TRUE(has("{\"rollouts\":[]}", "'rollouts' is an empty list, wanted at least one answer"));
  EXPECT_TRUE(has("{\"rollouts\":{}}", "'rollouts' is {}, wanted a list of objects"));
  EXPECT_TRUE(has("{\"input_ids\":[1]}", "lacks the key 'rollouts', which the first line has"));
  EXPECT_TRUE(has("{\"rollouts\":[" + kTwo + ",3]}",
                  "'rollouts[1]' is 3, wanted an object with 'input_ids' and 'labels'"));
  EXPECT_TRUE(has("{\"rollouts\":[" + kTwo + "," + answer("[3,2]", "[-100,2]") + "]}",
                  "the prompts of 'rollouts[0]' and 'rollouts[1]' (the ids before the first label) "
                  "differ"));
  EXPECT_TRUE(has("{\"rollouts\":[{\"input_ids\":[1,2],\"loss_mask\":[0,2]}]}",
                  "'rollouts[0]': loss_mask[1] is 2, wanted 0 or 1"));
}

TEST(PretokenizedColumns, WrongValuesAreNamed) {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& line) {
    return error_of([&] { prepare(folder, line + "\n", {"advantage"}); }).message();
  };
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(
      has(message("{\"input_ids\":[1]}"), "lacks the key 'advantage', which --token-column names"));
  EXPECT_TRUE(has(message("{\"input_ids\":[1],\"advantage\":[1,2]}"),
                  "'advantage' has 2 entries, wanted 1 as 'input_ids' has"));
  EXPECT_TRUE(has(message("{\"input_ids\":[1],\"advantage\":[\"a\"]}"),
                  "advantage[0] is \"a\", wanted a finite number"));
  EXPECT_TRUE(has(message("{\"input_ids\":[1],\"advantage\":[1e300]}"), "wanted a finite number"));
}

TEST(PretokenizedColumns, ALogProbabilityAboveZeroIsNamed) {
  const TemporaryFolder folder;
  const auto line = [](const char* values) {
    return std::string("{\"input_ids\":[1,2],\"old_log_prob\":") + values + "}\n";
  };
  const std::string message =
      error_of([&] { prepare(folder, line("[0,0.5]"), {"old_log_prob"}); }).message();
  EXPECT_NE(message.find("old_log_prob[1] is 0.5, wanted the logarithm of a probability"),
            std::string::npos)
      << message;
  EXPECT_NO_THROW(prepare(folder, line("[0,1e-4]"), {"old_log_prob"}));
}

}  // namespace
}  // namespace packtrain::pretokenized_groups_test
