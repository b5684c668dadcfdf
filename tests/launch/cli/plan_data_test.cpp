// packtrain plan from outside: what it says of the data.
#include <fmt/format.h>

#include <filesystem>
#include <set>
#include <string>

#include "tests/launch/cli/plan_fixture.h"

namespace packtrain {
namespace {

TEST_F(Plan, WarnsOfMasksThatLeaveAlmostNothing) {
  std::string lines;
  for (int i = 0; i < 320; ++i) {
    std::string ids = "1";
    std::string labels = "-100";
    for (int t = 1; t < 150; ++t) {
      ids += ",2";
      labels += t == 149 && i % 4 != 0 ? ",2" : ",-100";
    }
    lines += "{\"input_ids\":[" + ids + "],\"labels\":[" + labels + "]}\n";
  }
  write("lines.jsonl", lines);
  const Outcome made =
      packtrain("prepare --pretokenized lines.jsonl --vocab-size 128 --out masked");
  ASSERT_EQ(made.exit_code, 0) << made.said;
  const Json json = plan("data.train=masked");
  EXPECT_EQ(names_of_warnings(json), (std::set<std::string>{"few_labels", "masked_examples"}));
  const Outcome text = packtrain("plan config.yaml data.train=masked");
  EXPECT_EQ(count(text.said, "warning: 80 of 320 examples have no label and are left out"), 1U)
      << text.said;
}

TEST_F(Plan, CountsApartWhatIsCutBeforeAnythingThatIsLearned) {
  std::string lines;
  for (int i = 0; i < 320; ++i) {
    std::string ids = "1";
    std::string labels = "-100";
    for (int t = 1; t < (i % 4 == 0 ? 150 : 20); ++t) ids += ",2", labels += ",-100";
    lines += "{\"input_ids\":[" + ids + ",3],\"labels\":[" + labels + ",3]}\n";
  }
  write("lines.jsonl", lines);
  const Outcome made = packtrain("prepare --pretokenized lines.jsonl --vocab-size 128 --out long");
  ASSERT_EQ(made.exit_code, 0) << made.said;
  const std::string cut = "data.train=long data.max_length=100 data.too_long=truncate";
  const Json json = plan(cut);
  EXPECT_EQ(json["cut_to_nothing_examples"], 80);
  EXPECT_EQ(json["dropped_examples"], 80);
  EXPECT_EQ(json["truncated_examples"], 0);
  EXPECT_EQ(names_of_warnings(json), std::set<std::string>{"cut_to_nothing"});
  const Outcome text = packtrain("plan config.yaml " + cut);
  for (const char* part :
       {"80 cut before anything that is learned",
        "80 of 320 examples are cut at data.max_length = 100 before anything that is learned",
        "Raise data.max_length"}) {
    EXPECT_EQ(count(text.said, part), 1U) << part << "\n" << text.said;
  }
  EXPECT_EQ(names_of_warnings(plan("data.train=long")), std::set<std::string>{});
}

TEST_F(Plan, RefusesStoresOfGroupsByNameAsTrainDoes) {
  write("pairs.jsonl",
        "{\"chosen\":{\"input_ids\":[1,2],\"labels\":[-100,2]},"
        "\"rejected\":{\"input_ids\":[1,3],\"labels\":[-100,3]}}\n");
  const Outcome made = packtrain("prepare --pretokenized pairs.jsonl --vocab-size 128 --out pairs");
  ASSERT_EQ(made.exit_code, 0) << made.said;
  EXPECT_EQ(count(made.said, "1 groups of the kind 'pairs'"), 1U) << made.said;
  const std::string fault =
      ": pairs holds groups of the kind 'pairs' (chosen and rejected answers)";
  for (const std::string command : {"plan", "train"}) {
    for (const std::string key : {"data.train", "data.validation"}) {
      const Outcome outcome = packtrain(command + " config.yaml " + key + "=pairs");
      EXPECT_EQ(outcome.exit_code, 65) << command << ": " << outcome.said;
      EXPECT_EQ(count(outcome.said, key + fault), 1U) << command << ": " << outcome.said;
      EXPECT_EQ(count(outcome.said, "--only-chosen"), 1U) << command << ": " << outcome.said;
    }
  }
}

TEST_F(Plan, ShowsTheGroupsOfPairsAndWhatSharingTheirPromptsSaves) {
  std::string lines;
  for (int i = 0; i < 8; ++i) {
    lines += R"({"chosen":{"input_ids":[1,2,3,4,5,6],"labels":[-100,-100,-100,-100,5,6]},)"
             R"("rejected":{"input_ids":[1,2,3,4,7],"labels":[-100,-100,-100,-100,7]}})"
             "\n";
  }
  write("pairs.jsonl", lines);
  const Outcome made = packtrain("prepare --pretokenized pairs.jsonl --vocab-size 128 --out pairs");
  ASSERT_EQ(made.exit_code, 0) << made.said;
  const std::string arguments =
      "data.train=pairs data.validation=null objective.kind=simpo batch.global_batch_size=4 ";
  const Json shared = plan(arguments);
  EXPECT_EQ(shared["num_groups"], 8);
  EXPECT_EQ(shared["num_examples"], 16);
  EXPECT_EQ(shared["num_tokens"], 8 * (3 + 3 + 2));
  EXPECT_EQ(shared["max_rows_in_group"], 8);
  EXPECT_DOUBLE_EQ(shared["saved_row_fraction"].get<double>(), 3.0 / 11);
  const Json whole = plan(arguments + "batch.share_prefixes=false");
  EXPECT_EQ(whole["num_tokens"], 8 * 11);
  EXPECT_EQ(whole["saved_row_fraction"], 0.0);
  const Outcome text = packtrain("plan config.yaml " + arguments);
  for (const char* part : {"8 of the kind 'pairs', the largest has 8 rows",
                           "save 0.2727 of all rows", "groups: 0 empty, 0 without a label"}) {
    EXPECT_EQ(count(text.said, part), 1U) << part << "\n" << text.said;
  }
}

TEST_F(Plan, CountsTheKeysOfRolloutsThatShareALongPrompt) {
  std::string group = "{\"rollouts\":[";
  for (int answer = 0; answer < 6; ++answer) {
    group += fmt::format(
        "{}{{\"input_ids\":[1,2,3,4,5,6,7,8,9,{}],\"labels\":[-100,-100,-100,-100,-100,-100,-100,"
        "-100,-100,{}],\"advantage\":0.5}}",
        answer == 0 ? "" : ",", 20 + answer, 20 + answer);
  }
  std::string lines;
  for (int i = 0; i < 4; ++i) lines += group + "]}\n";
  write("rollouts.jsonl", lines);
  const Outcome made = packtrain(
      "prepare --pretokenized rollouts.jsonl --vocab-size 128 --token-column advantage "
      "--out rollouts");
  ASSERT_EQ(made.exit_code, 0) << made.said;
  const std::string arguments =
      "data.train=rollouts data.validation=null objective.kind=policy batch.global_batch_size=1 ";
  // 8 tokens are rows once, and each answer has 2 more. The micro-batch has 20 rows and its pads.
  const Json json = plan(arguments);
  EXPECT_EQ(json["num_tokens"], 4 * (8 + 6 * 2));
  const Outcome text = packtrain("plan config.yaml " + arguments);
  const std::string rows = "copies of prefixes included: ";
  const std::size_t at = text.said.find(rows);
  ASSERT_NE(at, std::string::npos) << text.said;
  const std::int64_t keys = std::stoll(text.said.substr(at + rows.size()));
  EXPECT_GE(keys, 6 * 10);
  EXPECT_NE(text.said.find("of the planned micro-batches"), std::string::npos) << text.said;
  const Outcome memory = packtrain("plan config.yaml --memory " + arguments);
  EXPECT_NE(memory.said.find("3 for each row, as in the group that shares most"), std::string::npos)
      << memory.said;
}

TEST_F(Plan, WritesWholeGroupsIntoAPlanFileThatItReads) {
  std::string lines;
  for (int i = 0; i < 8; ++i) {
    lines += R"({"chosen":{"input_ids":[1,2,3,5],"labels":[-100,-100,-100,5]},)"
             R"("rejected":{"input_ids":[1,2,3,7],"labels":[-100,-100,-100,7]}})"
             "\n";
  }
  write("pairs.jsonl", lines);
  packtrain("prepare --pretokenized pairs.jsonl --vocab-size 128 --out pairs");
  const std::string arguments = "data.train=pairs data.validation=null objective.kind=simpo ";
  const Json written =
      plan(arguments + "batch.global_batch_size=4 --ranks 2 --write-plan plan.jsonl --steps 1");
  const Json read =
      plan(arguments + "batch.strategy=file batch.plan_file=plan.jsonl --ranks 2 --steps 1");
  EXPECT_EQ(read["num_groups"], 8);
  EXPECT_EQ(read["steps"][0]["ranks"], written["steps"][0]["ranks"]);
}

TEST_F(Plan, ComparesValidationWithTrainingByContent) {
  const std::string lines =
      "{\"input_ids\":[1,2,3]}\n{\"input_ids\":[4,5,6]}\n{\"input_ids\":[7,8]}\n";
  write("train.jsonl", lines + "{\"input_ids\":[9,9,9]}\n");
  write("copied.jsonl",
        "{\"input_ids\":[4,5,6],\"labels\":[-100,-100,6]}\n"
        "{\"input_ids\":[1,2,3],\"labels\":[1,2,3]}\n{\"input_ids\":[4,5,6],\"labels\":[4,5,6]}\n"
        "{\"input_ids\":[7,8],\"labels\":[7,8]}\n");
  write("other.jsonl", "{\"input_ids\":[3,2,1]}\n{\"input_ids\":[7,8,9]}\n");
  for (const std::string name : {"train", "copied", "other"}) {
    const Outcome made =
        packtrain("prepare --pretokenized " + name + ".jsonl --vocab-size 128 --out " + name);
    ASSERT_EQ(made.exit_code, 0) << made.said;
  }
  const auto arguments = [&](const std::string& validation) {
    return "'data.train=[{path: train, repeats: 100}]' 'data.validation=" + validation + "'";
  };
  EXPECT_EQ(plan(arguments("other"))["shared_validation_examples"], 0);
  EXPECT_EQ(names_of_warnings(plan(arguments("other"))), std::set<std::string>{});
  const Json some = plan(arguments("{own: other, copy: copied}"));
  EXPECT_EQ(some["shared_validation_examples"], 4);
  EXPECT_EQ(names_of_warnings(some), std::set<std::string>{"validation"});
  EXPECT_EQ(some["warnings"][0]["what"],
            "data.validation.copy is training data: all 4 examples of copied are in data.train");
  write("copied.jsonl", "{\"input_ids\":[4,5,6]}\n{\"input_ids\":[5,5]}\n");
  packtrain("prepare --pretokenized copied.jsonl --vocab-size 128 --out copied --overwrite");
  const Outcome text = packtrain("plan config.yaml " + arguments("copied"));
  EXPECT_EQ(count(text.said,
                  "data.validation is training data in part: 1 of 2 examples of copied are in "
                  "data.train"),
            1U)
      << text.said;
}

TEST_F(Plan, SaysHowOftenEachStoreIsUsed) {
  const Outcome made =
      packtrain("prepare --synthetic constant:20 --examples 50 --vocab-size 128 --out even");
  ASSERT_EQ(made.exit_code, 0) << made.said;
  const Json once = plan("");
  ASSERT_EQ(once["stores"].size(), 1U);
  EXPECT_EQ(once["stores"][0]["mean_repeats"], 1.0);
  EXPECT_TRUE(once["stores"][0]["wanted_share"].is_null());
  const std::string mixed =
      "'data.train=[{path: store, probability: 0.8}, {path: even, probability: 0.2}]' ";
  const Json json = plan(mixed + "data.mixture_until=all_exhausted");
  EXPECT_EQ(json["stores"][0]["num_examples"], 200);
  EXPECT_EQ(json["stores"][1]["num_examples"], 50);
  EXPECT_EQ(json["stores"][1]["num_tokens"], 1000);
  EXPECT_EQ(json["stores"][1]["wanted_probability"], 0.2);
  EXPECT_EQ(json["stores"][1]["probability"], 0.2);
  const Outcome half = packtrain("plan config.yaml 'data.train=[{path: even, repeats: 0.5}]'");
  EXPECT_EQ(count(half.said, "even                          25             500     100.00 %"), 1U)
      << half.said;
  const Json steps = plan("'data.train=[{path: even, repeats: 0.5}]' --steps 1")["steps"];
  for (const auto& [example, origin] : steps[0]["origins"].items()) {
    EXPECT_EQ(origin[0], "even") << example;
    EXPECT_LT(origin[1], 50);
  }
}

TEST_F(Plan, WarnsOfAnEndOfTurnThatIsNeverTrained) {
  write("lines.jsonl", "{\"input_ids\":[1,2,3,9],\"labels\":[-100,2,3,-100]}\n");
  const Outcome made = packtrain("prepare --pretokenized lines.jsonl --vocab-size 128 --out chat");
  ASSERT_EQ(made.exit_code, 0) << made.said;
  const std::string arguments = "data.train=chat run.num_epochs=30";
  EXPECT_EQ(names_of_warnings(plan(arguments)), std::set<std::string>{});  // no tokenizer known
  const auto give_tokenizer = [this](int end) {
    std::filesystem::create_directories(folder_ / "chat/tokenizer");
    write("chat/tokenizer/tokenizer.json",
          R"({"added_tokens": [{"id": )" + std::to_string(end) +
              R"(, "content": "<end>", "special": true}], "model": {}})");
  };
  give_tokenizer(9);
  EXPECT_EQ(names_of_warnings(plan(arguments)), std::set<std::string>{"end_of_turn"});
  give_tokenizer(3);
  EXPECT_EQ(names_of_warnings(plan(arguments)), std::set<std::string>{});
}

TEST_F(Plan, TakesATokenizerThatItCannotReadForOneWithoutSpecialTokens) {
  write("lines.jsonl", "{\"input_ids\":[1,2,3,9],\"labels\":[-100,2,3,-100]}\n");
  const Outcome made = packtrain("prepare --pretokenized lines.jsonl --vocab-size 128 --out chat");
  ASSERT_EQ(made.exit_code, 0) << made.said;
  std::filesystem::create_directories(folder_ / "chat/tokenizer");
  const std::string tokens = R"("added_tokens": [{"id": 9, "special": true}])";
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  const std::string odd = R"("added_tokens": [7, {"id": 9, "special": 1}, {"special": true}])";
  const auto warnings = [&](const std::string& tokenizer) {
    write("chat/tokenizer/tokenizer.json", tokenizer);
    return names_of_warnings(plan("data.train=chat run.num_epochs=30"));
  };
  EXPECT_EQ(warnings("{" + tokens + "}"), std::set<std::string>{"end_of_turn"});
  for (const std::string& unusable :
       {"{" + tokens, "[" + deep + "]", "{" + odd + "}", "{" + tokens + "," + tokens + "}",
        "{" + tokens + R"(, "model": )" + deep + "}"}) {
    EXPECT_EQ(warnings(unusable), std::set<std::string>{}) << unusable;
  }
}

}  // namespace
}  // namespace packtrain
