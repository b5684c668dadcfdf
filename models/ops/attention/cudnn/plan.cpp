#include "models/ops/attention/cudnn/plan.h"

#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <array>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "framework/core/error.h"
#include "models/ops/attention/cudnn/version.h"

// Handle through which the frontend finds cuDNN's functions. The frontend declares it, and its user
// defines it.
void* cudnn_frontend::cudnn_dlhandle = nullptr;

namespace packtrain {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;
using Sizes = std::vector<std::int64_t>;

// The frontend takes pointers in the order of these numbers. Each tensor of a call has its own,
// also where two have the same pointer, because cuDNN matches kernels against graphs of that form.
enum Uid : std::int64_t {
  kQuery = 1,
  kKey,
  kValue,
  kOutput,
  kStats,
  kQueryLengths,
  kKeyLengths,
  kQueryOffsets,
  kKeyOffsets,
  kValueOffsets,
  kOutputOffsets,
  kStatOffsets,
  kGradOutput,
  kGradQuery,
  kGradKey,
  kGradValue,
  kGradQueryOffsets,
  kGradKeyOffsets,
  kGradValueOffsets,
};
constexpr int kNumForward = kStatOffsets;
constexpr int kNumBackward = kGradValueOffsets;

std::string describe(const CudnnProblem& p) {
  return std::string(p.backward ? "backward" : "forward") + " of " + std::to_string(p.num_heads) +
         "/" + std::to_string(p.num_kv_heads) + " heads x " + std::to_string(p.head_dim) +
         ", window " + std::to_string(p.window) + ", soft-cap " + std::to_string(p.soft_cap) +
         ", " + std::to_string(p.num_sequences) + " sequences of up to " +
         std::to_string(p.max_length) + ", " + std::to_string(p.num_tokens) + " tokens and " +
         std::to_string(p.num_keys) + " keys" + (p.has_prefixes ? " with prefixes" : "");
}

void check(fe::error_t status, const CudnnProblem& problem, const char* what) {
  if (status.is_good()) return;
  throw Error(ErrorCategory::kDevice,
              "attention: cuDNN " + std::to_string(fe::detail::get_backend_version()) + " " + what +
                  " the " + describe(problem) + ": " + status.get_message(),
              "Train with another attention backend (flash), and report this shape.");
}

// Loads the functions of the cuDNN that libtorch has loaded, after a check of its version.
void load_cudnn() {
  static void* const library = dlopen("libcudnn.so.9", RTLD_NOW);
  if (library == nullptr) {
    throw Error(ErrorCategory::kDevice, "attention: libcudnn.so.9 was not found",
                "Put the torch wheel's (site-packages/nvidia/cudnn/lib) on LD_LIBRARY_PATH.");
  }
  fe::cudnn_dlhandle = library;
  check_cudnn_version(static_cast<std::int64_t>(fe::detail::get_backend_version()));
}

// The tensors of a problem in a graph.
class Tensors {
 public:
  Tensors(fe::graph::Graph& graph, const CudnnProblem& problem)
      : graph_(graph), problem_(problem) {}

  // Offsets or lengths, one for each sequence (offsets have one more).
  Tensor index(Uid uid, std::int64_t size, fe::DataType_t type) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_uid(uid)
                             .set_dim({size, 1, 1, 1})
                             .set_stride({1, 1, 1, 1})
                             .set_data_type(type));
  }
  Tensor lengths(Uid uid) { return index(uid, problem_.num_sequences, fe::DataType_t::INT32); }
  Tensor offsets(Uid uid) {
    return index(uid, problem_.num_sequences + 1,
                 problem_.wide_offsets ? fe::DataType_t::INT64 : fe::DataType_t::INT32);
  }

  Tensor number(double value) { return graph_.tensor(static_cast<float>(value)); }

  // Heads of a packed tensor. Tokens are `token_stride` elements apart.
  Tensor heads(Uid uid, std::int64_t num_heads, std::int64_t token_stride, const Tensor& offsets) {
    fe::graph::Tensor_attributes tensor;
    tensor.set_uid(uid).set_data_type(fe::DataType_t::BFLOAT16);
    tensor.set_dim(sizes(num_heads)).set_stride(strides(token_stride)).set_ragged_offset(offsets);
    return graph_.tensor(tensor);
  }
  void make_output(const Tensor& tensor, Uid uid, std::int64_t num_heads, std::int64_t token_stride,
                   const Tensor& offsets) {
    tensor->set_output(true).set_uid(uid).set_data_type(fe::DataType_t::BFLOAT16);
    tensor->set_dim(sizes(num_heads)).set_stride(strides(token_stride)).set_ragged_offset(offsets);
  }

  void make_stats(fe::graph::Tensor_attributes& tensor, const Tensor& offsets) {
    const std::int64_t heads = problem_.num_heads;
    tensor.set_uid(kStats).set_data_type(fe::DataType_t::FLOAT);
    tensor.set_dim({problem_.num_sequences, heads, problem_.max_length, 1})
        .set_stride({heads * problem_.max_length, 1, heads, 1})
        .set_ragged_offset(offsets);
  }

 private:
  Sizes sizes(std::int64_t num_heads) const {
    return {problem_.num_sequences, num_heads, problem_.max_length, problem_.head_dim};
  }
  Sizes strides(std::int64_t token_stride) const {
    return {token_stride * problem_.max_length, problem_.head_dim, token_stride, 1};
  }

  fe::graph::Graph& graph_;
  const CudnnProblem& problem_;
};

// Which query and key of a sequence the diagonal of the masks begins or ends at.
fe::DiagonalAlignment_t alignment(const CudnnProblem& problem) {
  return problem.has_prefixes ? fe::DiagonalAlignment_t::BOTTOM_RIGHT
                              : fe::DiagonalAlignment_t::TOP_LEFT;
}

// Capped scores. cuDNN accepts no mask together with a function of the scores, so this function
// also applies the masks.
struct CappedScores {
  Tensor cap;
  Tensor query_lengths;
  Tensor key_lengths;
  CudnnProblem problem;
  Tensor ratio;  // score / cap, from forward

  Tensor forward(const std::shared_ptr<fe::graph::Graph>& graph, const Tensor& scores) {
    const auto one = [](const char* name, fe::PointwiseMode_t mode) {
      return fe::graph::Pointwise_attributes().set_name(name).set_mode(mode);
    };
    ratio = graph->pointwise(scores, cap, one("cap_ratio", fe::PointwiseMode_t::DIV));
    const Tensor bent = graph->pointwise(ratio, one("cap_tanh", fe::PointwiseMode_t::TANH_FWD));
    const Tensor capped = graph->pointwise(bent, cap, one("cap_scale", fe::PointwiseMode_t::MUL));
    namespace modifiers = fe::graph::attn::score_modifiers;
    const Tensor real = modifiers::padding_mask(graph, capped, key_lengths, query_lengths);
    std::optional<std::int64_t> left;
    if (problem.window > 0) left.emplace(problem.window);
    const Tensor none;
    return modifiers::sliding_window_mask(
        graph, real, alignment(problem), left, 0, 0, 0, problem.has_prefixes ? query_lengths : none,
        problem.has_prefixes ? key_lengths : none, nullptr, nullptr);
  }
  // d (cap tanh(score / cap)) = (1 - tanh^2) d score.
  Tensor backward(const std::shared_ptr<fe::graph::Graph>& graph, const Tensor& gradient) const {
    return graph->pointwise(gradient, ratio,
                            fe::graph::Pointwise_attributes()
                                .set_name("cap_slope")
                                .set_mode(fe::PointwiseMode_t::TANH_BWD));
  }
};

// Attributes that forward and backward share.
template <typename Attributes>
Attributes attributes_of(const CudnnProblem& problem, Tensors& tensors) {
  Attributes attributes;
  const Tensor query_lengths = tensors.lengths(kQueryLengths);
  const Tensor key_lengths = tensors.lengths(kKeyLengths);
  attributes.set_attn_scale(static_cast<float>(problem.scale))
      .set_seq_len_q(query_lengths)
      .set_seq_len_kv(key_lengths);
  if (problem.soft_cap > 0) {
    const auto capped = std::make_shared<CappedScores>(
        CappedScores{tensors.number(problem.soft_cap), query_lengths, key_lengths, problem, {}});
    attributes.set_score_mod(
        [capped](const auto& graph, const auto& scores) { return capped->forward(graph, scores); });
    if constexpr (std::is_same_v<Attributes, fe::graph::SDPA_backward_attributes>) {
      attributes.set_score_mod_bprop([capped](const auto& graph, const auto& gradient) {
        return capped->backward(graph, gradient);
      });
    }
    return attributes;
  }
  attributes.set_padding_mask(true)
      .set_diagonal_alignment(alignment(problem))
      .set_diagonal_band_right_bound(0);
  if (problem.window > 0) {
    attributes.set_diagonal_band_left_bound(static_cast<int>(problem.window));
  }
  return attributes;
}

// Elements from one token to the next in the merged qkv.
std::int64_t merged_stride(const CudnnProblem& p) {
  return (p.num_heads + 2 * p.num_kv_heads) * p.head_dim;
}

std::int64_t key_stride(const CudnnProblem& p) {
  return p.has_prefixes ? 2 * p.num_kv_heads * p.head_dim : merged_stride(p);
}

struct Inputs {
  Tensor query;
  Tensor key;
  Tensor value;
};

Inputs add_inputs(const CudnnProblem& p, Tensors& tensors) {
  const std::int64_t stride = key_stride(p);
  return {tensors.heads(kQuery, p.num_heads, merged_stride(p), tensors.offsets(kQueryOffsets)),
          tensors.heads(kKey, p.num_kv_heads, stride, tensors.offsets(kKeyOffsets)),
          tensors.heads(kValue, p.num_kv_heads, stride, tensors.offsets(kValueOffsets))};
}

void add_forward(fe::graph::Graph& graph, const CudnnProblem& problem) {
  Tensors tensors(graph, problem);
  const Inputs in = add_inputs(problem, tensors);
  auto attributes = attributes_of<fe::graph::SDPA_attributes>(problem, tensors);
  attributes.set_generate_stats(true);
  const auto [output, stats] = graph.sdpa(in.query, in.key, in.value, std::move(attributes));
  tensors.make_output(output, kOutput, problem.num_heads, problem.num_heads * problem.head_dim,
                      tensors.offsets(kOutputOffsets));
  tensors.make_stats(stats->set_output(true), tensors.offsets(kStatOffsets));
}

void add_backward(fe::graph::Graph& graph, const CudnnProblem& problem) {
  Tensors tensors(graph, problem);
  const Inputs in = add_inputs(problem, tensors);
  const std::int64_t stride = problem.num_heads * problem.head_dim;
  const Tensor output_offsets = tensors.offsets(kOutputOffsets);
  const Tensor output = tensors.heads(kOutput, problem.num_heads, stride, output_offsets);
  const Tensor grad_output = tensors.heads(kGradOutput, problem.num_heads, stride, output_offsets);
  fe::graph::Tensor_attributes stats;
  tensors.make_stats(stats, tensors.offsets(kStatOffsets));
  auto attributes = attributes_of<fe::graph::SDPA_backward_attributes>(problem, tensors);
  // Without these the workspace is sized num_sequences x max_length.
  attributes.set_max_total_seq_len_q(problem.num_tokens).set_max_total_seq_len_kv(problem.num_keys);
  const auto [grad_query, grad_key, grad_value] = graph.sdpa_backward(
      in.query, in.key, in.value, output, grad_output, graph.tensor(stats), std::move(attributes));
  const std::int64_t kv_heads = problem.num_kv_heads;
  const std::int64_t kv_stride = kv_heads * problem.head_dim;
  tensors.make_output(grad_query, kGradQuery, problem.num_heads, merged_stride(problem),
                      tensors.offsets(kGradQueryOffsets));
  tensors.make_output(grad_key, kGradKey, kv_heads, kv_stride, tensors.offsets(kGradKeyOffsets));
  tensors.make_output(grad_value, kGradValue, kv_heads, kv_stride,
                      tensors.offsets(kGradValueOffsets));
}

}  // namespace

struct CudnnPlan::Graph {
  fe::graph::Graph graph;
};

CudnnPlan::CudnnPlan(const CudnnProblem& problem, void* handle)
    : problem_(problem), graph_(std::make_unique<Graph>()) {
  load_cudnn();
  fe::graph::Graph& graph = graph_->graph;
  graph.set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  problem.backward ? add_backward(graph, problem) : add_forward(graph, problem);
  const auto cudnn = static_cast<cudnnHandle_t>(handle);
  check(graph.validate(), problem, "refused");
  check(graph.build_operation_graph(cudnn), problem, "refused");
  check(graph.create_execution_plans({fe::HeurMode_t::A}), problem, "has no kernel for");
  check(graph.check_support(), problem, "has no kernel for");
  check(graph.build_plans(), problem, "could not build");
  check(graph.get_workspace_size(workspace_bytes_), problem, "could not size");
}

CudnnPlan::~CudnnPlan() = default;

void CudnnPlan::run(const CudnnPointers& p, void* workspace, void* handle) const {
  std::array<void*, kNumBackward> in_order = {
      p.query,         p.key,           p.value,         p.output,      p.stats,
      p.query_lengths, p.key_lengths,   p.query_offsets, p.key_offsets, p.key_offsets,
      p.head_offsets,  p.stat_offsets,  p.grad_output,   p.grad_query,  p.grad_key,
      p.grad_value,    p.query_offsets, p.kv_offsets,    p.kv_offsets};
  check(graph_->graph.execute(static_cast<cudnnHandle_t>(handle), in_order.data(),
                              problem_.backward ? kNumBackward : kNumForward, workspace),
        problem_, "could not run");
}

}  // namespace packtrain
