// Maps Hugging Face tensors to our parameters, and builds such maps.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "models/layers/decoder_config.h"

namespace packtrain {

// Encoding of a tensor's elements in the files.
enum class WeightCoding : std::uint8_t {
  kPlain,  // float32, float16 or bfloat16
  kMxfp4,  // NAME_blocks and NAME_scales, which import decodes (checkpoint/mxfp4.h)
};

inline constexpr std::int64_t kMxfp4Block = 32;  // elements with one scale, in the last dimension

// Elements [begin, begin + rows * columns) of our flattened parameter. Element (r, c) of the piece
// is element hf_begin + r * hf_row_stride + c * hf_column_stride of the row-major Hugging Face
// tensor. A parameter may have pieces of several tensors, and a tensor pieces of several
// parameters.
struct WeightPiece {
  std::string parameter;
  std::string hf_name;
  std::vector<std::int64_t> hf_shape;
  std::int64_t begin = 0;
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  std::int64_t hf_begin = 0;
  std::int64_t hf_row_stride = 0;
  std::int64_t hf_column_stride = 1;
  WeightCoding coding = WeightCoding::kPlain;  // kMxfp4: the last size of hf_shape is whole blocks
  bool keep_float32 = false;                   // float32 in files of any dtype

  std::int64_t numel() const { return rows * columns; }
  std::int64_t hf_numel() const;
  // True when the piece has the same order in the tensor as in the parameter.
  bool is_contiguous() const {
    return hf_column_stride == 1 && (rows == 1 || hf_row_stride == columns);
  }
};

// Position of a piece's elements in its tensor: see WeightPiece.
struct HfRegion {
  std::int64_t begin = 0;
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 1;
  WeightCoding coding = WeightCoding::kPlain;
};

// Builds a map. Each call adds the *next* elements of a parameter, so the order of calls is the
// order of elements. The names of linear() and norm() lack `.weight` and `.bias`. The other
// functions take complete names.
class WeightMap {
 public:
  // A linear layer [rows, columns] and its bias [rows]: the next rows of our parameter.
  void linear(const std::string& parameter, const std::string& hf_name, std::int64_t rows,
              std::int64_t columns, bool bias);
  // A norm's weight [size], and its bias.
  void norm(const std::string& parameter, const std::string& hf_name, std::int64_t size,
            bool bias = false);
  // The whole tensor.
  void whole(const std::string& parameter, const std::string& hf_name,
             const std::vector<std::int64_t>& hf_shape);
  // The whole tensor of constants, which stay float32 (ParameterSpec::keep_float32).
  void constant(const std::string& parameter, const std::string& hf_name,
                const std::vector<std::int64_t>& hf_shape);
  // `size` elements of the tensor from `hf_begin` on.
  void part(const std::string& parameter, const std::string& hf_name,
            const std::vector<std::int64_t>& hf_shape, std::int64_t hf_begin, std::int64_t size);
  // [rows, columns] of our parameter, stored in the tensor as [columns, rows] from `hf_begin` on.
  void transposed(const std::string& parameter, const std::string& hf_name,
                  const std::vector<std::int64_t>& hf_shape, std::int64_t hf_begin,
                  std::int64_t rows, std::int64_t columns);
  // Other orders, such as interleaved rows of heads, or of gate and up.
  void strided(const std::string& parameter, const std::string& hf_name,
               const std::vector<std::int64_t>& hf_shape, const HfRegion& region);

  std::vector<WeightPiece> take();

 private:
  std::vector<WeightPiece> pieces_;
  std::map<std::string, std::int64_t> next_;  // first element not yet mapped, by parameter
};

// Names of a decoder's tensors outside of its layers, without `.weight`.
struct OuterNames {
  std::string embed = "model.embed_tokens";
  std::string norm = "model.norm";
  bool norm_bias = false;
  std::string head = "lm_head";
};

// The map of a decoder: the embedding, what `add_before_layers` adds, each layer, the final norm,
// and the head unless it is tied.
std::vector<WeightPiece> decoder_weights(
    const DecoderConfig& config, const OuterNames& names,
    const std::function<void(WeightMap& map, std::int64_t layer)>& add_layer,
    const std::function<void(WeightMap& map)>& add_before_layers = {});

// A tensor in the files.
struct StoredTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  bool is_code = false;  // encoded bytes, not numbers
};

// The stored tensors of a piece: its tensor, or the two that encode it, blocks first.
std::vector<StoredTensor> stored_tensors(const WeightPiece& piece);

// The same map for files whose names do not have `prefix` ("model.").
std::vector<WeightPiece> without_prefix(std::vector<WeightPiece> pieces, const std::string& prefix);

// Shapes of all parameters of a model but its adapter's, by name.
std::map<std::string, std::vector<std::int64_t>> parameter_shapes(const DecoderConfig& config);

// Throws Error(kInternal), which names the family, unless each element of each parameter comes from
// exactly one piece. The pieces of each tensor must be inside it and have as many elements as it
// has.
void check_weight_map(const DecoderConfig& config, const std::vector<WeightPiece>& pieces);

}  // namespace packtrain
