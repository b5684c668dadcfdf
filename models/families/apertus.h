// Apertus (8B and 70B). It differs from Llama in this: each head of queries and keys has a norm.
// The MLP has no gate, and its activation xIELU has trained numbers in each layer (ops/xielu).
// The norms before both branches have other names.
#pragma once

#include "models/families/family.h"

namespace packtrain {

Family apertus_family();

}  // namespace packtrain
