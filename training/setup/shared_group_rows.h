// The rows of groups with shared prefixes, which ranks count together.
#pragma once

#include "framework/config/config.h"
#include "framework/data/token_store.h"
#include "parallel/communicators/communicator.h"

namespace packtrain {

// Counting them reads every token of the store. Each rank reads a part of the groups, and the store
// object of every rank keeps the rows of all (ExampleGroups::keep_rows). A store without groups,
// and one rank alone, keep nothing. Collective. All ranks must have the same store. Throws the
// error of the first rank whose reading failed, the same on every rank.
void share_group_rows(const TokenStore& store, Communicator& control);

// The same for a store to train on, where the start of a run asks for the rows of all groups.
// Others are compared when their step is planned.
void share_training_group_rows(const TokenStore& store, const Config& config,
                               Communicator& control);

}  // namespace packtrain
