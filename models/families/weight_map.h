// Which Hugging Face tensor each of our parameters is made of, and the builders of such maps.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/decoder_config.h"

namespace packtrain {

// How the files hold a tensor's elements.
enum class WeightCoding : std::uint8_t {
  kPlain,  // as they are, in float32, float16 or bfloat16
  kMxfp4,  // as NAME_blocks and NAME_scales, of which import makes them (checkpoint/mxfp4.h)
};

inline constexpr std::int64_t kMxfp4Block = 32;  // neighbours in the last dimension, of one scale

// Elements [begin, begin + rows * columns) of our flattened parameter. Element (r, c) of the run is
// element hf_begin + r * hf_row_stride + c * hf_column_stride of the (row-major) Hugging Face
// tensor. A parameter may have pieces of several tensors, a tensor those of several parameters.
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
  WeightCoding coding = WeightCoding::kPlain;  // else hf_shape's last size is whole blocks

  std::int64_t numel() const { return rows * columns; }
  std::int64_t hf_numel() const;
  // The run lies in the tensor as it does in the parameter.
  bool is_contiguous() const {
    return hf_column_stride == 1 && (rows == 1 || hf_row_stride == columns);
  }
};

// Where the elements of a piece lie in its tensor: see WeightPiece.
struct HfRegion {
  std::int64_t begin = 0;
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 1;
  WeightCoding coding = WeightCoding::kPlain;
};

// Builds a map: every call adds the *next* elements of a parameter, so that the order of calls is
// the order inside it. Names are without `.weight` and `.bias` in linear, norm and projection, and
// whole names in the others.
class WeightMap {
 public:
  // A linear layer [rows, columns], and its bias [rows]: the next rows of ours.
  void linear(const std::string& parameter, const std::string& hf_name, std::int64_t rows,
              std::int64_t columns, bool bias);
  // A norm's weight [size], and its bias.
  void norm(const std::string& parameter, const std::string& hf_name, std::int64_t size,
            bool bias = false);
  // The tensor as it is.
  void whole(const std::string& parameter, const std::string& hf_name,
             const std::vector<std::int64_t>& hf_shape);
  // `size` elements of the tensor from `hf_begin` on.
  void part(const std::string& parameter, const std::string& hf_name,
            const std::vector<std::int64_t>& hf_shape, std::int64_t hf_begin, std::int64_t size);
  // [rows, columns] of ours, which the tensor holds as [columns, rows] from `hf_begin` on.
  void transposed(const std::string& parameter, const std::string& hf_name,
                  const std::vector<std::int64_t>& hf_shape, std::int64_t hf_begin,
                  std::int64_t rows, std::int64_t columns);
  // Any other arrangement: heads' rows in turns, gate and up in turns.
  void strided(const std::string& parameter, const std::string& hf_name,
               const std::vector<std::int64_t>& hf_shape, const HfRegion& region);

  std::vector<WeightPiece> take();

 private:
  std::vector<WeightPiece> pieces_;
  std::map<std::string, std::int64_t> next_;  // first element not yet mapped, by parameter
};

// A tensor as the files have it.
struct StoredTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  bool is_code = false;  // bytes, and no numbers yet
};

// What holds a piece's tensor: itself, or the two that it is coded in, blocks first.
std::vector<StoredTensor> stored_tensors(const WeightPiece& piece);

// The same map for files whose names lack `prefix` ("model.") where ours have it.
std::vector<WeightPiece> without_prefix(std::vector<WeightPiece> pieces, const std::string& prefix);

// Shapes of all parameters of a model, by name.
std::map<std::string, std::vector<std::int64_t>> parameter_shapes(const DecoderConfig& config);

// Throws Error(kInternal) naming the family unless every element of every parameter of the model
// comes from exactly one piece, and the pieces of every tensor lie inside it and are as many
// elements as it has.
void check_weight_map(const DecoderConfig& config, const std::vector<WeightPiece>& pieces);

}  // namespace packtrain
