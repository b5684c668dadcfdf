// Tests lines that cannot be used: their places, and how they are handled.
#include "framework/data/bad_lines.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/data/pretokenized.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain::bad_lines_test {
namespace {

using nlohmann::json;
using test::error_of;
using test::TemporaryFolder;
using test::write_bytes;

TEST(LineReader, GivesPhysicalLinesAndTheirPlaces) {
  LineReader reader(
      "\xEF\xBB\xBF"
      "ab\r\n\n  \nc");
  std::vector<TextLine> lines;
  while (const auto line = reader.next()) lines.push_back(*line);
  ASSERT_EQ(lines.size(), 4U);
  const std::size_t begins[] = {3, 7, 8, 11};
  const char* const texts[] = {"ab\r", "", "  ", "c"};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(lines[i].number, static_cast<std::int64_t>(i + 1));
    EXPECT_EQ(lines[i].begin, begins[i]);
    EXPECT_EQ(lines[i].text, texts[i]);
    EXPECT_EQ(lines[i].is_blank(), i == 1 || i == 2);
  }
  EXPECT_FALSE(LineReader("").next());
  EXPECT_FALSE(LineReader("\xEF\xBB\xBF").next());
}

// `num_good` lines with one that is none of JSON before the last.
std::string with_a_bad_line(int num_good) {
  std::string text;
  for (int i = 0; i < num_good; ++i) {
    if (i == num_good - 1) text += "not JSON \xFF\n";
    text += "{\"input_ids\":[1]}\n";
  }
  return text;
}

TEST(BadLines, StopThePreparationByDefault) {
  const TemporaryFolder folder;
  write_bytes(folder / "a.jsonl", with_a_bad_line(3));
  const Error error =
      error_of([&] { prepare_pretokenized({folder / "a.jsonl"}, 10, folder / "store", false); });
  EXPECT_EQ(error.category(), ErrorCategory::kData);
  EXPECT_TRUE(error.message().starts_with(folder / "a.jsonl:3: is no valid JSON")) << error.what();
  EXPECT_TRUE(error.message().ends_with("(the line begins at byte 36)")) << error.what();
  EXPECT_NE(error.advice().find("--skip-bad-lines"), std::string::npos);
}

TEST(BadLines, AreListedAndCountedWhenSkipped) {
  const TemporaryFolder folder;
  write_bytes(folder / "a.jsonl", with_a_bad_line(3));
  write_bytes(folder / "b.jsonl", "{\"input_ids\":[1,99]}\n{\"input_ids\":[2]}\n");
  const StoreInfo info = prepare_pretokenized({folder / "a.jsonl", folder / "b.jsonl"}, 10,
                                              folder / "store", false, {true, 0.5});
  EXPECT_EQ(info.num_examples, 4);
  EXPECT_EQ(info.num_bad_lines, 2);
  EXPECT_EQ(TokenStore::open(folder / "store")->info().num_bad_lines, 2);
  const std::string text = read_text(folder / "store/bad-lines.jsonl", ErrorCategory::kData);
  const std::size_t end = text.find('\n');
  const json first = json::parse(text.substr(0, end));
  const json second = json::parse(text.substr(end + 1));
  EXPECT_EQ(first["file"], folder / "a.jsonl");
  EXPECT_EQ(first["line"], 3);
  EXPECT_EQ(first["byte"], 36);
  EXPECT_EQ(first["num_bytes"], 10);
  EXPECT_EQ(first["text"], "not JSON \xEF\xBF\xBD");
  EXPECT_EQ(second["fault"], "input_ids[1] is 99, wanted 0..9");
  // It is a part of the store: replaced with it.
  prepare_pretokenized({folder / "b.jsonl"}, 100, folder / "store", true);
  EXPECT_FALSE(std::filesystem::exists(folder / "store/bad-lines.jsonl"));
}

TEST(BadLines, AreAtMostTheShareThatIsAllowed) {
  const TemporaryFolder folder;
  write_bytes(folder / "a.jsonl", with_a_bad_line(9));  // one of ten
  const auto prepare = [&](double share) {
    prepare_pretokenized({folder / "a.jsonl"}, 10, folder / "store", true, {true, share});
  };
  prepare(0.1);
  const Error error = error_of([&] { prepare(0.099); });
  EXPECT_EQ(error.category(), ErrorCategory::kData);
  EXPECT_NE(error.message().find("1 of 10 lines are bad, more than a share of 0.099"),
            std::string::npos)
      << error.what();
  EXPECT_NE(error.message().find("a.jsonl:9: is no valid JSON"), std::string::npos);
  EXPECT_EQ(error_of([&] { TokenStore::open(folder / "store"); }).category(), ErrorCategory::kData);
}

TEST(BadLines, AFileOfNothingElseStopsLongBeforeItsEnd) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "{\n";
  write_bytes(folder / "a.jsonl", text);
  const Error error = error_of([&] {
    prepare_pretokenized({folder / "a.jsonl"}, 10, folder / "store", false, {true, 0.001});
  });
  EXPECT_NE(error.message().find("1002 of 1002 lines"), std::string::npos) << error.what();
}

TEST(BadLines, AnyLineOverTheLimitIsABadLine) {
  const TemporaryFolder folder;
  const std::string spaces(kMaxLineBytes, ' ');
  write_bytes(folder / "a.jsonl", "{\"input_ids\":[1]}" + spaces + "\n{\"input_ids\":[2]}\n");
  const StoreInfo info =
      prepare_pretokenized({folder / "a.jsonl"}, 10, folder / "store", false, {true, 0.5});
  EXPECT_EQ(info.num_examples, 1);
  const std::string text = read_text(folder / "store/bad-lines.jsonl", ErrorCategory::kData);
  EXPECT_LT(text.size(), 2000U);
  EXPECT_NE(text.find("wanted at most 67108864"), std::string::npos) << text;
}

}  // namespace
}  // namespace packtrain::bad_lines_test
