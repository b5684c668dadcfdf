// JSON and UTF-8 from strangers.
#include "framework/core/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "framework/core/utf8.h"

namespace packtrain {
namespace {

std::string fault_of(const std::string& text) {
  try {
    check_json(text);
  } catch (const JsonFault& fault) {
    return fault.what();
  }
  return "";
}

TEST(Json, IsReadAsItStands) {
  const auto value = parse_json(R"({"a": [1, -2.5, "\u00e9", null, {"a": true}], "b": {"a": 1}})");
  EXPECT_EQ(value["a"].size(), 5U);
  EXPECT_EQ(value["a"][2], "\xC3\xA9");
  EXPECT_EQ(parse_json("7"), 7);
}

TEST(Json, OfHuggingFaceMayHaveInfinityOutsideOfStrings) {
  const auto value = parse_hf_json(R"({"a": [0.0, Infinity], "b\"Infinity": "\\", "c": Infinity})");
  const nlohmann::json infinite = {{"__float__", "Infinity"}};
  EXPECT_EQ(value["a"][1], infinite);
  EXPECT_EQ(value["b\"Infinity"], "\\");
  EXPECT_EQ(value["c"], infinite);
  EXPECT_EQ(parse_hf_json("{\"a\": 1}")["a"], 1);
  EXPECT_THROW(parse_hf_json("[Infinity, NaN]"), JsonFault);
}

TEST(Json, SaysWhatIsWrongAndWhere) {
  EXPECT_EQ(fault_of(""), "is no valid JSON at its byte 1");
  EXPECT_EQ(fault_of("{\"a\": 1,}"), "is no valid JSON at its byte 9");
  EXPECT_EQ(fault_of("[1] 2"), "is no valid JSON at its byte 5");
  EXPECT_EQ(fault_of("\"\xFF\""), "is no valid JSON at its byte 2");
  EXPECT_EQ(fault_of("NaN"), "is no valid JSON at its byte 1");
  EXPECT_EQ(fault_of("[1e999]"), "is no valid JSON at its byte 6");
}

TEST(Json, RefusesAKeyTwiceWhereverItIs) {
  EXPECT_EQ(fault_of(R"({"a": 1, "b": {"c": [{"d": 1, "d": 2}]}})"), "has the key 'd' twice");
  EXPECT_EQ(fault_of(R"({"a": 1, "\u0061": 2})"), "has the key 'a' twice");
  EXPECT_LT(fault_of("{\"" + std::string(9999, 'k') + "\":1,\"" + std::string(9999, 'k') + "\":1}")
                .size(),
            200U);
}

TEST(Json, RefusesDepthWithoutEnd) {
  EXPECT_EQ(fault_of(std::string(64, '[') + std::string(64, ']')), "");
  EXPECT_EQ(fault_of(std::string(65, '[') + std::string(65, ']')),
            "is nested deeper than 64 levels");
  EXPECT_EQ(fault_of(std::string(10'000'000, '[')), "is nested deeper than 64 levels");
  std::string objects;
  for (int i = 0; i < 100; ++i) objects += "{\"a\":";
  EXPECT_EQ(fault_of(objects), "is nested deeper than 64 levels");
}

TEST(Utf8, TakesWhatIsWellFormed) {
  for (const char* text : {"", "plain", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF",
                           "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(first_invalid_utf8(text), std::nullopt) << text;
  }
  EXPECT_EQ(first_invalid_utf8(std::string_view("\0", 1)), std::nullopt);
}

TEST(Utf8, NamesTheFirstByteThatIsWrong) {
  const struct {
    const char* text;
    std::size_t at;
  } cases[] = {
      {"\x80", 0},              // a byte that only follows
      {"ab\xC0\x80", 2},        // overlong
      {"\xE0\x9F\xBF", 0},      // overlong
      {"\xF0\x8F\xBF\xBF", 0},  // overlong
      {"\xED\xA0\x80", 0},      // half of a surrogate pair
      {"\xF4\x90\x80\x80", 0},  // above U+10FFFF
      {"\xF5\x80\x80\x80", 0},  // no first byte
      {"\xC3\xA9\xE2\x82", 2},  // cut short
      {"x\xE2\x28\xA1", 1},     // a letter inside
      {"\xFF\xFE", 0},          // UTF-16's mark
  };
  for (const auto& [text, at] : cases) EXPECT_EQ(first_invalid_utf8(text), at) << text;
}

}  // namespace
}  // namespace packtrain
