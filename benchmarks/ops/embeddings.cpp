#include <ATen/ops/randint.h>

#include "benchmarks/ops/op_benchmark.h"
#include "models/ops/embedding/embedding.h"

namespace packtrain {
namespace {

struct Table {
  std::int64_t tokens;
  std::int64_t hidden;
  std::int64_t vocab_size;

  at::Tensor ids() const {
    return at::randint(vocab_size, {tokens}, at::TensorOptions(at::kInt).device(at::kCUDA, 0));
  }
  Parameter weight() const { return random_weight({vocab_size, hidden}); }
};

void add_embedding(OpBenchmarks& benchmarks, const Table& table) {
  const std::string shape = shape_text({table.tokens, table.hidden, table.vocab_size});
  const double row_bytes = 2.0 * static_cast<double>(table.hidden);
  const auto tokens = static_cast<double>(table.tokens);
  benchmarks.push_back(
      {.name = "embedding forward", .shape = shape, .bytes = 2 * tokens * row_bytes, .make = [=] {
         return keeping_output([ids = table.ids(), weight = table.weight()] {
           return embedding_forward(ids, weight);
         });
       }});
  benchmarks.push_back({.name = "embedding backward",
                        .shape = shape,
                        .bytes = (tokens + static_cast<double>(table.vocab_size)) * row_bytes,
                        .make = [=] {
                          return Call(
                              [ids = table.ids(), weight = table.weight(),
                               g = random_numbers({table.tokens, table.hidden}, at::kBFloat16)] {
                                embedding_backward(g, ids, weight);
                              });
                        }});
}

}  // namespace

void add_embeddings(OpBenchmarks& benchmarks) {
  add_embedding(benchmarks, {16384, 2048, 128256});
  add_embedding(benchmarks, {16384, 4096, 128256});
}

}  // namespace packtrain
