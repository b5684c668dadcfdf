// Log-probabilities of the reference model from files of `packtrain score --log-probs`, which are
// in the folder of each store (score_file.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "collators/row_values.h"
#include "framework/core/safetensors.h"
#include "framework/data/token_store.h"

namespace packtrain {

class ReferenceLogProbs final : public RowValues {
 public:
  // Maps the file of the model `digest` of each store that `store` joins. `command`: how to make
  // such a file of a store's folder, for the error. Both must outlive the object. Throws
  // Error(kData) when a file is missing, damaged, or of other data.
  ReferenceLogProbs(const TokenStore& store, const std::string& digest,
                    const std::function<std::string(const std::string& folder)>& command);

  // Natural logarithms.
  std::span<const float> of(std::int64_t example) const override;

 private:
  struct File {
    std::shared_ptr<const SafetensorsFile> file;
    std::span<const std::int64_t> offsets;  // [examples of the store + 1]
    std::span<const float> log_probs;
  };
  static File open(const TokenStore& store, const std::string& path, const std::string& digest,
                   const std::string& command);

  const TokenStore& store_;
  std::map<std::string, File, std::less<>> files_;  // by folder
};

}  // namespace packtrain
