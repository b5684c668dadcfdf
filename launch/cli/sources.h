// Models and data sets of the Hugging Face Hub in a configuration, and data that is no token store.
#pragma once

#include <string>

#include "framework/config/config.h"
#include "launch/cli/arguments.h"
#include "parallel/communicators/world.h"

namespace packtrain {

// Downloads a model.path hf:OWNER/NAME[@REVISION] into the hub's cache (HF_HOME) of each host.
// Makes token stores of files, folders and data sets (hf:OWNER/NAME) in data.train and
// data.validation, with the tokenizer of model.path, in data.prepared_path. The tool sources.py
// does both. Appends overrides with the folders to `arguments`, and returns the configuration with
// them. `arguments.unread` gets its keys without effect. Nothing is started where the configuration
// names folders and stores alone. Collective over `world`; null: this process is alone. Throws the
// errors of load_config and of the tool. Throws Error(kConfig) where data needs a tokenizer and no
// model is named, and where hosts have the hub's cache in different folders.
Config load_with_sources(ConfigArguments& arguments, World* world);
// Warns of keys that are set and have no effect (ConfigArguments::unread). Call it on one rank.
void warn_of_unread_keys(const ConfigArguments& arguments);
// The folder of a model: of hf:OWNER/NAME[@REVISION] in the hub's cache, downloaded once; of
// another name itself. Throws the tool's Error.
std::string folder_of_model(const std::string& name);
// The same as load_with_sources for the model alone: data is neither downloaded nor prepared.
Config load_with_model(ConfigArguments& arguments);

}  // namespace packtrain
