// The shape of a low-rank update of a weight.
#pragma once

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace packtrain {

// The low-rank update (LoRA, arXiv 2106.09685) of the rows that one Hugging Face module holds:
//    W[rows] += scale B A,  A [rank, in], B [num_rows, rank]
struct LoraModule {
  std::string name;        // path of the module: model.layers.0.self_attn.q_proj
  std::int64_t begin = 0;  // first row in the weight
  std::int64_t num_rows = 0;
  std::int64_t rank = 0;
  double scale = 1;
  int adapter = 0;  // number of the adapter, where several are trained

  // The last part of the name: q_proj.
  std::string leaf() const { return name.substr(name.rfind('.') + 1); }
  bool operator==(const LoraModule&) const = default;
};

// The modules of one weight, in the order of their rows, which do not overlap. Their A matrices are
// the rows of one parameter, so that one product computes all x A^T. Those of several adapters
// follow each other.
using LoraModules = std::vector<LoraModule>;

inline std::int64_t total_rank(const LoraModules& modules) {
  return std::accumulate(modules.begin(), modules.end(), std::int64_t{0},
                         [](std::int64_t sum, const LoraModule& m) { return sum + m.rank; });
}

}  // namespace packtrain
