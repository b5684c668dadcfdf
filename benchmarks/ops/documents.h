// Packed documents, over which mixers other than attention are measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace packtrain {

struct Documents {
  std::string name;
  std::vector<std::int32_t> boundaries;

  std::int64_t tokens() const { return boundaries.back(); }
};

// Lengths of mean `mean` that rise from a quarter of it to seven quarters, over and over.
Documents rising_documents(std::int32_t mean, std::int32_t tokens);

}  // namespace packtrain
