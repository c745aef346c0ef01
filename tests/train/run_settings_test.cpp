// The settings that a resumed run may change are those that mtl-train(1) lists.
#include "train/run_settings.h"

#include <doctest/doctest.h>

#include <set>

#include "base/files.h"
#include "data/indexed_dataset.h"
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
  writer.finish();
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
  Names other = flags_in(settings_record(options, {}).at("other"));
  CHECK(other.contains("--loss-scale"));
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
