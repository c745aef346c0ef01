// A run's reports and its log of JSON lines, which survives kills and resumes.
#include "train/metrics.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <memory>
#include <thread>

#include "tests/scratch_folder.h"
#include "tests/train/reported_run.h"

using namespace mtl;
using namespace mtl::test;

namespace {

/// A report in which every figure differs.
IntervalReport full_report() {
  IntervalReport report{.iteration = 3, .train_iterations = 10, .consumed_samples = 24};
  report.elapsed_ms_per_iteration = 1500;
  report.learning_rate = 0.5;
  report.global_batch_size = 8;
  report.lm_loss = 2.5;
  report.z_loss = 0.75;
  report.loss_scale = 1024;
  report.grad_norm = 0.25;
  report.num_zeros = 96;
  report.params_norm = 70.5;
  report.skipped_iterations = 1;
  report.nan_iterations = 2;
  report.tokens_per_second = 640;
  report.tflops_per_device = 61;
  report.mfu_a = 0.125;
  report.mfu_b = 0.375;
  report.lost_updates = 0.0625;
  report.lost_updates_copy = 0.75;
  report.data_stall_ms = 3;
  report.communication_wait_ms = 5;
  report.is_final = true;
  return report;
}

}  // namespace

TEST_CASE("metrics: a report has every figure in the log and in TensorBoard, there against iterations and samples") {
  const test::ScratchFolder folder;
  MetricsOptions options = quiet_options(folder.path());
  options.tensorboard_dir = folder.path() + "/tb";
  options.world_size = 4;
  Metrics metrics(options, quiet_console);
  metrics.report(full_report());
  metrics.report(ValidationReport{.iteration = 3, .consumed_samples = 24, .name = "test", .loss = 0, .is_final = true});
  const std::vector<std::string> lines = split(read_file(options.log_jsonl), '\n');
  REQUIRE(lines.size() == 4);
  CHECK(lines[1] == R"({"type": "step", "iteration": 3, "consumed_samples": 24, "lm_loss": 2.5, "z_loss": 0.75, )"
                    R"("learning_rate": 0.5, )"
                    R"("grad_norm": 0.25, "num_zeros": 96, "params_norm": 70.5, )"
                    R"("loss_scale": 1024.0, "global_batch_size": 8, "skipped_iterations": 1, )"
                    R"("nan_iterations": 2, "elapsed_ms_per_iteration": 1500.0, "tokens_per_second": 640.0, )"
                    R"("tflops_per_device": 61.0, "mfu_a": 0.125, "mfu_b": 0.375, "lost_updates": 0.0625, )"
                    R"("lost_updates_copy": 0.75, "data_stall_ms": 3.0, "communication_wait_ms": 5.0, "final": true})");
  CHECK(lines[2] ==
        R"({"type": "test", "iteration": 3, "consumed_samples": 24, "loss": 0.0, "ppl": 1.0, "final": true})");
  const auto file = *fs::directory_iterator(options.tensorboard_dir);
  const std::vector<std::string> records = read_records(read_file(file.path().string()));
  const auto expect = [&](std::size_t at, std::int64_t step, const Scalars& scalars) {
    // After the key of the time and its eight bytes.
    CHECK(records.at(at).substr(9) == scalars_event(0, step, scalars).substr(9));
  };
  REQUIRE(records.size() == 5);
  const Scalars both = {{"world-size", 4},      {"lm loss", 2.5},     {"z loss", 0.75},
                        {"learning-rate", 0.5}, {"grad-norm", 0.25},  {"num-zeros", 96},
                        {"params-norm", 70.5},  {"loss-scale", 1024}, {"batch-size", 8}};
  Scalars by_iteration = both, by_samples = both;
  for (auto& [tag, value] : by_samples) tag += " vs samples";
  for (const auto& scalar : Scalars{{"skipped-iterations", 1},
                                    {"nan-iterations", 2},
                                    {"iteration-time", 1.5},
                                    {"tokens-per-second", 640},
                                    {"throughput", 61},
                                    {"mfu-a", 0.125},
                                    {"mfu-b", 0.375},
                                    {"lost-updates", 0.0625},
                                    {"lost-updates-copy", 0.75},
                                    {"data-stall", 0.003},
                                    {"communication-wait", 0.005}})
    by_iteration.push_back(scalar);
  expect(1, 3, by_iteration);
  expect(2, 24, by_samples);
  expect(3, 3, {{"lm loss test", 0}, {"lm loss test ppl", 1}});
  expect(4, 24, {{"lm loss test vs samples", 0}, {"lm loss test ppl vs samples", 1}});
  // Absent figures are absent in both.
  options.tensorboard_dir = folder.path() + "/bare";
  Metrics bare(options, quiet_console);
  bare.report(IntervalReport{.iteration = 3, .train_iterations = 10, .consumed_samples = 24});
  const auto bare_file = *fs::directory_iterator(options.tensorboard_dir);
  const std::vector<std::string> of_bare = read_records(read_file(bare_file.path().string()));
  REQUIRE(of_bare.size() == 3);
  CHECK(of_bare[1].substr(9) == scalars_event(0, 3,
                                              {{"world-size", 4},
                                               {"learning-rate", 0},
                                               {"loss-scale", 1},
                                               {"batch-size", 0},
                                               {"skipped-iterations", 0},
                                               {"nan-iterations", 0},
                                               {"iteration-time", 0},
                                               {"tokens-per-second", 0}})
                                    .substr(9));
}

TEST_CASE("metrics: JSON lines keep every digit and omit absent figures") {
  const test::ScratchFolder folder;
  MetricsOptions options = quiet_options(folder.path() + "/new");
  options.start.set("seed", 1234);
  Metrics metrics(options, quiet_console);
  train(metrics, 1, 4);
  metrics.flush();
  std::vector<std::string> lines = split(read_file(options.log_jsonl), '\n');
  REQUIRE(lines.size() == 7);  // start, four steps, a validation, and the empty string after the last newline
  CHECK(lines[0] == R"({"type": "start", "version": 1, "iteration": 0, "seed": 1234})");
  Json step = Json::parse(lines[3]);
  CHECK(step.at("iteration").as_int() == 3);
  CHECK(step.at("consumed_samples").as_int() == 24);
  CHECK(step.at("lm_loss").as_number() == 1.0 / 3 + 0.1);
  CHECK(step.at("learning_rate").as_number() == 1e-3 / 3);
  CHECK(step.find("grad_norm") == nullptr);
  Json validation = Json::parse(lines[5]);
  CHECK(validation.at("type").as_string() == "validation");
  CHECK(validation.at("ppl").as_number() == doctest::Approx(12.18249396));
  CHECK(lines[6].empty());
}

TEST_CASE("metrics: after a resume the log reads like one uninterrupted run") {
  const test::ScratchFolder folder;
  MetricsOptions options = quiet_options(folder.path());
  options.from = {.run = "a", .train_iterations = 10};
  {
    Metrics metrics(options, quiet_console);
    train(metrics, 1, 10);
  }
  std::string uninterrupted = read_file(options.log_jsonl);
  {
    Metrics killed(options, quiet_console);  // starts a new log
    train(killed, 1, 9);
  }
  OutputFile(options.log_jsonl, true).write("{\"type\": \"step\", \"itera");  // killed in the middle of a line
  options.from.iteration = 6;
  for (int attempt = 0; attempt < 2; ++attempt) {
    Metrics resumed(options, quiet_console);
    train(resumed, 7, 10);
    resumed.report(ValidationReport{.iteration = 10, .name = "test", .loss = 2, .is_final = true});
  }
  std::string resumed = read_file(options.log_jsonl);
  std::string start = "{\"type\": \"start\", \"version\": 1, \"iteration\": 6, \"run\": \"a\"}\n";
  std::size_t at = resumed.find(start);
  REQUIRE(at != std::string::npos);
  resumed.erase(at, start.size());
  CHECK(resumed.find(start) == std::string::npos);
  CHECK(starts_with(resumed, uninterrupted));
  CHECK(split(resumed.substr(uninterrupted.size()), '\n').size() == 2);  // only the final test loss
}

TEST_CASE("metrics: a resume keeps the lines of other runs") {
  const test::ScratchFolder folder;
  MetricsOptions options = quiet_options(folder.path());
  options.from = {.run = "a", .train_iterations = 10};
  train(*std::make_unique<Metrics>(options, quiet_console), 1, 10);
  const std::string first = read_file(options.log_jsonl);
  options.from = {.run = "b", .train_iterations = 10};
  train(*std::make_unique<Metrics>(options, quiet_console), 1, 5);
  const std::string both = read_file(options.log_jsonl);
  CHECK(starts_with(both, first));
  CHECK(both.size() > first.size() * 3 / 2);
  options.from = {.run = "b", .iteration = 4, .train_iterations = 10};
  train(*std::make_unique<Metrics>(options, quiet_console), 5, 5);
  const std::string resumed = read_file(options.log_jsonl);
  CHECK(starts_with(resumed, first));
  std::vector<std::string> kept = split(resumed.substr(first.size()), '\n');
  REQUIRE(kept.size() == 1 + 4 + 1 + 1 + 1 + 1);  // start, steps 1 to 4, a validation, start, step 5, the end
  CHECK(kept[6] == "{\"type\": \"start\", \"version\": 1, \"iteration\": 4, \"run\": \"b\"}");
  // The first run again, between the second run's sessions.
  CHECK(rewind_log(resumed, {.run = "a", .iteration = 2, .train_iterations = 10}, "log").size() <
        resumed.size() - first.size() / 2);
  CHECK(rewind_log(resumed, {.run = "c", .iteration = 0, .train_iterations = 10}, "log") == resumed);
}

TEST_CASE("metrics: two runs write one log at the same time, and a resume of one loses no line of the other") {
  const test::ScratchFolder folder;
  MetricsOptions options = quiet_options(folder.path());
  const auto start = [&](const std::string& run, std::int64_t iteration) {
    options.from = {.run = run, .iteration = iteration, .train_iterations = 10};
    return std::make_unique<Metrics>(options, quiet_console);
  };
  /// Returns the iterations of a run's step lines, by the start lines before them.
  const auto steps_of = [&](const std::string& run) {
    std::vector<std::int64_t> steps;
    std::string writer;
    for (const std::string& line : split(read_file(options.log_jsonl), '\n')) {
      if (line.empty()) continue;
      const Json entry = Json::parse(line);
      if (entry.at("type").as_string() == "start") writer = entry.at("run").as_string();
      if (entry.at("type").as_string() == "step" && writer == run) steps.push_back(entry.at("iteration").as_int());
    }
    return steps;
  };
  const auto up_to = [](std::int64_t last) {
    std::vector<std::int64_t> steps;
    for (std::int64_t k = 1; k <= last; ++k) steps.push_back(k);
    return steps;
  };
  const double began = now_seconds();
  auto a = start("a", 0), b = start("b", 0);
  for (std::int64_t k = 1; k <= 6; ++k) {
    train(*a, k, k);
    train(*b, k, k);
  }
  CHECK(steps_of("a") == up_to(6));
  CHECK(steps_of("b") == up_to(6));
  a = start("a", 4);  // replaces the file that b has open
  CHECK(steps_of("a") == up_to(4));
  CHECK(steps_of("b") == up_to(6));
  train(*b, 7, 7);
  train(*a, 5, 5);
  b = start("b", 3);
  train(*a, 6, 10);
  train(*b, 4, 10);
  CHECK(steps_of("a") == up_to(10));
  CHECK(steps_of("b") == up_to(10));
  a = start("a", 10);
  CHECK(steps_of("a") == up_to(10));
  CHECK(steps_of("b") == up_to(10));
  CHECK(now_seconds() - began < SharedLog::kLockSeconds);  // no line waits for the lock of another
}

TEST_CASE("metrics: a resume removes what a run that was killed while it rewound the log has left") {
  const test::ScratchFolder folder;
  MetricsOptions options = quiet_options(folder.path());
  { Metrics first(options, quiet_console); }
  const std::string left = options.log_jsonl + ".tmp.31805", other = options.log_jsonl + ".tmp.copy";
  for (const std::string& path : {left, other}) write_file_atomic(path, "");
  fs::create_symlink(options.log_jsonl, folder / "link");
  options.log_jsonl = folder / "link";
  Metrics second(options, quiet_console);
  CHECK(!file_exists(left));
  CHECK(file_exists(other));
}

TEST_CASE("metrics: a log that is moved away is started again") {
  const test::ScratchFolder folder;
  MetricsOptions options = quiet_options(folder.path());
  options.from = {.run = "a", .train_iterations = 10};
  Metrics metrics(options, quiet_console);
  train(metrics, 1, 2);
  fs::rename(options.log_jsonl, options.log_jsonl + ".1");
  train(metrics, 3, 3);
  const std::vector<std::string> lines = split(read_file(options.log_jsonl), '\n');
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == "{\"type\": \"start\", \"version\": 1, \"iteration\": 0, \"run\": \"a\"}");
  CHECK(Json::parse(lines[1]).at("iteration").as_int() == 3);
}

TEST_CASE("rewind_log: a line that is kept after another run's keeps its start line") {
  const std::string a = "{\"type\": \"start\", \"iteration\": 10, \"run\": \"a\"}\n";
  const std::string b = "{\"type\": \"start\", \"iteration\": 0, \"run\": \"b\"}\n";
  const std::string validation = "{\"type\": \"validation\", \"iteration\": 10}\n";
  const std::string step = "{\"type\": \"step\", \"iteration\": 11}\n";
  const LogStart from{.run = "a", .iteration = 10, .train_iterations = 20};
  CHECK(rewind_log(b + step + a + validation + step, from, "log") == b + step + a + validation);
  CHECK(rewind_log(b + step + a + step + b + step, from, "log") == b + step + b + step);
  // The start line is added once, and only after a line of another run.
  const std::string early = "{\"type\": \"start\", \"iteration\": 4, \"run\": \"a\"}\n";
  CHECK(rewind_log(a + validation + validation, from, "log") == validation + validation);
  CHECK(rewind_log(b + a + validation + validation + b + step, from, "log") ==
        b + a + validation + validation + b + step);
  CHECK(rewind_log(b + early + a + validation, from, "log") == b + early + validation);
}

TEST_CASE("rewind_log: refuses text that is not a log, even without a newline") {
  const LogStart fresh{.run = "a", .iteration = 0, .train_iterations = 10};
  for (const char* text :
       {"{\"hello\": 1}", "{\"hello\": 1}\n", "hello", "{\"type\": 1}", "\n\n{\"text\": \"x\"}", "a\0b"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(rewind_log(text, fresh, "log"), doctest::Contains("not a line of a training log"), Error);
  }
  using namespace std::string_literals;
  for (const std::string& text :
       {""s, "{"s, "{\"typ"s, "{\"type\": \"step\", \"it"s, "{\"type\": \"st\0\0\0"s, "\0\0"s}) {
    CAPTURE(text);
    CHECK(rewind_log(text, fresh, "log").empty());
  }
}

TEST_CASE("rewind_log: removes what a resume repeats, and nothing else") {
  const std::string start = "{\"type\": \"start\", \"iteration\": 0, \"run\": \"a\"}\n";
  const std::string step = "{\"type\": \"step\", \"iteration\": 10}\n";
  const std::string last_step = "{\"type\": \"step\", \"iteration\": 10, \"final\": true}\n";
  const std::string validation = "{\"type\": \"validation\", \"iteration\": 10}\n";
  const std::string last_validation = "{\"type\": \"validation\", \"iteration\": 10, \"final\": true}\n";
  auto rewound = [&](const std::string& text, const LogStart& from) { return rewind_log(start + text, from, "log"); };
  const LogStart end{.run = "a", .iteration = 10, .train_iterations = 10};
  const LogStart extended{.run = "a", .iteration = 10, .train_iterations = 20};
  const LogStart in_validation{.run = "a", .iteration = 10, .train_iterations = 20, .validation_is_due = true};
  CHECK(rewound(step + validation + last_validation, end) == start + step + validation);
  CHECK(rewound(last_step + validation + last_validation, end) == start + last_step + validation);
  CHECK(rewound(last_step + validation + last_validation, extended) == start + validation);
  CHECK(rewound(step + validation, in_validation) == start + step);
  // An earlier session's final lines, and lines that do not say that they are not final.
  const std::string early_final = "{\"type\": \"step\", \"iteration\": 9, \"final\": true}\n";
  const std::string early_step = "{\"type\": \"step\", \"iteration\": 9}\n",
                    late = "{\"type\": \"x\", \"iteration\": 11}\n";
  CHECK(rewound(early_final + early_step + late, end) == start + early_step);
  CHECK_THROWS_WITH(rewound("\nno", end), doctest::Contains("log:3 is not a line of a training log"));
  CHECK(rewound(step + "{\"type\": \"st", end) == start + step);  // incomplete line
  // The log does not identify its run.
  CHECK(rewind_log(step, {.run = "a", .iteration = 0, .train_iterations = 10}, "log") == step);
  CHECK(rewind_log(step, {.run = "a", .iteration = 4, .train_iterations = 10}, "log").empty());
}

TEST_CASE("log files: a partially written record is cut off, and the next one follows the last complete one") {
  const test::ScratchFolder folder;
  const std::string path = folder.path() + "/log";
  LogFile log(path);
  log.write("first\n");
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{10, limit.rlim_max};
  const auto old_action = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  CHECK_THROWS_AS(log.write("a second record\n"), Error);
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, old_action);
  CHECK(read_file(path) == "first\n");
  log.write("third\n");
  CHECK(read_file(path) == "first\nthird\n");
}

TEST_CASE("log files: a device is not synced, and text to a full pipe waits for its reader") {
  LogFile("/dev/null").sync();
  int ends[2];
  REQUIRE(::pipe2(ends, O_NONBLOCK) == 0);
  std::string sent(1 << 18, 'a'), seen;  // more than a pipe holds
  std::jthread reader([&] {
    char some[4096];
    for (ssize_t got = 0; seen.size() < sent.size() && (got >= 0 || errno == EAGAIN);) {
      got = ::read(ends[0], some, sizeof some);
      seen.append(some, std::max<ssize_t>(0, got));
      if (got < 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  const int terminal = ::dup(STDOUT_FILENO);
  ::dup2(ends[1], STDOUT_FILENO);
  std::string problem;
  try {
    write_stdout(sent);
  } catch (const Error& error) {
    problem = error.what();
    ::close(ends[0]);
  }
  ::dup2(terminal, STDOUT_FILENO);
  reader.join();
  CHECK(problem == "");
  CHECK(seen == sent);
  for (const int descriptor : {ends[0], ends[1], terminal}) ::close(descriptor);
}

TEST_CASE("shared log: a line waits while another run has the lock, and a log without lines to drop stays the file") {
  const test::ScratchFolder folder;
  const std::string path = folder / "log", link = folder / "link", start = "{\"type\": \"start\", \"iteration\": 0}\n";
  write_file_atomic(path, start);
  fs::create_hard_link(path, link);
  SharedLog log(path, {.run = "a", .iteration = 0, .train_iterations = 10}, start);
  CHECK(read_file(link) == start + start);
  const int other = ::open(path.c_str(), O_RDONLY);
  REQUIRE(::flock(other, LOCK_EX) == 0);
  std::atomic<bool> is_released{false};
  std::jthread holder([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    is_released = true;
    ::close(other);
  });
  log.write("{}\n", "");
  CHECK(is_released);
}

TEST_CASE("log sinks: count I/O failures, throw other errors") {
  LogSink sink("log", "lines", quiet_console);
  sink.attempt(1, [] {});
  CHECK(sink.lost() == 0);
  for (int i = 0; i < 3; ++i) sink.attempt(2, [] { fail(Exit::io, "full"); });
  CHECK(sink.lost() == 6);
  CHECK_THROWS_AS(sink.attempt(1, [] { fail(Exit::bad_data, "not a log"); }), Error);
  CHECK(sink.lost() == 6);
}

TEST_CASE("metrics: a file that is not a log is refused and left untouched") {
  const test::ScratchFolder folder;
  MetricsOptions options = quiet_options(folder.path());
  write_file_atomic(options.log_jsonl, "{\"text\": \"a document\"}\n");
  CHECK_THROWS_WITH_AS((Metrics{options, quiet_console}),
                       doctest::Contains("run.jsonl:1 is not a line of a training log"), Error);
  CHECK(read_file(options.log_jsonl) == "{\"text\": \"a document\"}\n");
}

TEST_CASE("metrics: options without any output are accepted") {
  MetricsOptions options;
  options.terminal = false;
  Metrics metrics(options, quiet_console);
  train(metrics, 1, 4);
  metrics.flush();
}

TEST_CASE("metrics: the file for Prometheus has the newest figures, complete at any time") {
  const test::ScratchFolder folder;
  MetricsOptions options = quiet_options(folder.path());
  options.log_prometheus = folder.path() + "/run.prom";
  options.from.run = "5f0c";
  Metrics metrics(options, quiet_console);
  IntervalReport report{.iteration = 1, .train_iterations = 10, .consumed_samples = 8};
  report.lm_loss = NAN;
  metrics.report(report);
  CHECK(read_file(options.log_prometheus).find("mtl_train_lm_loss{run=\"5f0c\"} NaN\n") != std::string::npos);
  metrics.report(full_report());
  metrics.report(ValidationReport{.iteration = 3, .consumed_samples = 24, .loss = 0.1});
  const std::string text = read_file(options.log_prometheus);
  CHECK(text.find("# TYPE mtl_train_lm_loss gauge\nmtl_train_lm_loss{run=\"5f0c\"} 2.5\n") != std::string::npos);
  CHECK(text.find("mtl_train_iteration{run=\"5f0c\"} 3\n") != std::string::npos);
  CHECK(text.find("mtl_train_validation_loss{run=\"5f0c\"} 0.1000000000000000") != std::string::npos);
  CHECK(text.find("validation_iteration") == std::string::npos);
  CHECK(!file_exists(options.log_prometheus + ".tmp"));
  const std::vector<std::string> lines = split(text, '\n');
  for (std::size_t i = 0; i + 1 < lines.size(); ++i)
    CHECK(lines[i].starts_with(i % 2 == 0 ? "# TYPE mtl_train_" : "mtl_train_"));
  // A folder that is gone is made again; what is in its place does not end the run.
  fs::remove_all(folder.path());
  metrics.report(full_report());
  CHECK(file_exists(options.log_prometheus));
  fs::remove_all(folder.path());
  write_file_atomic(folder.path(), "");
  metrics.report(full_report());
}
