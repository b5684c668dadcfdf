// What model.path names where it is no model: the error says what is there, and what to give.
#pragma once

#include <string>

namespace packtrain {

// Throws Error(kConfig) for a `path` that is neither a Hugging Face folder nor a checkpoint. A run,
// a folder of several runs, a file of a model, a download cache and a name on the Hub are each
// answered with the path or the command that gives the model.
[[noreturn]] void throw_no_model(const std::string& path);

}  // namespace packtrain
