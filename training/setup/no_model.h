// Explains a model.path that is not a model: reports what is there and what to give instead.
#pragma once

#include <string>

namespace packtrain {

// Throws Error(kConfig) for a `path` that is neither a Hugging Face folder nor a checkpoint.
// Recognizes a run, a folder of several runs, a file of a model, a download cache and a name on the
// Hub. For each it names the path or the command that gives the model.
[[noreturn]] void throw_no_model(const std::string& path);

}  // namespace packtrain
