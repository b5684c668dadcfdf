#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "framework/checkpoint/hf_files.h"
#include "framework/checkpoint/hf_special_tokens.h"
#include "framework/checkpoint/hugging_face.h"
#include "framework/checkpoint/shard_reader.h"
#include "framework/checkpoint/tensor_bytes.h"
#include "framework/support/error.h"
#include "framework/support/file.h"
#include "framework/support/safetensors.h"

namespace packtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

[[noreturn]] void fail(const std::string& path, const std::string& fault,
                       const std::string& advice = "") {
  throw Error(ErrorCategory::kCheckpoint, fmt::format("{}: {}", path, fault), advice);
}

// `folder`.tmp while it is being written; removed with the object unless committed.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(std::string folder)
      : folder_(std::move(folder)), path_(folder_ + ".tmp") {
    std::error_code error;
    if (fs::exists(fs::symlink_status(folder_, error))) {
      fail(folder_, "exists already", "Give another folder, or remove this one.");
    }
    if (fs::exists(fs::symlink_status(path_, error))) {
      fail(path_, "is left from an export that was cut short", "Remove it.");
    }
    make_folders(path_, ErrorCategory::kCheckpoint);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!committed_) fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

  void commit() {
    sync_folder(path_, ErrorCategory::kCheckpoint);
    std::error_code error;
    fs::rename(path_, folder_, error);
    if (error) fail(path_, fmt::format("cannot rename to {}: {}", folder_, error.message()));
    committed_ = true;
    const std::string parent = fs::path(folder_).parent_path().string();
    sync_folder(parent.empty() ? "." : parent, ErrorCategory::kCheckpoint);
  }

 private:
  std::string folder_;
  std::string path_;
  bool committed_ = false;
};

void write_file(const std::string& path, std::span<const std::byte> bytes) {
  OutputFile file(path, OutputFile::Mode::kCreate, ErrorCategory::kCheckpoint);
  file.write(bytes);
  file.sync();
  file.close();
}

void write_json(const std::string& path, const json& document) {
  const std::string text = document.dump(2) + "\n";
  write_file(path, std::as_bytes(std::span(text)));
}

std::int64_t numel_of(const std::vector<std::int64_t>& shape) {
  std::int64_t numel = 1;
  for (const std::int64_t size : shape) numel *= size;
  return numel;
}

// Pieces of one parameter next to each other, so that it is fetched once a shard; otherwise the
// family's order.
std::vector<WeightPiece> pieces_by_parameter(std::vector<WeightPiece> pieces) {
  std::map<std::string, std::size_t> place;
  for (const WeightPiece& piece : pieces) place.try_emplace(piece.parameter, place.size());
  std::stable_sort(pieces.begin(), pieces.end(), [&](const WeightPiece& a, const WeightPiece& b) {
    return place.at(a.parameter) < place.at(b.parameter);
  });
  return pieces;
}

// Consecutive pieces in files of at most `max_bytes`; a larger tensor has a file of its own.
std::vector<std::vector<WeightPiece>> split_into_shards(const std::vector<WeightPiece>& pieces,
                                                        std::int64_t width,
                                                        std::int64_t max_bytes) {
  std::vector<std::vector<WeightPiece>> shards;
  std::int64_t bytes = 0;
  for (const WeightPiece& piece : pieces) {
    const std::int64_t piece_bytes = numel_of(piece.hf_shape) * width;
    if (shards.empty() || bytes + piece_bytes > max_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(piece);
    bytes += piece_bytes;
  }
  return shards;
}

// The Hugging Face tensor `piece` of a parameter, [rows, ...] flattened, of type `scalar`.
at::Tensor slice_piece(const at::Tensor& parameter, const WeightPiece& piece,
                       at::ScalarType scalar) {
  const std::int64_t numel = numel_of(piece.hf_shape);
  const std::int64_t row_numel = numel / piece.num_rows;
  const std::int64_t begin = piece.row_begin * row_numel;
  if (parameter.numel() < begin + numel) {
    throw Error(ErrorCategory::kInternal,
                fmt::format("'{}' has {} elements, too few for '{}'", piece.parameter,
                            parameter.numel(), piece.hf_name));
  }
  return parameter.reshape({-1}).narrow(0, begin, numel).to(scalar).contiguous();
}

void write_shard(const std::string& path, const std::vector<WeightPiece>& pieces,
                 const ParameterSource& source, at::ScalarType scalar) {
  std::vector<at::Tensor> kept;
  std::vector<TensorToWrite> tensors;
  std::string name;
  at::Tensor parameter;
  for (const WeightPiece& piece : pieces) {
    if (piece.parameter != name) parameter = source(name = piece.parameter);
    kept.push_back(slice_piece(parameter, piece, scalar));
    tensors.push_back(
        {piece.hf_name, data_type_of(kept.back()), piece.hf_shape, bytes_of(kept.back())});
  }
  write_safetensors(path, tensors, {{"format", "pt"}}, ErrorCategory::kCheckpoint);
}

void write_weights(const std::string& folder, const std::vector<WeightPiece>& pieces,
                   const ParameterSource& source, const ExportOptions& options) {
  const at::ScalarType scalar = options.bfloat16 ? at::kBFloat16 : at::kFloat;
  const auto width = static_cast<std::int64_t>(c10::elementSize(scalar));
  const auto shards = split_into_shards(pieces, width, options.max_shard_bytes);
  const int num_shards = static_cast<int>(shards.size());
  json weight_map = json::object();
  std::int64_t total_bytes = 0;
  for (int i = 0; i < num_shards; ++i) {
    const std::string name = num_shards == 1 ? kHfWeightsName : hf_shard_name(i + 1, num_shards);
    write_shard(folder + "/" + name, shards[i], source, scalar);
    for (const WeightPiece& piece : shards[i]) {
      weight_map[piece.hf_name] = name;
      total_bytes += numel_of(piece.hf_shape) * width;
    }
  }
  if (num_shards == 1) return;
  write_json(folder + "/" + kHfIndexName,
             {{"metadata", {{"total_size", total_bytes}}}, {"weight_map", weight_map}});
}

// Not a tokenizer's: the model's own configuration and weights, in whatever format, and dot files.
bool belongs_to_model(const std::string& name) {
  if (name == kHfConfigName || name.starts_with('.')) return true;
  static constexpr const char* kEndings[] = {
      ".safetensors", ".index.json", ".bin", ".pt", ".pth", ".gguf", ".h5", ".onnx", ".msgpack"};
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](const char* ending) { return name.ends_with(ending); });
}

void copy_tokenizer(const std::string& from, const std::string& to) {
  std::error_code error;
  for (fs::directory_iterator entry(from, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (!entry->is_regular_file(ignored) || belongs_to_model(name)) continue;
    const auto file = MappedFile::open(entry->path().string(), ErrorCategory::kCheckpoint);
    write_file(to + "/" + name, file->bytes());
  }
  if (error) fail(from, fmt::format("cannot list the tokenizer's files: {}", error.message()));
}

}  // namespace

void export_model(const std::string& folder, const DecoderConfig& config,
                  const ParameterSource& source, const ExportOptions& options) {
  const Family& family = find_family(config.family);
  std::string target = folder;
  while (target.size() > 1 && target.back() == '/') target.pop_back();
  TemporaryFolder temporary(target);
  if (!options.tokenizer_folder.empty()) {
    copy_tokenizer(options.tokenizer_folder, temporary.path());
  }
  json document = family.write(config);
  document.update(special_token_ids(options.model_config, options.tokenizer_folder));
  const char* dtype = options.bfloat16 ? "bfloat16" : "float32";
  document["dtype"] = dtype;
  document["torch_dtype"] = dtype;  // the same for transformers before 4.56
  write_json(temporary.path() + "/" + kHfConfigName, document);
  write_weights(temporary.path(), pieces_by_parameter(family.weights(config)), source, options);
  temporary.commit();
}

ParameterSource checkpoint_parameters(const std::string& checkpoint_folder) {
  const auto reader = std::make_shared<ShardReader>(checkpoint_folder);
  return [reader](const std::string& name) {
    const std::vector<std::int64_t>& shape = reader->shape(name);
    const at::ScalarType scalar = scalar_type_of(reader->dtype("weight", name));
    at::Tensor parameter = at::empty({numel_of(shape)}, scalar);
    reader->read("weight", name, 0, parameter);
    return parameter.reshape(shape);
  };
}

}  // namespace packtrain
