// An adapter of PiSSA as a plain adapter of the original model.
#include "training/checkpoint/peft_difference.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "models/adapters/adapter_weights.h"

namespace packtrain {
namespace {

// Two modules of one weight.
struct Trained {
  LoraModules modules = {{"model.layers.0.self_attn.q_proj", 0, 8, 3, 0.5},
                         {"model.layers.0.self_attn.k_proj", 8, 4, 2, 2.0}};
  std::map<std::string, at::Tensor> tensors;
  DecoderConfig config;

  Trained() {
    auto targets = std::make_shared<AdapterTargets>();
    targets->weights[kWeight] = modules;
    targets->trained = {"norm.weight"};
    config.adapter = targets;
    const auto add = [&](const std::string& name, std::int64_t rows, std::int64_t columns) {
      for (const std::string& both : {name, initial_name(name)}) {
        tensors[both] = at::randn({rows, columns});
      }
    };
    add(lora_a_name(kWeight), 5, 16);
    add(lora_b_name(kWeight, modules[0]), 8, 3);
    add(lora_b_name(kWeight, modules[1]), 4, 2);
    tensors["norm.weight"] = at::randn({16});
  }

  ParameterSource source() const {
    return [this](const std::string& name) { return tensors.at(name); };
  }

  static constexpr const char* kWeight = "layers.0.attention.qkv.weight";
};

// scale B A of a module.
at::Tensor update(const ParameterSource& source, const LoraModule& module, std::int64_t first,
                  const std::string& prefix = "") {
  const at::Tensor a = source(prefix + lora_a_name(Trained::kWeight)).narrow(0, first, module.rank);
  return at::mm(source(prefix + lora_b_name(Trained::kWeight, module)), a).mul(module.scale);
}

TEST(PeftDifference, ChangesTheModelAsTheAdapterChangesItsResidual) {
  const Trained trained;
  const PlainAdapter plain = over_original_model(trained.config, trained.source());
  const LoraModules& modules = *plain.config.adapter->find(Trained::kWeight);
  std::int64_t first = 0;
  for (std::size_t m = 0; m < modules.size(); ++m) {
    const LoraModule& module = trained.modules[m];
    EXPECT_EQ(modules[m].rank, 2 * module.rank);
    EXPECT_EQ(modules[m].scale, module.scale);
    const at::Tensor wanted = update(trained.source(), module, first)
                                  .sub(update(trained.source(), module, first, initial_name("")));
    EXPECT_TRUE(update(plain.source, modules[m], 2 * first).allclose(wanted, 1e-5, 1e-5)) << m;
    first += module.rank;
  }
}

TEST(PeftDifference, ModulesThatAreTrainedWholeStay) {
  const Trained trained;
  const PlainAdapter plain = over_original_model(trained.config, trained.source());
  EXPECT_TRUE(plain.source("norm.weight").equal(trained.tensors.at("norm.weight")));
}

}  // namespace
}  // namespace packtrain
