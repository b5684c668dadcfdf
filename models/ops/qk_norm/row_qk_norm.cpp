#include "models/ops/qk_norm/row_qk_norm.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sub.h>

#include <array>
#include <cstdint>
#include <utility>

#include "models/ops/gradient.h"

namespace packtrain {
namespace {

// The heads that share a weight.
struct Part {
  const Parameter& weight;
  std::int64_t first_head;
  std::int64_t num_heads;

  at::Tensor of(const at::Tensor& qkv) const { return qkv.narrow(1, first_head, num_heads); }
};

std::int64_t num_key_heads_of(const at::Tensor& qkv, const QkNorm& norm) {
  return (qkv.size(1) - norm.num_query_heads) / 2;
}

std::array<Part, 2> parts_of(const at::Tensor& qkv, const QkNorm& norm) {
  return {Part{norm.query, 0, norm.num_query_heads},
          Part{norm.key, norm.num_query_heads, num_key_heads_of(qkv, norm)}};
}

// A view of all heads of a token as one row.
at::Tensor rows_of(const at::Tensor& heads) {
  return heads.view({heads.size(0), heads.size(1) * heads.size(2)});
}

at::Tensor values_of(const at::Tensor& qkv, const QkNorm& norm) {
  const std::int64_t num_value_heads = num_key_heads_of(qkv, norm);
  return qkv.narrow(1, qkv.size(1) - num_value_heads, num_value_heads);
}

// Copies elements of 16 bytes where rows are whole ones. libtorch copies strided rows element by
// element.
void copy_rows(const at::Tensor& to, const at::Tensor& from) {
  constexpr auto kWide = at::kComplexDouble;
  const auto factor = static_cast<std::int64_t>(c10::elementSize(kWide) / from.element_size());
  const auto is_whole = [&](const at::Tensor& rows) {
    return rows.size(1) % factor == 0 && rows.stride(0) % factor == 0 &&
           rows.storage_offset() % factor == 0 && rows.stride(1) == 1;
  };
  if (!is_whole(to) || !is_whole(from)) {
    to.copy_(from);
    return;
  }
  to.view(kWide).copy_(from.view(kWide));
}

at::Tensor head_mean(const at::Tensor& x) {
  return x.mean(at::IntArrayRef{-1}, /*keepdim=*/true);
}

}  // namespace

RowQkNormOutput full_qk_norm_forward(const at::Tensor& qkv, const QkNorm& norm) {
  RowQkNormOutput output{at::empty_like(qkv), {}};
  for (const Part& part : parts_of(qkv, norm)) {
    output.statistics.push_back(rms_norm_forward_into(
        rows_of(part.of(output.qkv)), rows_of(part.of(qkv)), part.weight, norm.options));
  }
  copy_rows(rows_of(values_of(output.qkv, norm)), rows_of(values_of(qkv, norm)));
  return output;
}

void full_qk_norm_backward_(const at::Tensor& grad, const at::Tensor& qkv,
                            const std::vector<at::Tensor>& statistics, const QkNorm& norm) {
  std::size_t index = 0;
  for (const Part& part : parts_of(qkv, norm)) {
    rms_norm_backward_(rows_of(part.of(grad)), rows_of(part.of(qkv)), statistics.at(index++),
                       part.weight, norm.options);
  }
}

RowQkNormOutput head_layer_norm_forward(const at::Tensor& qkv, const QkNorm& norm) {
  RowQkNormOutput output{qkv.clone(), {}};
  for (const Part& part : parts_of(qkv, norm)) {
    const at::Tensor heads = part.of(qkv).to(at::kFloat);
    at::Tensor mean = head_mean(heads);
    const at::Tensor centered = at::sub(heads, mean);
    at::Tensor inverse = head_mean(at::mul(centered, centered)).add_(norm.options.epsilon).rsqrt_();
    part.of(output.qkv).copy_(centered.mul_(inverse).mul_(part.weight.value));
    output.statistics.push_back(std::move(mean));
    output.statistics.push_back(std::move(inverse));
  }
  return output;
}

void head_layer_norm_backward_(const at::Tensor& grad, const at::Tensor& qkv,
                               const std::vector<at::Tensor>& statistics, const QkNorm& norm) {
  std::size_t index = 0;
  for (const Part& part : parts_of(qkv, norm)) {
    const at::Tensor& mean = statistics.at(index++);
    const at::Tensor& inverse = statistics.at(index++);
    const at::Tensor normalized = at::sub(part.of(qkv), mean).mul_(inverse);
    const at::Tensor dy = part.of(grad).to(at::kFloat);
    if (part.weight.grad.defined()) {
      write_gradient(part.weight, at::mul(dy, normalized).sum(at::IntArrayRef{0}));
    }
    const at::Tensor dn = at::mul(dy, part.weight.value);
    const at::Tensor projection = head_mean(at::mul(dn, normalized));
    part.of(grad).copy_(
        at::sub(dn, head_mean(dn)).sub_(at::mul(normalized, projection)).mul_(inverse));
  }
}

}  // namespace packtrain
