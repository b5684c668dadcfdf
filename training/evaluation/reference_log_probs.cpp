#include "training/evaluation/reference_log_probs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>

#include "framework/core/error.h"
#include "framework/data/store_format.h"
#include "training/evaluation/score_file.h"

namespace packtrain {
namespace {

template <class Value>
std::span<const Value> values_of(const SafetensorsFile& file, const char* name, DataType type) {
  const TensorView& tensor = file.tensor(name);
  if (tensor.dtype != type || tensor.shape.size() != 1) {
    throw Error(ErrorCategory::kData,
                fmt::format("{}: tensor '{}' is not a list of {}", file.path(), name,
                            type == DataType::kInt64 ? "int64" : "float32"),
                "Remove the file and make it again with `packtrain score --log-probs`.");
  }
  return {reinterpret_cast<const Value*>(tensor.data.data()), tensor.data.size() / sizeof(Value)};
}

void check_data(const SafetensorsFile& file, const TokenStore& store, const std::string& command) {
  const auto found = file.metadata().find(kScoresDataKey);
  const std::string got = found == file.metadata().end() ? "" : found->second;
  const std::string wanted = scored_data(store);
  if (got == wanted) return;
  throw Error(ErrorCategory::kData,
              fmt::format("{}: of other data: got '{}', wanted '{}'", file.path(), got, wanted),
              "The store was made again: remove the file, then run: " + command);
}

void check_offsets(std::span<const std::int64_t> offsets, std::size_t num_values,
                   const TokenStore& store, const std::string& path) {
  const auto num_examples = static_cast<std::size_t>(store.info().num_examples);
  const bool fits = offsets.size() == num_examples + 1 && offsets.front() == 0 &&
                    offsets.back() == static_cast<std::int64_t>(num_values) &&
                    std::ranges::is_sorted(offsets) &&
                    offsets.back() == store.info().num_loss_tokens;
  if (fits) return;
  throw Error(ErrorCategory::kData,
              fmt::format("{}: its offsets are not those of {} examples with {} supervised tokens",
                          path, num_examples, store.info().num_loss_tokens),
              "Remove the file and make it again with `packtrain score --log-probs`.");
}

}  // namespace

ReferenceLogProbs::File ReferenceLogProbs::open(const TokenStore& store, const std::string& path,
                                                const std::string& digest,
                                                const std::string& command) {
  if (!std::filesystem::exists(path)) {
    throw Error(ErrorCategory::kData,
                fmt::format("objective.reference is log_probs, but {} has no log-probabilities of "
                            "the model {}: {} does not exist",
                            store.folder(), digest, path),
                "Make them: " + command);
  }
  File opened;
  opened.file = SafetensorsFile::open(path, ErrorCategory::kData);
  check_data(*opened.file, store, command);
  opened.offsets = values_of<std::int64_t>(*opened.file, "offsets", DataType::kInt64);
  opened.log_probs = values_of<float>(*opened.file, "log_probs", DataType::kFloat32);
  check_offsets(opened.offsets, opened.log_probs.size(), store, path);
  return opened;
}

ReferenceLogProbs::ReferenceLogProbs(
    const TokenStore& store, const std::string& digest,
    const std::function<std::string(const std::string& folder)>& command)
    : store_(store) {
  for (const StoreUse& use : store.uses()) {
    if (files_.contains(use.folder)) continue;
    const std::unique_ptr<TokenStore> own = TokenStore::open(use.folder);
    files_.emplace(use.folder,
                   open(*own, use.folder + "/" + scores_name(digest), digest, command(use.folder)));
  }
}

std::span<const float> ReferenceLogProbs::of(std::int64_t example) const {
  const ExampleOrigin origin = store_.origin(example);
  const File& file = files_.find(origin.store)->second;
  const auto e = static_cast<std::size_t>(origin.example);
  const std::int64_t begin = file.offsets[e];
  return file.log_probs.subspan(begin, file.offsets[e + 1] - begin);
}

}  // namespace packtrain
