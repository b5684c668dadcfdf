// packtrain plan --lengths: plans examples of which only the lengths are known.
#pragma once

namespace packtrain {

// Reads a text file of lengths and writes a plan file. The Python package calls it
// (launch/python/packtrain/plans.py).
int run_plan_lengths(int argc, char** argv);

}  // namespace packtrain
