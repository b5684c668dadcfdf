// packtrain verify --data STORE: reads all of a store.
#pragma once

namespace packtrain {

int run_verify_data(int argc, char** argv);

}  // namespace packtrain
