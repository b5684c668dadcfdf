#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "tests/helpers/temporary_folder.h"
#include "tests/parallel/communicators/thread_ranks.h"
#include "tests/training/checkpoint/sample_shards.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/hugging_face.h"
#include "training/checkpoint/manifest.h"

namespace packtrain::test {
namespace {

TEST(Checkpoint, IsCommittedUnderItsStepAndNothingElseIsLeft) {
  const TemporaryFolder root;
  EXPECT_EQ(save_sample(root.path(), 7, 2), root / "step-7");
  int num_entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root.path())) {
    EXPECT_EQ(entry.path().filename(), "step-7");
    ++num_entries;
  }
  EXPECT_EQ(num_entries, 1);
  for (const char* name :
       {"manifest.json", "rank-00000-of-00002.safetensors", "rank-00001-of-00002.safetensors"}) {
    EXPECT_TRUE(std::filesystem::exists(root / "step-7/" + name)) << name;
  }
}

TEST(Checkpoint, GivesBackTheTrainingState) {
  const TemporaryFolder root;
  const TrainingState wanted = sample_state(7);
  const TrainingState state = read_checkpoint_state(save_sample(root.path(), 7, 3));
  EXPECT_EQ(state.step, 7);
  EXPECT_EQ(state.epoch, wanted.epoch);
  EXPECT_EQ(state.seed, wanted.seed);
  EXPECT_EQ(state.num_ranks, 3);
  EXPECT_EQ(state.total_steps, wanted.total_steps);
  EXPECT_EQ(state.config_hash, wanted.config_hash);
  EXPECT_EQ(state.data_fingerprint, wanted.data_fingerprint);
  EXPECT_EQ(state.config_yaml, wanted.config_yaml);
  EXPECT_EQ(state.model_config, wanted.model_config);
  EXPECT_EQ(state.plan_header, wanted.plan_header);
}

TEST(Checkpoint, IsReadBackExactlyByAnyNumberOfRanks) {
  for (const int num_writers : {1, 2, 3, 4, 5}) {
    const TemporaryFolder root;
    const std::string folder = save_sample(root.path(), 1, num_writers);
    for (const int num_readers : {1, 2, 3, 4, 49}) {
      for (int rank = 0; rank < num_readers; ++rank) {
        const auto shards = sample_shards(rank, num_readers, false);
        load_checkpoint(folder, shards, true);
        EXPECT_EQ(num_wrong_elements(shards), 0)
            << num_writers << " -> " << num_readers << ", rank " << rank;
      }
    }
  }
}

TEST(Checkpoint, LeavesMomentsAloneWhenOnlyWeightsAreAskedFor) {
  const TemporaryFolder root;
  const std::string folder = save_sample(root.path(), 1);
  auto shards = sample_shards(0, 1, false);
  for (ShardView& shard : shards) shard.optimizer.clear();
  load_checkpoint(folder, shards, false);
  EXPECT_EQ(num_wrong_elements(shards, false), 0);
}

TEST(Checkpoint, OfWeightsOnlyHasNoMomentsAndSaysSo) {
  const TemporaryFolder root;
  run_ranks(2, [&](Communicator& control) {
    TrainingState state = sample_state(1);
    state.weights_only = true;
    save_checkpoint(root.path(), state, sample_shards(control.rank(), 2, true), {3}, control);
  });
  EXPECT_TRUE(read_checkpoint_state(root / "step-1").weights_only);
  const auto shards = sample_shards(0, 1, false);
  load_checkpoint(root / "step-1", shards, false);
  EXPECT_EQ(num_wrong_elements(shards, false), 0);
  const Error error = error_of([&] { load_checkpoint(root / "step-1", shards, true); });
  EXPECT_NE(error.message().find("no exp_avg of parameter 'embed'"), std::string::npos);
}

// Two ranks write 700 and 312 elements of one parameter, whose blocks have 256 elements.
TEST(Checkpoint, KeepsStateOfBlocksForAnyOtherRanges) {
  const auto view_of = [](std::int64_t begin, std::int64_t numel, bool values) {
    ShardView shard{.parameter = "w",
                    .shape = {1080},
                    .begin = begin,
                    .numel = numel,
                    .weight = at::full({numel}, 1.0, at::kFloat)};
    const std::int64_t blocks = (numel + 255) / 256;
    shard.optimizer = {{"blocks",
                        values ? at::arange(begin / 256, begin / 256 + blocks, at::kFloat)
                               : at::full({blocks}, -1.0, at::kFloat),
                        256}};
    return shard;
  };
  const TemporaryFolder root;
  run_ranks(2, [&](Communicator& control) {
    const std::vector<ShardView> shards = {control.rank() == 0 ? view_of(0, 768, true)
                                                               : view_of(768, 312, true)};
    save_checkpoint(root.path(), sample_state(1), shards, {3}, control);
  });
  for (const auto& [begin, numel] :
       {std::pair<std::int64_t, std::int64_t>{0, 1080}, {512, 512}, {1024, 56}, {256, 824}}) {
    const std::vector<ShardView> loaded = {view_of(begin, numel, false)};
    const std::vector<ShardView> wanted = {view_of(begin, numel, true)};
    load_checkpoint(root / "step-1", loaded, true);
    EXPECT_TRUE(at::equal(loaded[0].optimizer[0].values, wanted[0].optimizer[0].values)) << begin;
  }
}

TEST(Checkpoint, KeepsAnyStateThatTheOptimizerDeclares) {
  const auto with_state = [](bool values) {
    auto shards = sample_shards(0, 1, values);
    for (ShardView& shard : shards) {
      if (!shard.trainable) continue;
      shard.optimizer = {{"momentum", shard.weight.to(at::kBFloat16)}};
    }
    return shards;
  };
  const TemporaryFolder root;
  run_ranks(1, [&](Communicator& control) {
    save_checkpoint(root.path(), sample_state(1), with_state(true), {3}, control);
  });
  const auto saved = with_state(true);
  const auto loaded = with_state(false);
  load_checkpoint(root / "step-1", loaded, true);
  for (std::size_t s = 0; s < saved.size(); ++s) {
    ASSERT_EQ(loaded[s].optimizer.size(), saved[s].optimizer.size());
    for (std::size_t t = 0; t < saved[s].optimizer.size(); ++t) {
      EXPECT_TRUE(at::equal(loaded[s].optimizer[t].values, saved[s].optimizer[t].values))
          << saved[s].parameter;
    }
  }
}

TEST(Checkpoint, HasNoFileOfARankThatOwnsNothing) {
  const TemporaryFolder root;
  run_ranks(4, [&](Communicator& control) {
    const bool owns = control.rank() >= 2;
    const auto shards =
        owns ? sample_shards(control.rank() - 2, 2, true) : std::vector<ShardView>();
    save_checkpoint(root.path(), sample_state(1), shards, {3}, control);
  });
  const Manifest manifest = read_checkpoint_manifest(root / "step-1");
  ASSERT_EQ(manifest.files.size(), 2U);
  EXPECT_EQ(manifest.files[1].name, "rank-00001-of-00002.safetensors");
  const auto shards = sample_shards(0, 1, false);
  load_checkpoint(root / "step-1", shards, true);
  EXPECT_EQ(num_wrong_elements(shards), 0);
}

TEST(Checkpoint, ConvertsWeightsToTheTypeAskedFor) {
  const TemporaryFolder root;
  const std::string folder = save_sample(root.path(), 1, 2);
  auto shards = sample_shards(0, 1, false);
  for (ShardView& shard : shards) {
    shard.weight = at::full({shard.numel}, -1.0, shard.trainable ? at::kBFloat16 : at::kFloat);
  }
  load_checkpoint(folder, shards, false);
  EXPECT_EQ(num_wrong_elements(shards, false), 0);
}

TEST(Checkpoint, KeepsMomentsInTheirTypeAndConvertsThemToTheTypeAskedFor) {
  const auto with_moments = [](bool values, at::ScalarType type) {
    auto shards = sample_shards(0, 1, values);
    for (ShardView& shard : shards) {
      if (!shard.trainable) continue;
      for (OptimizerTensor& tensor : shard.optimizer) tensor.values = tensor.values.to(type);
    }
    return shards;
  };
  std::map<at::ScalarType, std::uintmax_t> size;
  for (const at::ScalarType saved : {at::kFloat, at::kBFloat16}) {
    const TemporaryFolder root;
    run_ranks(1, [&](Communicator& control) {
      save_checkpoint(root.path(), sample_state(1), with_moments(true, saved), {3}, control);
    });
    size[saved] = std::filesystem::file_size(root / "step-1/rank-00000-of-00001.safetensors");
    for (const at::ScalarType wanted : {at::kFloat, at::kBFloat16}) {
      const auto shards = with_moments(false, wanted);
      load_checkpoint(root / "step-1", shards, true);
      EXPECT_EQ(num_wrong_elements(shards), 0) << saved << " to " << wanted;
    }
  }
  EXPECT_LT(size[at::kBFloat16], size[at::kFloat]);
}

TEST(Checkpoint, RefusesAParameterOfAnotherShape) {
  const TemporaryFolder root;
  const std::string folder = save_sample(root.path(), 1);
  auto shards = sample_shards(0, 1, false);
  shards[0].shape = {4, 7};
  const Error error = error_of([&] { load_checkpoint(folder, shards, true); });
  EXPECT_EQ(error.category(), ErrorCategory::kCheckpoint);
  EXPECT_NE(error.message().find("'embed' has shape [7, 4], want [4, 7]"), std::string::npos)
      << error.message();
}

TEST(Checkpoint, RefusesAParameterItDoesNotHold) {
  const TemporaryFolder root;
  const std::string folder = save_sample(root.path(), 1);
  auto shards = sample_shards(0, 1, false);
  shards[1].parameter = "layers.1.mlp.down";
  const Error error = error_of([&] { load_checkpoint(folder, shards, true); });
  EXPECT_NE(error.message().find("no parameter 'layers.1.mlp.down'"), std::string::npos)
      << error.message();
}

TEST(Checkpoint, RefusesMomentsOfAParameterThatWasFrozen) {
  const TemporaryFolder root;
  const std::string folder = save_sample(root.path(), 1);
  auto shards = sample_shards(0, 1, false);
  shards[2].trainable = true;
  shards[2].optimizer = {{"exp_avg", at::full({6}, 0.0, at::kFloat)}};
  const Error error = error_of([&] { load_checkpoint(folder, shards, true); });
  EXPECT_NE(error.message().find("no exp_avg of parameter 'norm'"), std::string::npos);
  EXPECT_NE(error.advice().find("frozen"), std::string::npos);
}

TEST(Checkpoint, RefusesARangeThatNoRankSaved) {
  const TemporaryFolder root;
  run_ranks(1, [&](Communicator& control) {
    const auto shards = sample_shards(0, 2, true);  // the first half of the model
    save_checkpoint(root.path(), sample_state(1), shards, {3}, control);
  });
  const auto shards = sample_shards(0, 1, false);
  const Error error = error_of([&] { load_checkpoint(root / "step-1", shards, true); });
  EXPECT_NE(error.message().find("element 25 of weight of 'embed' is in no file"),
            std::string::npos)
      << error.message();
}

TEST(Checkpoint, AssemblesWholeParametersForExport) {
  const TemporaryFolder root;
  const ParameterSource source = checkpoint_parameters(save_sample(root.path(), 1, 4));
  const at::Tensor embed = source("embed");
  const at::Tensor norm = source("norm");
  EXPECT_EQ(embed.sizes(), at::IntArrayRef({7, 4}));
  EXPECT_EQ(embed.scalar_type(), at::kFloat);
  EXPECT_EQ(embed[6][3].item().toFloat(), 27.0F);
  EXPECT_EQ(norm.scalar_type(), at::kBFloat16);
  EXPECT_EQ(norm[5].item().toFloat(), 35.0F);
}

}  // namespace
}  // namespace packtrain::test
