// packtrain verify --data STORE: reads a whole store and checks it.
#pragma once

namespace packtrain {

int run_verify_data(int argc, char** argv);

}  // namespace packtrain
