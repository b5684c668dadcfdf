// Decoding of weights that are stored encoded.
#include <ATen/ops/empty.h>

#include "benchmarks/ops/op_benchmark.h"
#include "models/ops/nf4/nf4.h"

namespace packtrain {
namespace {

void add_nf4_decode(OpBenchmarks& benchmarks, std::int64_t rows, std::int64_t columns) {
  const std::int64_t numel = rows * columns;
  const std::int64_t num_bytes = num_nf4_groups(numel) * kNf4GroupBytes;
  benchmarks.push_back(
      {.name = "nf4 decode",
       .shape = shape_text({rows, columns}),
       .bytes = static_cast<double>(num_bytes) + 2.0 * static_cast<double>(numel),
       .make = [=] {
         const at::Tensor values = random_numbers({numel}, at::kBFloat16, 0.02);
         const at::Tensor groups = at::empty({num_bytes}, values.options().dtype(at::kByte));
         nf4_quantize_tensor(numel, 0, groups, [&](std::int64_t begin, std::int64_t count) {
           return values.narrow(0, begin, count);
         });
         return Call([encoded = EncodedParameter{groups, {{0, numel}}}, values] {
           nf4_decode(encoded, values);
         });
       }});
}

}  // namespace

void add_encodings(OpBenchmarks& benchmarks) {
  add_nf4_decode(benchmarks, 28672, 4096);
  add_nf4_decode(benchmarks, 6144, 4096);
  add_nf4_decode(benchmarks, 57344, 8192);
}

}  // namespace packtrain
