// Stores from pretokenized JSONL and from synthetic lengths.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/data/pretokenized.h"
#include "framework/data/synthetic.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain::sources_test {
namespace {

using test::error_of;
using test::TemporaryFolder;
using test::write_bytes;

using Ids = std::vector<std::int32_t>;
using Mask = std::vector<std::uint8_t>;

template <typename T>
std::vector<T> copy(std::span<const T> values) {
  return {values.begin(), values.end()};
}

TEST(Pretokenized, LabelsBecomeTheMaskAndEveryTokenCountsWithoutThem) {
  const TemporaryFolder folder;
  write_bytes(folder / "a.jsonl",
              "\xEF\xBB\xBF{\"input_ids\": [0, 6, 7], \"labels\": [-100, 6, -100]}\r\n");
  write_bytes(folder / "whole.jsonl",
              "\n"
              "  \t\r\n"
              "{\"note\": {\"input_ids\": [1]}, \"input_ids\":[9]}\n");
  write_bytes(folder / "b.jsonl",
              "{\"labels\":[1,2],\"input_ids\":[1,2]}");  // no newline at the end
  const StoreInfo info =
      prepare_pretokenized({folder / "a.jsonl", folder / "whole.jsonl", folder / "b.jsonl"}, 10,
                           folder / "store", false);
  EXPECT_EQ(info.num_examples, 3);
  EXPECT_EQ(info.num_loss_tokens, 2);
  const auto store = TokenStore::open(folder / "store");
  EXPECT_EQ(copy(store->input_ids(0)), (Ids{0, 6, 7}));
  EXPECT_EQ(copy(store->loss_mask(0)), (Mask{0, 1, 0}));
  EXPECT_EQ(copy(store->input_ids(1)), (Ids{9}));
  EXPECT_EQ(copy(store->loss_mask(1)), (Mask{1}));
  EXPECT_EQ(copy(store->loss_mask(2)), (Mask{1, 1}));
  EXPECT_EQ(store->source(1), 1);
  EXPECT_EQ(store->source(2), 2);
  EXPECT_EQ(store->info().sources.at(2), folder / "b.jsonl");
}

TEST(Pretokenized, AllLinesOfAFileHaveLabelsOrNone) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.jsonl";
  const std::string whole = "{\"input_ids\":[1,2,3]}\n";
  for (const char* keys : {R"("labels":[-100,2,3])", R"("loss_mask":[0,1,1])"}) {
    const std::string labelled = std::string(R"({"input_ids":[1,2,3],)") + keys + "}\n";
    const auto fault_of = [&](const std::string& lines) {
      write_bytes(path, lines);
      return error_of([&] { prepare_pretokenized({path}, 10, folder / "store", true); }).message();
    };
    const std::string lacking = fault_of(labelled + labelled + whole + labelled);
    EXPECT_TRUE(lacking.starts_with(path + ":3: has neither labels nor a mask")) << lacking;
    const std::string having = fault_of(whole + labelled);
    EXPECT_TRUE(having.starts_with(path + ":2: has labels or a mask, unlike")) << having;

    write_bytes(path, "{}\n" + labelled + whole + labelled);
    const StoreInfo info =
        prepare_pretokenized({path}, 10, folder / "store", true, {.skip = true, .max_fraction = 1});
    EXPECT_EQ(info.num_examples, 2) << "the first good line of a file decides";
  }
}

TEST(Pretokenized, ATokenCountsWhereEveryMaskHasOne) {
  const TemporaryFolder folder;
  write_bytes(folder / "a.jsonl",
              R"({"input_ids":[1,2,3], "completion_mask":[0,1,1]})"
              "\n"
              R"({"input_ids":[1,2,3], "assistant_masks":[0,1,0]})"
              "\n"
              R"({"input_ids":[1,2,3], "completion_mask":[0,1,1], "assistant_masks":[1,0,1]})"
              "\n"
              R"({"input_ids":[1,2,3], "labels":[-100,2,-100], "loss_mask":[0,1,0]})"
              "\n"
              R"({"input_ids":[1,2,3], "response_mask":[0,0,1], "assistant_mask":[0,1,1]})");
  prepare_pretokenized({folder / "a.jsonl"}, 10, folder / "store", false);
  const auto store = TokenStore::open(folder / "store");
  EXPECT_EQ(copy(store->loss_mask(0)), (Mask{0, 1, 1}));
  EXPECT_EQ(copy(store->loss_mask(1)), (Mask{0, 1, 0}));
  EXPECT_EQ(copy(store->loss_mask(2)), (Mask{0, 0, 1}));
  EXPECT_EQ(copy(store->loss_mask(3)), (Mask{0, 1, 0}));
  EXPECT_EQ(copy(store->loss_mask(4)), (Mask{0, 0, 1}));
}

TEST(Pretokenized, PaddingIsLeftOutWithItsValues) {
  const TemporaryFolder folder;
  write_bytes(folder / "a.jsonl",
              R"({"input_ids":[1,2,0,0], "attention_mask":[1,1,0,0], "labels":[-100,2,-100,-100],)"
              R"( "v":[5,6,0,0]})"
              "\n"
              R"({"input_ids":[0,0,3,4], "attention_mask":[0,0,1,1], "labels":[-100,-100,-100,4],)"
              R"( "v":[0,0,7,8], "position_ids":[1,1,0,1]})"
              "\n"
              R"({"input_ids":[5,6], "labels":[5,6], "v":[1,2], "position_ids":[0,1],)"
              R"( "seq_lengths":[2]})");
  prepare_pretokenized({folder / "a.jsonl"}, 10, folder / "store", false, {}, {"v"});
  const auto store = TokenStore::open(folder / "store");
  EXPECT_EQ(copy(store->input_ids(0)), (Ids{1, 2}));
  EXPECT_EQ(copy(store->input_ids(1)), (Ids{3, 4}));
  EXPECT_EQ(copy(store->loss_mask(1)), (Mask{0, 1}));
  EXPECT_EQ(copy(store->token_column(1, 0)), (std::vector<float>{7, 8}));
  EXPECT_EQ(copy(store->input_ids(2)), (Ids{5, 6}));
}

TEST(Pretokenized, AFileOfAnotherKindIsNamed) {
  const TemporaryFolder folder;
  for (const char* begin :
       {"\x1f\x8b", "BZh9", "\xfd\x37zXZ", "\x28\xb5\x2f\xfd", "PAR1", "ARROW1"}) {
    write_bytes(folder / "a.jsonl", begin);
    const Error error =
        error_of([&] { prepare_pretokenized({folder / "a.jsonl"}, 10, folder / "store", false); });
    EXPECT_NE(error.message().find("wanted JSONL"), std::string::npos) << error.what();
  }
}

struct WrongLine {
  const char* name;
  const char* line;
  const char* message;
};

class WrongPretokenizedLine : public ::testing::TestWithParam<WrongLine> {};

TEST_P(WrongPretokenizedLine, IsNamedByFileAndNumber) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.jsonl";
  write_bytes(path, std::string("{\"input_ids\":[1]}\n\n") + GetParam().line + "\n");
  const Error error = error_of([&] { prepare_pretokenized({path}, 10, folder / "store", false); });
  EXPECT_EQ(error.category(), ErrorCategory::kData);
  EXPECT_TRUE(error.message().starts_with(path + ":3: ")) << error.what();
  EXPECT_NE(error.message().find(GetParam().message), std::string::npos) << error.what();
  EXPECT_EQ(error_of([&] { TokenStore::open(folder / "store"); }).category(), ErrorCategory::kData)
      << "nothing that looks like a store is left behind";
}

const WrongLine kWrongLines[] = {
    {"no_json", "{\"input_ids\":[1,}", "is no valid JSON"},
    {"no_utf8", "{\"input_ids\":[1],\"x\":\"\xFF\"}", "is no valid JSON"},
    {"two_values", "{\"input_ids\":[1]} {}", "is no valid JSON"},
    {"no_object", "[1,2]", "is no JSON object"},
    {"missing", "{\"ids\":[1]}", "lacks the key 'input_ids'"},
    {"twice", "{\"input_ids\":[1],\"input_ids\":[2]}", "the key 'input_ids' twice"},
    {"no_list", "{\"input_ids\":\"text\"}", "'input_ids' is \"text\", wanted a list"},
    {"null_labels", "{\"input_ids\":[1],\"labels\":null}", "'labels' is null, wanted a list"},
    {"empty", "{\"input_ids\":[]}", "is empty"},
    {"fraction", "{\"input_ids\":[1,2.5]}", "input_ids[1] is 2.5, wanted an integer"},
    {"text_id", "{\"input_ids\":[\"1\"]}", "input_ids[0] is \"1\", wanted an integer"},
    {"outside", "{\"input_ids\":[1,10]}", "input_ids[1] is 10, wanted 0..9"},
    {"negative", "{\"input_ids\":[-100]}", "input_ids[0] is -100, wanted 0..9"},
    {"wraps_to_valid", "{\"input_ids\":[4294967297]}", "input_ids[0] is 4294967297"},
    {"beyond_64_bits", "{\"input_ids\":[99999999999999999999]}", "is no valid JSON"},
    {"shifted_labels", "{\"input_ids\":[1,2],\"labels\":[2,-100]}",
     "labels[0] is 2, wanted its id 1 or -100"},
    {"short_labels", "{\"input_ids\":[1,2],\"labels\":[1]}", "has 1 entries, wanted 2"},
    {"labels_against_mask", R"({"input_ids":[1,2],"labels":[1,2],"loss_mask":[0,1]})",
     "labels[0] is 1, and its mask is 0"},
    {"mask_of_two", R"({"input_ids":[1,2],"completion_mask":[0,2]})",
     "completion_mask[1] is 2, wanted 0 or 1"},
    {"long_mask", R"({"input_ids":[1],"assistant_masks":[0,1]})", "has 2 entries, wanted 1"},
    {"unknown_mask", R"({"input_ids":[1,2],"prompt_mask":[1,0]})",
     "has the key 'prompt_mask', which is not read"},
    {"padding_inside", R"({"input_ids":[1,2,3],"attention_mask":[1,0,1]})",
     "attention_mask[1] is 0 between tokens"},
    {"only_padding", R"({"input_ids":[1,2],"attention_mask":[0,0]})", "is 0 everywhere"},
    {"numbered_examples", R"({"input_ids":[1,2],"attention_mask":[1,2]})",
     "attention_mask[1] is 2, wanted 0 or 1 (a line is one example)"},
    {"packed_positions", R"({"input_ids":[1,2,3],"position_ids":[0,1,0]})",
     "position_ids[2] is 0 after 1: the line holds several examples"},
    {"packed_lengths", R"({"input_ids":[1,2,3],"seq_lengths":[1,2]})",
     "'seq_lengths' has 2 entries"},
    {"weight", R"({"input_ids":[1,2],"weight":0.5})",
     "weights of pretokenized examples are not read"},
    {"long_labels", "{\"input_ids\":[1],\"labels\":[1,1]}", "longer than 'input_ids'"},
};

INSTANTIATE_TEST_SUITE_P(Pretokenized, WrongPretokenizedLine, ::testing::ValuesIn(kWrongLines),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Pretokenized, AnEmptyOrMissingFileIsAnError) {
  const TemporaryFolder folder;
  write_bytes(folder / "empty.jsonl", "");
  for (const char* name : {"empty.jsonl", "missing.jsonl"}) {
    const Error error =
        error_of([&] { prepare_pretokenized({folder / name}, 10, folder / "store", true); });
    EXPECT_EQ(error.category(), ErrorCategory::kData) << name;
  }
}

TEST(Lengths, AreParsedWithAndWithoutLimits) {
  const LognormalLengths lengths = parse_lengths("lognormal:5.3,0.9,8,4096");
  EXPECT_EQ(lengths.mu, 5.3);
  EXPECT_EQ(lengths.sigma, 0.9);
  EXPECT_EQ(lengths.min_length, 8);
  EXPECT_EQ(lengths.max_length, 4096);
  EXPECT_EQ(parse_lengths("lognormal:-1,0").min_length, 1);
  EXPECT_EQ(parse_lengths("constant:8192").min_length, 8192);
  EXPECT_EQ(parse_lengths("constant:8192").max_length, 8192);
}

TEST(Lengths, WrongFormsAreConfigurationErrorsThatShowTheText) {
  for (const char* text :
       {"", "normal:1,2", "lognormal:", "lognormal:1", "lognormal:1,2,3", "lognormal:1,x",
        "lognormal:1,2,3,4,5", "lognormal:1,2,3,4 ", "lognormal:1,-2", "lognormal:nan,1",
        "lognormal:1,2,0,5", "lognormal:1,2,9,8", "lognormal:1,2,1,99999999999",
        "constant:", "constant:0", "constant:5,6"}) {
    const Error error = error_of([&] { parse_lengths(text); });
    EXPECT_EQ(error.category(), ErrorCategory::kConfig) << text;
  }
  EXPECT_NE(error_of([] { parse_lengths("normal:1,2"); }).message().find("'normal:1,2'"),
            std::string::npos);
}

SyntheticOptions short_documents() {
  return {.lengths = {.mu = 3.0, .sigma = 0.9, .min_length = 8, .max_length = 64},
          .num_examples = 5000,
          .vocab_size = 100,
          .seed = 1};
}

TEST(Synthetic, LengthsFollowTheDistributionInsideTheLimits) {
  const TemporaryFolder folder;
  SyntheticOptions options = short_documents();
  prepare_synthetic(options, folder / "store", false);
  const auto store = TokenStore::open(folder / "store");
  const ExampleCounts counts = store->lengths();
  std::vector<std::int32_t> lengths(counts.begin(), counts.end());
  ASSERT_EQ(lengths.size(), 5000U);
  std::sort(lengths.begin(), lengths.end());
  EXPECT_EQ(lengths.front(), 8);
  EXPECT_EQ(lengths.back(), 64);
  EXPECT_NEAR(lengths[2500], std::exp(3.0), 1.5) << "the median of a lognormal is exp(mu)";
  EXPECT_EQ(store->info().num_loss_tokens, store->info().num_tokens - 5000);
  const auto ids = store->input_ids(0);
  EXPECT_NE(ids[0], ids[1]);
}

TEST(Synthetic, ASupervisedFractionIsTheEndOfEachExample) {
  const TemporaryFolder folder;
  SyntheticOptions options = short_documents();
  options.num_examples = 200;
  options.supervised_fraction = 0.4;
  prepare_synthetic(options, folder / "store", false);
  const auto store = TokenStore::open(folder / "store");
  for (std::int64_t example = 0; example < 200; ++example) {
    const Mask mask = copy(store->loss_mask(example));
    const auto num_supervised = std::llround(0.4 * static_cast<double>(mask.size()));
    EXPECT_EQ(std::count(mask.begin(), mask.end(), 1), num_supervised);
    EXPECT_TRUE(std::is_sorted(mask.begin(), mask.end()));
  }
}

TEST(Synthetic, TheStoreDependsOnTheOptionsAlone) {
  const TemporaryFolder folder;
  SyntheticOptions options = short_documents();
  options.num_examples = 50;
  prepare_synthetic(options, folder / "a", false);
  prepare_synthetic(options, folder / "b", false);
  options.seed = 2;
  prepare_synthetic(options, folder / "c", false);
  const auto bytes = [&](const char* name) {
    return read_text(folder / (std::string(name) + "/part-00000.safetensors"),
                     ErrorCategory::kData);
  };
  EXPECT_EQ(bytes("a"), bytes("b"));
  EXPECT_NE(bytes("a"), bytes("c"));
}

TEST(Synthetic, ImpossibleOptionsAreRefused) {
  const TemporaryFolder folder;
  SyntheticOptions options = short_documents();
  options.num_examples = 0;
  EXPECT_EQ(error_of([&] { prepare_synthetic(options, folder / "a", false); }).category(),
            ErrorCategory::kConfig);
  options = short_documents();
  options.supervised_fraction = 0.0;
  EXPECT_EQ(error_of([&] { prepare_synthetic(options, folder / "a", false); }).category(),
            ErrorCategory::kConfig);
  options = short_documents();
  options.vocab_size = 0;
  EXPECT_EQ(error_of([&] { prepare_synthetic(options, folder / "a", false); }).category(),
            ErrorCategory::kConfig);
}

}  // namespace
}  // namespace packtrain::sources_test
