// A run's batches: their order, the end of the data, and how long training waits for them.
#include "train/data_feed.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <thread>

#include "base/console.h"
#include "base/error.h"
#include "base/files.h"
#include "tests/data/finish.h"
#include "tests/engine/golden_model.h"
#include "tests/golden_lines.h"

using namespace mtl;

namespace {

constexpr std::int64_t kLength = 8;
Stream stream(Device::cpu);

/// A data set with 100 documents of ascending tokens, in a single split.
struct Numbers {
  std::string folder = cat("/tmp/mtl_feed_test.", getpid(), "/");
  DataFiles files;
  std::shared_ptr<const BlendedDataset> dataset;
  mutable std::deque<StepBatches> memory;  // each feed's buffers

  explicit Numbers(std::int64_t samples) {
    make_directories(folder);
    IndexedDatasetWriter writer(folder + "numbers", DataType::u16);
    std::int32_t token = 0;
    for (int document = 0; document < 100; ++document) {
      std::vector<std::int32_t> ids;
      for (int i = 0; i < 5 + document % 7; ++i) ids.push_back(token++);
      writer.add_sequence(ids);
      writer.end_document();
    }
    test::finish(writer);
    dataset = open_split(files, {"--data-path", {{folder + "numbers"}, {}}, {0, 1}}, samples,
                         {.order = {.seq_length = kLength}});
  }
  ~Numbers() { remove_tree(folder); }

  DataFeed feed(std::int64_t largest, DataFeed::MicroBatches micro_batches, std::int64_t consumed = 0,
                const SequencePart& part = {}) const {
    RunShape shape;
    shape.layout.grid = RankGrid({.context = part.parts});
    shape.layout.rank = part.index;
    shape.micro_batch = 2;
    shape.seq_length = kLength;
    shape.micro_batches = largest;
    return DataFeed(dataset, {.total = dataset->size(), .consumed = consumed, .micro_batch_size = 2}, shape,
                    std::move(micro_batches), memory.emplace_back(make_step_batches(shape)));
  }
};

std::vector<std::int32_t> row(const Tensor& tensor, std::int64_t number) {
  const auto* begin = tensor.data<std::int32_t>() + number * kLength;
  return {begin, begin + kLength};
}

}  // namespace

TEST_CASE("a feed returns samples in order, also if the batch grows or the run starts in the middle") {
  const Numbers numbers(60);
  const auto sizes = [](std::int64_t consumed) -> std::int64_t { return consumed < 8 ? 1 : 3; };
  for (const std::int64_t start : {0, 6, 14}) {
    DataFeed feed = numbers.feed(3, sizes, start);
    std::int64_t consumed = start;
    for (int step = 0; step < 7; ++step) {
      const StepBatch& batch = feed.next(stream);
      REQUIRE(batch.micro_batches == sizes(consumed));
      double weights = 0;
      for (int m = 0; m < batch.micro_batches; ++m) {
        const Batch& one = batch.buffers->batch(m);
        for (std::int64_t r = 0; r < 2; ++r, ++consumed) {
          CHECK(one.samples.data<std::int64_t>()[r] == consumed);
          CHECK(row(one.tokens, r) == numbers.dataset->item(consumed).tokens);
          CHECK(row(one.labels, r) == numbers.dataset->item(consumed).labels);
          CHECK(row(one.positions, r) == numbers.dataset->item(consumed).position_ids);
        }
        for (std::int64_t i = 0; i < one.loss_weights.numel(); ++i)
          weights += double{one.loss_weights.data<float>()[i]};
        CHECK(batch.unmasked[m] == 2 * kLength);
      }
      CHECK(weights == doctest::Approx(1).epsilon(1e-5));  // the mean over this step's micro-batches
    }
  }
}

TEST_CASE("context-parallel ranks read their rows of the samples, weighted as in whole ones") {
  const Numbers numbers(10);
  const auto one_micro_batch = [](std::int64_t) { return 1; };
  DataFeed whole_feed = numbers.feed(1, one_micro_batch);
  const StepBatch& whole_step = whole_feed.next(stream);
  const Batch& whole = whole_step.buffers->batch(0);
  for (const int parts : {2, 4}) {
    for (int index = 0; index < parts; ++index) {
      CAPTURE(parts);
      CAPTURE(index);
      const SequencePart part{index, parts};
      DataFeed feed = numbers.feed(1, one_micro_batch, 0, part);
      const StepBatch& step = feed.next(stream);
      const Batch& batch = step.buffers->batch(0);
      CHECK(step.unmasked == whole_step.unmasked);
      const RowMap rows = batch.rows();
      const std::int64_t held = kLength / parts;
      REQUIRE(batch.tokens.shape() == Shape{2, held});
      REQUIRE(rows.seq_length() == kLength);
      for (std::int64_t i = 0; i < 2 * held; ++i) {
        const std::int64_t at = rows.sequence(i) * kLength + rows.position(i);
        for (const auto& [of_part, of_whole] :
             {std::pair(batch.tokens, whole.tokens), {batch.labels, whole.labels}, {batch.positions, whole.positions}})
          CHECK(of_part.data<std::int32_t>()[i] == of_whole.data<std::int32_t>()[at]);
        CHECK(batch.loss_weights.data<float>()[i] == whole.loss_weights.data<float>()[at]);
      }
    }
  }
}

TEST_CASE("the rows of context-parallel ranks are Megatron's") {
  const SafetensorsFile batches("golden/context_ranks/batches.safetensors");
  for (const Json& line : golden_lines("golden/context_ranks/ranks.jsonl")) {
    const std::string name = line.at("case").as_string();
    const SequencePart part{static_cast<int>(line.at("rank").as_int()), static_cast<int>(line.at("cp").as_int())};
    const std::int64_t length = line.at("T").as_int(), rows = length / part.parts;
    CAPTURE(name);
    CAPTURE(part.parts);
    CAPTURE(part.index);
    const std::vector<Json>& expected = line.at("rows").as_array();
    REQUIRE(std::ssize(expected) == rows);
    for (std::int64_t t = 0; t < rows; ++t)
      CHECK(part.position(t, rows) == expected[static_cast<std::size_t>(t)].as_int());
    const RowMap map{{}, 0, rows, part};
    for (const char* kind : {"tokens", "labels", "position_ids", "loss_mask", "document_start"}) {
      CAPTURE(std::string(kind));
      const std::vector<double> whole = test::read_tensor(batches, cat(name, ".", kind));
      std::int64_t row = 0;
      for (const Json& sequence : line.at(kind).as_array()) {
        for (const Json& value : sequence.as_array()) {
          const std::int64_t at = map.sequence(row) * length + map.position(row);
          CHECK(value.as_number() == whole[static_cast<std::size_t>(at)]);
          ++row;
        }
      }
      CHECK(row == line.at("batch").as_int() * rows);
    }
  }
}

TEST_CASE("a feed reports the end of the data, and not before") {
  const Numbers numbers(10);
  DataFeed feed = numbers.feed(2, [](std::int64_t) { return 2; });
  for (std::int64_t step = 0; step < numbers.dataset->size() / 4; ++step) feed.next(stream);
  CHECK_THROWS_WITH_AS(feed.next(stream), doctest::Contains("the data is exhausted"), Error);
}

TEST_CASE("flags that separate documents act on generated tokens, with the tokenizer's last token or without one") {
  TrainOptions options;
  options.data.mock = options.data.eod_mask_loss = true;
  options.data.seq_length = 256;
  options.batch.train_iters = 64;
  options.batch.eval_iters = 0;
  for (const std::int32_t eod : {-1, 3}) {
    const TrainingData data(options, {.vocab_size = 9, .eod = eod});
    CHECK(data.dataset(Split::valid) == nullptr);  // --eval-iters 0
    const std::int32_t last = eod < 0 ? 8 : eod;
    int masked = 0;
    for (std::int64_t i = 0; i < 64; ++i) {
      const Sample sample = data.dataset(Split::train)->item(i);
      for (std::size_t at = 0; at < sample.tokens.size(); ++at) {
        CHECK((sample.loss_mask[at] == 0) == (sample.tokens[at] == last));
        masked += sample.loss_mask[at] == 0 ? 1 : 0;
      }
    }
    CHECK(masked > 0);
  }
}

TEST_CASE("the identity of the data says what the order depends on, and a sample that moves is described") {
  const Numbers numbers(10);
  TrainOptions options;
  options.data.seq_length = kLength;
  options.data.paths.data_path = {"1", numbers.folder + "numbers", "3", numbers.folder + "numbers"};
  options.data.paths.split = "80,20,0";
  options.batch.micro_batch_size = 2;
  options.batch.train_iters = 4;
  options.batch.eval_iters = 2;
  options.seed = 5;
  const TrainingData data(options, {.vocab_size = 1000});
  CHECK(data.dataset(Split::test) == nullptr);
  CHECK(data.identity().at("files").as_array().size() == 1);
  const std::string order =
      R"({"--seed": 5, "--seq-length": 8, "--data-order": "megatron", "--dataloader-type": "single", )"
      R"("--no-data-sharding": false, "--split": "80,20,0", "weights of train": [1.0, 3.0], "data sets of train": [0, )"
      R"(0], "weights of valid": [1.0, 3.0], "data sets of valid": [0, 0]})";
  CHECK(data.identity().at("order").dump() == order);
  CHECK(std::ranges::count(data.identity_lines(), '\n') == 1 + 10 - 1);
  CHECK(data.identity_lines().find("\n--seed 5\n--seq-length 8\n") != std::string::npos);
  // Of 32 places, the first and the last sample are among them.
  const Json& probes = data.identity().at("probes");
  CHECK(probes.as_object().front().first == "0");
  CHECK(probes.as_object().back().first == cat(data.dataset(Split::train)->size() - 1));
  CHECK(probes.at("0").as_string() == data.place_of_sample(0));
  CHECK(data.moved_sample(data.identity()) == "");
  CHECK(data.moved_sample(Json::object()) == "");
  const auto saved = [](const std::string& number) {
    return Json::object({{"probes", Json::object({{number, "data set 7, document 1 + 2"}})}});
  };
  CHECK(data.moved_sample(saved("1")) ==
        cat("sample 1 is ", data.place_of_sample(1), ", but was data set 7, document 1 + 2"));
  for (const std::string& unknown : {std::string("-1"), std::string("x"), cat(data.dataset(Split::train)->size())})
    CHECK(data.moved_sample(saved(unknown)) == "");
  // A cyclic order depends on the ranks' parts, if they have parts. Flags' effects on items reach the data set.
  options.data.dataloader_type = "cyclic";
  options.data.eod_mask_loss = options.data.reset_position_ids = options.data.reset_attention_mask = true;
  const std::int32_t eod = data.dataset(Split::train)->item(0).tokens[3];
  const TrainingData cyclic(options, {.vocab_size = 1000, .eod = eod});
  CHECK(cyclic.identity().at("order").at("--micro-batch-size times data-parallel size").as_int() == 2);
  bool found = false;
  for (std::int64_t i = 0; i < cyclic.dataset(Split::train)->size(); ++i) {
    const Sample sample = cyclic.dataset(Split::train)->item(i);
    for (std::size_t at = 0; at + 1 < sample.tokens.size(); ++at) {
      if (sample.tokens[at] != eod) continue;
      found = true;
      CHECK(sample.loss_mask[at] == 0);
      CHECK(sample.position_ids[at + 1] == 0);
      CHECK(sample.document_start[at + 1] == static_cast<std::int32_t>(at + 1));
    }
  }
  CHECK(found);
  options.data.data_sharding = false;
  const Json unsharded = TrainingData(options, {.vocab_size = 1000}).identity().at("order");
  CHECK(unsharded.find("--micro-batch-size times data-parallel size") == nullptr);
  CHECK(unsharded.at("--no-data-sharding").as_bool());
  options.data.mock = true;
  const TrainingData mock(options, {.vocab_size = 1000});
  CHECK(mock.identity().at("order").dump() ==
        R"({"--seed": 5, "--seq-length": 8, "--data-order": "megatron", "--dataloader-type": "cyclic", )"
        R"("--no-data-sharding": true, "--mock-data": true})");
  CHECK(mock.dataset(Split::train)->item(0).tokens != mock.dataset(Split::valid)->item(0).tokens);
}

TEST_CASE("a micro-batch without a token that counts has weights of zero") {
  Numbers numbers(10);
  IndexedDatasetWriter writer(numbers.folder + "ends", DataType::u16);
  writer.add_sequence(std::vector<std::int32_t>(100, 3));
  writer.end_document();
  test::finish(writer);
  numbers.dataset = open_split(numbers.files, {"--data-path", {{numbers.folder + "ends"}, {}}, {0, 1}}, 2,
                               {.order = {.seq_length = kLength}, .eod = 3, .eod_mask_loss = true});
  DataFeed feed = numbers.feed(1, [](std::int64_t) { return 1; });
  const StepBatch& step = feed.next(stream);
  CHECK(step.unmasked[0] == 0);
  const Tensor& weights = step.buffers->batch(0).loss_weights;
  for (std::int64_t i = 0; i < weights.numel(); ++i) CHECK(weights.data<float>()[i] == 0);
}

TEST_CASE("the stall counter counts only the time that training waits") {
  using namespace std::chrono_literals;
  const Numbers numbers(1000);
  constexpr int kSteps = 10;
  // A slow disk: the reader needs 20 ms per step, and the trainer needs no time.
  const auto slow = [](std::int64_t) {
    std::this_thread::sleep_for(20ms);
    return 1;
  };
  DataFeed starved = numbers.feed(1, slow);
  double began = now_seconds();
  for (int step = 0; step < kSteps; ++step) starved.next(stream);
  CHECK(starved.stalled_seconds() > 0.018 * (kSteps - 1));
  CHECK(starved.stalled_seconds() <= now_seconds() - began);
  // If the trainer is slow, it may have to wait only for the first step.
  DataFeed healthy = numbers.feed(1, [](std::int64_t) { return 1; });
  healthy.next(stream);
  const double first = healthy.stalled_seconds();
  began = now_seconds();
  for (int step = 0; step < kSteps; ++step) {
    std::this_thread::sleep_for(20ms);
    healthy.next(stream);
  }
  CHECK(healthy.stalled_seconds() - first < 0.2 * (now_seconds() - began));
}
