// The examples of a store without their groups and columns of tokens, for programs that treat each
// example alone.
#pragma once

#include <memory>

#include "framework/data/token_store.h"

namespace packtrain {

// The store itself when it is plain. Folder, origins and digests are those of `store`.
std::unique_ptr<TokenStore> without_groups(std::unique_ptr<TokenStore> store);

}  // namespace packtrain
