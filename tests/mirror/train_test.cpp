// A whole run on a device whose memory the host cannot reach: training, validation, checkpoints, a resume, and what is
// computed with the model afterwards. Every bit is the same as on the cpu, or an operand went another way.
#include <doctest/doctest.h>

#include <functional>

#include "base/files.h"
#include "base/json.h"
#include "eval/decoder.h"
#include "eval/scorer.h"
#include "tests/ckpt/ckpt_fixtures.h"
#include "train/trainer.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr std::int64_t kVocab = 61, kLength = 12;

/// 200 documents of 10 to 20 tokens.
void write_data(const std::string& prefix) {
  IndexedDatasetWriter writer(prefix, DataType::u16);
  std::uint32_t state = 1;
  for (int document = 0; document < 200; ++document) {
    std::vector<std::int32_t> ids;
    for (int i = 0; i < 10 + document % 11; ++i) {
      state = state * 1664525 + 1013904223;
      ids.push_back(static_cast<std::int32_t>((state >> 16) % kVocab));
    }
    writer.add_sequence(ids);
    writer.end_document();
  }
  writer.finish();
}

TrainOptions options_on(Device device, const std::string& data, const std::string& save) {
  TrainOptions options;
  options.device = device;
  options.architecture.num_layers = 2;
  options.architecture.hidden_size = 24;
  options.architecture.num_attention_heads = 3;
  options.architecture.max_position_embeddings = kLength;
  options.data.paths.data_path = {data};
  options.data.paths.split = "80,10,10";
  options.data.seq_length = kLength;
  options.batch.micro_batch_size = 2;
  options.batch.global_batch_size = 6;
  options.batch.train_iters = 6;
  options.batch.eval_interval = 3;
  options.batch.eval_iters = 2;
  options.optimizer.schedule.lr = 0.01;
  options.checkpoint.save = save;
  options.logging.log_interval = 1;
  options.logging.log_jsonl = save + ".jsonl";
  options.threads = 2;
  return options;
}

/// One start of a run; returns how many steps were skipped.
Exit run(const TrainOptions& options) {
  Console console = quiet_console();
  SignalRequests signals;
  RunStart start = find_start(options, nullptr, {}, console);
  std::optional<GptConfig> loaded;
  if (start.source) loaded = start.source->config();
  start.config = resolve_config(options, loaded, kVocab, [](const std::string& flag, const std::string& what) {
    fail(Exit::usage, flag, ": ", what);
  });
  return Trainer(options, std::move(start), nullptr, {}, signals, console).run();
}

ModelSource open(const std::string& folder) {
  Console console = quiet_console();
  return ModelSource::open(folder, console);
}

void check_same_tensors(const std::string& a, const std::string& b) {
  const ModelSource left = open(a), right = open(b);
  REQUIRE(!left.tensors().empty());
  REQUIRE(left.tensors().size() == right.tensors().size());
  for (const SavedTensor& tensor : left.tensors()) {
    CAPTURE(tensor.name);
    const Slice all = whole_slice(tensor.shape);
    std::vector<std::byte> of_a(static_cast<std::size_t>(all.count()) * sizeof(float)), of_b(of_a.size());
    left.read(tensor.name, all, of_a);
    right.read(tensor.name, all, of_b);
    CHECK(of_a == of_b);
  }
}

/// The figures that a run logged which do not depend on time.
std::vector<std::string> figures(const std::string& log) {
  std::vector<std::string> out;
  for (const std::string& line : split(read_file(log), '\n')) {
    if (line.empty()) continue;
    const Json record = Json::parse(line);
    std::string text;
    for (const char* name : {"type", "iteration", "consumed_samples", "lm_loss", "loss", "grad_norm", "learning_rate",
                             "skipped_iterations", "nan_iterations"}) {
      if (const Json* value = record.find(name)) text += cat(name, " ", value->dump(), " ");
    }
    if (text.find("loss") != std::string::npos) out.push_back(text);
  }
  return out;
}

/// The run, interrupted and resumed, has the tensors and figures of the one that saved into `whole`.
void check_resumed_run(TrainOptions options, const std::string& whole) {
  options.checkpoint.exit_interval = 3;
  CHECK(run(options) == Exit::ok);
  options.checkpoint.exit_interval.reset();
  CHECK(run(options) == Exit::ok);
  check_same_tensors(whole, options.checkpoint.save);
  const std::vector<std::string> expected = figures(whole + ".jsonl");
  CHECK(expected.size() >= 8);  // six steps, validations, the test
  CHECK(figures(options.checkpoint.save + ".jsonl") == expected);
}

}  // namespace

TEST_CASE("a run with validation, checkpoints and a resume has the bits of the cpu's") {
  ScratchFolder scratch;
  write_data(scratch / "data");
  CHECK(run(options_on(Device::cpu, scratch / "data", scratch / "cpu")) == Exit::ok);
  check_resumed_run(options_on(Device::cuda, scratch / "data", scratch / "cuda"), scratch / "cpu");
}

namespace {

/// Between them all operators that GPT-2 lacks; attention alone, or all, computed again in backward.
void make_llama(TrainOptions& options) {
  ArchitectureOptions& model = options.architecture;
  model.normalization = "RMSNorm";
  model.position_embedding_type = "rope";
  model.group_query_attention = model.qk_layernorm = model.swiglu = true;
  model.disable_bias_linear = model.untie_embeddings = true;
  model.window_size = "5,0";
  options.parallel.recompute_granularity = "selective";
}
void make_neox(TrainOptions& options) {
  ArchitectureOptions& model = options.architecture;
  model.position_embedding_type = "rope";
  model.rotary_percent = 0.25;
  model.parallel_residual = model.no_bias_gelu_fusion = true;
  options.parallel.recompute_granularity = "full";
  options.parallel.recompute_method = "uniform";
  options.parallel.recompute_num_layers = 2;
}

}  // namespace

TEST_CASE("runs of other architectures, recomputed and resumed, have the bits of the cpu's") {
  for (void (*make)(TrainOptions&) : {make_llama, make_neox}) {
    ScratchFolder scratch;
    write_data(scratch / "data");
    TrainOptions options = options_on(Device::cpu, scratch / "data", scratch / "cpu");
    make(options);
    CHECK(run(options) == Exit::ok);
    options = options_on(Device::cuda, scratch / "data", scratch / "cuda");
    make(options);
    check_resumed_run(options, scratch / "cpu");
  }
}

TEST_CASE("gradients that are not finite are found, and change nothing") {
  ScratchFolder scratch;
  write_data(scratch / "data");
  for (Device device : {Device::cpu, Device::cuda}) {
    TrainOptions options = options_on(device, scratch / "data", scratch / (device == Device::cpu ? "cpu" : "cuda"));
    options.optimizer.schedule.lr = 1e30;  // the first update spoils the model
    options.batch.eval_iters = 0;
    CHECK(run(options) == Exit::ok);
  }
  check_same_tensors(scratch / "cpu", scratch / "cuda");
  CHECK(open(scratch / "cuda").state()->skipped_iterations == 5);
}

TEST_CASE("logits, losses and generation have the bits of the cpu's") {
  Console console = quiet_console();
  const ModelSource source = ModelSource::open("golden/gpt2_model/a", console);
  Model on_cpu(source, 2), on_cuda(source, 2, DType::f32, Device::cuda);
  const std::vector<std::int32_t> ids = {3, 1, 4, 1, 5, 9, 2, 6};
  CHECK(on_cpu.logits(ids) == on_cuda.logits(ids));

  Scorer of_cpu(on_cpu, 2, 3), of_cuda(on_cuda, 2, 3);
  for (Scorer* scorer : {&of_cpu, &of_cuda}) {
    scorer->push(ids);
    scorer->finish();
  }
  CHECK(of_cpu.score().tokens == 7);
  CHECK(of_cpu.score().loss_sum == of_cuda.score().loss_sum);

  Decoder by_cpu(on_cpu, 2, 10), by_cuda(on_cuda, 2, 10);
  const auto same = [](std::span<const float> a, std::span<const float> b) {
    return !a.empty() && std::equal(a.begin(), a.end(), b.begin(), b.end());
  };
  CHECK(same(by_cpu.append(1, ids), by_cuda.append(1, ids)));
  CHECK(same(by_cpu.append(0, {ids.data(), 2}), by_cuda.append(0, {ids.data(), 2})));
  const std::vector<std::int32_t> next = {7, 8};
  CHECK(same(by_cpu.step(next), by_cuda.step(next)));
  CHECK(by_cuda.held(0) == 3);
}
