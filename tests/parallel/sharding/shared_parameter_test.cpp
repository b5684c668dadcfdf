// A parameter that blocks share has one encoding.
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "parallel/sharding/unit_table.h"

namespace packtrain::shared_parameter_test {
namespace {

ParameterSpec of_encoding(DataType type) {
  return {.name = "a", .shape = {100}, .encoding = {type}};
}

class OneParameter final : public Block {
 public:
  explicit OneParameter(ParameterSpec spec) : specs_{std::move(spec)} {}
  const std::string& name() const override { return specs_.front().name; }
  const std::vector<ParameterSpec>& parameters() const override { return specs_; }
  BlockOutput forward(std::span<const Parameter> /*parameters*/, const BlockContext& /*context*/,
                      const at::Tensor& /*x*/) const override {
    return {};
  }
  at::Tensor backward(std::span<const Parameter> /*parameters*/, const BlockContext& /*context*/,
                      std::unique_ptr<Tape> /*tape*/,
                      const at::Tensor& /*grad_output*/) const override {
    return {};
  }

 private:
  std::vector<ParameterSpec> specs_;
};

TEST(UnitTable, RefusesASharedParameterOfTwoEncodings) {
  std::vector<std::unique_ptr<Block>> blocks;
  blocks.push_back(std::make_unique<OneParameter>(of_encoding(DataType::kFloat32)));
  blocks.push_back(std::make_unique<OneParameter>(of_encoding(DataType::kBFloat16)));
  EXPECT_THROW(make_unit_table(blocks, 1), Error);
}

}  // namespace
}  // namespace packtrain::shared_parameter_test
