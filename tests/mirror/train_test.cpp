// A complete run on a device whose memory the host cannot access: training, validation, checkpoints, a resume, and
// inference with the trained model. Every bit must equal the cpu's.
#include <doctest/doctest.h>

#include <unistd.h>

#include <csignal>
#include <set>

#include "ckpt/open_model.h"
#include "device/copy.h"
#include "eval/decoder.h"
#include "eval/scorer.h"
#include "tests/error_of.h"
#include "tests/mirror/queue.h"
#include "tests/mirror/same_tensors.h"
#include "tests/mirror/scale.h"
#include "tests/mirror/small_run.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// Returns the iterations that appear in warnings.
std::set<int> broken_iterations(const std::string& warnings) {
  constexpr std::string_view kWord = "iteration ";
  std::set<int> out;
  for (std::size_t at = 0; (at = warnings.find(kWord, at)) != std::string::npos; ++at)
    out.insert(std::atoi(warnings.c_str() + at + kWord.size()));
  return out;
}

/// Interrupts and resumes the run. Checks that its tensors and logged metrics equal those of the run saved in
/// `uninterrupted`.
void check_resumed_run(TrainOptions options, const std::string& uninterrupted) {
  options.checkpoint.exit_interval = 3;
  CHECK(run(options) == Exit::ok);
  options.checkpoint.exit_interval.reset();
  CHECK(run(options) == Exit::ok);
  check_same_tensors(uninterrupted, options.checkpoint.save);
  const std::vector<std::string> expected = metrics_in(uninterrupted + ".jsonl");
  CHECK(expected.size() >= 8);  // six steps, validations, and the final test
  CHECK(metrics_in(options.checkpoint.save + ".jsonl") == expected);
}

}  // namespace

TEST_CASE("a run with validation, checkpoints and a resume equals the cpu's, bit for bit") {
  ScratchFolder scratch;
  write_data(scratch / "data");
  CHECK(run(options_on(Device::cpu, scratch / "data", scratch / "cpu")) == Exit::ok);
  check_resumed_run(options_on(Device::cuda, scratch / "data", scratch / "cuda"), scratch / "cpu");
}

TEST_CASE("runs of other architectures, recomputed and resumed, equal the cpu's, bit for bit") {
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

TEST_CASE("runs on a late device equal the cpu's bit for bit, in any order that events allow") {
  ScratchFolder scratch;
  write_data(scratch / "data");
  CHECK(run(options_on(Device::cpu, scratch / "data", scratch / "cpu")) == Exit::ok);
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    CAPTURE(seed);
    mirror::Deferral deferral(seed);
    check_resumed_run(options_on(Device::cuda, scratch / "data", scratch / cat("cuda", seed)), scratch / "cpu");
  }
}

TEST_CASE("steps that are computed again on a late device have equal bits, and leave the run as it is") {
  ScratchFolder scratch;
  write_data(scratch / "data");
  CHECK(run(options_on(Device::cpu, scratch / "data", scratch / "cpu")) == Exit::ok);
  std::map<std::string, std::int64_t> graphs;  // launched, by mode
  for (const char* mode : {"disabled", "validate_results", "report_determinism_stats"}) {
    CAPTURE(mode);
    mirror::Deferral deferral(7);
    TrainOptions options = options_on(Device::cuda, scratch / "data", scratch / mode);
    options.checks.rerun_mode = mode;
    const std::int64_t before = mirror::queue_counts().graphs;
    const std::string messages = stderr_of([&] { CHECK(run(options) == Exit::ok); });
    graphs[mode] = mirror::queue_counts().graphs - before;
    CHECK(messages.find("differs") == std::string::npos);
    CHECK(metrics_in(scratch / cat(mode, ".jsonl")) == metrics_in(scratch / "cpu.jsonl"));
    check_same_tensors(scratch / "cpu", scratch / mode);
  }
  CHECK(graphs["validate_results"] > graphs["disabled"]);  // reductions apart from updates
  CHECK(graphs["report_determinism_stats"] > graphs["validate_results"] * 3 / 2);
}

TEST_CASE("a 16-bit run warns once if its head size keeps attention from a GPU's tensor cores") {
  ScratchFolder scratch;
  write_data(scratch / "data");
  const auto warnings = [&](std::int64_t heads, bool bf16, const std::string& backend) {
    TrainOptions options = options_on(Device::cuda, scratch / "data", "");
    options.architecture.num_attention_heads = heads;
    options.precision.bf16 = bf16;
    options.attention_backend = backend;
    options.logging.log_jsonl = scratch / "log";
    const std::string text = stderr_of([&] { CHECK(run(options) == Exit::ok); });
    const std::size_t first = text.find("warning: attention runs on a scalar kernel");
    if (first == std::string::npos) return 0;
    CHECK(text.find("heads have 12 elements; in bfloat16, tensor cores need a head size that is a multiple of 8, up to "
                    "128") != std::string::npos);
    return text.find("scalar kernel", first + 40) == std::string::npos ? 1 : 2;
  };
  CHECK(warnings(2, true, "auto") == 1);
  CHECK(warnings(2, true, "unfused") == 0);  // as requested
  CHECK(warnings(3, true, "auto") == 0);     // heads of 8 elements
  CHECK(warnings(2, false, "auto") == 0);
}

TEST_CASE("steps run as CUDA graphs produce the same bits, with few commands outside of them") {
  ScratchFolder scratch;
  write_data(scratch / "data");
  const auto options = [&](Device device, std::int64_t steps, bool graphs, const std::string& name) {
    TrainOptions out = options_on(device, scratch / "data", scratch / name);
    out.batch.train_iters = steps;
    out.batch.eval_iters = 0;
    out.optimizer.schedule.lr_decay_iters = 9;
    out.cuda_graphs = graphs;
    return out;
  };
  CHECK(run(options(Device::cpu, 9, true, "cpu")) == Exit::ok);
  for (bool graphs : {true, false}) {
    std::map<std::int64_t, mirror::QueueCounts> counts;  // by number of steps
    for (std::int64_t steps : {5, 9}) {
      mirror::Deferral deferral(steps);
      const mirror::QueueCounts before = mirror::queue_counts();
      CHECK(run(options(Device::cuda, steps, graphs, cat("cuda", graphs, steps))) == Exit::ok);
      const mirror::QueueCounts after = mirror::queue_counts();
      counts[steps] = {.graphs = after.graphs - before.graphs, .commands = after.commands - before.commands};
    }
    check_same_tensors(scratch / "cpu", scratch / cat("cuda", graphs, 9));
    CHECK(metrics_in(scratch / cat("cuda", graphs, "9.jsonl")) == metrics_in(scratch / "cpu.jsonl"));
    const std::int64_t launched = counts[9].graphs - counts[5].graphs,
                       outside_graphs = counts[9].commands - counts[5].commands;
    if (graphs) {
      CHECK(counts[5].graphs == 4 * 4);  // from the second step on
      CHECK(launched == 4 * 4);          // three micro-batches, the update
      CHECK(outside_graphs == 4 * 7);    // inputs, zeroed losses, batch, three micro-batches, report
    } else {
      CHECK(counts[9].graphs == 0);
      CHECK(outside_graphs > 4 * 150);
    }
  }
}

TEST_CASE("graphs of growing steps equal the cpu's, bit for bit") {
  ScratchFolder scratch;
  write_data(scratch / "data");
  const auto options = [&](Device device, const std::string& name) {
    TrainOptions out = options_on(device, scratch / "data", scratch / name);
    out.batch.rampup = {"2", "2", "24"};
    out.batch.train_samples = 60;
    out.batch.train_iters.reset();
    out.batch.eval_iters = 0;
    return out;
  };
  CHECK(run(options(Device::cpu, "cpu")) == Exit::ok);
  CHECK(metrics_in(scratch / "cpu.jsonl").size() >= 14);
  mirror::Deferral deferral(4);
  CHECK(run(options(Device::cuda, "cuda")) == Exit::ok);
  CHECK(metrics_in(scratch / "cuda.jsonl") == metrics_in(scratch / "cpu.jsonl"));
  check_same_tensors(scratch / "cpu", scratch / "cuda");
}

TEST_CASE("parts of a step: plain, captured, replayed; another number of micro-batches starts over") {
  Stream stream(Device::cuda);
  Buffer memory(Device::cuda, 4);
  const Tensor value = memory.tensor(DType::f32, {1});
  copy_from_host(stream, value, std::vector<float>{1});
  const ProcessGroups alone;
  StepGraphs graphs(alone);
  int bodies_run = 0;
  const auto step = [&](int micro_batches) {
    graphs.begin_step(micro_batches);
    for (int m = 0; m < micro_batches; ++m) {
      graphs.run(stream, {.is_first = m == 0}, [&] {
        ++bodies_run;
        scale(stream, value, m == 0 ? 2 : 3);
      });
    }
  };
  float expected = 1;
  stream.reset_counters();
  for (int micro_batches : {3, 3, 3, 3, 1, 1, 1}) {
    step(micro_batches);
    expected *= micro_batches == 3 ? 18 : 2;
    CHECK(host_copy<float>(stream, value)[0] == expected);
  }
  CHECK(bodies_run == 3 + 2 + 1 + 1);        // every body, then once per kind, and the same for one micro-batch
  CHECK(stream.counters().bytes == 15 * 8);  // 4 steps of 3 bodies and 3 steps of one, replayed ones included
  graphs.begin_step(1);
  const std::string refused = error_of([&] { graphs.run(stream, {.action = 1}, [&] { stream.synchronize(); }); });
  CHECK(refused.find("waiting for a stream") != std::string::npos);
  CHECK(refused.find("--no-cuda-graphs") != std::string::npos);
}

TEST_CASE("non-finite gradients are reported by name, and change no parameter") {
  ScratchFolder scratch;
  write_data(scratch / "data");
  std::map<Device, std::string> warnings;
  for (Device device : {Device::cpu, Device::cuda}) {
    mirror::Deferral deferral(3);
    TrainOptions options = options_on(device, scratch / "data", scratch / (device == Device::cpu ? "cpu" : "cuda"));
    options.optimizer.schedule.lr = 1e30;  // the first update destroys the model
    options.checks.nonfinite = false;
    options.batch.eval_iters = 0;
    warnings[device] = stderr_of([&] { CHECK(run(options) == Exit::ok); });
  }
  check_same_tensors(scratch / "cpu", scratch / "cuda");
  CHECK(metrics_in(scratch / "cuda.jsonl") == metrics_in(scratch / "cpu.jsonl"));
  CHECK(open_model(scratch / "cuda").state()->skipped_iterations == 5);
  CHECK(warnings[Device::cpu].find("embedding.tokens.weight") != std::string::npos);
  CHECK(warnings[Device::cuda] == warnings[Device::cpu]);
}

TEST_CASE("a gradient that is not finite ends a run, and the state before its step is saved") {
  ScratchFolder scratch;
  write_data(scratch / "data");
  for (Device device : {Device::cpu, Device::cuda}) {
    mirror::Deferral deferral(5);
    TrainOptions options = options_on(device, scratch / "data", scratch / (device == Device::cpu ? "cpu" : "cuda"));
    options.optimizer.schedule.lr = 1e30;
    const std::string error = error_of([&] { run(options); });
    CHECK(error.starts_with("iteration 2: the gradient is not finite; the state after iteration 1 is saved."));
    CHECK(open_model(options.checkpoint.save).state()->iteration == 1);
    CHECK(open_model(options.checkpoint.save).state()->consumed_samples == 6);
  }
  check_same_tensors(scratch / "cpu", scratch / "cuda");
}

TEST_CASE("a run that leaves out iterations, and logs zeros and the norm of its parameters, equals the cpu's") {
  ScratchFolder scratch;
  write_data(scratch / "data");
  const auto options = [&](Device device, const std::string& name) {
    TrainOptions out = options_on(device, scratch / "data", scratch / name);
    out.batch.train_iters = 9;
    out.checks.iterations_to_skip = {"1", "5", "6"};
    out.logging.params_norm = out.logging.num_zeros_in_grad = true;
    return out;
  };
  CHECK(run(options(Device::cpu, "cpu")) == Exit::ok);
  CHECK(open_model(scratch / "cpu").state()->skipped_iterations == 3);
  mirror::Deferral deferral(6);
  check_resumed_run(options(Device::cuda, "cuda"), scratch / "cpu");
}

TEST_CASE("overflows of a dynamic loss scale equal the cpu's bit for bit: steps enqueued too early are repeated") {
  ScratchFolder scratch;
  write_data(scratch / "data");
  const auto options = [&](Device device, const std::string& name) {
    TrainOptions out = options_on(device, scratch / "data", scratch / name);
    out.precision.fp16 = true;
    out.precision.initial_loss_scale = 1 << 24;
    out.precision.loss_scale_window = 2;  // doubles the scale often, so gradients overflow repeatedly
    out.precision.hysteresis = 1;
    out.batch.train_iters = 20;
    out.batch.eval_interval = 100;
    out.optimizer.schedule.lr_warmup_iters = 10;
    return out;
  };
  CHECK(run(options(Device::cpu, "cpu")) == Exit::ok);
  const std::vector<std::string> expected = metrics_in(scratch / "cpu.jsonl");
  const std::int64_t skipped = open_model(scratch / "cpu").state()->skipped_iterations;
  CHECK(skipped >= 5);
  CHECK(skipped <= 15);
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    mirror::Deferral deferral(seed);
    const std::string name = cat("cuda", seed);
    CHECK(run(options(Device::cuda, name)) == Exit::ok);
    CHECK(metrics_in(scratch / (name + ".jsonl")) == expected);
    check_same_tensors(scratch / "cpu", scratch / name);
  }
}

TEST_CASE("a broken step makes no update, nor does the next one, which is repeated; only its own gradients are named") {
  ScratchFolder scratch;
  write_data(scratch / "data");
  int isolated = 0;  // broken steps between two sound ones
  // With these constant loss scales, some steps overflow and are reported.
  for (auto [lr, loss_scale] : {std::pair{0.01, 1.65e6}, {0.1, 2.8e5}, {0.1, 3.6e5}, {0.1, 6e5}}) {
    CAPTURE(loss_scale);
    const auto name = [&](Device device) { return cat(device == Device::cpu ? "cpu" : "cuda", loss_scale); };
    std::map<Device, std::string> warnings;
    for (Device device : {Device::cpu, Device::cuda}) {
      mirror::Deferral deferral(7);
      TrainOptions options = options_on(device, scratch / "data", scratch / name(device));
      options.precision.fp16 = true;
      options.precision.loss_scale = loss_scale;
      options.checks.nonfinite = false;
      options.optimizer.schedule.lr = lr;
      options.batch.train_iters = 20;
      options.batch.eval_iters = 0;
      warnings[device] = stderr_of([&] { CHECK(run(options) == Exit::ok); });
    }
    CHECK(warnings[Device::cuda] == warnings[Device::cpu]);
    CHECK(metrics_in(scratch / (name(Device::cuda) + ".jsonl")) ==
          metrics_in(scratch / (name(Device::cpu) + ".jsonl")));
    check_same_tensors(scratch / name(Device::cpu), scratch / name(Device::cuda));
    const std::set<int> broken = broken_iterations(warnings[Device::cpu]);
    for (int i : broken) isolated += i > 1 && i < 20 && !broken.contains(i - 1) && !broken.contains(i + 1) ? 1 : 0;
  }
  CHECK(isolated > 0);
}

TEST_CASE("a signal ends a run after the current step, and the same command continues it") {
  ScratchFolder scratch;
  write_data(scratch / "data");
  CHECK(run(options_on(Device::cpu, scratch / "data", scratch / "cpu")) == Exit::ok);
  mirror::Deferral deferral(1);
  const TrainOptions options = options_on(Device::cuda, scratch / "data", scratch / "cuda");
  const auto request_end = [](SignalRequests& signals) {
    ::kill(::getpid(), SIGTERM);
    while (!signals.end_requested()) ::usleep(1000);
  };
  CHECK(run(options, request_end) == Exit::requeue);
  CHECK(open_model(scratch / "cuda").state()->iteration == 2);
  CHECK(run(options) == Exit::ok);
  check_same_tensors(scratch / "cpu", scratch / "cuda");
  CHECK(metrics_in(scratch / "cuda.jsonl") == metrics_in(scratch / "cpu.jsonl"));
}

namespace {
/// Runs on both devices until a document cannot be used. `change` sets more options. Returns the error, which is the
/// same on both.
std::string error_of_data(const ScratchFolder& scratch, const std::function<void(TrainOptions&)>& change = {}) {
  write_data(scratch / "data", 30);
  std::map<Device, std::string> errors;
  for (Device device : {Device::cpu, Device::cuda}) {
    mirror::Deferral deferral(2);
    TrainOptions options = options_on(device, scratch / "data", scratch / (device == Device::cpu ? "cpu" : "cuda"));
    options.batch.eval_iters = 0;
    options.batch.train_iters = 33;
    if (change) change(options);
    errors[device] = error_of([&] { run(options); });
  }
  CHECK(errors[Device::cuda] == errors[Device::cpu]);
  return errors[Device::cpu];
}
}  // namespace

TEST_CASE("a run that finds unusable data saves the preceding steps") {
  ScratchFolder scratch;
  CHECK(error_of_data(scratch).find("61") != std::string::npos);
  CHECK(open_model(scratch / "cuda").state()->iteration > 3);
  CHECK(open_model(scratch / "cuda").state()->iteration == open_model(scratch / "cpu").state()->iteration);
  check_same_tensors(scratch / "cpu", scratch / "cuda");
}

TEST_CASE("a run that finds unusable data first completes the save behind its steps") {
  ScratchFolder scratch;
  const std::string error = error_of_data(scratch, [](TrainOptions& options) {
    options.checkpoint.save_interval = 1;
    options.checkpoint.async_save = options.device == Device::cuda;
  });
  CHECK(error.find("61") != std::string::npos);
  const std::vector<std::int64_t> saved = list_iterations(scratch / "cpu");
  CHECK(saved.size() > 3);
  CHECK(list_iterations(scratch / "cuda") == saved);
  check_same_tensors(scratch / "cpu", scratch / "cuda");
}

TEST_CASE("logits, losses and generation equal the cpu's, bit for bit") {
  Console console = quiet_console();
  const ModelSource source = open_model("golden/gpt2_model/a", console);
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
  CHECK(by_cuda.length_of(0) == 3);
}
