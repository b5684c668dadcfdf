#include "launch/cli/program.h"

int main(int argc, char** argv) {
  return packtrain::run_program(argc, argv);
}
