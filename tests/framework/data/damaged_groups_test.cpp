// Stores of groups whose files were damaged.
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/safetensors.h"
#include "framework/data/token_store.h"
#include "tests/framework/data/small_groups.h"
#include "tests/helpers/temporary_folder.h"

namespace packtrain::damaged_groups_test {
namespace {

using test::error_of;
using test::Mask;
using test::TemporaryFolder;
using test::write_bytes;
using test::write_pairs;
using Json = nlohmann::ordered_json;
using Values = std::vector<float>;

// What of a sound store of pairs a test changes: store.json, or a column of the shard.
struct Damage {
  const char* name;
  std::function<void(Json&)> manifest;
  std::function<void(std::vector<std::int64_t>&, Mask&, Values&)> columns;
  const char* message;
};

class DamagedGroups : public ::testing::TestWithParam<Damage> {};

TEST_P(DamagedGroups, AreAnErrorOfTheData) {
  const TemporaryFolder folder;
  write_pairs(folder / "store");
  const std::string path = folder / "store/store.json";
  Json json = Json::parse(read_text(path, ErrorCategory::kData));
  json["shards"][0].erase("digest");
  if (GetParam().manifest) GetParam().manifest(json);
  write_bytes(path, json.dump());
  if (GetParam().columns) {
    std::vector<std::int64_t> offsets{0, 2, 4, 6};
    Mask roles{0, 1, 0, 1, 0, 1};
    Values margins{0.5F, -1, 0};
    GetParam().columns(offsets, roles, margins);
    const std::string part = folder / "store/part-00000.safetensors";
    const auto file = SafetensorsFile::open(part, ErrorCategory::kData);
    std::vector<TensorToWrite> tensors;
    const auto keep = [&](const char* name) {
      const TensorView& tensor = file->tensor(name);
      tensors.push_back({name, tensor.dtype, tensor.shape, tensor.data});
    };
    for (const char* name : {"offsets", "input_ids", "num_loss_tokens", "source", "loss_mask"}) {
      keep(name);
    }
    const auto put = [&](const char* name, DataType dtype, const auto& values) {
      tensors.push_back({name, dtype, {std::ssize(values)}, std::as_bytes(std::span(values))});
    };
    put("group_offsets", DataType::kInt64, offsets);
    put("group_role", DataType::kUInt8, roles);
    put("margin", DataType::kFloat32, margins);
    write_safetensors(part + ".new", tensors, {}, ErrorCategory::kData);
    std::filesystem::rename(part + ".new", part);
  }
  const Error error = error_of([&] { TokenStore::open(folder / "store")->check_all(0, 1); });
  EXPECT_EQ(error.category(), ErrorCategory::kData) << error.what();
  EXPECT_NE(error.message().find(GetParam().message), std::string::npos) << error.what();
}

const std::array kDamages{
    Damage{"not_required",
           [](Json& json) { json.erase("requires"); },
           {},
           "has 'groups', and 'requires' does not name 'groups'"},
    Damage{"required_only",
           [](Json& json) { json.erase("groups"); },
           {},
           "has no 'groups', and 'requires' names 'groups'"},
    Damage{"unknown_kind",
           [](Json& json) { json["groups"]["kind"] = "trees"; },
           {},
           "'kind' of 'groups' is 'trees'"},
    Damage{"other_count",
           [](Json& json) { json["groups"]["num_groups"] = 4; },
           {},
           "its shards have 3 groups, wanted 4"},
    Damage{"no_count",
           [](Json& json) { json["shards"][0].erase("num_groups"); },
           {},
           "lacks the key 'num_groups'"},
    Damage{"no_margins",
           [](Json& json) { json["groups"].erase("has_margins"); },
           {},
           "lacks the key 'has_margins'"},
    Damage{"judged",
           [](Json& json) { json["groups"]["kind"] = "judged"; },
           {},
           "example 0: its group of 2 has the roles 0, 1, wanted one, 2 (desirable) or 3 "
           "(undesirable)"},
    Damage{"two_chosen",
           {},
           [](auto&, Mask& roles, Values&) { roles[3] = 0; },
           "example 2: its group of 2 has the roles 0, 0, wanted 0 (chosen) and 1 (rejected)"},
    Damage{"unknown_role",
           {},
           [](auto&, Mask& roles, Values&) { roles[1] = 9; },
           "example 0: has the role 9, wanted 0..5"},
    Damage{"three_in_a_group",
           {},
           [](auto& offsets, Mask&, Values&) { offsets[1] = 3; },
           "example 0: its group of 3 has the roles 0, 1, 0, wanted 0 (chosen)"},
    Damage{"an_empty_group",
           {},
           [](auto& offsets, Mask&, Values&) { offsets[1] = 0; },
           "example 0: its group of 4 has the roles 0, 1, 0, 1, wanted 0 (chosen)"},
    Damage{"rollouts",
           [](Json& json) { json["groups"]["kind"] = "rollouts"; },
           {},
           "its group of 2 has the roles 0, 1, wanted at least one, each 4 (rollout)"},
    Damage{"offsets_outside",
           {},
           [](auto& offsets, Mask&, Values&) { offsets[2] = 1 << 20; },
           "group 1 of the shard has the examples from 2 to 1048576"},
    Damage{"last_offset",
           {},
           [](auto& offsets, Mask&, Values&) { offsets[3] = 5; },
           "group_offsets begin with 0 and end with 5, wanted 0 and num_examples = 6"},
    Damage{
        "margin",
        {},
        [](auto&, Mask&, Values& margins) { margins[2] = std::numeric_limits<float>::quiet_NaN(); },
        "the margin of its group is nan"},
    Damage{"fewer_margins",
           {},
           [](auto&, Mask&, Values& margins) { margins.pop_back(); },
           "tensor 'margin' has 2 elements"},
};

INSTANTIATE_TEST_SUITE_P(Groups, DamagedGroups, ::testing::ValuesIn(kDamages),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Groups, AChangedMarginIsFoundByTheDigest) {
  const TemporaryFolder folder;
  write_pairs(folder / "store");
  const std::string part = folder / "store/part-00000.safetensors";
  std::string bytes = read_text(part, ErrorCategory::kData);
  const std::string margin("\x00\x00\x00\x3f\x00\x00\x80\xbf", 8);  // 0.5, -1
  const auto at = bytes.find(margin);
  ASSERT_NE(at, std::string::npos);
  bytes[at + 2] = '\x01';
  write_bytes(part, bytes);
  const auto store = TokenStore::open(folder / "store");
  EXPECT_NE(error_of([&] { store->check_all(0, 1); }).message().find("its digest is"),
            std::string::npos);
}

}  // namespace
}  // namespace packtrain::damaged_groups_test
