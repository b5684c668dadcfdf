// The `packtrain` program: a table of subcommands, with one file for each.
#pragma once

namespace packtrain {

struct Subcommand {
  const char* name;
  const char* summary;
  // argv[0] is the subcommand's name. Returns the exit code. May throw Error or any other
  // exception; run_program maps it to an exit code. Results go to standard output, everything else
  // to standard error.
  int (*run)(int argc, char** argv);
};

// Runs the subcommand and returns the process's exit code: 0, an Error's own, or 70 for any other
// exception. Usage errors are Error(kConfig): 64.
int run_program(int argc, char** argv);

int run_prepare(int argc, char** argv);
int run_import(int argc, char** argv);
int run_tune(int argc, char** argv);
int run_plan(int argc, char** argv);
int run_inspect(int argc, char** argv);
int run_verify(int argc, char** argv);
int run_train(int argc, char** argv);
int run_evaluate(int argc, char** argv);
int run_score(int argc, char** argv);
int run_chat(int argc, char** argv);
int run_export(int argc, char** argv);
int run_merge(int argc, char** argv);
int run_compare(int argc, char** argv);
int run_sweep(int argc, char** argv);
int run_report(int argc, char** argv);
int run_follow(int argc, char** argv);
int run_push(int argc, char** argv);
int run_doctor(int argc, char** argv);
int run_families(int argc, char** argv);
int run_config(int argc, char** argv);
int run_version(int argc, char** argv);

}  // namespace packtrain
