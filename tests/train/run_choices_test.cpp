// Measured choices: how a checkpoint stores them.
#include "train/run_choices.h"

#include <doctest/doctest.h>

#include "tests/error_of.h"

using namespace mtl;

TEST_CASE("choices_record: every rank gets its own choices back, and equal tables are stored once") {
  const SavedChoices a{"H100", {{"gemm", "66"}, {"attention", "wgmma"}}}, b{"H100", {{"gemm", "67"}}}, none{"H100", {}};
  const Json record = Json::parse(choices_record({a, a, b, none, b}).dump());
  CHECK(record.at("tables").as_array().size() == 3);
  CHECK(choices_of_rank(record, 0, 5) == a);
  CHECK(choices_of_rank(record, 1, 5) == a);
  CHECK(choices_of_rank(record, 2, 5) == b);
  CHECK(choices_of_rank(record, 3, 5) == none);
  CHECK(choices_of_rank(record, 4, 5) == b);
  CHECK_FALSE(choices_of_rank(record, 0, 4));
}

TEST_CASE("choices_record: ranks agree on the choice of the lowest rank with the same GPU") {
  const SavedChoices own{"H100", {{"a", "3"}, {"b", "3"}, {"c", "3"}}};
  const std::vector<SavedChoices> by_rank{
      {"A100", {{"a", "0"}}}, {"H100", {{"a", "1"}, {"d", "1"}}}, {"H100", {{"a", "2"}, {"b", "2"}}}, own};
  CHECK(agreed_table(own, by_rank) == std::map<std::string, std::string>{{"a", "1"}, {"b", "2"}, {"c", "3"}});
}

TEST_CASE("choices_record: a damaged record is refused") {
  for (const char* text : {"{}", R"({"tables": [], "of_rank": [0]})", R"({"tables": [], "of_rank": [-1]})",
                           R"({"tables": 1, "of_rank": [0]})", R"({"tables": [{"context": "H100"}], "of_rank": [0]})",
                           R"({"tables": [{"context": "H100", "choices": {"gemm": 1}}], "of_rank": [0]})"}) {
    CAPTURE(text);
    CHECK(test::error_of([&] { choices_of_rank(Json::parse(text), 0, 1); }, Exit::bad_data) != "");
  }
}
