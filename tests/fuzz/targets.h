// Readers of untrusted files, each as a function of one file's bytes.
#pragma once

#include <span>
#include <string_view>

namespace packtrain::fuzz {

// Takes any bytes and throws nothing. Aborts where the reader is wrong. A wrong reader throws
// another exception than Error, returns a value out of its range, or reads its own output as
// another value.
struct Target {
  const char* name;  // of its folder in corpus/
  void (*run)(std::string_view input);
};

std::span<const Target> targets();
const Target* find_target(std::string_view name);  // null: none

void read_safetensors(std::string_view input);
void read_checkpoint_manifest(std::string_view input);
void read_store_manifest(std::string_view input);
void read_store_shard(std::string_view input);
void read_store_pairs(std::string_view input);
void read_store_rollouts(std::string_view input);
void read_jsonl(std::string_view input);
void read_yaml(std::string_view input);
void read_hf_config(std::string_view input);
void read_hf_index(std::string_view input);

}  // namespace packtrain::fuzz
