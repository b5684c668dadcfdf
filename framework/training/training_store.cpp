#include "framework/training/training_store.h"

#include "framework/support/error.h"

namespace packtrain {

std::unique_ptr<TokenStore> open_training_store(const DataSection& data) {
  if (data.train.size() != 1 || data.train.front().repeats != 1) {
    throw Error(ErrorCategory::kConfig, "data.train: several stores are not in this version");
  }
  return TokenStore::open(data.train.front().path);
}

}  // namespace packtrain
