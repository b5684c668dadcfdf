// Tests the reference of keys, as text and as JSON.
#include "framework/config/reference.h"

#include <gtest/gtest.h>

#include "framework/config/schema.h"
#include "framework/core/file.h"
#include "tests/framework/config/config_text.h"

namespace packtrain {
namespace {

TEST(ConfigReference, EveryKeySaysWhatItTakesAndMeans) {
  Config config;
  for (const Field& field : fields_of(config)) {
    EXPECT_NE(field.wanted, "") << field.name;
    EXPECT_TRUE(field.meaning.ends_with('.')) << field.name << ": " << field.meaning;
    EXPECT_EQ(field.meaning.find('|'), std::string::npos) << field.name << " is a table's cell";
    EXPECT_EQ(field.meaning.find('\n'), std::string::npos) << field.name << " is a table's cell";
  }
}

TEST(ConfigReference, KeysWithAUnitInTheirNameHaveThatUnit) {
  const std::pair<const char*, const char*> units[] = {
      {"_gib", "GiB"}, {"_s", "seconds"}, {"_steps", "steps"}, {"_tokens", "tokens"}};
  Config config;
  for (const Field& field : fields_of(config)) {
    for (const auto& [ending, unit] : units) {
      if (field.name.ends_with(ending)) {
        EXPECT_EQ(field.unit, unit) << field.name;
      }
    }
  }
}

TEST(ConfigReference, WhatAKeyTakesIsWhatItsErrorSays) {
  EXPECT_NE(load_error("run: {evaluate_steps: -1}").find("wanted an integer >= 0"),
            std::string::npos);
  EXPECT_EQ(explain_config("run.evaluate_steps").find("run.evaluate_steps: an integer >= 0, "), 0U);
}

// The page is made from the table: after a change of it, `packtrain config --markdown` writes it.
TEST(ConfigReference, ThePageInTheDocumentsIsThisOne) {
  EXPECT_EQ(config_reference(), read_text(CONFIG_REFERENCE_FILE, ErrorCategory::kInternal))
      << "write it anew: build/bin/packtrain config --markdown > docs/configuration.md";
}

TEST(ConfigReference, AKeyIsExplainedWithItsValuesAndDefault) {
  EXPECT_EQ(explain_config("memory.recompute")
                .find("memory.recompute: one of auto, none, selective, full, or by layer like "
                      "full:20+selective@16384; default auto\n  "),
            0U);
  EXPECT_EQ(explain_config("recompute"), explain_config("memory.recompute"));
}

TEST(ConfigReference, ASectionIsExplainedKeyByKey) {
  EXPECT_EQ(explain_config("memory"),
            explain_config("memory.recompute") + explain_config("memory.fit") +
                explain_config("memory.limit_gib") + explain_config("memory.offload"));
}

std::string explain_error(const std::string& name) {
  try {
    return explain_config(name);
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(ConfigReference, WhatIsNoKeyNamesTheNearestOne) {
  EXPECT_EQ(explain_error("run.num_epoch"),
            "command line: run.num_epoch: unknown key 'run.num_epoch'\n"
            "  Did you mean run.num_epochs?");
  EXPECT_EQ(explain_error("lr"),
            "command line: lr: unknown section 'lr'\n"
            "  'lr' is called optimizer.learning_rate here.");
}

TEST(ConfigReference, ScriptsGetKeysAndTheValuesThatHaveNames) {
  const std::string lines = list_config_keys();
  EXPECT_EQ(lines.find("model.path\n"), 0U);
  EXPECT_NE(lines.find("\nbatch.normalize\ttokens examples\n"), std::string::npos);
  EXPECT_NE(lines.find("\nparallel.resident_embeddings\ttrue false\n"), std::string::npos);
  EXPECT_NE(lines.find("\nparallel.accumulate\tauto shard local\n"), std::string::npos);
  EXPECT_NE(lines.find("\nrun.seed\n"), std::string::npos);
}

}  // namespace
}  // namespace packtrain
