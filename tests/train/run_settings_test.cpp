// The settings that a resumed run may change are those that mtl-train(1) lists.
#include "train/run_settings.h"

#include <doctest/doctest.h>

#include <set>

#include "base/files.h"
#include "data/indexed_dataset.h"
#include "tests/data/finish.h"
#include "tests/scratch_folder.h"
#include "train/data_feed.h"

using namespace mtl;

namespace {

using Names = std::set<std::string>;

/// Returns the flags that the page names in the paragraph that begins with `begin`, up to `end`.
Names flags_on_page(const std::string& begin, const std::string& end) {
  const std::string page = read_file("../man/mtl-train.1.scd");
  const std::size_t from = page.find("\n" + begin), to = page.find(end, from);
  REQUIRE(to != std::string::npos);
  Names out;
  for (std::string word : split(page.substr(from, to - from), '*')) {
    if (starts_with(word, "--")) out.insert(std::move(word));
  }
  return out;
}

/// Returns the keys that are flags.
Names flags_in(const Json& record) {
  Names out;
  for (const auto& [key, value] : record.as_object()) {
    if (starts_with(key, "--") && key.find(' ') == std::string::npos) out.insert(key);
  }
  return out;
}

}  // namespace

TEST_CASE("the manual page lists the settings that may change, and those that need --allow-data-change") {
  const test::ScratchFolder folder;
  IndexedDatasetWriter writer(folder / "numbers", DataType::u16);
  for (int document = 0; document < 10; ++document) {
    writer.add_sequence(std::vector<std::int32_t>(9, document));
    writer.end_document();
  }
  test::finish(writer);
  TrainOptions options;
  options.data.seq_length = 4;
  options.data.paths.data_path = {folder / "numbers"};
  options.data.paths.split = "1,0,0";
  options.batch.train_iters = 2;
  options.batch.eval_iters = 0;
  Names order = flags_in(TrainingData(options, {.vocab_size = 10}).identity().at("order"));
  options.data.mock = true;
  order.merge(flags_in(TrainingData(options, {.vocab_size = 10}).identity().at("order")));
  options.batch.rampup = {"1", "1", "1"};
  options.batch.schedule = "0:1";
  options.precision.preset = "fp16";
  options.precision.loss_scale = 1;
  options.batch.per_token_loss = true;
  options.batch.z_loss = 1;
  options.optimizer.muon_fp32_matmul_prec = "high";
  Names other;
  for (const char* rule : {"adam", "sgd", "muon"}) {
    options.optimizer.name = rule;
    other.merge(flags_in(settings_record(options, {}).at("other")));
  }
  CHECK(other.contains("--loss-scale"));
  // A resume with another one is refused, because the states are others.
  for (const char* flag : {"--optimizer", "--muon-no-position-embedding"}) CHECK(other.erase(flag) == 1);
  for (const std::string& flag : order) other.erase(flag);
  CHECK(flags_on_page("Other settings may change: ", " mtl-train warns") == other);
  Names needing = flags_on_page("Other data needs ", " mtl-train then warns");
  CHECK(needing.erase("--allow-data-change") == 1);
  CHECK(needing == order);
}

TEST_CASE("a resume says that another number of ranks forms other micro-batches of a shared permutation") {
  for (const std::int64_t micro : {1, 2}) {
    TrainOptions options;
    options.data.dataloader_type = "cyclic";
    options.data.data_sharding = false;
    options.batch.micro_batch_size = micro;
    options.batch.global_batch_size = 4;
    const Json extra = Json::object({{"settings", settings_record(options, {})}});
    options.parallel.world = 2;
    const std::vector<std::string> changes = changed_settings(options, "run", extra, {});
    if (micro == 1)
      CHECK(changes.empty());
    else
      CHECK(changes == std::vector<std::string>{"run continues with other settings: data-parallel size 1, now 2"});
  }
}

TEST_CASE("a resume with the recorded schedule reports nothing, and one without a record cannot use it") {
  TrainOptions options;
  options.checkpoint.use_checkpoint_schedule = true;
  std::string problem;
  const ReportProblem report = [&](const std::string& flag, const std::string& what) { problem = flag + " " + what; };
  options.batch.train_iters = 4;
  options.batch.global_batch_size = 4;
  options.optimizer.schedule.lr = 0.5;
  const Json extra = Json::object({{"settings", settings_record(options, run_schedule(options, {}))}});
  CHECK(changed_settings(options, "run", extra, report).empty());
  options.checkpoint.use_checkpoint_schedule = false;
  options.optimizer.schedule.lr.reset();  // as in a dry run
  CHECK(changed_settings(options, "run", extra, report).empty());
  CHECK(changed_settings(options, "run", {}, report).empty());
  CHECK(problem == "");
  options.checkpoint.use_checkpoint_schedule = true;
  CHECK(changed_settings(options, "run", {}, report).empty());
  CHECK(starts_with(problem, "--use-checkpoint-opt_param-scheduler cannot be used, because run has no schedule "));
}

TEST_CASE("settings: a record has every setting, and a difference says both values") {
  TrainOptions options;
  options.data.seq_length = 64;
  options.data.eod_mask_loss = true;
  options.batch.global_batch_size = 8;
  options.optimizer.adam_beta1 = 0.5;
  options.optimizer.adam_beta2 = 0.75;
  options.optimizer.adam_eps = 0.125;
  options.optimizer.clip_grad = 2;
  options.hidden_dropout = 0.25;
  options.attention_dropout = 0.375;
  options.seed = 99;
  const Json record = settings_record(options, {});
  CHECK(
      record.at("other").dump() ==
      R"({"--global-batch-size": 8, "--seq-length": 64, "--clip-grad": 2.0, "--hidden-dropout": 0.25, "--attention-dropout": 0.375, "--seed": 99, )"
      R"("--eod-mask-loss": true, "--reset-position-ids": false, "--reset-attention-mask": false, )"
      R"("--adam-beta1": 0.5, "--adam-beta2": 0.75, "--adam-eps": 0.125})");
  options.optimizer.name = "sgd";
  options.optimizer.sgd_momentum = 0.5;
  options.batch.rampup = {"2", "2", "16"};
  options.batch.schedule = "0:8";
  options.precision.fp16 = true;
  options.precision.loss_scale = 4;
  const std::string grown = settings_record(options, {}).at("other").dump();
  CHECK(
      grown.find(
          R"("--optimizer": "sgd", "--sgd-momentum": 0.5, "--rampup-batch-size": "2 2 16", "--step-batch-size-schedule": "0:8", "--loss-scale": 4.0})") !=
      std::string::npos);

  const Json before = Json::parse(
      R"({"same": 1, "number": 2, "text": "a", "switch": true, "fraction": 0.5, "large": 1e16, "kind": 1, "gone": 3})");
  const Json now = Json::parse(
      R"({"same": 1.0, "number": 3.0, "text": "b", "switch": false, "fraction": 2.5, "large": 2, "kind": "1", "new": 4})");
  CHECK(
      differences_of(before, now) ==
      "number 2, now 3; text a, now b; switch true, now false; fraction 0.5, now 2.5; large 1e+16, now 2; kind 1, now "
      "1; gone 3, now not set; new not set, now 4");
  CHECK(differences_of(before, before) == "");
}
