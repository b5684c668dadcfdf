#include "framework/core/safetensors.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "framework/core/file.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain {
namespace {

using test::error_of;
using test::TemporaryFolder;
using test::write_bytes;

std::string length_bytes(std::uint64_t length) {
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes;
}

std::string file_with(const std::string& header, std::size_t num_data_bytes) {
  return length_bytes(header.size()) + header + std::string(num_data_bytes, '\1');
}

std::string message_for(const std::string& bytes) {
  const TemporaryFolder folder;
  write_bytes(folder / "file.safetensors", bytes);
  const Error error =
      error_of([&] { SafetensorsFile::open(folder / "file.safetensors", ErrorCategory::kData); });
  EXPECT_EQ(error.category(), ErrorCategory::kData) << error.what();
  EXPECT_TRUE(error.message().starts_with(folder / "file.safetensors: ")) << error.what();
  return error.message();
}

TEST(Safetensors, WhatIsWrittenIsRead) {
  const TemporaryFolder folder;
  const std::vector<float> weights{1.0F, -2.5F, 3.0F, 0.0F, 1e-30F, 7.0F};
  const std::array<std::uint8_t, 3> mask{1, 0, 1};
  const std::array<std::int64_t, 1> scalar{-5};
  const std::vector<TensorToWrite> tensors{
      {"mask", DataType::kUInt8, {3}, std::as_bytes(std::span(mask))},
      {"weights \"q\" \xC3\xA4", DataType::kFloat32, {2, 3}, std::as_bytes(std::span(weights))},
      {"flags", DataType::kBool, {3}, std::as_bytes(std::span(mask))},
      {"scalar", DataType::kInt64, {}, std::as_bytes(std::span(scalar))},
      {"empty", DataType::kBFloat16, {0, 4}, {}}};
  write_safetensors(folder / "x", tensors, {{"format", "pt"}}, ErrorCategory::kData);

  const auto file = SafetensorsFile::open(folder / "x", ErrorCategory::kData);
  EXPECT_EQ(file->metadata(), (std::map<std::string, std::string>{{"format", "pt"}}));
  ASSERT_EQ(file->tensors().size(), tensors.size());
  for (const TensorToWrite& wanted : tensors) {
    const TensorView& got = file->tensor(wanted.name);
    EXPECT_EQ(got.dtype, wanted.dtype) << wanted.name;
    EXPECT_EQ(got.shape, wanted.shape) << wanted.name;
    ASSERT_EQ(got.data.size(), wanted.data.size()) << wanted.name;
    EXPECT_TRUE(std::equal(got.data.begin(), got.data.end(), wanted.data.begin())) << wanted.name;
  }
  EXPECT_EQ(file->tensor("weights \"q\" \xC3\xA4").numel(), 6);
  EXPECT_EQ(file->tensor("scalar").numel(), 1);
}

TEST(Safetensors, EveryTensorIsAlignedToItsElements) {
  const TemporaryFolder folder;
  const std::array<std::uint8_t, 3> bytes{1, 2, 3};
  const std::array<std::int16_t, 1> shorts{4};
  const std::array<std::int64_t, 1> longs{5};
  write_safetensors(
      folder / "x",
      std::vector<TensorToWrite>{{"a", DataType::kUInt8, {3}, std::as_bytes(std::span(bytes))},
                                 {"b", DataType::kInt16, {1}, std::as_bytes(std::span(shorts))},
                                 {"c", DataType::kInt64, {1}, std::as_bytes(std::span(longs))}},
      {}, ErrorCategory::kData);
  const auto file = SafetensorsFile::open(folder / "x", ErrorCategory::kData);
  for (const auto& [name, tensor] : file->tensors()) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data.data()) % size_of(tensor.dtype), 0U)
        << name;
  }
}

TEST(Safetensors, AMissingTensorIsNamedWithItsFile) {
  const TemporaryFolder folder;
  write_safetensors(folder / "x", {}, {}, ErrorCategory::kCheckpoint);
  const auto file = SafetensorsFile::open(folder / "x", ErrorCategory::kCheckpoint);
  const Error error = error_of([&] { file->tensor("lm_head.weight"); });
  EXPECT_EQ(error.category(), ErrorCategory::kCheckpoint);
  EXPECT_EQ(error.message(), folder / "x: has no tensor 'lm_head.weight'");
}

TEST(Safetensors, TheWriterRefusesATensorWhoseBytesAreNotItsShapes) {
  const TemporaryFolder folder;
  const std::array<std::uint8_t, 3> bytes{1, 2, 3};
  const auto data = std::as_bytes(std::span(bytes));
  for (const auto& tensors :
       {std::vector<TensorToWrite>{{"a", DataType::kUInt8, {4}, data}},
        std::vector<TensorToWrite>{{"a", DataType::kUInt8, {3}, data},
                                   {"a", DataType::kUInt8, {3}, data}},
        std::vector<TensorToWrite>{{"a", DataType::kUInt8, {1L << 62, 1L << 62, 3}, data}}}) {
    const Error error =
        error_of([&] { write_safetensors(folder / "x", tensors, {}, ErrorCategory::kData); });
    EXPECT_EQ(error.category(), ErrorCategory::kInternal) << error.what();
  }
}

TEST(Safetensors, AFileWrittenTensorByTensorIsTheSame) {
  const TemporaryFolder folder;
  const std::array<std::uint8_t, 6> bytes{1, 2, 3, 4, 5, 6};
  const auto data = std::as_bytes(std::span(bytes));
  const std::vector<TensorToWrite> whole = {{"b", DataType::kInt16, {2}, data.first(4)},
                                            {"a", DataType::kUInt8, {2}, data.last(2)}};
  write_safetensors(folder / "whole", whole, {}, ErrorCategory::kData);
  SafetensorsWriter writer(folder / "parts",
                           {{"b", DataType::kInt16, {2}}, {"a", DataType::kUInt8, {2}}}, {},
                           ErrorCategory::kData);
  writer.write(data.first(4));
  EXPECT_EQ(error_of([&] { writer.finish(); }).category(), ErrorCategory::kInternal);
  EXPECT_EQ(error_of([&] { writer.write(data); }).category(), ErrorCategory::kInternal);
  writer.write(data.last(2));
  EXPECT_EQ(error_of([&] { writer.write({}); }).category(), ErrorCategory::kInternal);
  writer.finish();
  EXPECT_EQ(read_text(folder / "parts", ErrorCategory::kData),
            read_text(folder / "whole", ErrorCategory::kData));
}

struct Hostile {
  const char* name;
  std::string header;
  std::size_t num_data_bytes;
  const char* message;
};

void PrintTo(const Hostile& hostile, std::ostream* out) {
  *out << hostile.name;
}

class HostileHeader : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileHeader, IsRefusedWithAMessageThatSaysWhy) {
  const Hostile& hostile = GetParam();
  const std::string message = message_for(file_with(hostile.header, hostile.num_data_bytes));
  EXPECT_NE(message.find(hostile.message), std::string::npos) << message;
}

std::string tensor(const char* name, const char* rest) {
  return std::string("\"") + name + R"(":{"dtype":"F32",)" + rest + "}";
}

std::vector<Hostile> hostile_headers() {
  const std::string good = tensor("a", R"("shape":[1],"data_offsets":[0,4])");
  return {
      {"empty", "", 0, "does not begin with '{'"},
      {"not_an_object", "[]", 0, "does not begin with '{'"},
      {"leading_space", " {}", 0, "does not begin with '{'"},
      {"cut_short", "{" + good, 4, "no valid JSON"},
      {"trailing_text", "{" + good + "}x", 4, "no valid JSON"},
      {"not_utf8", "{\"\xFF\":{}}", 0, "no valid JSON"},
      {"duplicate_name", "{" + good + "," + good + "}", 4, "the name 'a' appears twice"},
      {"duplicate_key",
       "{" + tensor("a", R"("dtype":"F32","shape":[1],"data_offsets":[0,4])") + "}", 4,
       "'a' has the key 'dtype' twice"},
      {"duplicate_shape",
       "{" + tensor("a", R"("shape":[1],"shape":[1],"data_offsets":[0,4])") + "}", 4,
       "'a' has the key 'shape' twice"},
      {"duplicate_metadata", R"({"__metadata__":{},"__metadata__":{}})", 0, "appears twice"},
      {"metadata_not_text", R"({"__metadata__":{"a":1}})", 0, "does not allow 1"},
      {"metadata_no_object", R"({"__metadata__":"a"})", 0, "does not allow a string"},
      {"tensor_no_object", R"({"a":5})", 0, "does not allow 5"},
      {"unknown_key", "{" + tensor("a", R"("shape":[1],"data_offsets":[0,4],"x":1)") + "}", 4,
       "does not allow this key"},
      {"missing_offsets", "{" + tensor("a", R"("shape":[1])") + "}", 4, "lacks one of"},
      {"missing_everything", R"({"a":{}})", 0, "lacks one of"},
      {"unknown_dtype", R"({"a":{"dtype":"F7","shape":[1],"data_offsets":[0,4]}})", 4, "dtype F7"},
      {"dtype_no_text", R"({"a":{"dtype":3,"shape":[1],"data_offsets":[0,4]}})", 4,
       "does not allow 3"},
      {"negative_dimension", "{" + tensor("a", R"("shape":[-1],"data_offsets":[0,4])") + "}", 4,
       "does not allow -1"},
      {"fractional_dimension", "{" + tensor("a", R"("shape":[1.5],"data_offsets":[0,4])") + "}", 4,
       "does not allow 1.5"},
      {"dimension_over_64_bits",
       "{" + tensor("a", R"("shape":[99999999999999999999],"data_offsets":[0,4])") + "}", 4,
       "does not allow 99999999999999999999"},
      {"dimension_over_63_bits",
       "{" + tensor("a", R"("shape":[18446744073709551615],"data_offsets":[0,4])") + "}", 4,
       "dimension of 18446744073709551615"},
      {"overflowing_product",
       "{" + tensor("a", R"("shape":[4294967296,4294967296],"data_offsets":[0,4])") + "}", 4,
       "overflows"},
      {"overflowing_bytes",
       "{" + tensor("a", R"("shape":[4611686018427387905],"data_offsets":[0,4])") + "}", 4,
       "overflows"},
      {"deep_nesting", "{" + tensor("a", R"("shape":[[[[[[1]]]]]],"data_offsets":[0,4])") + "}", 4,
       "does not allow an array"},
      {"object_in_shape", "{" + tensor("a", R"("shape":[{}],"data_offsets":[0,4])") + "}", 4,
       "does not allow an object"},
      {"null_shape", "{" + tensor("a", R"("shape":null,"data_offsets":[0,4])") + "}", 4,
       "does not allow null"},
      {"one_offset", "{" + tensor("a", R"("shape":[1],"data_offsets":[4])") + "}", 4,
       "has 1 data_offsets"},
      {"offsets_backwards", "{" + tensor("a", R"("shape":[1],"data_offsets":[4,0])") + "}", 4,
       "before its begin"},
      {"wrong_size", "{" + tensor("a", R"("shape":[2],"data_offsets":[0,4])") + "}", 4, "needs 8"},
      {"past_the_end", "{" + tensor("a", R"("shape":[2],"data_offsets":[0,8])") + "}", 4,
       "end at byte 8 of the data, but the file holds 4"},
      {"far_past_the_end",
       "{" +
           tensor("a",
                  R"("shape":[1],"data_offsets":[18446744073709551608,18446744073709551612])") +
           "}",
       4, "a hole"},
      {"bytes_left_over", "{" + good + "}", 5, "the file holds 5"},
      {"hole", "{" + good + "," + tensor("b", R"("shape":[1],"data_offsets":[8,12])") + "}", 12,
       "a hole"},
      {"hole_at_start", "{" + tensor("b", R"("shape":[1],"data_offsets":[4,8])") + "}", 8,
       "a hole"},
      {"overlap", "{" + good + "," + tensor("b", R"("shape":[1],"data_offsets":[2,6])") + "}", 6,
       "an overlap"},
      {"same_bytes_twice",
       "{" + good + "," + tensor("b", R"("shape":[1],"data_offsets":[0,4])") + "}", 4,
       "an overlap"},
  };
}

INSTANTIATE_TEST_SUITE_P(Safetensors, HostileHeader, ::testing::ValuesIn(hostile_headers()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(SafetensorsLength, IsCheckedAgainstTheFileAndTheLimitBeforeAnythingIsRead) {
  EXPECT_NE(message_for("").find("too few"), std::string::npos);
  EXPECT_NE(message_for("1234567").find("too few"), std::string::npos);
  EXPECT_NE(message_for(length_bytes(3) + "{}").find("at most 2"), std::string::npos);
  EXPECT_NE(message_for(length_bytes(~std::uint64_t{0}) + "{}").find("at most 2"),
            std::string::npos);
}

TEST(SafetensorsLength, AHeaderOverTheLimitIsRefusedThoughTheFileHoldsIt) {
  const std::string header = "{}" + std::string(100'000'000, ' ');
  const std::string message = message_for(length_bytes(header.size()) + header);
  EXPECT_NE(message.find("at most 100000000"), std::string::npos) << message;
}

TEST(Safetensors, AnEndlessNameDoesNotFillTheMessage) {
  const std::string name(1'000'000, 'n');
  const std::string message = message_for(file_with("{\"" + name + "\":{}}", 0));
  EXPECT_LT(message.size(), 1000U);
  EXPECT_NE(message.find("nnn' lacks one of"), std::string::npos);
}

TEST(Safetensors, AnyPrefixOfAValidFileIsRefused) {
  const std::string whole =
      file_with("{" + tensor("a", R"("shape":[1],"data_offsets":[0,4])") + "}", 4);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(message_for(whole.substr(0, length)), "no error was thrown") << length;
  }
}

}  // namespace
}  // namespace packtrain
