// The built program from outside: exit codes and what it says.
#include "tests/launch/cli/program_fixture.h"

namespace packtrain {
namespace {

using Program = ProgramTest;

TEST_F(Program, HelpAndVersionAreResults) {
  for (const char* arguments :
       {"--help", "--version", "version", "plan --help", "verify --help", "train --help",
        "evaluate --help", "export --help", "import --help", "chat --help", "tune --help",
        "push --help", "score --help", "score --tasks --help"}) {
    const Outcome outcome = packtrain(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << arguments;
    EXPECT_NE(outcome.said, "") << arguments;
  }
}

TEST_F(Program, HelpOfPrepareHasAllItsForms) {
  const Outcome outcome = packtrain("prepare --help");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.said;
  for (const char* option : {"--tokenizer", "--pretokenized", "--synthetic", "--vocab-size"}) {
    EXPECT_GE(count(outcome.said, option), 1U) << option;
  }
}

TEST_F(Program, FamiliesHaveALineEach) {
  const Outcome table = packtrain("families");
  EXPECT_EQ(table.exit_code, 0) << table.said;
  EXPECT_EQ(count(table.said, "\nsmollm3 "), 1U) << table.said;
  const Outcome json = packtrain("families --json");
  EXPECT_EQ(json.exit_code, 0);
  EXPECT_EQ(count(json.said, "\":"), count(table.said, "\n") - 1) << json.said;
}

TEST_F(Program, AnUnknownSubcommandNamesTheNearestOne) {
  const Outcome outcome = packtrain("trian config.yaml");
  EXPECT_EQ(outcome.exit_code, 64);
  EXPECT_EQ(outcome.said,
            "packtrain: configuration error: unknown subcommand 'trian'\n"
            "  Did you mean train?\n");
}

TEST_F(Program, WordsOfOtherProgramsAreKnown) {
  EXPECT_EQ(count(packtrain("eval").said, "It is called evaluate here."), 1U);
  EXPECT_EQ(count(packtrain("generate hf/model").said, "It is called chat here"), 1U);
}

TEST_F(Program, WrongUsageExitsWith64) {
  EXPECT_EQ(packtrain("").exit_code, 64);
  for (const char* arguments :
       {"train", "train config.yaml --no-such-option", "export somewhere", "version more",
        "prepare --pretokenized a.jsonl", "export a --out b --dtype float8", "export a --out ''"}) {
    const Outcome outcome = packtrain(arguments);
    EXPECT_EQ(outcome.exit_code, 64) << arguments;
    EXPECT_EQ(count(outcome.said, "--help` shows what it takes."), 1U) << outcome.said;
  }
}

TEST_F(Program, ANumberThatMustBePositiveIsRefusedInWords) {
  for (const char* arguments : {"export a --out b --max-shard-size 0",
                                "prepare --synthetic fixed:9 --out b --examples=-3"}) {
    const Outcome outcome = packtrain(arguments);
    EXPECT_EQ(outcome.exit_code, 64) << arguments;
    EXPECT_EQ(count(outcome.said, "wanted a number above 0"), 1U) << outcome.said;
  }
}

TEST_F(Program, AConfigurationTypoIsFoundWithFileAndLine) {
  write("config.yaml", "run:\n  seed: 0\n  num_epoch: 2\n");
  for (const char* arguments : {"train config.yaml", "evaluate --json config.yaml"}) {
    const Outcome outcome = packtrain(arguments);
    EXPECT_EQ(outcome.exit_code, 64);
    EXPECT_EQ(outcome.said,
              "packtrain: configuration error: config.yaml:3:3: unknown key 'run.num_epoch'\n"
              "  Did you mean run.num_epochs?\n");
  }
}

TEST_F(Program, ReadsItsConfigurationOnce) {
  if (run_shell("strace -o /dev/null true").exit_code != 0) {
    GTEST_SKIP() << "strace is not there or not allowed: launch/setup --lint installs it";
  }
  write("config.yaml", "samples: {steps: 10, top_p: 0.9}\n");
  const Outcome outcome = packtrain("config config.yaml", "strace -f -e trace=openat");
  EXPECT_EQ(count(outcome.said, "samples.top_p: 0.9 (config.yaml:1:29) has no effect"), 1U)
      << outcome.said;
  EXPECT_EQ(count(outcome.said, "\"config.yaml\", O_RDONLY"), 1U) << outcome.said;
}

TEST_F(Program, ConfigPrintsWhatAFileResolvesTo) {
  write("config.yaml", "run: {seed: 7}\n");
  const Outcome outcome = packtrain("config config.yaml memory.recompute=full");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(count(outcome.said, "\n  seed: 7\n"), 1U) << outcome.said;
  EXPECT_EQ(count(outcome.said, "\n  recompute: full\n"), 1U) << outcome.said;
  write("resolved.yaml", outcome.said);
  EXPECT_EQ(packtrain("config resolved.yaml").said, outcome.said);
}

TEST_F(Program, ConfigExplainsKeys) {
  EXPECT_EQ(count(packtrain("config --explain seed").said, "run.seed: an integer"), 1U);
  EXPECT_EQ(packtrain("config --explain sede").exit_code, 64);
  EXPECT_EQ(packtrain("config").exit_code, 64);
}

TEST_F(Program, AnErrorOfAllRanksIsLoggedOnce) {
  write("config.yaml", "runs: {seed: 0}\n");
  const Outcome outcome = packtrain("train config.yaml", MPIRUN " -np 2");
  EXPECT_EQ(outcome.exit_code, 64) << outcome.said;
  EXPECT_EQ(count(outcome.said, "config.yaml:1:1: unknown section 'runs'"), 1U) << outcome.said;
}

TEST_F(Program, TrainingWithoutAModelIsAConfigurationError) {
  write("config.yaml", "data: {train: store}\n");
  const Outcome outcome = packtrain("train config.yaml");
  EXPECT_EQ(outcome.exit_code, 64);
  EXPECT_EQ(count(outcome.said, "neither model.path nor model.config"), 1U) << outcome.said;
}

TEST_F(Program, AMissingFolderIsDistinguishedFromAFolderWithoutAModel) {
  write("ids.jsonl", "{\"input_ids\": [1, 2, 3]}\n");
  ASSERT_EQ(packtrain("prepare --pretokenized ids.jsonl --vocab-size 100 --out store").exit_code,
            0);
  write("config.yaml", "data: {train: store, max_length: 8}\n");
  const Outcome missing = packtrain("plan config.yaml model.path=nowhere");
  EXPECT_EQ(missing.exit_code, 64);
  EXPECT_EQ(count(missing.said, "model.path: nowhere does not exist"), 1U) << missing.said;
  const Outcome other = packtrain("plan config.yaml model.path=store");
  EXPECT_EQ(other.exit_code, 64);
  EXPECT_EQ(count(other.said, "model.path: store is no model: it has neither config.json"), 1U)
      << other.said;
}

TEST_F(Program, TokenIdsBecomeAStoreAndAWrongOneIsNamed) {
  write("ids.jsonl", "{\"input_ids\": [1, 2, 3]}\n{\"input_ids\": [1, 99]}\n");
  const Outcome good = packtrain("prepare --pretokenized ids.jsonl --vocab-size 100 --out store");
  EXPECT_EQ(good.exit_code, 0);
  EXPECT_EQ(good.said, "store: 2 examples, 5 tokens, 3 loss tokens\n");
  const Outcome bad = packtrain("prepare --pretokenized ids.jsonl --vocab-size 99 --out other");
  EXPECT_EQ(bad.exit_code, 65);
  EXPECT_EQ(count(bad.said, "ids.jsonl:2: input_ids[1] is 99"), 1U) << bad.said;
}

TEST_F(Program, RandomLengthsBecomeAStore) {
  const Outcome outcome = packtrain(
      "prepare --synthetic lognormal:2,0.5,4,4 --examples 10 --vocab-size 50 --out store");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.said, "store: 10 examples, 40 tokens, 30 loss tokens\n");
}

TEST_F(Program, ExportWithoutACheckpointExitsWith66) {
  const Outcome outcome = packtrain("export . --out model");
  EXPECT_EQ(outcome.exit_code, 66) << outcome.said;
  EXPECT_EQ(count(outcome.said, "wanted a checkpoint"), 1U) << outcome.said;
}

TEST_F(Program, AResultThatCannotBeWrittenIsAFailure) {
  EXPECT_EQ(run_shell(PROGRAM " --help > /dev/full").exit_code, 70);
}

}  // namespace
}  // namespace packtrain
