// What reads files that anybody may have written, each as a function of one file's bytes.
#pragma once

#include <span>
#include <string_view>

namespace packtrain::fuzz {

// Takes any bytes. Throws nothing, and aborts where the reader does what it must not: another
// exception than Error, a value outside what it promises, another value when its own is read back.
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
void read_jsonl(std::string_view input);
void read_yaml(std::string_view input);
void read_hf_config(std::string_view input);
void read_hf_index(std::string_view input);

}  // namespace packtrain::fuzz
