#include "training/evaluation/candidate_tokens.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/hash.h"

namespace packtrain {
namespace {

template <class T>
std::span<const T> values_of(const SafetensorsFile& file, const std::string& name, DataType dtype) {
  const TensorView& tensor = file.tensor(name);
  if (tensor.dtype != dtype || tensor.shape.size() != 1) {
    throw Error(ErrorCategory::kData,
                fmt::format("{}: {} has another type or shape: wanted one dimension of {} bytes",
                            file.path(), name, sizeof(T)));
  }
  return {reinterpret_cast<const T*>(tensor.data.data()), tensor.data.size() / sizeof(T)};
}

at::Tensor with_more(const at::Tensor& values, const std::vector<std::int32_t>& more) {
  return at::cat({values, at::tensor(more, at::kInt).to(values.device())});
}

}  // namespace

CandidateTokens::CandidateTokens(const std::string& path, const TokenStore& store)
    : file_(SafetensorsFile::open(path, ErrorCategory::kData)),
      offsets_(values_of<std::int64_t>(*file_, "offsets", DataType::kInt64)),
      ids_(values_of<std::int32_t>(*file_, "ids", DataType::kInt32)) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCategory::kData, fmt::format("{}: {}", path, what),
                fmt::format("Make it for {}.", store.folder()));
  };
  const StoreInfo& info = store.info();
  if (info.sources.size() > 1) fail("is for a store with several sources, wanted one");
  if (std::ssize(offsets_) != info.num_examples + 1) {
    fail(fmt::format("has offsets of {} examples, the store has {}", std::ssize(offsets_) - 1,
                     info.num_examples));
  }
  const bool rises = offsets_.front() == 0 && std::ranges::is_sorted(offsets_) &&
                     offsets_.back() == std::ssize(ids_);
  if (!rises) fail("its offsets do not rise from 0 to the number of ids");
  const auto is_wrong = [&](std::int32_t id) { return id < 0 || id >= info.vocab_size; };
  const auto wrong = std::ranges::find_if(ids_, is_wrong);
  if (wrong != ids_.end())
    fail(fmt::format("has id {}, wanted 0..{}", *wrong, info.vocab_size - 1));
  const ExampleCounts lengths = store.lengths();
  for (std::size_t e = 0; e < lengths.size(); ++e) {
    if (lengths[e] == 0 && offsets_[e] != offsets_[e + 1]) {
      fail(fmt::format("has ids of example {}, which has no token", e));
    }
  }
}

std::span<const std::int32_t> CandidateTokens::of(std::int64_t example) const {
  const auto e = static_cast<std::size_t>(example);
  return ids_.subspan(static_cast<std::size_t>(offsets_[e]),
                      static_cast<std::size_t>(offsets_[e + 1] - offsets_[e]));
}

std::string CandidateTokens::digest() const {
  return hash_bytes(std::as_bytes(offsets_)) + hash_bytes(std::as_bytes(ids_));
}

void CandidateTokens::add_rows(const PackedBatch& packed, DeviceBatch& batch) const {
  std::vector<std::int32_t> rows;
  std::vector<std::int32_t> ids;
  const auto ends = packed.examples.subspan(packed.pieces.size());
  for (std::size_t i = 0; i < packed.pieces.size(); ++i) {
    if (packed.pieces[i].is_prefix) continue;  // its example has another piece
    const auto own = of(packed.pieces[i].example);
    rows.insert(rows.end(), own.size(), ends[i] - 1);
    ids.insert(ids.end(), own.begin(), own.end());
  }
  if (ids.empty()) return;
  const at::Tensor weights = at::zeros({std::ssize(ids)}, batch.loss_weight.options());
  batch.loss_index = with_more(batch.loss_index, rows);
  batch.loss_labels = with_more(batch.loss_labels, ids);
  batch.loss_weight = at::cat({batch.loss_weight, weights});
  if (batch.token_weight.defined()) batch.token_weight = at::cat({batch.token_weight, weights});
}

}  // namespace packtrain
